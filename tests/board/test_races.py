"""Races and deaths: many processes on one board, killed at every point, and every row still true."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter

import pytest

from handoff.base.errors import Conflict
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import leases, watchdog
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import batches, outcomes, races, tasks
from handoff.board.tasks.batches import SubTask

OPEN = """
import os, sys
from handoff.base.clock import SystemClock
from handoff.base.errors import HandoffError
from handoff.board.sessions import leases
from handoff.board.tasks import batches, outcomes, races, tasks
from handoff.board.tasks.batches import SubTask
from handoff.board.sessions.leases import ClaimLimits
from handoff.board.sessions.sessions import SessionIdentity
from handoff.store import open_database
url, *words = sys.argv[1:]
"""

WORK = (
    OPEN
    + """
database = open_database(url, clock=SystemClock())
print("ready", flush=True)
sys.stdin.readline()
number = 0
while True:
    claim = leases.claim_next(database, who=SessionIdentity(f"{words[0]}-{number}", host="here"))
    if claim is None:
        break
    outcome = outcomes.finish(database, key=claim.task.key, fence=claim.fence)
    print(claim.task.id, claim.fence, outcome.fan_in.id if outcome.fan_in else "-", flush=True)
    number += 1
"""
)


def race(place, code, count, *words):
    """Start `count` processes, let them go at once, and return their lines."""
    racers = [place.start(code, f"racer{number}", *words, stdin=-1) for number in range(count)]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n", racer.stderr.read()
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    lines = []
    for racer in racers:
        out, errors = racer.communicate(timeout=110)
        assert racer.returncode == 0, errors
        assert "locked" not in errors
        lines.append([line.split() for line in out.splitlines()])
    return lines


@pytest.mark.slow
def test_eight_processes_do_1600_tasks_each_exactly_once(place):
    database = place.open()
    parts = [SubTask(f"part-{number}", "x") for number in range(1600)]
    batches.open_batch(database, project="shop", id="split", sub_tasks=parts, fan_in=SubTask("join", "x"))
    lines = [line for racer in race(place, WORK, 8) for line in racer]
    done = Counter(name for name, _, _ in lines)
    assert done == Counter({part.id: 1 for part in parts} | {"join": 1})
    assert {fence for _, fence, _ in lines} == {"1"}
    assert [opened for _, _, opened in lines if opened != "-"] == ["join"]
    found = batches.find(database, project="shop", id="split")
    assert (found.state, found.remaining) == ("done", 0)


def _all_at_once(place, keys):
    """Three threads end the three tasks of each round at the same moment; the fan-ins that opened."""
    barrier = threading.Barrier(3)
    opened: list[str] = []
    faults: list[BaseException] = []

    def finish(which):
        mine = place.open()
        try:
            for keys_of_batch in keys:
                barrier.wait(60)
                outcome = outcomes.finish(mine, key=keys_of_batch[which])
                opened.extend([outcome.fan_in.id] if outcome.fan_in else [])
        except BaseException as fault:  # noqa: BLE001 - told to the test's own thread
            faults.append(fault)
            barrier.abort()
        finally:
            mine.close()

    threads = [threading.Thread(target=finish, args=(which,)) for which in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    return opened


def test_three_that_run_for_a_part_end_at_the_same_moment_and_each_part_is_decided_once(place):
    database = place.open()
    rounds, keys = 40, []
    for number in range(rounds):
        batch = batches.open_batch(
            database, project="shop", id=f"split-{number}", fan_in=SubTask(f"join-{number}", "x"),
            sub_tasks=[SubTask("one", "x", race=("", "", ""))],
        )  # fmt: skip
        keys.append([task.key for task in tasks.of_batch(database, batch=batch.key) if task.kind == "entrant"])
    assert _all_at_once(place, keys) == [], "nothing tells them apart, so a person is asked before anything is joined"
    assert len(gates.listing(database)) == rounds
    for waiting in gates.listing(database):
        gates.approve(database, key=waiting.gate.task, reason="one-2")
    parts = [task for task in tasks.listing(database, state="done") if task.kind == "sub-task"]
    assert [races.facts_of(part)["winner"] for part in parts] == ["one-2"] * rounds
    assert len(tasks.listing(database, state="ready")) == rounds


@pytest.mark.slow
def test_three_hundred_times_three_sub_tasks_end_at_the_same_moment_and_each_batch_joins_once(place):
    database = place.open()
    rounds = 300
    keys = []
    for number in range(rounds):
        batch = batches.open_batch(
            database, project="shop", id=f"split-{number}", fan_in=SubTask(f"join-{number}", "x"),
            sub_tasks=[SubTask(name, "x") for name in ("one", "two", "three")],
        )  # fmt: skip
        keys.append([task.key for task in tasks.of_batch(database, batch=batch.key) if task.kind == "sub-task"])
    opened = _all_at_once(place, keys)
    assert Counter(opened) == Counter(f"join-{number}" for number in range(rounds))
    ready = tasks.listing(database, state="ready")
    assert sorted(task.id for task in ready) == sorted(f"join-{number}" for number in range(rounds))


LIMITED = (
    OPEN
    + """
