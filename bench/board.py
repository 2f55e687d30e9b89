"""The board beside a busy relay: how much of a core it takes with 5,000 tasks and 100 events a second."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import tempfile
import termios
import threading
import time

import psutil

from bench.startup import clean_environment, program
from handoff.base.settings import Settings
from handoff.board.tasks import tasks
from handoff.engine.app import App

TASKS, EVENTS, SECONDS = 5_000, 100, 10.0
LIMIT = 20.0


def rows() -> list[tuple[str, str, str]]:
    """One row: the share of a core."""
    with tempfile.TemporaryDirectory(prefix="handoff-bench-") as folder:
        environment = {**clean_environment(folder), "TERM": "xterm-256color"}
        share, written = _measure(folder, environment)
    what = f"handoff board, {TASKS:,} tasks, {written:.0f} events a second: share of a core"
    return [(what, f"{share:.1f} %", f"{LIMIT:g} %")]


def _measure(folder: str, environment: dict[str, str]) -> tuple[float, float]:
    checkout = os.path.join(folder, "shop")
    os.makedirs(checkout)
    subprocess.run(["git", "init", "-q", checkout], env=environment, check=True)
    app = App(Settings(environment, environment["HANDOFF_HOME"], "", "handoff", checkout))
    with app.database.transaction() as transaction:
        made = [tasks.add(transaction, project="shop", id=f"task-{number}", brief="Work.") for number in range(TASKS)]
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 160, 0, 0))
    words = [*program(), "board", "--project", "shop"]
    board = subprocess.Popen(
        words, cwd=checkout, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    drawn = threading.Event()
    threading.Thread(target=_drain, args=(ours, drawn), daemon=True).start()
    drawn.wait(30)
    time.sleep(2)
    try:
        begin, before = time.monotonic(), _spent(board.pid)
        written = 0
        while (gone := time.monotonic() - begin) < SECONDS:
            if written >= gone * EVENTS:
                time.sleep(0.002)
                continue
            with app.database.transaction() as transaction:  # ten at once: the disk is not what is measured
                for _ in range(10):
                    tasks.edit(transaction, key=made[written * 37 % TASKS].key, priority=written % 7)
                    written += 1
        return 100 * (_spent(board.pid) - before) / gone, written / gone
    finally:
        board.terminate()
        board.wait(30)
        app.close()


def _spent(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _drain(ours: int, drawn: threading.Event) -> None:
    try:
        while data := os.read(ours, 65536):
            if b"NEXT" in data:
                drawn.set()
    except OSError:
        return
