"""The relay: operations a second beside a bare SQLite file, and a watchdog's look at boards of every size."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time

from handoff.base.clock import SystemClock
from handoff.board.sessions import host_leases, leases, watchdog
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import batches, outcomes, tasks
from handoff.board.tasks.batches import SubTask
from handoff.store import open_database
from handoff.store.sqlite import has_fixed_wal, library

Row = tuple[str, str, str]
OPERATIONS = ("enqueue", "claim", "heartbeat", "done")
QUICK = bool(os.environ.get("HANDOFF_BENCH_QUICK"))
ALONE, TOGETHER = 40, 10
ROUNDS = 1 if QUICK else 3
PROCESSES = 8
SIZES = (10, 1_000) if QUICK else (10, 100, 1_000, 10_000)
LOOKS = 7
LIMIT = 3.0

FLOOR_SCHEMA = """
CREATE TABLE task (key INTEGER PRIMARY KEY, state TEXT, holder TEXT, lease REAL);
CREATE INDEX ready ON task (key) WHERE state = 'ready';
CREATE TABLE event (seq INTEGER PRIMARY KEY, kind TEXT, task INTEGER);
"""
FLOOR = {
    "enqueue": "INSERT INTO task (state) VALUES ('ready') RETURNING key",
    "claim": "UPDATE task SET state = 'running', holder = 'me', lease = 1 "
    "WHERE key = (SELECT key FROM task WHERE state = 'ready' ORDER BY key LIMIT 1) RETURNING key",
    "heartbeat": "UPDATE task SET lease = lease + 1 WHERE key = :key",
    "done": "UPDATE task SET state = 'done' WHERE key = :key",
}


def rows() -> list[Row]:
    """What `python -m bench` shows."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        return [*_operations(folder), *_looks(folder)]


def _operations(folder: str) -> list[Row]:
    found = []
    for processes, count in ((1, ALONE), (PROCESSES, TOGETHER)):
        teams = {
            kind: Team(os.path.join(folder, f"{kind}-{processes}.db"), kind, processes) for kind in ("bare", "ours")
        }
        best = {(kind, operation): 0.0 for kind in teams for operation in OPERATIONS}
        for _ in range(ROUNDS):
            for operation in OPERATIONS:
                for kind, team in teams.items():  # side by side in time: the disk is not always equally busy
                    best[kind, operation] = max(best[kind, operation], team.run(operation, count))
        for team in teams.values():
            team.close()
        who = "1 process" if processes == 1 else f"{processes} processes"
        for operation in OPERATIONS:
            ours, bare = best["ours", operation], best["bare", operation]
            figure = f"{ours:.0f}/s, {ours / bare:.0%} of bare SQLite"
            found.append((f"board: {operation}, {who}", figure, f"bare SQLite {bare:.0f}/s in the same run"))
    return found


