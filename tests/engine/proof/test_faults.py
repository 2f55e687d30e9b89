"""Which check did not run at all, and what a person is told to do about it."""

from __future__ import annotations

import pytest

from handoff.agents.contract import SERVICE, AgentOutcome
from handoff.checks.commands import Verdict
from handoff.engine.proof.faults import missing_for, sort


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
    ("words", "advice"),
    [
        ("API error 401: Invalid API key · Fix external API key", "Log in to claude or fix it"),
        ("Failed to authenticate. API Error: 403 forbidden", "Log in to claude or fix it"),
        ("it cannot be started: exit 127", "Log in to claude or fix it"),
        ("API Error: 529 Overloaded. This is a server-side issue", "your log-in is not the cause"),
        ("exceeded retry limit, last status: 503 Service Unavailable", "your log-in is not the cause"),
        ("Request timed out", "your log-in is not the cause"),
        ("getaddrinfo ENOTFOUND api.example.com", "your log-in is not the cause"),
        ("ECONNRESET; then: Not logged in. Please run /login", "Log in to claude or fix it"),
    ],
)
def test_nobody_is_sent_to_log_in_when_the_provider_is_down(words, advice):
    fix = sort(AgentOutcome(SERVICE, words), agent="claude", program="handoff").fix
    assert (advice in fix, fix.endswith("handoff agent retry claude")) == (True, True)
