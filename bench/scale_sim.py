"""A simulated day of up to 1,000 hosts and 1,000,000 tasks: what gives way first, and what to do. A model, not a measurement.

What it knows of the database it reads from the file of figures that `postgres` and `hosts` write (`bench/figures.json`). The model, ten
seconds by ten seconds with seeded chance:

* Tasks arrive as a Poisson stream whose rate follows the hours of a day (twice the mean at noon, none at midnight). A session lasts 10
  minutes at the median (lognormal, sigma 0.8), so a million a day are 19,000 at once at noon: a host has 24 places.
* The server's processor time is what it was counted to spend on a task's whole life with its durable engine and on a host that waits; a busy
  host asks as often as one that waits, and reads the rows of its sessions once a second. A server of 8 cores is assumed, as for git. A host
  reads every line of the project it serves twice, to tell its person and to keep its files, with two looks for each task; 50 hosts serve one
  project. What a line costs is measured too.
* Writes wait for the disk: a task's, each as dear as a claim with 8 processes, the leases of sessions once a minute in one statement a host,
  a host's own every 5 seconds. Claims do not wait for each other: there is no lock for all.
* Connections are those of a host with sessions. Above 500 they stand at a PgBouncer in transaction mode, which takes 10,000.
* With a shared repository a host pushes once a minute what runs there, in one push for each of two projects, and each session twice at its
  end. A git server of 8 cores takes 100 pushes a second: an assumption, not measured here. So are 300 bytes for a line of the journal.
"""

from __future__ import annotations

import math
import random
from typing import NamedTuple

from bench import figures

Row = tuple[str, str, str]
SEED = 20311
DAY = 86_400
STEP = 10
HOSTS = (10, 33, 100, 300, 1_000)
FURTHER = (1_500, 2_000, 3_000, 5_000, 10_000, 30_000)
_LARGE = 50  # where both curves agree within a percent
TASKS = 1_000_000
PLACES = 24
MEDIAN_SECONDS, SIGMA = 600.0, 0.8
LIFE_WRITES = 12
"""Written down, claimed, its session known, done; the durable run of it: asked for, taken, three steps, its end; its folder and its lines."""
LEASE_EVERY, BEAT_EVERY, PUSH_EVERY = 5.0, 60.0, 60.0
CORES = 8
TOGETHER = 8
DIRECT, POOLED = 500, 10_000
PUSHES, PROJECTS = 100.0, 2
HOSTS_A_PROJECT = 50
LINE_BYTES = 300


class Facts(NamedTuple):
    """What the model takes from measurements."""

    claims: float
    beats: float
    task_ms: float
    idle_ms: float
    look_ms: float
    line_ms: float
    lines: float
    connections: float


def facts() -> Facts:
    """From the file; a figure that is missing ends the run with the command that makes it."""
    idle = figures.value("idle_server_ms_a_minute")
    return Facts(
        claims=figures.value("claims_a_second"),
        beats=figures.value("heartbeats_together_a_second") / TOGETHER,
        task_ms=figures.value("server_ms_a_task"),
        idle_ms=idle / 60.0,
        look_ms=idle / figures.value("idle_transactions_a_minute"),
        line_ms=figures.value("server_us_a_line") / 1000.0,
        lines=figures.value("lines_a_task"),
        connections=figures.value("connections_busy"),
    )


class Peak(NamedTuple):
    """The busiest moment of a simulated day, as shares of what there is."""

    running: int
    waiting: int
    done: int
    places: float
    processor: float
    writes: float
    connections: float
    pushes: float


def simulate(hosts: int, wanted: int, known: Facts) -> Peak:
    """One day; the busiest ten seconds of each resource, as a share of what it can do."""
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
        busy = min(hosts, running)
        now = Peak(
            running, waiting, done, (running + waiting) / (hosts * PLACES),
            sum(_spent(known, hosts=hosts, busy=busy, tasks=tasks).values()) / CORES,
            tasks * LIFE_WRITES / known.claims + (hosts / LEASE_EVERY + busy / BEAT_EVERY) / known.beats,
            hosts * known.connections / (DIRECT if hosts * known.connections <= DIRECT else POOLED),
            (min(running, hosts * PROJECTS) / PUSH_EVERY + 2 * ended / STEP) / PUSHES,
        )  # fmt: skip
        peak = Peak(*(max(old, new) for old, new in zip(peak, now, strict=True)))
    return peak._replace(done=done)


