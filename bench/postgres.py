"""One Postgres, many processes: what the board does a second, beside the board as it was with one lock for all, procrastinate and DBOS's queue."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv

from bench import figures
from bench.hosts import postgres
from bench.relay import OPERATIONS, QUICK, Team
from handoff.base.clock import SystemClock
from handoff.board.tasks import batches
from handoff.board.tasks.batches import SubTask
from handoff.store import open_database

Row = tuple[str, str, str]
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BEFORE = os.environ.get("HANDOFF_BENCH_BEFORE", "b327f93")
"""The last commit whose writers took turns."""
PEER = os.environ.get("HANDOFF_BENCH_PEERS", "")
"""An interpreter that has procrastinate and dbos; without it one is made for the run."""
PEERS = {"procrastinate": "procrastinate_peer.py", "DBOS": "dbos_peer.py"}
COUNTS = ((1, 20), (8, 5), (32, 2)) if QUICK else ((1, 200), (8, 50), (32, 15))
SEVERAL = 8
ROUNDS = 1 if QUICK else 3


def rows() -> list[Row]:
    """What `python -m bench` shows."""
    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="ho-bench-", ignore_cleanup_errors=True) as folder, postgres() as server:
        kinds = _kinds(folder)
        alone = 0.0
        for processes, count in COUNTS:
            best: dict[tuple[str, str], float] = {}
            # Side by side in time, as long as a server with its usual limit of connections has room for all of them.
            for together in [list(kinds)] if processes <= SEVERAL else [[name] for name in kinds]:
                teams = {name: Team(server(), "postgres", processes, *kinds[name]) for name in together}
                for _, operation, name in itertools.product(range(ROUNDS), OPERATIONS, teams):
                    best[name, operation] = max(best.get((name, operation), 0.0), teams[name].run(operation, count))
                alone = alone or best["now", "claim"]
                hosts = _of_hosts(teams["now"], count, best, alone) if processes == SEVERAL else []
                for team in teams.values():
                    team.close()
                found += hosts
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
    ours = best["now", operation]
    told = [f"{ours:.0f}/s"]
    for name, words in (("before", "as before"), *((name, name) for name in PEERS)):
        other = best.get((name, operation), 0.0)
        if other and (name == "before" or operation != "heartbeat"):
            told.append(f"{ours / other:.1f}x {words} ({other:.0f}/s)")
    who = "1 process" if processes == 1 else f"{processes} processes"
    return f"{operation}, {who}", ", ".join(told), "-"


def _of_hosts(team: Team, count: int, best: dict[tuple[str, str], float], alone: float) -> list[Row]:
    """What a host does for all its sessions, and figures for the model of many hosts."""
    team.run("enqueue", count)
    looks = team.run("look", count)
    claims = team.run(f"claim-{SEVERAL}", count // SEVERAL or 1) * SEVERAL
    beats = team.run(f"heartbeat-{SEVERAL}", count) * SEVERAL
    figures.keep(
        claims_a_second=best["now", "claim"], done_a_second=best["now", "done"], looks_a_second=looks,
        claims_together_a_second=claims, heartbeats_together_a_second=beats,
    )  # fmt: skip
    return [
        (f"claim, {SEVERAL} processes beside one", f"{best['now', 'claim'] / alone:.2f}x", "rises as far as the cores allow"),
        (f"claims of {SEVERAL} in one statement, {SEVERAL} processes", f"{claims:.0f}/s, {claims / best['now', 'claim']:.1f}x one by one", "-"),
        (f"signs of life of {SEVERAL} sessions in one statement, {SEVERAL} processes", f"{beats:.0f}/s, {beats / best['now', 'heartbeat']:.1f}x one by one", "-"),
        (f"a look for work, {SEVERAL} processes", f"{looks:.0f}/s", "-"),
    ]  # fmt: skip


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
        kinds.update({name: ((peer, os.path.join(here, program)), here) for name, program in PEERS.items()})
    return kinds


def _peer(folder: str) -> str:
    """An environment of its own with the peers in it, or nothing where they cannot be installed."""
    venv.create(folder, with_pip=True)
    python = os.path.join(folder, "bin", "python")
    words = [python, "-m", "pip", "install", "-q", "procrastinate", "psycopg[binary]", "dbos>=3.3,<4"]
    if subprocess.run(words, check=False, capture_output=True).returncode:
        shutil.rmtree(folder, ignore_errors=True)
        return ""
    return python


if __name__ == "__main__":
    for line in rows():
        print(" | ".join(line))