database = open_database(url, clock=SystemClock())
print("ready", flush=True)
sys.stdin.readline()
claim = leases.claim_next(database, who=SessionIdentity(words[0], host="here", agent="codex"), limits=ClaimLimits(3, 3, 3))
print(claim.task.id if claim else "-")
"""
)


def test_a_limit_holds_when_all_claim_at_once(place):
    database = place.open()
    for number in range(8):
        tasks.add(database, project="shop", id=f"task-{number}", brief="x")
    claimed = [line[0][0] for line in race(place, LIMITED, 8)]
    assert sorted(claimed) == ["-"] * 5 + ["task-0", "task-1", "task-2"]


def test_two_watchdogs_at_once_hand_each_task_back_once(place):
    database = place.open()
    for number in range(20):
        tasks.add(database, project="shop", id=f"task-{number}", brief="x")
        leases.claim_next(database, who=SessionIdentity(f"s{number}"), lease_seconds=60)
    reports = []

    def look():
        mine = place.open()
        mine.shift = 61
        reports.append(watchdog.scan(mine))
        mine.close()

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    freed = Counter(task.id for report in reports for task in report.freed)
    assert freed == Counter(f"task-{number}" for number in range(20))
    assert {task.attempt for task in tasks.listing(database)} == {2}


WRITE = (
    OPEN
    + """
database = open_database(url, clock=SystemClock())
print("ready", flush=True)
sys.stdin.readline()
for number in range(60):
    tasks.add(database, project="shop", id=f"{words[0]}-{number}", brief="x")
"""
)


def test_a_reader_who_follows_the_journal_misses_no_line(place):
    database = place.open()
    racers = [place.start(WRITE, f"racer{number}", stdin=-1) for number in range(4)]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n", racer.stderr.read()
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    seen: list[journal.Event] = []
    while any(racer.poll() is None for racer in racers):
        seen += journal.since(database, seq=seen[-1].seq if seen else 0)
    seen += journal.since(database, seq=seen[-1].seq if seen else 0)
    for racer in racers:
        _, errors = racer.communicate(timeout=60)
        assert racer.returncode == 0, errors
    assert len(seen) == 240
    assert [event.seq for event in seen] == sorted(event.seq for event in seen)


# A store that ends its process before the statement it was told: every place a `kill -9` can hit a verb.
DIE = (
    OPEN
    + '''
import signal
from contextlib import contextmanager

class Dying:
    """Ends the process, as kill -9 does, when the given number of statements has been sent."""

    def __init__(self, inner, left):
        self.inner, self.left = inner, left

    @contextmanager
    def transaction(self, *, write=True, scopes=None):
        if isinstance(self.inner, DyingTransaction):
            yield self
            return
        with self.inner.transaction(write=write, scopes=scopes) as transaction:
            yield DyingTransaction(transaction, self)
        self.step()

    def at_once(self, name, values, **scopes):
        """Step by step, so that there are steps to die at."""

    def step(self):
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1

class DyingTransaction:
    def __init__(self, inner, store):
        self.inner, self.store = inner, store

    def at_once(self, name, values, **scopes):
        """As above."""

    @contextmanager
    def transaction(self, *, write=True, scopes=None):
        yield self

    def __getattr__(self, name):
        if name in ("query", "one", "execute", "execute_many", "put"):
            self.store.step()
        return getattr(self.inner, name)

def scenario(store, number):
    batch = batches.open_batch(
        store, project="shop", id=f"split-{number}", sub_tasks=[SubTask("one", "x"), SubTask("two", "x", depends_on=("one",))],
        fan_in=SubTask(f"join-{number}", "x"),
    )
    for name in (f"split-{number}/one", f"split-{number}/two", f"join-{number}"):
        task = tasks.find(store, project="shop", id=name)
        claim = leases.claim(store, key=task.key, who=SessionIdentity(f"{number}-{name}", host="here"), lease_seconds=60)
        leases.heartbeat(store, key=task.key, fence=claim.fence)
        outcomes.finish(store, key=task.key, fence=claim.fence)

point, stride = 0, int(words[0])
while True:
    child = os.fork()
    if child == 0:
        scenario(Dying(open_database(url, clock=SystemClock()), point), point)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    print(point, code, flush=True)
    if code == 0:
        break
    assert code == -signal.SIGKILL, code
    point += stride
'''
)


@pytest.mark.slow
def test_a_process_killed_at_any_statement_leaves_rows_from_which_the_relay_goes_on(place):
    place.open().close()
    stride = 1 if place.kind == "sqlite" else 7  # a connection to Postgres takes its time
    child = place.start(DIE, str(stride))
    out, errors = child.communicate(timeout=110)
    assert child.returncode == 0, errors
    points = [line.split() for line in out.splitlines()]
    assert len(points) > 60 / stride, "the walk went through the statements of the verbs"
    database = place.open()
    _check_rows(database)
    database.shift += 61
    report = watchdog.scan(database, deep=True)
    assert report.opened_fan_ins == ()
    assert report.woken == ()
    number = 0
    while (claim := leases.claim_next(database, who=SessionIdentity(f"next-{number}"))) is not None:
        outcomes.finish(database, key=claim.task.key, fence=claim.fence)
        number += 1
    assert number > 3
    found = batches.listing(database, include_ended=True)
    assert {batch.state for batch in found} == {"done"}
    joins = Counter(event.batch for event in journal.since(database, limit=100_000) if event.kind == "batch.joined")
    assert joins == Counter(batch.key for batch in found)
    _check_rows(database)


LOOP = (
    OPEN
    + """
