"""A command that is forked from a warm interpreter answers like one that was typed: else a thousand tests would prove nothing."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from sandbox import WARM, Cli
from warm import COMMAND, Call, Forked, run_cold

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
    plain = Call(("--version",), repo.path, dict(os.environ))
    assert b"import" not in WARM.run(plain, None, SECONDS).err  # the one that forks is there, and started without it
    dirty = plain._replace(environment={**os.environ, "PYTHONVERBOSE": "1"})
    assert b"import" in WARM.run(dirty, None, SECONDS).err


HELLO = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}\n'


def test_a_forked_server_speaks_and_ends_like_one_that_was_started(repo):
    def spoken(process):
        process.stdin.write(HELLO)
        process.stdin.flush()
        first = process.stdout.readline()
        return first, *process.communicate(timeout=SECONDS), process.wait(SECONDS)

    forked = Cli(repo.path).start("mcp", stdin=subprocess.PIPE)
    assert isinstance(forked, Forked)
    cold = subprocess.Popen(
        [*COMMAND, "mcp"], cwd=repo.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert spoken(forked) == spoken(cold)


def test_a_forked_supervisor_says_and_ends_like_one_that_was_started(repo):
    def ended(worker):
        first = worker.stdout.readline()
        assert b"Supervisor" in worker.stdout.readline()  # from here on it hears signals
        assert worker.poll() is None
        worker.send_signal(signal.SIGINT)
        worker.communicate(timeout=SECONDS)
        return first, worker.wait(SECONDS), worker.poll()

    words = ("work", "--agent", "scripted")
    forked = Cli(repo.path).start(*words)
    assert isinstance(forked, Forked)
    cold = subprocess.Popen([*COMMAND, *words], cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    found = ended(forked)
    assert found[0].startswith(b"Working for project repo with scripted.")
    assert found == ended(cold)
