"""A simulated day of up to 1,000 hosts and 1,000,000 tasks: what gives way first, and what to do. A model, not a measurement.

The model, second by second with seeded chance:

* Tasks arrive as a Poisson stream whose rate follows the hours of a day (twice the mean at noon, none of it at night). A host has 8
  places. A session lasts 10 minutes at the median (lognormal, sigma 0.8).
* Every writing transaction takes a turn at one lock (the board is written by one at a time, on Postgres too). So the database has a
  number of writes a second, taken from `bench/hosts.py` (8 processes), and each thing below costs writes.
* A task costs its life (written down, claimed, its session made known, settled, done), a heartbeat a minute while it runs; a supervisor
  costs a lease renewal every 5 seconds.
* A supervisor with a free place asks for work twice a second, and once for each line of the journal, because each line is told to all
  (LISTEN). Asking is a look that takes no turn; a look costs a seventh of a claim (`bench/relay.py`: 0.13 ms beside 0.95 ms).
* A connection is held by each host for itself, its threads and each session (`bench/hosts.py`). The server has 500.
* With a shared repository each running session is pushed once a minute, and twice at its end. A git server of 8 cores takes 100 pushes a
  second: an assumption, not measured here.
* The journal grows by the lines `bench/hosts.py` counted, 300 bytes each with its index: an assumption too.
"""

from __future__ import annotations

import math
import os
import random
from typing import NamedTuple

Row = tuple[str, str, str]
SEED = 20311
DAY = 86_400
STEP = 10
HOSTS = (10, 33, 100, 300, 1_000)
_LARGE = 50  # where both curves agree within a percent
TASKS = 1_000_000
PLACES = 8
MEDIAN_SECONDS, SIGMA = 600.0, 0.8
LIFE_WRITES = 6
LEASE_EVERY, BEAT_EVERY, PUSH_EVERY = 5.0, 60.0, 60.0
POLLS = 2.0
CONNECTIONS = 500
PUSHES = 100.0
LINE_BYTES = 300
PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "performance.md")


def measured(what: str, otherwise: float) -> float:
    """A figure of `bench/hosts.py` as it stands on the page; `otherwise` where it was not written yet."""
    try:
        with open(PAGE, encoding="utf-8") as file:
            for line in file:
                cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
                if cells[0] == what:
                    return float(cells[1].partition("/")[0].partition(",")[0])
    except (OSError, ValueError):
        pass
    return otherwise


def _on_page() -> bool:
    return measured("lines of the journal for each task", -1.0) > 0


class Facts(NamedTuple):
    """What the model takes from measurements."""

    claims: float
    writes: float
    lines: float
    idle: float
    busy: float


def facts() -> Facts:
    """From the page; the figures behind are those of a run under load, for a page without the section."""
    return Facts(
        measured(f"board on Postgres: claim, {PLACES} processes", 51.0),
        measured(f"board on Postgres: heartbeat, {PLACES} processes", 91.0),
        measured("lines of the journal for each task", 6.0),
        measured("connections of one host, idle", 6.0),
        measured("connections of one host, 2 sessions", 10.0),
    )


class Peak(NamedTuple):
    """The busiest moment of a simulated day, as shares of what there is."""

    running: int
    waiting: int
    done: int
    life: float
    signs: float
    asking: float
    connections: float
    pushes: float


