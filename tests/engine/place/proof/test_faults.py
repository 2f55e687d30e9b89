"""Which check did not run at all, and what a person is told to do about it."""

from __future__ import annotations

import pytest

from handoff.agents.contract import AgentOutcome
from handoff.checks.commands import Verdict
from handoff.engine.place.proof.faults import fix_for, is_attempt, missing_for


def _verdict(code, tail):
    return Verdict("the check", code, 0.1, tail)


@pytest.mark.parametrize(
    ("code", "tail", "missing"),
    [
        (127, "/bin/sh: 1: python: not found", "python"),
        (127, "/bin/sh: line 1: jest: command not found", "jest"),
        (127, "/bin/sh: 1: .venv/bin/python: not found", ".venv/bin/python"),
        (126, "/bin/sh: 1: node_modules/.bin/jest: Permission denied", "node_modules/.bin/jest"),
        (127, "/usr/bin/env: 'node': No such file or directory", "node"),
        (1, "/usr/bin/python3: No module named pytest", "/usr/bin/python3 -m pytest"),
        (2, "/bin/sh: 1: pytest: not found\nmake: *** [Makefile:2: test] Error 127", "pytest"),
        (2, "make: jest: No such file or directory\nmake: *** [Makefile:2: check] Error 127", "jest"),
        (127, "", ""),
    ],
)
def test_a_check_that_did_not_run_says_what_it_lacks(code, tail, missing):
    assert missing_for(_verdict(code, tail), owns=("src/**",), folder="/work") == missing


@pytest.mark.parametrize(
    ("code", "tail"),
    [
        (0, "ok"),
        (1, "1 failed"),
        (127, "/bin/sh: 1: ./build.sh: not found"),
        (126, "/bin/sh: 1: ./build.sh: Permission denied"),
        (1, "/usr/bin/python3: No module named mine"),
        (2, "make: *** [test] Error 1"),
    ],
)
def test_a_check_that_ran_or_lacks_what_its_task_makes_is_the_agents(code, tail):
    assert missing_for(_verdict(code, tail), owns=("*.sh", "src/**"), folder="/work") is None


def test_a_script_that_the_task_may_not_write_is_the_grounds():
    said = "/bin/sh: 1: ./build.sh: not found"
    assert missing_for(_verdict(127, said), owns=("src/**",), folder="/work") == "./build.sh"


@pytest.mark.parametrize(
    ("kind", "advice", "again"),
    [
        ("login", "Log in to claude, or pay", "agent retry claude"),
        ("client", "Install or repair claude", "agent retry claude"),
        ("down", "Your log-in is not the cause", "agent retry claude"),
        ("limit", "It goes on by itself", "agent retry claude"),
        ("unknown", "It is tried again by itself", "retry demo"),
    ],
)
def test_each_ending_that_is_not_the_agents_is_told_with_what_mends_it(kind, advice, again):
    outcome = AgentOutcome(kind, "its words")
    fix = fix_for(outcome, agent="claude", task="demo", program="handoff")
    assert (advice in fix, fix.endswith(f"handoff {again}"), is_attempt(outcome)) == (True, True, False)
