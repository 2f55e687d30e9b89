"""A fresh tab opens by itself: in a real tmux, once for each task, and not while anything is paused."""

from __future__ import annotations

import os
import shutil
import subprocess
import time

import pytest

from handoff.base.clock import boot_id
from handoff.base.settings import from_environment
from handoff.board.sessions import executors
from handoff.engine.app import App
from handoff.engine.supervisor import watchdog
from relay import manifest
from sandbox import TIMEOUT_SECONDS, Cli, Repo, absent


@pytest.fixture
def windows(folder, cli):
    """A tmux of its own whose socket every command is told; gives the names of its windows."""
    tmux = shutil.which("tmux")
    if not tmux:
        absent("tmux")
    run = [tmux, "-S", os.path.join(folder, "sock")]
    subprocess.run([*run, "-f", "/dev/null", "new-session", "-d", "-s", "mine", "-n", "home", "sleep 600"], check=True)
    cli.environment.update(TMUX=f"{folder}/sock,1,0")
    os.makedirs(os.environ["HANDOFF_HOME"])
    with open(os.path.join(os.environ["HANDOFF_HOME"], "config.toml"), "w", encoding="utf-8") as file:
        file.write('auto_open = "auto"\nagent_command = ["sh", "-c", "sleep 600", "{prompt}"]\n')

    def names():
        listed = subprocess.run([*run, "list-windows", "-F", "#W"], capture_output=True, text=True, check=True)
        return sorted(set(listed.stdout.split()) - {"home"}), len(listed.stdout.split()) - 1

    yield names
    subprocess.run([*run, "kill-server"], check=False)


def _until(names, wanted):
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while names()[0] != wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    assert names() == (wanted, len(wanted))


def test_each_part_of_a_batch_and_then_its_fan_in_open_by_themselves_and_only_once(cli, tmp_path, windows):
    cli("pause", "--everything")
    watchers = [cli.start("watchdog", "--watch", "--every", "1") for _ in range(2)]
    try:
        cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
        for watcher in watchers:  # each has looked at least once since, and nothing is opened while all is paused
            assert b"watchdog" in watcher.stdout.readline()
        assert cli("watchdog", "--once").code == 0
        assert windows() == ([], 0)
        cli("resume", "--everything")
        _until(windows, ["api", "form"])
        for part in ("form", "api"):
            cli("task", "claim", f"login/{part}", "--session", f"for-{part}")
            cli("task", "done", "--session", f"for-{part}", "--summary", "made")
        _until(windows, ["api", "form", "login-join"])
        cli("watchdog", "--once")
        assert windows()[1] == 3
    finally:
        for watcher in watchers:
            watcher.terminate()
            watcher.communicate()


def test_a_batch_that_is_opened_with_open_has_a_tab_for_every_part_that_can_begin(cli, tmp_path, windows):
    said = cli(
        "dump",
        "--open-batch",
        manifest(tmp_path / "m.json", parts=("one", "two", "late"), depends={"late": ["one"]}),
        "--open",
    )
    assert said.out.count("Opened tmux window mine:") == 2
    assert windows() == (["one", "two"], 2)


def test_a_supervisor_that_serves_another_project_keeps_no_tab_here_from_opening(cli, tmp_path, windows, monkeypatch):
    (tmp_path / "other").mkdir()
    Cli(Repo(str(tmp_path / "other")).path)("dump", "--task", "theirs", "--next", "for the supervisor")
    cli("dump", "--task", "ours", "--next", "for a tab")
    monkeypatch.setenv("TMUX", cli.environment["TMUX"])
    app = App(from_environment())
    executors.begin(
        app.database, id="theirs", host=app.settings.host, boot=boot_id(), pid=os.getpid(), process_start="now",
        lease_seconds=600.0, agents=("scripted",), labels=(), project="other",
    )  # fmt: skip
    assert [tab.task for tab in watchdog.open_ready_tabs(app)] == ["ours"]
    assert windows() == (["ours"], 1)
