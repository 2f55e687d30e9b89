"""What the hunting machine has found (tests/hunt), shrunk to the shortest journey a person could walk."""

from __future__ import annotations

import os

import pytest

from hunt.machine import Machine
from relay import manifest
from sandbox import Cli, Repo
from scripts import handoff, write_script

DONE = {"run": handoff("task", "done", "--summary", "made")}


@pytest.fixture
def work(cli, repo, tmp_path):
    """One session of the scripted agent on a task of a batch of two parts."""
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))

    def start(task, *acts, code=0):
        script = write_script(str(tmp_path / "script.toml"), *acts)
        return cli("session", "start", task, "--agent", "scripted", "--with", script, code=code)

    return start


def test_a_session_that_has_lost_its_task_is_told_so_without_naming_it(cli):
    cli("dump", "--task", "t1", "--next", "x")
    cli("task", "claim", "t1", "--session", "bob")
    cli("task", "release", "t1", "--session", "bob", "--fence", "1")
    cli("task", "claim", "t1", "--session", "ann")
    for verb in ("task done", "heartbeat"):
        cli(*verb.split(), "--session", "bob", "--fence", "1", code=4)


def test_a_fan_in_reported_in_the_checkout_is_done_when_its_parts_are_on_the_branch(cli, repo, work):
    for part in ("form", "api"):
        work(part, {"write": f"src/{part}/made.txt", "text": f"by {part}"}, DONE)
    cli("task", "claim", "login-join", "--session", "me")
    said = cli("task", "done", "--session", "me", code=3)
    names = said.err.partition("handoff land ")[2].partition(". Or")[0].split()
    assert len(names) == 2
    cli("task", "done", "login-join", "--session", "me", "--fence", "1", code=3)
    cli("land", names[0])
    assert names[0] not in cli("task", "done", "--session", "me", code=3).err
    repo.git("merge", "-q", "-m", "by hand", f"handoff/{names[1]}")
    repo.write("src/form/made.txt", "edited since\n")
    repo.commit("edited")
    cli("task", "done", "--session", "me")
    assert {task["state"] for task in cli("task", "list", "--all", "--json").json["tasks"]} == {"done"}


def test_a_fan_in_whose_checkout_was_moved_away_is_not_done_by_a_word_from_elsewhere(cli, repo, work, tmp_path):
    for part in ("form", "api"):
        work(part, {"write": f"src/{part}/made.txt", "text": f"by {part}"}, DONE)
    os.rename(repo.path, f"{repo.path}-moved")
    other = Repo.create(str(tmp_path / "other"))
    said = Cli(other.path)("task", "done", "login-join", "--project", "repo", code=3)
    assert "is not there" in said.err
    there = Cli(f"{repo.path}-moved")
    assert "login-form-1" in there("task", "done", "login-join", code=3).err


@pytest.mark.slow
def test_a_part_that_was_landed_half_made_counts_as_landed_only_with_the_rest_of_its_work(cli, repo, work):
    work("form", {"write": "src/form/half.txt", "text": "the first half"}, code=None)
    cli("land", cli("workspace", "list", "--json").json[0]["name"])
    for part in ("form", "api"):
        work(part, {"write": f"src/{part}/made.txt", "text": f"by {part}"}, DONE)
    cli("task", "claim", "login-join", "--session", "me")
    names = (
        cli("task", "done", "--session", "me", code=3).err.partition("handoff land ")[2].partition(". Or")[0].split()
    )
    assert len(names) == 2
    cli("land", *names)
    assert repo.read("src/form/made.txt") == "by form"
    cli("task", "done", "--session", "me")


def test_a_second_session_in_a_clone_is_not_charged_with_what_the_first_left_outside(cli, work):
    work("form", {"write": "foreign.txt", "text": "by the first"}, DONE, code=None)
    assert cli("show", "form", "--json").json["state"] == "ready"
    work("form", {"write": "src/form/made.txt", "text": "by the second"}, DONE)
    assert cli("show", "form", "--json").json["state"] == "done"


def test_bytes_that_a_person_put_aside_and_brought_back_are_not_charged_to_a_session(cli, repo):
    repo.write("README.md", "# begun by the person\n")
    cli("dump", "--task", "aa", "--next", "a", "--owns", "a.txt")
    cli("task", "claim", "aa")
    repo.git("stash")
    repo.git("stash", "pop")
    repo.write("a.txt", "a\n")
    cli("task", "done")


def test_a_part_that_ended_before_the_claim_is_no_excuse_for_writing_into_what_it_owned(cli, repo, tmp_path):
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    cli("task", "claim", "form", "--session", "one")
    cli("task", "done", "--session", "one")
    cli("task", "claim", "api", "--session", "two")
    repo.write("src/form/strange.txt", "by the second\n")
    assert "src/form/strange.txt" in cli("task", "done", "--session", "two", code=3).err


def test_a_person_does_not_end_a_batch_by_hand_while_a_part_is_to_be_done(cli, tmp_path):
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    said = cli("task", "done", "login-join", "--summary", "enough", code=3)
    assert "login/form, login/api not finished" in said.err
    for part in ("login/form", "login/api"):
        cli("cancel", part)
    cli("task", "done", "login-join", "--summary", "enough")


def test_the_journal_of_a_fan_in_that_is_tried_again_ends_with_its_question(cli, tmp_path):
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    for part in ("form", "api"):
        fence = cli("task", "claim", part, "--session", part, "--json").json["fence"]
        cli("task", "block", "--task", part, "--session", part, "--fence", str(fence), "no key")
    cli("answer", "login-join", "no", "wait")
    cli("retry", "login-join")
    assert [line["kind"] for line in cli("show", "login-join", "--json").json["events"]][-2:] == [
        "task.retried",
        "gate.opened",
    ]


def test_a_session_that_comes_back_takes_its_task_from_those_it_was_offered_to(cli, repo):
    cli("dump", "--task", "t1", "--next", "x")
    cli("task", "claim", "t1", "--session", "bob", "--lease", "0.001")
    cli("watchdog")
    offered = os.path.join(os.environ["HANDOFF_HOME"], "repo", "queue", "t1.uri")
    assert os.path.exists(offered)
    cli("heartbeat", "--session", "bob", "--fence", "1")
    assert cli("show", "t1", "--json").json["state"] == "running"
    assert not os.path.exists(offered)


def test_undo_takes_back_a_landing_that_came_after_a_restore_of_the_same_files(cli, repo):
    cli("workspace", "add", "w1")
    place = cli("workspace", "list", "--json").json[0]["tree"]
    with open(os.path.join(place, "new.txt"), "w", encoding="utf-8") as file:
        file.write("made there\n")
    repo.write("README.md", "edited\n")
    cli("snapshot", "-m", "one")
    repo.write("README.md", "edited again\n")
    cli("snapshot", "restore")
    head = repo.head()
    cli("land", "w1")
    assert repo.head() != head
    cli("undo")
    assert repo.head() == head
    assert repo.read("README.md") == "edited\n"


@pytest.fixture
def journey():
    """The machine itself, to walk a journey again that no command line walks."""
    machine = Machine()
    yield machine
    machine.teardown()


def test_a_session_whose_clone_was_removed_is_not_believed_with_nothing(journey):
    journey.begin(batch=True, count=2, chain=False)
    hold = journey._claim_as_a_worker(journey.live("ready")[0])
    journey._edit_owned(hold, again=False)
    journey.a_workspace_is_removed(number=0)
    error = journey._report_done(hold, named=True)
    assert "workspace revive" in error.hint
    journey.no_promise_is_broken()
    assert journey.now.rows[hold.key].state == "running"
