"""A person takes a task from a running agent, or hands it to another one, beside a supervisor that must not be faster."""

from __future__ import annotations

import json
import os
import signal

import pytest

import points
from handoff.board.sessions import sessions

LONG = {"run": "sleep 1000"}
AWAY = ("--project", "demo")


@pytest.fixture
def half_done(file_ground, monkeypatch):
    """A supervisor with room for one session, which has made half of its work in a clone; another task waits."""
    ground = file_ground
    monkeypatch.setenv("HANDOFF_PROJECT", "demo")
    goes_on = ["/bin/sh", "-c", f"test -f half.txt && echo other >> {ground.traces} && echo whole > whole.txt"]
    ground.settings(f'session_sandbox = "none"\nagents = {{ other = {json.dumps(goes_on)} }}\n', place="clone")
    made = {"write": "half.txt", "text": "half"}
    ground.add("aa", made, {"run": f"echo made >> {ground.traces}"}, LONG, check_command="test -f whole.txt")
    ground.supervisor(limit=1)
    ground.until(lambda: "made" in ground.trace_lines(), "half of it is made")
    return ground


def _session(ground):
    (one,) = sessions.at_work(ground.app.database)
    return one.id


def _looked(ground):
    """The supervisor has looked for work since: it runs another task."""
    ground.add("bb", LONG)
    ground.until(lambda: ground.states()["bb"] == "running", "the supervisor goes on with another task")


@pytest.mark.parametrize("by", ["task", "session"])
def test_a_task_is_taken_from_its_session_with_the_work_so_far_and_lands_when_its_person_says_so(
    half_done, cli, repo, by
):
    ground, name = half_done, _session(half_done)
    taken = cli("take", name if by == "session" else "aa", "--json", *AWAY).json
    assert (taken["stopped"], taken["state"], taken["held_by"]) == (name, "running", taken["session"])
    assert ground.agents() == []
    with open(os.path.join(taken["folder"], "half.txt"), encoding="utf-8") as file:
        assert file.read() == "half"
    _looked(ground)
    assert (ground.tasks()["aa"].held_by, ground.started("aa"), ground.tasks()["aa"].attempt) == (
        taken["session"],
        1,
        1,
    )
    with open(os.path.join(taken["folder"], "whole.txt"), "w", encoding="utf-8") as file:
        file.write("whole")
    said = cli("task", "done", "--session", taken["session"], *AWAY).out
    assert f"aa is done and landed as {repo.head()[:10]}" in said
    assert (repo.read("half.txt"), repo.read("whole.txt")) == ("half", "whole")


def test_a_task_that_was_taken_and_given_back_is_the_agents_again_with_no_attempt_used(half_done, cli):
    ground = half_done
    said = cli("take", "aa", *AWAY)
    assert "has ended; no attempt is used." in said.out
    assert "You hold aa with fence 2. Its work so far is in " in said.out
    again = cli("take", "aa", "--json", *AWAY).json
    assert (again["stopped"], again["fence"]) == ("", 2)
    session = ground.tasks()["aa"].held_by
    command = f"task release --session {session}"
    assert command in said.out + said.err
    assert "aa is free" in cli(*command.split()).out
    ground.until(lambda: ground.started("aa") == 2, "the agents go on")
    assert ground.tasks()["aa"].attempt == 1


@pytest.mark.parametrize("taken_before", [False, True])
def test_a_task_is_handed_to_another_agent_in_the_middle(half_done, cli, repo, taken_before):
    ground, name = half_done, _session(half_done)
    before = cli("take", "aa", *AWAY).out if taken_before else ""
    said = before + cli("take", "aa", "--to", "other", *AWAY).out
    assert f"Session {name} has ended; no attempt is used.\n" in said
    assert "other goes on with 'aa', from the work in " in said
    ground.supervisor(agent="other")
    ground.until(lambda: ground.states()["aa"] == "done", "the other agent has finished it")
    assert (ground.started("aa"), ground.trace_lines().count("other"), ground.tasks()["aa"].attempt) == (1, 1, 1)
    assert (repo.read("half.txt"), repo.read("whole.txt")) == ("half", "whole\n")


def test_what_cannot_be_taken_is_refused_before_anything_is_stopped(half_done, cli):
    ground, name = half_done, _session(half_done)
    assert "nobody" in cli("take", "aa", "--to", "nobody", *AWAY, code=1).err
    assert "--copy is for the text" in cli("take", "aa", "--copy", *AWAY, code=2).err
    cli.environment["HANDOFF_SESSION"] = name
    assert "Only a person takes a task over" in cli("take", "aa", *AWAY, code=3).err
    assert (_session(ground), ground.tasks()["aa"].fence) == (name, 1)
    del cli.environment["HANDOFF_SESSION"]
    cli("cancel", "aa", *AWAY)
    assert "is cancelled" in cli("take", "aa", *AWAY, code=4).err


def test_a_blocked_task_is_taken_too(half_done, cli):
    ground = half_done
    ground.add("cc")
    cli("task", "block", "too hard", "--task", "cc", *AWAY)
    assert ground.states()["cc"] == "blocked"
    taken = cli("take", "cc", "--json", *AWAY).json
    assert (taken["state"], taken["stopped"]) == ("running", "")


@pytest.mark.slow
def test_who_is_killed_while_taking_a_task_loses_nothing_and_the_same_command_goes_on(half_done, cli):
    ground, clean = half_done, dict(cli.environment)
    for point in points.OF_TAKING:
        cli.environment.update(points.armed(ground.points, point))
        command = cli.start("take", "aa", *AWAY)
        out, err = command.communicate(timeout=200)
        assert command.returncode == -signal.SIGKILL, (point, out, err)
        assert ground.started("aa") == 1, point
    cli.environment.clear()
    cli.environment.update(clean)
    _looked(ground)
    taken = cli("take", "aa", "--json", *AWAY).json
    task = ground.tasks()["aa"]
    assert (task.held_by, task.attempt, ground.started("aa")) == (taken["session"], 1, 1)
    with open(os.path.join(taken["folder"], "half.txt"), encoding="utf-8") as file:
        assert file.read() == "half"
    with open(os.path.join(taken["folder"], "whole.txt"), "w", encoding="utf-8") as file:
        file.write("whole")
    assert "aa is done" in cli("task", "done", cwd=taken["folder"]).out