def simulate(hosts: int, wanted: int, known: Facts, *, told: bool = True, look: float = 1 / 7) -> Peak:
    """One day; the busiest ten seconds of each resource, as a share of what it can do.

    `told`: each line of the journal wakes every host. `look`: what asking for work costs beside a claim.
    """
    chance = random.Random(SEED)
    mean = MEDIAN_SECONDS * math.exp(SIGMA**2 / 2)
    running = waiting = done = 0
    peak = Peak(0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for step in range(DAY // STEP):
        rate = wanted / DAY * (1.0 - math.cos(2 * math.pi * step * STEP / DAY)) * STEP
        arrived = _poisson(chance, rate)
        ended = min(running, _poisson(chance, running * STEP / mean))
        running, done, waiting = running - ended, done + ended, waiting + arrived
        started = min(waiting, hosts * PLACES - running)
        running, waiting = running + started, waiting - started
        tasks = (arrived + started + ended) / 3 / STEP
        lines = tasks * known.lines
        idle = min(hosts, hosts * PLACES - running)
        asked = idle * (POLLS + (lines if told else 0.0)) * look
        now = Peak(
            running, waiting, done, tasks * LIFE_WRITES / known.claims,
            (hosts / LEASE_EVERY + running / BEAT_EVERY) / known.writes, asked / known.claims,
            hosts * (known.idle + (known.busy - known.idle) / 2 * min(PLACES, running / hosts)) / CONNECTIONS,
            (running / PUSH_EVERY + 2 * ended / STEP) / PUSHES,
        )  # fmt: skip
        peak = Peak(*(max(old, new) for old, new in zip(peak, now, strict=True)))
    return peak._replace(done=done)


def _poisson(chance: random.Random, mean: float) -> int:
    """Counts of chance; for large means the normal curve is close enough."""
    if mean <= 0:
        return 0
    if mean > _LARGE:
        return max(0, round(chance.gauss(mean, math.sqrt(mean))))
    limit, product, count = math.exp(-mean), chance.random(), 0
    while product > limit:
        product *= chance.random()
        count += 1
    return count


WORDS = {
    "connections": "connections: raise max_connections, give fewer hosts more places; beyond that one relay for each team",
    "asking": "asking for work: ask less often, tell only hosts with a free place, or one relay for each team",
    "signs": "signs of life: longer leases, fewer supervisors with more places each",
    "life": "the life of tasks: one database for each group of projects",
    "pushes": "pushes: a larger publish_seconds, or a git server for each group of projects",
}


def rows() -> list[Row]:
    """What `python -m bench` shows: shares of what there is at the busiest moment; above 100 % it gives way."""
    known = facts()
    found: list[Row] = [
        (
            "what Postgres does a second" + ("" if _on_page() else " (a short run under load; run bench hosts first)"),
            f"{known.claims:.0f} claims, {known.writes:.0f} heartbeats",
            f"section hosts of this page; seed {SEED}",
        ),
    ]
    for hosts in HOSTS:
        wanted = TASKS * hosts // max(HOSTS)
        peak = simulate(hosts, wanted, known)
        shares = {name: getattr(peak, name) for name in WORDS}
        first = max(shares, key=lambda name: shares[name])
        shown = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
        verdict = WORDS[first] if shares[first] > 1 else "holds"
        found.append((f"{hosts:,} hosts, {wanted:,} tasks a day: peak use", shown, verdict))
    found += _answers(known)
    return found


def _answers(known: Facts) -> list[Row]:
    """How far each mend carries 1,000 hosts."""
    limit = max(HOSTS)
    turns, calm = simulate(limit, TASKS, known, look=1.0), simulate(limit, TASKS, known, told=False)
    growth = TASKS * known.lines * LINE_BYTES / 1e9
    return [
        ("1,000 hosts, if asking took a turn: use", f"asking {turns.asking:.0%}", "why a look comes before a claim"),
        ("1,000 hosts, asking twice a second and no more: use", f"asking {calm.asking:.0%}", "slower starts: up to 0.5 s"),
        ("1,000 hosts: busiest moment", f"{calm.running:,} sessions, {calm.waiting:,} tasks waiting", f"{calm.done:,} done in the day"),
        ("1,000 hosts: journal a day", f"{TASKS * known.lines / 1e6:.1f} million lines, {growth:.1f} GB", "handoff prune"),
        ("1,000 hosts: refs at the shared repository a day", f"{2 * TASKS / 1e6:.0f} million", "delete branches that were merged"),
    ]  # fmt: skip
