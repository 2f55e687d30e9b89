"""An agent that speaks ACP under the supervisor: our driver does its writes, and says no where the hook does."""

from __future__ import annotations

import json
import os
import sys

import pytest

import acp_agent
from scripts import handoff


@pytest.fixture
def run(repo, cli):
    """Run the scripted ACP agent with these turns on a task that owns src/; how it ended and what was said."""
    cli("dump", "--task", "demo", "--next", "write src/a.txt", "--owns", "src/", "--check", "test -f src/a.txt")

    def go(*turns, code=None):
        script = os.path.join(os.environ["HOME"], "turns.json")
        with open(script, "w", encoding="utf-8") as file:
            json.dump(turns, file)
        words = [sys.executable, acp_agent.__file__, script]
        end = cli(
            "session",
            "start",
            "demo",
            "--agent",
            "acp",
            *[f"--with={word}" for word in words],
            "--json",
            "--workspace",
            "shared",
            code=code,
        ).json
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


def test_an_agent_that_is_no_acp_agent_is_told_and_costs_no_attempt(cli):
    cli("dump", "--task", "demo", "--next", "x")
    end = cli("session", "start", "demo", "--agent", "acp", "--with", "true", "--json", code=1).json
    assert end["outcome"] == "unknown"
    assert "ended before it had answered" in end["reason"] or "hung up" in end["reason"]
    assert "Give its command" in cli("session", "start", "demo", "--agent", "acp", code=1).err