def _spent(known: Facts, *, hosts: int, busy: int, tasks: float) -> dict[str, float]:
    """Cores of the server that are busy, by what with."""
    found = {
        "the life of tasks": tasks * known.task_ms,
        "hosts that ask": hosts * known.idle_ms,
        "hosts that watch their sessions": busy * known.look_ms,
        "hosts that read of others": min(hosts, HOSTS_A_PROJECT)
        * tasks
        * (2 * known.lines * known.line_ms + 2 * known.look_ms),
    }
    return {name: spent / 1000.0 for name, spent in found.items()}


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
    "places": "places: more of them on each host, or more hosts",
    "processor": "the server's processor: more cores, then one database for each group of projects",
    "writes": "writes: a quicker disk, then one database for each group of projects",
    "connections": "connections: a second PgBouncer, or fewer hosts with more places",
    "pushes": "pushes: a larger publish_seconds, or a git server for each group of projects",
}


def rows() -> list[Row]:
    """What `python -m bench` shows: shares of what there is at the busiest moment; above 100 % it gives way."""
    known = facts()
    told = figures.known()["claims_a_second"]
    found: list[Row] = [
        (
            "what Postgres does",
            f"{known.claims:.0f} claims; of its processor {known.task_ms:.0f} ms a task, {known.idle_ms * 60:.0f} ms a minute for a host that waits",
            f"measured {told['measured']} at load {told['load']}; seed {SEED}",
        ),
    ]
    for hosts in HOSTS:
        wanted = TASKS * hosts // max(HOSTS)
        peak = simulate(hosts, wanted, known)
        shown = ", ".join(f"{name} {share:.0%}" for name, share in _shares(peak).items())
        found.append((f"{hosts:,} hosts, {wanted:,} tasks a day: peak use", shown, _verdict(peak)))
    return [*found, *_next(known), *_sizes(known)]


def _shares(peak: Peak) -> dict[str, float]:
    return {name: getattr(peak, name) for name in WORDS}


def _verdict(peak: Peak) -> str:
    shares = _shares(peak)
    first = max(shares, key=lambda name: shares[name])
    return WORDS[first] if shares[first] > 1 else "holds"


def _next(known: Facts) -> list[Row]:
    """What breaks next when hosts and tasks grow further, all in proportion."""
    for hosts in (max(HOSTS), *FURTHER):
        peak = simulate(hosts, TASKS * hosts // max(HOSTS), known)
        if max(_shares(peak).values()) > 1:
            broken = [
                f"{name} {share:.0%}"
                for name, share in sorted(_shares(peak).items(), key=lambda one: -one[1])
                if share > 1
            ]
            return [("what gives way next", f"at {hosts:,} hosts: {', '.join(broken)}", _verdict(peak))]
    return [("what gives way next", f"nothing up to {max(FURTHER):,} hosts", "-")]


def _sizes(known: Facts) -> list[Row]:
    peak = simulate(max(HOSTS), TASKS, known)
    noon = _spent(known, hosts=max(HOSTS), busy=max(HOSTS), tasks=2 * TASKS / DAY)
    growth = TASKS * known.lines * LINE_BYTES / 1e9
    return [
        ("1,000 hosts: busiest moment", f"{peak.running:,} sessions, {peak.waiting:,} tasks waiting", f"{peak.done:,} done in the day"),
        ("1,000 hosts: cores of the server at noon", ", ".join(f"{name} {cores:.2f}" for name, cores in noon.items()), f"of {CORES}"),
        ("1,000 hosts: journal a day", f"{TASKS * known.lines / 1e6:.1f} million lines, {growth:.1f} GB", "handoff prune"),
    ]  # fmt: skip
