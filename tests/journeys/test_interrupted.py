"""Ctrl-C ends the session one is with, says so, and costs no attempt."""

from __future__ import annotations

import json
import os
import signal

import pytest

from handoff.base.clock import SystemClock
from handoff.surfaces.cli.commands.tool.demo import CALCULATOR, write_files
from scripts import processes_with

SLOW = '[[act]]\nrun = "exec sleep {seconds}"\n'


def _in_front() -> None:
    """A suite that runs in the background has Ctrl-C turned off, and so would all it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("kind", ["session", "flow"])
def test_an_interrupted_session_is_ended_with_a_word_and_its_task_is_free_again(cli, repo, folder, kind):
    clock = SystemClock()
    script, seconds = os.path.join(folder, "slow.toml"), f"617.{os.getpid()}"
    with open(script, "w", encoding="utf-8") as file:
        file.write(SLOW.format(seconds=seconds))
    if kind == "flow":
        write_files(repo.path, CALCULATOR)
        repo.commit("first")
        cli("flow", "start", "tdd", "--id", "calc", "--agent", "scripted", "--request", "A calculator.")
        process = cli.start("flow", "step", "calc", "--all", f"--with={script}", preexec_fn=_in_front)
    else:
        cli("dump", "--task", "slow", "--next", "sleep")
        process = cli.start("session", "start", "slow", "--agent", "scripted", f"--with={script}", preexec_fn=_in_front)
    while not processes_with(f"sleep\0{seconds}") and process.poll() is None:
        clock.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert b"is being ended" in err
    assert not processes_with(f"sleep\0{seconds}")
    (task,) = cli("task", "list", "--json").json["tasks"]
    assert (task["state"], task["attempt"]) == ("ready", 1), json.dumps(task)
