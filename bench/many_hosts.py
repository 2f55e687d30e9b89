"""Many hosts on one Postgres behind PgBouncer: a queue drains while hosts are killed and the database is restarted twice.

A host here is light, so that two hundred fit on one machine: a process of its own, with its own identity and its own connections, that makes
the supervisor's calls to the board (claims for its free places in one statement, one sign of life for all its sessions, done, its own lease, the
watchdog). Its sessions are moments and no processes, and it has no durable engine. Another size:

    python -m bench.many_hosts --hosts 50 --tasks 5000 --seconds 1 --kills 10
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from typing import Any

from bench import figures
from bench.relay import QUICK
from handoff.base.clock import SystemClock
from handoff.base.errors import Away, Conflict
from handoff.board.events import journal
from handoff.board.sessions import executors, host_leases, leases, watchdog
from handoff.board.sessions.leases import Claim, ClaimLimits
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import outcomes, tasks
from handoff.store import open_database

Row = tuple[str, str, str]
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEASE_SECONDS = 20.0
SHORTEST_LOOK, LONGEST_LOOK = 0.005, 1.0
MOST_MS = 250
CONNECTIONS = 3
AT_WORK = """SELECT coalesce(wait_event_type || ' ' || wait_event, CASE state WHEN 'active' THEN 'at work' ELSE state END)
FROM pg_stat_activity WHERE backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()"""
RETRY_SECONDS = 1.0
"""After this time a pooler that met no server tries again."""


class LightHost:
    """One host: claims, waits, beats, finishes, until everything is done; whatever fails is tried again."""

    def __init__(self, name: str, url: str, folder: str, *, places: int, seconds: float) -> None:
        self.name, self.url, self.places, self.seconds = name, url, places, seconds
        self.report = os.path.join(folder, f"{name}.json")
        self.running: list[tuple[float, Claim]] = []
        self.claims: list[tuple[float, float]] = []
        self.empty: list[tuple[float, float]] = []
        self.number = 0
        self.pause = SHORTEST_LOOK
        self.due = {"lease": 0.0, "beat": 0.0, "watchdog": time.monotonic() + random.uniform(5, 15)}
        self.database: Any = None

    def work(self) -> None:
        while True:
            try:
                if self.database is None:
                    self.database = open_database(self.url, clock=SystemClock())
                    self.begin()
                if self.round():
                    return self.tell()
            except Away:
                time.sleep(random.uniform(0.2, 0.6))  # sessions go on

    def begin(self) -> None:
        host = {
            "id": f"{self.name}:{os.getpid()}",
            "host": self.name,
            "boot": "",
            "pid": os.getpid(),
            "process_start": "",
        }
        executors.begin(self.database, **host, lease_seconds=LEASE_SECONDS)

    def round(self) -> bool:
        """One look at everything; True when there is nothing left anywhere."""
        now = time.monotonic()
        for over in [one for one in self.running if one[0] <= now]:
            with contextlib.suppress(Conflict):  # another host has it: this one was away for too long
                outcomes.finish(self.database, key=over[1].task.key, fence=over[1].fence)
            self.running.remove(over)
            self.pause = SHORTEST_LOOK
        if self.running and self.is_due("beat", LEASE_SECONDS / 4):
            host_leases.renew(
                self.database, host=self.name, beats=[(one.task.key, one.fence) for _, one in self.running]
            )
        if self.is_due("lease", LEASE_SECONDS / 4):
            executors.renew(self.database, id=f"{self.name}:{os.getpid()}", lease_seconds=LEASE_SECONDS)
        if self.is_due("watchdog", 10.0):
            watchdog.scan(self.database)
            if not self.running and not tasks.count(self.database, state="ready") + tasks.count(
                self.database, state="running"
            ):
                return True
        if len(self.running) < self.places:
            self.fill()
        ends = min([one[0] for one in self.running], default=now + LONGEST_LOOK)
        time.sleep(max(0.0, min(self.pause, ends - time.monotonic())))
        self.pause = min(self.pause * 2, LONGEST_LOOK)
        return False

    def fill(self) -> None:
        who = [self.session() for _ in range(self.places - len(self.running))]
        limits = ClaimLimits(self.places, 0, 0)
        if not leases.has_next(self.database, who=who[0], limits=limits):
            return
        began = time.monotonic()
        claims = host_leases.claim(self.database, who=who, limits=limits, lease_seconds=LEASE_SECONDS)
        self.claims.append((began, time.monotonic() - began))
        began = time.monotonic()
        with self.database.transaction(write=False):
            pass  # the least that anything can take at this moment, with as many processes on these cores
        self.empty.append((began, time.monotonic() - began))
        self.running += [(time.monotonic() + self.seconds * random.uniform(0.8, 1.2), claim) for claim in claims]
        if claims:
            self.pause = SHORTEST_LOOK

    def session(self) -> SessionIdentity:
        self.number += 1
        return SessionIdentity(
            f"{self.name}-{os.getpid():07}-{self.number:06}", kind="agent", agent="scripted", host=self.name
        )

    def is_due(self, name: str, every: float) -> bool:
        if time.monotonic() < self.due[name]:
            return False
        self.due[name] = time.monotonic() + every
        return True

    def tell(self) -> None:
        with open(f"{self.report}.new", "w", encoding="utf-8") as file:
            json.dump({"claims": self.claims, "empty": self.empty}, file)
        os.replace(f"{self.report}.new", self.report)


class Relay:
    """The server, the pooler in front of it, and the hosts."""

    def __init__(self, folder: str, *, hosts: int, places: int, seconds: float) -> None:
        sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
        from own_server import Server
        from pooler import Pooler

        self.folder, self.places, self.seconds = folder, places, seconds
        for name in ("server", "pooler", "told"):
            os.mkdir(os.path.join(folder, name))
        os.chmod(folder, 0o755)
        self.server = Server(os.path.join(folder, "server"))
        self.pooler = Pooler(
            os.path.join(folder, "pooler"), os.path.join(folder, "server"), connections=30, clients=5 * hosts + 50
        )
        self.hosts: dict[int, str] = {}
        self.away: list[tuple[float, float]] = []
        self.seen: Counter[str] = Counter()
        self.looks = self.queued = 0
        self.names = (f"host{number:04}" for number in range(100_000))

    def start(self) -> None:
        """One more host: a fork of this process, in which everything is imported and nothing is open."""
        name = next(self.names)
        child = os.fork()
        if not child:
            code = 1
            try:
                random.seed(name)
                LightHost(
                    name, self.pooler.url, os.path.join(self.folder, "told"), places=self.places, seconds=self.seconds
                ).work()
                code = 0
            finally:
                os._exit(code)
        self.hosts[child] = name

    def kill(self, chance: random.Random) -> None:
        pid = chance.choice(sorted(self.hosts))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        del self.hosts[pid]
        self.start()

    def restart(self) -> None:
        """The database goes at once and comes back."""
        began = time.monotonic()
        self.server.stop(signal.SIGQUIT)
        self.server.start()
        self.away.append((began, time.monotonic() + RETRY_SECONDS))

    def look(self) -> int:
        """Connections that hosts hold at the pooler; what they and the server's connections are at is counted."""
        import psycopg

        admin = self.pooler.url.replace("/postgres?", "/pgbouncer?")
        with psycopg.connect(admin, autocommit=True, prepare_threshold=None) as connection:
            shown = psycopg.ClientCursor(connection).execute("SHOW CLIENTS")
            database, state = (
                [column.name for column in shown.description or ()].index(name) for name in ("database", "state")
            )
            clients = [row[state] for row in shown.fetchall() if row[database] == "postgres"]
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            self.seen.update(row[0] for row in connection.execute(AT_WORK).fetchall())
        self.looks += 1
        self.queued += clients.count("waiting")
        return len(clients)

    def close(self) -> None:
        for pid in self.hosts:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.pooler.stop()
        self.server.stop(signal.SIGQUIT)


