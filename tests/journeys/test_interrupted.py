"""Ctrl-C ends the session one is with, says so, and costs no attempt."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from handoff.base.clock import SystemClock
from handoff.surfaces.cli.commands.tool.demo import CALCULATOR, write_files
from screen import Screen
from scripts import processes_with, write_script

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


@pytest.mark.parametrize("times", [1, 2])
def test_what_is_printed_after_ctrl_c_in_do_goes_on_when_it_is_typed(cli, repo, folder, times):
    clock = SystemClock()
    script, seconds = os.path.join(folder, "slow.toml"), f"618.{os.getpid()}"
    write_script(script, {"run": f"echo half > half.txt; trap '' TERM; while :; do sleep {seconds}; done"})
    words = ("--agent", "scripted", "--check", "cat half.txt made.txt", "--yes", f"--with={script}")
    process = cli.start("do", "Make it.", *words, preexec_fn=_in_front, stderr=subprocess.STDOUT)
    while not processes_with(f"sleep\0{seconds}") and process.poll() is None:
        clock.sleep(0.05)
    said = b""
    process.send_signal(signal.SIGINT)
    if times > 1:
        while b"is being ended" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGINT)
    said += process.communicate(timeout=120)[0]
    assert process.returncode == 130, said
    lines = [line.partition(": handoff ")[2] for line in said.decode().splitlines() if ": handoff " in line]
    typed = [line for line in lines if line.startswith(("session stop", "session start"))]
    assert typed[-1] == "session start make-it --agent scripted"
    write_script(script, {"run": "cat half.txt && echo made > made.txt"})
    for line in typed:
        cli(*line.split(), *([f"--with={script}"] if line.startswith("session start") else []))
    assert cli("show", "make-it", "--json").json["state"] == "done"
    assert repo.git("show", "main:half.txt", "main:made.txt") == "half\nmade\n"


def test_a_session_of_do_that_is_stopped_from_elsewhere_is_not_started_again(cli, repo, folder):
    script, seconds = os.path.join(folder, "slow.toml"), f"619.{os.getpid()}"
    write_script(script, {"run": f"exec sleep {seconds}"})
    process = cli.start("do", "Make it.", "--agent", "scripted", "--check", "true", "--yes", f"--with={script}")
    while not processes_with(f"sleep\0{seconds}") and process.poll() is None:
        SystemClock().sleep(0.05)
    (running,) = cli("session", "list", "--json").json
    cli("session", "stop", running["id"])
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, (out, err)
    assert b"Go on: handoff session start make-it --agent scripted" in out
    assert err.count(b" works. Follow it") == 1, err


def test_ctrl_c_at_the_question_of_do_leaves_it_waiting_with_the_command_that_answers(cli, repo, folder):
    script = write_script(os.path.join(folder, "made.toml"), {"run": "echo made > made.txt"})
    words = ("do", "Make it.", "--agent", "scripted", "--check", "cat made.txt", f"--with={script}")
    environment = cli.full_environment()
    screen = Screen(cli.command(*words), columns=120, cwd=repo.path, env=environment, preexec_fn=_in_front)
    try:
        screen.until("Land 'make-it' on main?", "+made", "what must change]")
        screen.process.send_signal(signal.SIGINT)
        screen.until("It waits for you: handoff answer make-it")
        assert screen.process.wait(timeout=60) == 130
    finally:
        screen.close()
    cli("answer", "make-it", "yes")
    assert repo.git("show", "main:made.txt") == "made\n"
