"""What the hunting machine has found (tests/hunt), shrunk to the shortest journey a person could walk."""

from __future__ import annotations

import pytest

from relay import manifest
from scripts import handoff, write_script

DONE = {"run": handoff("done", "--summary", "made")}


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
    cli("claim", "t1", "--session", "bob")
    cli("release", "t1", "--session", "bob", "--fence", "1")
    cli("claim", "t1", "--session", "ann")
    for verb in ("done", "heartbeat"):
        cli(verb, "--session", "bob", "--fence", "1", code=4)


def test_a_fan_in_reported_in_the_checkout_is_done_when_its_parts_are_on_the_branch(cli, repo, work):
    for part in ("form", "api"):
        work(part, {"write": f"src/{part}/made.txt", "text": f"by {part}"}, DONE)
    cli("claim", "login-join", "--session", "me")
    said = cli("done", "--session", "me", code=3)
    names = said.err.partition("handoff land ")[2].partition(". Or")[0].split()
    assert len(names) == 2
    cli("done", "login-join", "--session", "me", "--fence", "1", code=3)
    cli("land", names[0])
    assert names[0] not in cli("done", "--session", "me", code=3).err
    repo.git("merge", "-q", "-m", "by hand", f"handoff/{names[1]}")
    repo.write("src/form/made.txt", "edited since\n")
    repo.commit("edited")
    cli("done", "--session", "me")
    assert {task["state"] for task in cli("queue", "--all", "--json").json["tasks"]} == {"done"}


def test_a_second_session_in_a_clone_is_not_charged_with_what_the_first_left_outside(cli, work):
    work("form", {"write": "foreign.txt", "text": "by the first"}, DONE, code=None)
    assert cli("show", "form", "--json").json["state"] == "ready"
    work("form", {"write": "src/form/made.txt", "text": "by the second"}, DONE)
    assert cli("show", "form", "--json").json["state"] == "done"


def test_bytes_that_a_person_put_aside_and_brought_back_are_not_charged_to_a_session(cli, repo):
    repo.write("README.md", "# begun by the person\n")
    cli("dump", "--task", "aa", "--next", "a", "--owns", "a.txt")
    cli("claim", "aa")
    repo.git("stash")
    repo.git("stash", "pop")
    repo.write("a.txt", "a\n")
    cli("done")


def test_a_part_that_ended_before_the_claim_is_no_excuse_for_writing_into_what_it_owned(cli, repo, tmp_path):
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    cli("claim", "form", "--session", "one")
    cli("done", "--session", "one")
    cli("claim", "api", "--session", "two")
    repo.write("src/form/strange.txt", "by the second\n")
    assert "src/form/strange.txt" in cli("done", "--session", "two", code=3).err
