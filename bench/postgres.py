"""One Postgres, many processes: what the board does a second, beside the board as it was with one lock for all, and beside procrastinate."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv

from bench.hosts import postgres
from bench.relay import OPERATIONS, QUICK, Team
from handoff.base.clock import SystemClock
from handoff.board.tasks import batches
from handoff.board.tasks.batches import SubTask
from handoff.store.drivers import open_database

Row = tuple[str, str, str]
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BEFORE = os.environ.get("HANDOFF_BENCH_BEFORE", "b327f93")
"""The last commit whose writers took turns."""
PEER = os.environ.get("HANDOFF_BENCH_PROCRASTINATE", "")
"""An interpreter that has procrastinate; without it one is made for the run."""
COUNTS = ((1, 200), (8, 50))
ROUNDS = 1 if QUICK else 3


def rows() -> list[Row]:
    """What `python -m bench` shows."""
    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="ho-bench-", ignore_cleanup_errors=True) as folder, postgres() as server:
        kinds = _kinds(folder)
        for processes, count in COUNTS:
            teams = {
                name: Team(server(), "postgres", processes, command=command, source=source)
                for name, (command, source) in kinds.items()
            }
            best = {(name, operation): 0.0 for name in teams for operation in OPERATIONS}
            for _ in range(ROUNDS):
                for operation in OPERATIONS:
                    for name, team in teams.items():  # side by side in time
                        best[name, operation] = max(best[name, operation], team.run(operation, count))
            for team in teams.values():
                team.close()
            found += [_row(best, processes, operation) for operation in OPERATIONS]
        found.append(("a batch of 10,000 parts is opened", f"{_large_batch(server()):.1f} s", "-"))
        subprocess.run(["git", "-C", ROOT, "worktree", "prune"], check=False)
    return found


def _large_batch(url: str) -> float:
    database = open_database(url, clock=SystemClock())
    parts = [SubTask(id=f"part-{number}", brief="Do it.") for number in range(10_000)]
    began = time.perf_counter()
    batches.open_batch(database, project="bench", id="large", sub_tasks=parts, fan_in=SubTask(id="join", brief="x"))
    took = time.perf_counter() - began
    database.close()
    return took


def _row(best: dict[tuple[str, str], float], processes: int, operation: str) -> Row:
    ours, before, peer = (best.get((name, operation), 0.0) for name in ("now", "before", "procrastinate"))
    told = [f"{ours:.0f}/s"]
    told += [f"{ours / before:.1f}x as before ({before:.0f}/s)"] if before else []
    told += [f"{ours / peer:.1f}x procrastinate ({peer:.0f}/s)"] if peer and operation != "heartbeat" else []
    who = "1 process" if processes == 1 else f"{processes} processes"
    return f"{operation}, {who}", ", ".join(told), "-"


def _kinds(folder: str) -> dict[str, tuple[tuple[str, ...], str]]:
    """How a process of each kind is started; what is not to be had is left out."""
    here = os.path.dirname(os.path.abspath(__file__))
    kinds = {"now": ((sys.executable, os.path.join(here, "relay.py"), "postgres"), os.path.join(ROOT, "src"))}
    old = os.path.join(folder, "before")
    if not subprocess.run(
        ["git", "-C", ROOT, "worktree", "add", "-q", "--detach", old, BEFORE], check=False
    ).returncode:
        kinds["before"] = (
            (sys.executable, os.path.join(old, "bench", "relay.py"), "postgres"),
            os.path.join(old, "src"),
        )
    peer = PEER or _peer(os.path.join(folder, "peer"))
    if peer:
        kinds["procrastinate"] = ((peer, os.path.join(here, "procrastinate_peer.py")), here)
    return kinds


def _peer(folder: str) -> str:
    """An environment of its own with procrastinate in it, or nothing where it cannot be installed."""
    venv.create(folder, with_pip=True)
    python = os.path.join(folder, "bin", "python")
    words = [python, "-m", "pip", "install", "-q", "procrastinate", "psycopg[binary]"]
    if subprocess.run(words, check=False, capture_output=True).returncode:
        shutil.rmtree(folder, ignore_errors=True)
        return ""
    return python


if __name__ == "__main__":
    for line in rows():
        print(" | ".join(line))
