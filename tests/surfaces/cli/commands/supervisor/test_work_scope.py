"""Which project `work` serves, and what it says of it: at once, while it works, and at its end."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from handoff.base.clock import SystemClock
from relay import manifest
from sandbox import Cli, Repo
from scripts import handoff, write_script


def until(true):
    clock = SystemClock()
    while not true():
        clock.sleep(0.05)


def _states(cli):
    return {
        task["task"]: task["state"] for task in cli("task", "list", "--all", "--all-projects", "--json").json["tasks"]
    }


def _work(cli, script, *words):
    return cli.start("work", "--agent", "scripted", *words, "--", str(script))


def _end(process):
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    return out.decode()


@pytest.mark.slow
def test_work_serves_its_own_project_and_tells_what_came_of_each_task(cli, tmp_path):
    other = Cli(Repo.create(str(tmp_path / "other")).path)
    other("dump", "--task", "theirs", "--next", "x", "--check", "true")
    other("dump", "--task", "in-a-tab", "--next", "x")
    other("task", "claim", "in-a-tab", "--session", "a-tab")
    cli("dump", "--task", "mine", "--next", "x", "--check", "true")
    cli("dump", "--task", "red", "--next", "x", "--check", "echo no; exit 3", "--priority", "5")
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    made = "mkdir -p src/${HANDOFF_TASK##*/}; touch src/${HANDOFF_TASK##*/}/made; "
    script = write_script(
        str(tmp_path / "agent.toml"), {"run": made + handoff("task", "done", "--summary", "made") + " || true"}
    )
    process = _work(cli, script, "--max", "1")  # the tab elsewhere is none of its sessions
    wanted = {"mine": "done", "red": "blocked", "login/form": "done", "login/api": "done", "login-join": "done"}
    until(lambda: wanted.items() <= _states(cli).items())
    shown = cli("work", "--status").out
    assert ", for project repo; has scripted" in shown
    out = _end(process)
    assert out.splitlines()[0].startswith("Working for project repo with scripted.")
    for line in (
        "repo/red: not done: `echo no; exit 3` is red (exit 3)",
        "repo/red: blocked: ",
        "that was attempt 3 of 3",
        "repo/mine: done",
        "repo/login-join: done and landed as ",
    ):
        assert line in out, out
    last = out.splitlines()[-1]
    assert "has ended; nothing it started runs on." in last
    starts = [line.split()[1] for line in out.splitlines() if "started with" in line]
    assert starts.index("repo/red:") == 0, "the urgent one first"
    assert _states(cli)["theirs"] == "ready", "what belongs to another project was left alone"
    assert "lost" not in cli("work", "--status").out, "it ended as it should"


@pytest.mark.slow
def test_what_was_never_tried_goes_before_what_failed(cli, tmp_path):
    for name in ("aa", "bb", "cc"):
        cli("dump", "--task", name, "--next", "x", "--check", "false" if name == "aa" else "true")
    script = tmp_path / "agent.toml"
    script.write_text('[[act]]\nsay = "fine"\n')
    process = _work(cli, script, "--max", "1")
    until(lambda: _states(cli) == {"aa": "blocked", "bb": "done", "cc": "done"})
    out = _end(process)
    starts = [line.split()[1].rstrip(":") for line in out.splitlines() if "started with" in line]
    assert starts == ["repo/aa", "repo/bb", "repo/cc", "repo/aa", "repo/aa"], out


def test_all_projects_are_served_when_asked_for_and_what_goes_on_is_told_at_the_end(cli, tmp_path):
    other = Cli(Repo.create(str(tmp_path / "other")).path)
    go, began = tmp_path / "go", tmp_path / "began"
    other("dump", "--task", "theirs", "--next", "x", "--check", "true")
    script = tmp_path / "agent.toml"
    script.write_text(f'[[act]]\nrun = "touch {began}; while ! test -e {go}; do sleep 0.05; done"\n')
    process = _work(cli, script, "--all-projects", "--in-checkout")
    until(began.exists)
    out = _end(process)
    assert out.startswith("Working for every project of this machine with scripted.")
    assert "1 session goes on: other/theirs. The next `handoff work` attaches to them" in out.splitlines()[-1]
    assert "ended, what it started goes on" in cli("work", "--status").out
    process = _work(cli, script, "--all-projects", "--in-checkout")
    go.write_text("")
    until(lambda: _states(cli) == {"theirs": "done"})
    _end(process)
    assert "not both" in cli("work", "--agent", "scripted", "--project", "a-b", "--all-projects", code=2).err


def test_the_first_line_comes_before_the_engine_is_loaded(cli):
    _, *words = cli.command("work", "--agent", "scripted", "--", "none.toml")
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", *words],
        cwd=cli.folder,
        env=cli.full_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    before = b""
    while not before.splitlines() or not before.splitlines()[-1].startswith(b"Working for project repo with scripted."):
        line = process.stdout.readline()
        assert line, before.decode()
        before += line
    process.kill()
    process.communicate(timeout=60)
    assert b"supervisor.watchdog" in before, "what the command itself needs"
    for later in (b"supervisor.supervisor", b"supervisor.runs", b"supervisor.durable", b"dbos"):
        assert later not in before
