"""An agent that speaks ACP under the supervisor: our driver does its writes, and says no where the hook does."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

import acp_agent
from scripts import handoff


@pytest.fixture
def run(repo, cli):
    """Run the scripted ACP agent with these turns on a task that owns src/; how it ended and what was said."""
    cli("dump", "--task", "demo", "--next", "write src/a.txt", "--owns", "src/", "--check", "test -f src/a.txt")

    def go(*turns, code=None, meanwhile=None):
        script = os.path.join(os.environ["HOME"], "turns.json")
        with open(script, "w", encoding="utf-8") as file:
            json.dump(turns, file)
        words = [f"--with={word}" for word in (sys.executable, acp_agent.__file__, script)]
        start = ("session", "start", "demo", "--agent", "acp", *words, "--json", "--workspace", "shared")
        if meanwhile is None:
            end = cli(*start, code=code).json
        else:
            process = cli.start(*start)
            meanwhile()
            end = json.loads(process.communicate(timeout=300)[0])
        return end, "\n".join(cli("session", "log", end["session"], "--json").json["lines"])

    return go


def test_the_baton_comes_with_the_first_prompt_and_a_write_it_owns_is_done(run, repo):
    end, said = run(
        [["write", f"{repo.path}/src/a.txt", "x"], ["run", handoff("task", "done", "--summary", "by-acp")]], code=0
    )
    assert (end["state"], end["reason"]) == ("done", "by-acp")
    assert "write src/a.txt" in said
    assert repo.read("src/a.txt") == "x"


def test_a_foreign_write_and_a_foreign_permission_are_refused(run, repo):
    end, said = run(
        [
            ["write", f"{repo.path}/other/b.txt", "x"],
            ["permission", "edit", f"{repo.path}/README.md"],
            ["permission", "edit", f"{repo.path}/src/a.txt"],
            ["permission", "execute", f"{repo.path}/README.md"],
            ["write", f"{repo.path}/src/a.txt", "x"],
            ["run", handoff("task", "done", "--summary", "ok")],
        ],
        code=0,
    )
    assert not os.path.exists(os.path.join(repo.path, "other"))
    assert "refused: handoff: 'other/b.txt' is not yours" in said
    assert [line for line in said.splitlines() if "permission:" in line] == [
        "said: permission: no", "said: permission: yes", "said: permission: yes",
    ]  # fmt: skip
    assert end["state"] == "done"


def test_a_stop_without_a_report_is_answered_with_another_prompt(run, repo):
    end, said = run(
        [["say", "I am finished"]],
        [["write", f"{repo.path}/src/a.txt", "x"], ["run", handoff("task", "done", "--summary", "second")]],
        code=0,
    )
    assert "neither done nor blocked" in said
    assert end["reason"] == "second"


def test_words_of_a_person_end_the_turn_after_a_tool_call_and_are_the_next_prompt(run, repo, cli, tmp_path):
    begun, go = tmp_path / "begun", tmp_path / "go"

    def speak():
        until = time.monotonic() + 120
        while not begun.exists():
            assert time.monotonic() < until, "the tool call began"
            time.sleep(0.05)
        assert "after its next tool call" in cli("session", "say", "demo", "use the other table").out
        go.touch()

    wait = f"touch {begun}; until [ -e {go} ]; do sleep 0.05; done"
    end, said = run(
        [["tool", "true"], ["tool", wait], ["cancelled"]],
        [["write", f"{repo.path}/src/a.txt", "x"], ["run", handoff("task", "done", "--summary", "heard")]],
        meanwhile=speak,
    )
    assert (end["state"], end["reason"]) == ("done", "heard"), said
    prompts = said.split("told: ")[1:]
    assert ["> use the other table" in one for one in prompts] == [False, True], said
    assert "neither done nor blocked" not in said, "the turn that we ended was no stop of its own"
    assert [one["state"] for one in cli("show", "demo", "--json").json["messages"]] == ["seen"]


def test_an_agent_that_is_no_acp_agent_is_told_and_costs_no_attempt(cli):
    cli("dump", "--task", "demo", "--next", "x")
    end = cli("session", "start", "demo", "--agent", "acp", "--with", "true", "--json", code=1).json
    assert end["outcome"] == "unknown"
    assert "ended before it had answered" in end["reason"] or "hung up" in end["reason"]
    assert "Give its command" in cli("session", "start", "demo", "--agent", "acp", code=1).err
