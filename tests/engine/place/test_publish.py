"""Several machines: what one made another takes over, and a machine that lost a task cannot push over its successor."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from handoff.base.errors import Conflict
from handoff.board.sessions import executors
from handoff.board.tasks import tasks
from handoff.engine.place import publish
from handoff.engine.place.publish import in_turn, retire
from hosts import Hosts


@pytest.fixture
def hosts(postgres_server, tmp_path):
    url = postgres_server.url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS handoff CASCADE")
        connection.execute("DROP SCHEMA IF EXISTS dbos CASCADE")
    found = Hosts(str(tmp_path), url)
    yield found
    found.close()


def half_then_whole(hosts):
    """An agent that makes one file and hangs; whoever goes on finds that file and makes the other."""
    return hosts.script({"run": "test -f one.txt || { echo one > one.txt; sleep 1000; }; cp one.txt two.txt"})


def work_of(hosts, fence, host):
    return next((ref for ref in hosts.refs() if ref.endswith(f"/{fence}-{host}")), "")


def branch_of(hosts):
    (ref,) = [ref for ref in hosts.refs() if ref.startswith("refs/heads/handoff/")]
    return ref


@pytest.mark.slow
def test_a_machine_that_dies_in_the_middle_is_followed_by_one_that_goes_on_from_its_last_push(hosts):
    first = hosts.host("anna", lease=4)
    first.cli("dump", "--task", "build", "--next", "x", "--check", "test -f two.txt", "--owns", "*.txt")
    first.work(half_then_whole(hosts))
    hosts.until(lambda: work_of(hosts, 1, "anna") and "one.txt" in hosts.files(work_of(hosts, 1, "anna")), "a push")
    first.die()
    second = hosts.host("berta", lease=4)
    second.work(half_then_whole(hosts))
    hosts.until(lambda: hosts.task(second.app, "build").state == "done", "the other machine finished it")
    task = hosts.task(second.app, "build")
    assert (task.fence, task.held_host) == (2, "berta")
    assert task.workspace.startswith(second.home)
    assert hosts.files(branch_of(hosts)) == ["one.txt", "two.txt"]
    assert hosts.files(work_of(hosts, 1, "anna")) == ["one.txt"], "what the first had made is still there"
    second.cli("show", "build", cwd=second.checkout)


def alive_on(asked, name):
    return [one for one in executors.listing(asked.app.database, host=name) if one.state == executors.ALIVE]


@pytest.mark.slow
def test_a_frozen_machine_wakes_up_and_cannot_push_over_its_successor(hosts):
    first, second = hosts.host("anna", lease=4), hosts.host("berta", lease=4)
    first.cli("dump", "--task", "build", "--next", "x", "--check", "test -f two.txt")
    frozen = first.work(half_then_whole(hosts))
    hosts.until(lambda: work_of(hosts, 1, "anna") and "one.txt" in hosts.files(work_of(hosts, 1, "anna")), "a push")
    first.signal(signal.SIGSTOP)
    second.work(half_then_whole(hosts))
    hosts.until(lambda: hosts.task(second.app, "build").state == "done", "the other machine finished it")
    hosts.until(lambda: not alive_on(second, "anna"), "its supervisor was given up too")
    tip = hosts.refs()[branch_of(hosts)]
    with open(os.path.join(first.checkout, "late.txt"), "w", encoding="utf-8") as file:
        file.write("too late\n")
    app, task = first.app, hosts.task(second.app, "build")
    with pytest.raises(Conflict, match="fence 1"):
        publish.publish(app, task=task._replace(fence=1), fence=1, folder=first.checkout)
    first.signal(signal.SIGCONT)
    hosts.until(lambda: os.path.exists(frozen), "it found that it was given up")
    with open(frozen, encoding="ascii") as file:
        assert file.read() == "4"
    assert hosts.refs()[branch_of(hosts)] == tip
    assert not any("late.txt" in hosts.files(ref) for ref in hosts.refs())


def test_a_push_of_a_machine_that_had_just_lost_its_task_is_overtaken_by_the_holder(hosts):
    first = hosts.host("anna")
    first.cli("dump", "--task", "build", "--next", "x")
    first.cli("task", "claim", "build")
    app = first.app
    task = hosts.task(app, "build")
    with open(os.path.join(first.checkout, "one.txt"), "w", encoding="utf-8") as file:
        file.write("one\n")
    seen = publish.publish(app, task=task, fence=1, folder=first.checkout)
    stray = hosts.git("-C", hosts.remote, "commit-tree", "-m", "stray", "-p", seen, f"{seen}^{{tree}}").strip()
    hosts.git("-C", hosts.remote, "update-ref", branch_of(hosts), stray)
    with open(os.path.join(first.checkout, "two.txt"), "w", encoding="utf-8") as file:
        file.write("two\n")
    tip = publish.publish(app, task=task, fence=1, folder=first.checkout)
    assert hosts.refs()[branch_of(hosts)] == tip
    assert hosts.files(tip) == ["one.txt", "two.txt"]


@pytest.mark.slow
def test_while_the_repository_is_away_the_task_stays_where_it_is_and_is_done_when_it_is_back(hosts):
    first = hosts.host("anna", lease=8)
    first.cli("dump", "--task", "build", "--next", "x", "--check", "test -f two.txt")
    os.rename(hosts.remote, f"{hosts.remote}.away")
    warned = first.cli("dump", "--task", "later", "--next", "x", "--label", "nowhere")
    assert "later" in warned.out, "what cannot be pushed is written down all the same"
    first.work(hosts.script({"run": "touch two.txt"}))
    app = first.app
    hosts.until(lambda: hosts.task(app, "build").state == "running", "it was claimed")
    hosts.until(lambda: "Cannot reach" in hosts.story() or "Cannot push" in hosts.story(), "it is told")
    hosts.clock.sleep(9)  # longer than its lease
    task = hosts.task(app, "build")
    assert (task.state, task.attempt, task.fence) == ("running", 1, 1)
    assert "Not pushed yet: shop/build-1: Cannot" in first.cli("work", "--status").out
    os.rename(f"{hosts.remote}.away", hosts.remote)
    hosts.until(lambda: hosts.task(app, "build").state == "done", "it is done")
    assert hosts.task(app, "build").fence == 1
    assert "Not pushed yet" not in first.cli("work", "--status").out
    assert "two.txt" in hosts.files(branch_of(hosts))


@pytest.mark.slow
def test_a_task_begins_with_what_those_it_waited_for_left_on_other_machines(hosts):
    first, second = hosts.host("anna"), hosts.host("berta")
    first.cli(
        "dump", "--task", "one", "--next", "x", "--check", "test -f one.txt", "--owns", "one.txt", "--label", "anna"
    )
    second.cli("dump", "--task", "two", "--next", "x", "--check", "test -f one.txt -a -f two.txt", "--owns", "two.txt",
               "--label", "berta", "--after", "one")  # fmt: skip
    script = hosts.script({"run": "touch $HANDOFF_TASK.txt"})
    first.work(script, "anna")
    second.work(script, "berta")
    hosts.until(lambda: hosts.task(second.app, "two").state == "done", "both are done")
    task = hosts.task(second.app, "two")
    assert (task.held_host, task.fence) == ("berta", 1)
    assert hosts.files(next(ref for ref in hosts.refs() if "heads/handoff/two-" in ref)) == ["one.txt", "two.txt"]


def test_a_commit_that_could_not_be_pushed_with_its_task_is_pushed_later(hosts):
    first = hosts.host("anna")
    hosts.git("-C", first.checkout, "commit", "-q", "--allow-empty", "-m", "only here")
    head = hosts.git("-C", first.checkout, "rev-parse", "HEAD").strip()
    os.rename(hosts.remote, f"{hosts.remote}.away")
    warned = first.cli("dump", "--task", "build", "--next", "x")
    assert "build" in warned.out
    assert "Cannot push" in warned.err
    assert any("Cannot push" in trouble for trouble in publish.look_after(first.app))
    os.rename(f"{hosts.remote}.away", hosts.remote)
    assert publish.look_after(first.app) == []
    assert f"refs/handoff/base/{head}" in hosts.refs()


@pytest.mark.slow
def test_the_parts_of_a_batch_are_made_on_two_machines_and_come_together_on_one(hosts):
    first, second = hosts.host("anna"), hosts.host("berta")
    hosts.script({"run": "touch ${HANDOFF_TASK#split/}.txt"}, folder=first.checkout)  # a sandbox hides everything else
    hosts.git("-C", first.checkout, "add", "agent.toml")
    hosts.git("-C", first.checkout, "commit", "-q", "-m", "what the agent does")
    manifest = os.path.join(hosts.folder, "split.json")
    parts = [
        {"id": name, "brief": "x", "check": f"test -f {name}.txt", "labels": [host],
         "file_ownership": [{"type": "exact", "path": f"{name}.txt"}]}
        for name, host in (("one", "anna"), ("two", "berta"))
    ]  # fmt: skip
    with open(manifest, "w", encoding="utf-8") as file:
        json.dump(
            {"schema_version": 2, "batch_id": "split", "fan_in_task": "join", "check": "test -f one.txt -a -f two.txt",
             "sub_tasks": parts}, file,
        )  # fmt: skip
    first.cli("dump", "--open-batch", manifest)
    first.work("agent.toml", "anna")
    second.work("agent.toml", "berta")
    hosts.until(lambda: hosts.task(first.app, "join").state == "done", "the batch came together")
    assert {task.held_host for task in tasks.listing(first.app.database, project="shop", include_ended=True)} >= {
        "anna",
        "berta",
    }
    assert {"one.txt", "two.txt"} <= set(hosts.files(next(ref for ref in hosts.refs() if "heads/handoff/join-" in ref)))


def claim_and_push(hosts, host, name, *words):
    """A task whose work is at the shared repository."""
    host.cli("dump", "--task", name, "--next", "x", *words)
    host.cli("task", "claim", name)
    task = hosts.task(host.app, name)
    with open(os.path.join(host.checkout, f"{name}.txt"), "w", encoding="utf-8") as file:
        file.write(f"{name}\n")
    publish.publish(host.app, task=task, fence=task.fence, folder=host.checkout)
    return task


def left_of(hosts, task):
    return [
        ref
        for ref in hosts.refs()
        if ref.rpartition("/")[2] == f"{task.id}-{task.key}" or f"/{task.id}-{task.key}/" in ref
    ]


def test_what_landed_leaves_the_shared_repository_and_what_somebody_needs_or_has_not_merged_stays(hosts):
    first, second = hosts.host("anna"), hosts.host("berta")
    merged, alone, live = (claim_and_push(hosts, first, name) for name in ("merged", "alone", "live"))
    squashed, needed = (claim_and_push(hosts, first, name) for name in ("squashed", "needed"))
    for name in (
        "merged",
        "squashed",
        "needed",
    ):  # what one checkout has is in the work of each: main gets it by the first
        first.cli("task", "done", "--task", name)
    with open(os.path.join(first.checkout, "alone.txt"), "a", encoding="utf-8") as file:
        file.write("and more\n")
    first.cli("task", "done", "--task", "alone")
    second.cli("dump", "--task", "next", "--next", "x", "--after", "needed", "--label", "nowhere")
    tip = hosts.refs()[f"refs/heads/handoff/merged-{merged.key}"]
    hosts.git("-C", hosts.remote, "update-ref", "refs/heads/main", tip)
    hosts.git("-C", hosts.remote, "update-ref", "refs/heads/handoff/mine", tip)
    other = [
        f"refs/handoff/task/theirs-{number}/1-zoe" for number in (alone.key, 999)
    ]  # another relay's, with our numbers or not
    for ref in other:
        hosts.git("-C", hosts.remote, "update-ref", ref, tip)
    begun = hosts.refs()[f"refs/heads/handoff/alone-{alone.key}"]
    other.append(f"refs/handoff/base/{begun}")  # where a task of the other relay begins, on no branch of people
    hosts.git("-C", hosts.remote, "update-ref", other[-1], begun)
    asked = {
        "project": "shop",
        "remote": publish.remote_of(second.app, "shop"),
        "mirror": publish.mirror_of(second.app, "shop"),
    }
    assert retire(second.app, **asked, days=30) == [], "not within the hour"
    before = hosts.refs()
    gone = retire(second.app, **asked, days=30, grace=-5.0)
    assert sorted(set(before) - set(hosts.refs())) == sorted(gone)
    assert {ref for ref in gone if not ref.startswith("refs/handoff/base/")} == {
        name for task in (squashed, merged)
        for name in (f"refs/heads/handoff/{task.id}-{task.key}", f"refs/handoff/task/{task.id}-{task.key}/1-anna")
    }  # fmt: skip
    assert all(len(left_of(hosts, task)) == 2 for task in (alone, live, needed))
    assert "refs/heads/handoff/mine" in hosts.refs()
    retire(second.app, **asked, days=-1, grace=-5.0)
    assert left_of(hosts, alone) == [f"refs/heads/handoff/alone-{alone.key}"], (
        "a branch that nobody merged is somebody's work"
    )
    assert all(len(left_of(hosts, task)) == 2 for task in (live, needed))
    assert set(other) <= set(hosts.refs())


def test_a_machine_that_has_fetched_nothing_takes_names_away(hosts):
    first = hosts.host("anna")
    name, tip = "refs/handoff/base/x", hosts.refs()["refs/heads/main"]
    hosts.git("-C", hosts.remote, "update-ref", name, tip)
    remote, mirror = publish.remote_of(first.app, "shop"), publish.mirror_of(first.app, "shop")
    assert not os.path.exists(mirror)
    assert remote.delete(mirror, {name: tip}) == [name]
    assert name not in hosts.refs()


def test_branches_that_may_have_been_squashed_are_judged_some_an_hour_and_none_is_forgotten():
    names = [f"b-{number}" for number in range(250)]
    assert in_turn([], 7) == []
    assert in_turn(names[:90], 7) == sorted(names[:90])
    turns = [in_turn(names, hour) for hour in range(500_000, 500_003)]
    assert all(len(turn) <= 100 for turn in turns)
    assert sorted(name for turn in turns for name in turn) == sorted(names)


def test_what_waits_on_one_machine_goes_in_one_push_and_who_is_refused_goes_alone(hosts):
    first = hosts.host("anna")
    one, two = (claim_and_push(hosts, first, name) for name in ("one", "two"))
    hook = os.path.join(hosts.remote, "hooks", "post-receive")
    with open(hook, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\necho push >> {hosts.folder}/pushes\n")
    os.chmod(hook, 0o755)
    with open(os.path.join(first.checkout, "more.txt"), "w", encoding="utf-8") as file:
        file.write("more\n")
    stray = hosts.refs()["refs/heads/main"]
    hosts.git("-C", hosts.remote, "update-ref", f"refs/heads/handoff/two-{two.key}", stray)
    waiting = [publish._waiting(first.app, task, task.fence, first.checkout, "")[1] for task in (one, two)]
    publish._publish_together(first.app, waiting)
    with open(os.path.join(hosts.folder, "pushes"), encoding="utf-8") as file:
        assert file.read() == "push\n"
    assert "more.txt" in hosts.files(f"refs/heads/handoff/one-{one.key}")
    assert hosts.refs()[f"refs/heads/handoff/two-{two.key}"] == stray, "the lease on it had gone"
    tip = publish.publish(first.app, task=two, fence=two.fence, folder=first.checkout)
    assert hosts.refs()[f"refs/heads/handoff/two-{two.key}"] == tip


def test_a_checkout_of_another_machines_work_borrows_its_history_from_the_mirror(hosts):
    first, second = hosts.host("anna"), hosts.host("berta")
    claim_and_push(hosts, first, "build")
    first.cli("task", "release", "--task", "build")
    os.rename(first.checkout, f"{first.checkout}-lost")
    second.cli("task", "claim", "build")
    task = hosts.task(second.app, "build")
    placed = publish.adopt(second.app, publish.home_config(second.app), task=task, fence=task.fence)
    assert placed.workspace.startswith(second.home)
    assert os.path.exists(os.path.join(placed.workspace, "build.txt"))
    with open(os.path.join(placed.workspace, ".git", "objects", "info", "alternates"), encoding="utf-8") as file:
        assert file.read().strip() == os.path.join(publish.mirror_of(second.app, "shop"), "objects")
    hosts.git("-C", placed.workspace, "fsck", "--connectivity-only")


def test_sessions_that_begin_in_the_same_moment_make_one_mirror(hosts):
    first = hosts.host("anna")
    remote, mirror = publish.remote_of(first.app, "shop"), publish.mirror_of(first.app, "shop")
    names = [f"refs/heads/person-{number}" for number in range(8)]
    for name in names:
        hosts.git("-C", hosts.remote, "update-ref", name, "main")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda name: remote.fetch(mirror, name), names))
    assert found == [{name: hosts.refs()[name]} for name in names]
    assert [name for name in os.listdir(os.path.dirname(mirror)) if name.startswith("remote.git")] == ["remote.git"]


@pytest.mark.parametrize("commits", [True, False])
def test_what_was_copied_into_a_clone_is_not_published(hosts, commits):
    host = hosts.host("anna")
    for name, text in ((".gitignore", ".env\n"), (".worktreeinclude", ".env\n"), (".env", "KEY=secret\n")):
        with open(os.path.join(host.checkout, name), "w", encoding="utf-8") as file:
            file.write(text)
    hosts.git("-C", host.checkout, "add", ".")
    hosts.git("-C", host.checkout, "commit", "-q", "-m", "rules")
    host.cli("task", "add", "build", "Build.", "--check", "test -s made.txt")
    end = "git add -A; git commit -q -m all; " if commits else ""
    host.work(hosts.script({"run": f"cat .env && : >.gitignore && echo made >made.txt; {end}sleep 2"}))
    hosts.until(lambda: hosts.task(host.app, "build").state not in ("ready", "running"), "it is over")
    assert hosts.task(host.app, "build").state == "gated", "it changed what git obeys"
    assert "made.txt" in hosts.files(branch_of(hosts))
    assert ".env" not in hosts.git("-C", hosts.remote, "log", "--all", "--format=", "--name-only").split()
    hosts.until(lambda: work_of(hosts, 1, "anna"), "all of it is there")