database = open_database(url, clock=SystemClock())
number = 0
while True:
    name = f"{words[0]}-{number}"
    tasks.add(database, project="shop", id=name, brief="x" * 500)
    print("added", name, flush=True)
    claim = leases.claim_next(database, who=SessionIdentity(name, host="here"), lease_seconds=60)
    outcomes.finish(database, key=claim.task.key, fence=claim.fence)
    print("done", claim.task.id, flush=True)
    number += 1
"""
)


def test_processes_killed_in_the_middle_of_their_work_lose_nothing_they_were_told(place):
    place.open().close()
    told = []
    for life in range(4):
        racers = [place.start(LOOP, f"life{life}-{number}") for number in range(3)]
        told += [racers[0].stdout.readline() for _ in range(5 + life)]
        for racer in racers:
            os.kill(racer.pid, signal.SIGKILL)
        for racer in racers:
            out, errors = racer.communicate(timeout=60)
            assert racer.returncode == -signal.SIGKILL, errors
            told += [line + "\n" for line in out.split("\n")[:-1]]
    database = place.open()
    states = {task.id: task.state for task in tasks.listing(database, include_ended=True, limit=100_000)}
    for word, name in (line.split() for line in told):
        assert name in states
        assert word == "added" or states[name] == "done"
    _check_rows(database)


def test_a_frozen_session_that_wakes_after_its_task_was_done_again_is_refused(place):
    frozen, database = place.open(), place.open()
    task = tasks.add(database, project="shop", id="login", brief="x")
    old = leases.claim(frozen, key=task.key, who=SessionIdentity("frozen"), lease_seconds=60)
    database.shift += 61
    watchdog.scan(database)
    new = leases.claim(database, key=task.key, who=SessionIdentity("fresh"))
    outcomes.finish(database, key=task.key, fence=new.fence, summary="by the fresh one")
    with pytest.raises(Conflict, match="it is done"):
        outcomes.finish(frozen, key=task.key, fence=old.fence, summary="by the frozen one")
    assert tasks.get(database, key=task.key).result == "by the fresh one"


def _check_rows(database):
    """What must be true of any board at any time."""
    include_ended = tasks.listing(database, include_ended=True, limit=100_000)
    kinds = Counter((event.task, event.kind) for event in journal.since(database, limit=100_000))
    for task in include_ended:
        assert (task.state == "done") == (kinds[task.key, "task.finished"] == 1), task
        assert kinds[task.key, "task.finished"] <= 1
        assert kinds[task.key, "task.claimed"] == task.fence
        assert (task.state == "running") == (task.lease_until is not None)
    for batch in batches.listing(database, include_ended=True):
        parts = [task for task in include_ended if task.batch == batch.key and task.kind == "sub-task"]
        assert len(parts) == batch.total
        assert batch.remaining == sum(1 for task in parts if not task.counted)
        assert (batch.state == "open") == (batch.remaining > 0)