def run(*, hosts: int, count: int, seconds: float, places: int, kills: int, seed: int, patience: float) -> list[Row]:
    """Fill the queue, let all hosts loose, and hurt them."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="ho-bench-", ignore_cleanup_errors=True) as folder:
        relay = Relay(folder, hosts=hosts, places=places, seconds=seconds)
        try:
            _queue(relay.server.url, count)
            for _ in range(hosts):
                relay.start()
            most = _drain(relay, count, kills, chance, patience)
            found, took = _verdict(relay, count)
            return [*found, *_pace(relay, hosts, count, took, most)]
        finally:
            relay.close()


def _queue(url: str, count: int) -> None:
    database = open_database(url, clock=SystemClock())
    for start in range(0, count, 1000):
        with database.transaction() as transaction:
            for number in range(start, min(count, start + 1000)):
                tasks.add(
                    transaction, project=f"project-{number % 20}", id=f"task-{number}", brief="x", max_attempts=1000
                )
    database.close()


def _drain(relay: Relay, count: int, kills: int, chance: random.Random, patience: float) -> int:
    """Until every host has ended by itself; the most connections that were seen."""
    most, marks, killed = 0, [count // 3, 2 * count // 3], 0
    deadline = time.monotonic() + patience
    database = open_database(relay.server.url, clock=SystemClock())
    while relay.hosts:
        done = tasks.count(database, state="done")
        if time.monotonic() > deadline:
            print(f"Not drained: {done} of {count} done.", file=sys.stderr)
            break
        most = max(most, relay.look())
        if marks and done >= marks[0]:
            marks.pop(0)
            relay.restart()
        elif killed < kills and done >= (killed + 1) * count // (kills + 1) and done < count:
            killed += 1
            relay.kill(chance)
        for pid in [pid for pid in relay.hosts if os.waitpid(pid, os.WNOHANG)[0]]:
            del relay.hosts[pid]
        time.sleep(0.5)
    database.close()
    return most


def _verdict(relay: Relay, count: int) -> tuple[list[Row], float]:
    """What the rows say, and the seconds from the first claim to the last end."""
    database = open_database(relay.server.url, clock=SystemClock())
    done = tasks.count(database, state="done")
    finished, claimed, seq = Counter[int | None](), Counter[int | None](), 0
    moments: list[float] = []
    while lines := journal.since(database, seq=seq, limit=10_000):
        finished.update(line.task for line in lines if line.kind == "task.finished")
        claimed.update(line.task for line in lines if line.kind == "task.claimed")
        moments += [line.at for line in lines if line.kind in ("task.claimed", "task.finished")]
        seq = lines[-1].seq
    database.close()
    twice, again = (sum(number > 1 for number in some.values()) for some in (finished, claimed))
    rows: list[Row] = [
        ("tasks lost", f"{count - done} of {count:,}", "0"),
        ("tasks done twice", f"{twice}", "0"),
        ("tasks begun again, because their host was killed or away", f"{again}", "-"),
    ]
    return rows, max(moments) - min(moments)


def _pace(relay: Relay, hosts: int, count: int, took: float, most: int) -> list[Row]:
    timed: dict[str, list[tuple[float, float]]] = {"claims": [], "empty": []}
    folder = os.path.join(relay.folder, "told")
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            for kind, some in json.load(file).items():
                timed[kind] += [(began, seconds) for began, seconds in some]
    (median, late), (least, least_late) = (_calm(relay, timed[kind]) for kind in ("claims", "empty"))
    figures.keep(
        many_hosts=hosts, many_hosts_tasks_a_second=count / took, many_hosts_claim_late_ms=late,
        many_hosts_empty_late_ms=least_late,
    )  # fmt: skip
    longest = max((seconds for _, seconds in timed["claims"]), default=0.0)
    times = f", {late / least_late:.1f} times an empty one" if least_late else ""
    seen = ", ".join(f"{what} {number / relay.looks:.1f}" for what, number in relay.seen.most_common(5))
    return [
        ("tasks a second, from the first claim to the last end", f"{count / took:.0f}", "-"),
        ("a claim for all free places: median, 99 of 100", f"{median:.0f} ms, {late:.0f} ms{times}", f"≤ {MOST_MS} ms"),
        ("an empty transaction after each claim: median, 99 of 100", f"{least:.0f} ms, {least_late:.0f} ms", "what the machine itself takes"),
        ("connections of the server with a transaction, at the mean", seen or "none seen", "-"),
        ("hosts that wait at the pooler for a connection, at the mean", f"{relay.queued / max(1, relay.looks):.1f}", "-"),
        ("the longest claim over a restart of the database", f"{longest:.1f} s", "-"),
        ("connections a host at the pooler, most at any moment", f"{most / hosts:.1f}", f"≤ {CONNECTIONS}, with one of the durable engine"),
    ]  # fmt: skip


def _calm(relay: Relay, timed: list[tuple[float, float]]) -> tuple[float, float]:
    """Median and 99 of 100 in milliseconds, of what met no restart of the database."""
    calm = sorted(
        seconds
        for began, seconds in timed
        if not any(began < end and began + seconds > start for start, end in relay.away)
    )
    median, late = (calm[int(len(calm) * share)] * 1000 if calm else 0.0 for share in (0.5, 0.99))
    return median, late


def rows() -> list[Row]:
    """What `python -m bench` shows: two minutes, unless it is to be quick."""
    size = {"hosts": 8, "count": 200} if QUICK else {"hosts": 200, "count": 20_000}
    told = f"{size['hosts']} hosts, {size['count']:,} tasks: "
    found = run(**size, seconds=0.2 if QUICK else 1.0, places=2, kills=2 if QUICK else 20, seed=1, patience=1200.0)
    return [(told + what, measured, budget) for what, measured, budget in found]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.many_hosts", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long a session takes")
    parser.add_argument("--places", type=int, default=2, help="sessions at once on each host")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=3600.0)
    said = parser.parse_args()
    for row in run(hosts=said.hosts, count=said.tasks, seconds=said.seconds, places=said.places, kills=said.kills, seed=said.seed, patience=said.patience):  # fmt: skip
        print(" | ".join(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
