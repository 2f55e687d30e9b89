"""A command that is forked from a warm interpreter answers like one that was typed: else a thousand tests would prove nothing."""

from __future__ import annotations

import os

import pytest

from sandbox import WARM
from warm import Call, run_cold

SECONDS = 60
PRE_EDIT = b'{"tool_name": "Write", "tool_input": {"file_path": "src/a.py"}, "cwd": "."}'


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (("--version",), None),
        (("status", "--json"), None),
        (("no-such-command",), None),
        (("task", "claim", "--no-such-option"), None),
        (("-C", "..", "next"), None),
        (("show", "nothing\udcff"), None),
        (("hook", "claude", "PreToolUse"), PRE_EDIT),
    ],
)
def test_a_forked_command_answers_like_one_that_was_started(repo, words, stdin):
    call = Call(words, repo.path, {**os.environ, "HANDOFF_FEATURE": "login"})
    assert WARM.run(call, stdin, SECONDS) == run_cold(call, stdin, SECONDS)


def test_it_has_nothing_of_the_call_before(repo, tmp_path):
    first = Call(("init", "login"), repo.path, {**os.environ, "HANDOFF_HOME": str(tmp_path / "one")})
    assert b"Initialized" in WARM.run(first, None, SECONDS).out
    second = Call(("list",), str(tmp_path), {**os.environ, "HANDOFF_HOME": str(tmp_path / "two")})
    assert b"login" not in WARM.run(second, None, SECONDS).out
    assert b"login" in WARM.run(second._replace(folder=repo.path), None, SECONDS).out


def test_what_an_interpreter_reads_when_it_starts_is_not_passed_over(repo):
    dirty = Call(("--version",), repo.path, {**os.environ, "PYTHONVERBOSE": "1"})
    assert b"import" in WARM.run(dirty, None, SECONDS).err
