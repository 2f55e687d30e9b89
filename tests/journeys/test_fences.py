"""Only the session that was given the fence speaks for a task, however the task is named."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def held(cli):
    """A task that bob holds."""
    cli("dump", "--task", "t1", "--next", "x")
    cli("task", "claim", "t1", "--session", "bob")
    return cli


@pytest.mark.parametrize("verb", ["task done", "heartbeat", "task release"])
def test_another_session_with_the_right_number_is_refused(held, verb):
    said = held(
        *verb.split(),
        *(("t1",) if verb != "heartbeat" else ("--task", "t1")),
        "--session",
        "ann",
        "--fence",
        "1",
        code=4,
    )
    assert "session bob" in said.err
    assert held("show", "t1", "--json").json["state"] == "running"


@pytest.mark.parametrize("verb", ["task done", "task release"])
def test_a_session_whose_own_task_has_ended_speaks_for_nobody_elses(held, verb):
    held("dump", "--task", "t2", "--next", "y")
    held("task", "claim", "t2", "--session", "ann")
    held("task", "done", "--session", "ann")
    assert "session bob" in held(*verb.split(), "t1", "--session", "ann", code=4).err
    assert held("show", "t1", "--json").json["state"] == "running"
    held("dump", "--task", "t3", "--next", "z")
    assert "--fence N" in held(*verb.split(), "t3", "--session", "ann", code=1).err


def test_another_session_cannot_block_it(held):
    held("task", "block", "--task", "t1", "--session", "ann", "--fence", "1", "no", code=4)
    assert held("show", "t1", "--json").json["state"] == "running"


def test_the_number_alone_speaks_for_nobody(held, tmp_path):
    held("task", "done", "t1", "--fence", "1", "--project", "repo", code=4, cwd=str(tmp_path))
    held("task", "done", "t1", "--session", "bob", "--fence", "1")


def test_a_folder_without_a_claim_cannot_finish_what_somebody_holds(held, tmp_path):
    other = tmp_path / "elsewhere"
    other.mkdir()
    held("task", "done", "t1", "--project", "repo", code=4, cwd=str(other))
    assert held("show", "t1", "--json").json["state"] == "running"
    assert os.listdir(other) == []