class Team:
    """Processes on one database file, all told the same operation at once."""

    def __init__(self, path: str, kind: str, processes: int, command: tuple[str, ...] = (), source: str = "") -> None:
        words = command or (sys.executable, os.path.abspath(__file__), kind)
        environment = {**os.environ, "PYTHONPATH": source} if source else None
        self.racers: list[subprocess.Popen[str]] = []
        for number in range(processes):
            self.racers.append(
                subprocess.Popen(
                    [*words, path, f"racer{number}"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env=environment,
                )
            )
            if not number:
                self._hear("ready\n")  # it has made the tables
        self._hear("ready\n", self.racers[1:])

    def run(self, operation: str, count: int) -> float:
        """Operations a second of all together."""
        began = time.perf_counter()
        for racer in self.racers:
            assert racer.stdin is not None
            racer.stdin.write(f"{operation} {count}\n")
            racer.stdin.flush()
        self._hear("done\n")
        return len(self.racers) * count / (time.perf_counter() - began)

    def _hear(self, word: str, racers: list[subprocess.Popen[str]] | None = None) -> None:
        for racer in self.racers if racers is None else racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == word

    def close(self) -> None:
        for racer in self.racers:
            racer.communicate(timeout=60)


def _open(path: str, kind: str):
    if kind in ("ours", "postgres"):
        return open_database(path if kind == "postgres" else f"sqlite:///{path}", clock=SystemClock())
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    if has_fixed_wal(library.sqlite_version_info):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    else:
        connection.execute("PRAGMA journal_mode = PERSIST")
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        connection.executescript(FLOOR_SCHEMA)
    return connection


def _work(kind: str, path: str, name: str) -> None:
    """One process of a team: each line on standard input is an operation to repeat."""
    handle = _open(path, kind)
    held: list[tuple[int, int]] = []
    print("ready", flush=True)
    for turn, line in enumerate(sys.stdin):
        operation, count = line.split()
        if operation == "enqueue":
            held.clear()
        for number in range(int(count)):
            (_bare if kind == "bare" else _ours)(handle, operation, number, f"{name}-{turn}", held)
        print("done", flush=True)


def _bare(connection, operation: str, number: int, name: str, held: list[tuple[int, int]]) -> None:
    del name
    connection.execute("BEGIN IMMEDIATE")
    values = {"key": held[number][0]} if operation in ("heartbeat", "done") else {}
    key = connection.execute(FLOOR[operation], values).fetchone() or (0,)
    if operation != "heartbeat":
        connection.execute("INSERT INTO event (kind, task) VALUES (?, ?)", (operation, key[0]))
    connection.execute("COMMIT")
    if operation == "claim":
        held.append((key[0], 0))


def _ours(database, operation: str, number: int, name: str, held: list[tuple[int, int]]) -> None:
    if operation == "enqueue":
        tasks.add(database, project="bench", id=f"{name}-{number}", brief="Do it.")
    elif operation == "claim":
        claim = leases.claim_next(database, who=SessionIdentity(id=f"{name}-{number}", host="here"))
        assert claim is not None
        held.append((claim.task.key, claim.fence))
    elif operation == "heartbeat":
        leases.heartbeat(database, key=held[number][0], fence=held[number][1])
    elif operation == "look":
        assert leases.has_next(database, who=SessionIdentity(id=f"{name}-{number}", host="here"))
    elif operation.startswith("claim-"):
        several = range(int(operation.partition("-")[2]))
        who = [SessionIdentity(id=f"{name}-{number:03}-{one:03}", host=name.partition("-")[0]) for one in several]
        held.extend((claim.task.key, claim.fence) for claim in host_leases.claim(database, who=who))
    elif operation.startswith("heartbeat-"):
        beats = held[: int(operation.partition("-")[2])]
        assert len(host_leases.renew(database, host=name.partition("-")[0], beats=beats)) == len(beats)
    else:
        outcomes.finish(database, key=held[number][0], fence=held[number][1])


# --- the watchdog -----------------------------------------------------------------------------------


def _looks(folder: str) -> list[Row]:
    empty = open_database(f"sqlite:///{folder}/empty.db", clock=SystemClock())
    found = []
    for what in ("open batches", "finished batches", "running tasks"):
        for size in SIZES:
            path = os.path.join(folder, f"{what.replace(' ', '-')}-{size}.db")
            database = open_database(f"sqlite:///{path}", clock=SystemClock())
            _fill(database, path, what, size)
            base, look = _best(empty), _best(database)
            note = f"at most {LIMIT:.0f}x its look at an empty board" if size == 1_000 else ""
            found.append(
                (f"watchdog: {size:,} {what}", f"{look / base:.1f}x an empty look ({look * 1e3:.2f} ms)", note)
            )
            database.close()
    empty.close()
    return found


def _fill(database, path: str, what: str, size: int) -> None:
    with database.transaction() as transaction:
        for number in range(size):
            if what == "running tasks":
                tasks.add(transaction, project="bench", id=f"task-{number}", brief="x")
                continue
            batches.open_batch(
                transaction, project="bench", id=f"split-{number}", fan_in=SubTask(id=f"join-{number}", brief="x"),
                sub_tasks=[SubTask(id=name, brief="x") for name in ("one", "two", "three")],
            )  # fmt: skip
    raw = sqlite3.connect(path)
    if what == "running tasks":
        raw.execute("UPDATE task SET state = 'running', fence = 1, held_by = 's', lease_until = 1e12")
    elif what == "finished batches":
        raw.execute("UPDATE task SET state = 'done', ended_at = 1, counted = 1")
        raw.execute("UPDATE batch SET state = 'done', remaining = 0, ended_at = 1")
    raw.commit()
    raw.close()


def _best(database) -> float:
    """The quickest of several looks: the machine may be busy with something else."""
    times = []
    for _ in range(LOOKS):
        began = time.perf_counter()
        report = watchdog.scan(database)
        times.append(time.perf_counter() - began)
        assert report.quiet
    return min(times)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _work(*sys.argv[1:])
    else:
        for line in rows():
            print(" | ".join(line))
