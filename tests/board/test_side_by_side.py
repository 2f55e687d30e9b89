"""Writers side by side: limits, joins, needs and the journal hold while many processes claim, finish and add at once."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from contextlib import contextmanager

import psycopg
import pytest

from databases import Place, empty
from handoff.board.events import journal
from handoff.board.sessions import executors, leases, pauses
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import batches, outcomes, tasks
from handoff.board.tasks.batches import SubTask
from handoff.store.database import Contended, beside_others

RACE = """
import os, random, sys, time
from handoff.base.clock import SystemClock
from handoff.board.sessions import host_leases, leases
from handoff.board.sessions.leases import ClaimLimits
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import outcomes, tasks
from handoff.store import open_database
url, processes, hosts, machine, project, agent = sys.argv[1], *map(int, sys.argv[2:])
import handoff.store.postgres
limits = ClaimLimits(machine, project, agent)

def run(me):
    database = open_database(url, clock=SystemClock())
    host, name = f"host{me % hosts}", f"agent{me % 3}"
    most = {"machine": 0, "project": 0, "agent": 0}
    number = 0
    while True:
        number += 1
        who = [SessionIdentity(f"s{me:02}-{number:05}-{one}", host=host, agent=name) for one in range(1 + 2 * (me % 2))]
        if me % 2:  # for several places at once; what runs is counted before its own commit
            with database.transaction(scopes=leases.scopes_of(who[0], limits=limits)) as transaction:
                claims = host_leases.claim(transaction, who=who, limits=limits)
                seen = [leases.count_running(transaction, who[0], claim.task.project) for claim in claims]
        else:
            claims = [claim for claim in [leases.claim_next(database, who=who[0], limits=limits)] if claim]
            seen = []
        if not claims:
            if not tasks.count(database, state="ready") and not tasks.count(database, state="running"):
                break
            time.sleep(random.uniform(0.001, 0.004))
            continue
        time.sleep(0.003)  # so that one too many is seen by somebody
        with database.transaction(write=False) as look:
            seen += [leases.count_running(look, who[0], claim.task.project) for claim in claims]
        most = {scope: max([most[scope], *(one[scope] for one in seen)]) for scope in most}
        for claim in claims:
            outcome = outcomes.finish(database, key=claim.task.key, fence=claim.fence)
            print(claim.task.key, outcome.fan_in.id if outcome.fan_in else "-", flush=True)
    print("most", *most.values(), flush=True)

children = []
for me in range(processes):
    child = os.fork()
    if not child:
        run(me)
        os._exit(0)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
sys.exit(max(map(abs, codes)))
"""


@pytest.fixture
def server(postgres_server):
    found = Place("postgres", postgres_server.url)
    empty(found.url)
    yield found
    found.close()


@contextmanager
def threads(*acts):
    """Run them all at once; what one of them raises is the test's."""
    faults: list[BaseException] = []

    def guarded(act):
        try:
            act()
        except BaseException as fault:  # noqa: BLE001 - told to the test's own thread
            faults.append(fault)

    running = [threading.Thread(target=guarded, args=(act,)) for act in acts]
    for thread in running:
        thread.start()
    yield running
    for thread in running:
        thread.join(60)
    assert not faults, faults


# The whole race of the promise is HANDOFF_RACE_BATCHES=477, which is 10,017 tasks.
@pytest.mark.parametrize(
    ("processes", "count"),
    [(16, 10), pytest.param(64, int(os.environ.get("HANDOFF_RACE_BATCHES", "20")), marks=pytest.mark.slow)],
)
@pytest.mark.timeout(3600)
def test_many_processes_never_exceed_a_limit_join_once_and_do_nothing_twice(server, processes, count):
    database = server.open()
    parts = [SubTask(f"part-{number}", "x") for number in range(20)]
    for number in range(count):
        project = f"project-{number % 5}"
        batches.open_batch(
            database, project=project, id=f"split-{number}", sub_tasks=parts, fan_in=SubTask(f"join-{number}", "x")
        )
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    with psycopg.connect(server.url) as raw:
        before = raw.execute(deadlocks).fetchone()
    racer = server.start(RACE, str(processes), "4", "2", "4", "4")
    out, errors = racer.communicate(timeout=3500)
    assert racer.returncode == 0, errors
    lines = [line.split() for line in out.splitlines()]
    done = Counter(line[0] for line in lines if line[0] != "most")
    assert len(done) == count * 21
    assert set(done.values()) == {1}
    joined = Counter(line[1] for line in lines if line[0] != "most" and line[1] != "-")
    assert joined == Counter(f"join-{number}" for number in range(count))
    most = [max(int(line[scope]) for line in lines if line[0] == "most") for scope in (1, 2, 3)]
    assert most == [2, 4, 4], "each limit was reached, and none was exceeded"
    with psycopg.connect(server.url) as raw:
        assert raw.execute(deadlocks).fetchone() == before


def test_tasks_that_end_at_once_wake_whom_they_have_in_common_exactly_once(server):
    database = server.open()
    first = [tasks.add(database, project="shop", id=f"first-{number}", brief="x") for number in range(8)]
    for number in range(10):
        order = [task.id for task in first]
        tasks.add(database, project="shop", id=f"then-{number}", brief="x", after=order if number % 2 else order[::-1])
    held = [leases.claim(database, key=task.key, who=SessionIdentity(f"s-{task.id}")) for task in first]
    woken: list[str] = []

    def finish(claim):
        mine = server.open()
        outcome = outcomes.finish(mine, key=claim.task.key, fence=claim.fence)
        woken.extend(task.id for task in outcome.woken)

    with threads(*(lambda claim=claim: finish(claim) for claim in held)):
        pass
    assert sorted(woken) == [f"then-{number}" for number in range(10)]
    assert {task.state for task in tasks.listing(database)} == {"ready"}


def test_who_comes_after_a_task_that_ends_just_now_is_not_forgotten(server):
    database, other = server.open(), server.open()
    for number in range(60):
        task = tasks.add(database, project="shop", id=f"first-{number}", brief="x")
        claim = leases.claim(database, key=task.key, who=SessionIdentity(f"s{number}"))

        def finish(claim=claim):
            outcomes.finish(database, key=claim.task.key, fence=claim.fence)

        def come_after(number=number):
            tasks.add(other, project="shop", id=f"then-{number}", brief="x", after=[f"first-{number}"])

        with threads(finish, come_after):
            pass
    assert {task.state for task in tasks.listing(database)} == {"ready"}


def test_a_session_that_asks_twice_at_once_gets_one_task(server):
    database = server.open()
    for number in range(8):
        tasks.add(database, project="shop", id=f"task-{number}", brief="x")
    got: list[int] = []

    def ask():
        claim = leases.claim_next(server.open(), who=SessionIdentity("one", host="here"))
        got.append(claim.task.key if claim else 0)

    with threads(*[ask] * 6):
        pass
    assert len(set(got)) == 1
    assert tasks.count(database, state="running") == 1


def test_after_a_stop_has_returned_nothing_is_claimed(server):
    database = server.open()
    for number in range(200):
        tasks.add(database, project="shop", id=f"task-{number}", brief="x")
    stopped = threading.Event()
    late: list[int] = []

    def claim(me):
        mine = server.open()
        for number in range(25):
            after = stopped.is_set()
            claim = leases.claim_next(mine, who=SessionIdentity(f"s{me}-{number}"))
            late.extend([claim.task.key] if claim and after else [])

    with threads(*(lambda me=me: claim(me) for me in range(4))):
        time.sleep(0.05)
        pauses.pause(database)
        stopped.set()
        running = tasks.count(database, state="running")
    assert not late
    assert tasks.count(database, state="running") == running


def test_a_watchdog_and_a_supervisor_that_comes_or_goes_wait_for_no_other_writer(server):
    database, slow = server.open(), server.open()
    for name, attempts in (("again", 3), ("used-up", 1)):
        task = tasks.add(database, project="shop", id=name, brief="x", max_attempts=attempts)
        leases.claim(database, key=task.key, who=SessionIdentity(f"s-{name}"), lease_seconds=60)
    database.shift += 61
    expired, used_up = (tasks.find(database, project="shop", id=name) for name in ("again", "used-up"))
    host = {"host": "here", "boot": "b", "pid": 1, "process_start": "1"}
    with slow.transaction(
        scopes=()
    ):  # whoever wants to be alone would wait for its end, and all others behind that one
        assert executors.begin(database, id="here:1", **host).state == executors.ALIVE
        assert executors.give_up(database, id="here:1")
        assert leases.hand_back(database, task=expired, reason="silent").task.state == "ready"
        assert leases.hand_back(database, task=expired, reason="silent") is None, "another watchdog has been here"
    assert leases.hand_back(database, task=used_up, reason="silent").task.state == "blocked"
    assert leases.hand_back(database, task=used_up, reason="silent") is None


def test_a_reader_waits_for_the_slow_writer_whose_line_comes_first_and_for_nobody_else(server):
    slow, quick, reader = server.open(), server.open(), server.open()
    tasks.add(quick, project="shop", id="before", brief="x")
    with psycopg.connect(server.url) as foreign:
        foreign.execute("CREATE TEMPORARY TABLE busy (x int)")  # a transaction that writes, and is none of ours
        with slow.transaction(scopes=()) as transaction:
            journal.append(transaction, "task.noted", project="shop", which="slow")
            transaction.query("list_pauses")  # the line is written, and not committed
            tasks.add(quick, project="shop", id="after", brief="x")
            assert [event.task_id for event in journal.since(reader)] == ["before"]
            assert [event.task_id for event in journal.last(reader)] == ["before", "after"]
            mark = journal.mark(reader)
            reader.wait_for_change(0)
            assert not reader.wait_for_change(0.02), "there is nothing new that can be read"
        assert reader.wait_for_change(5), "its end is told, although its number was taken long before"
        fresh = journal.since(reader, seq=mark)
        assert [(event.kind, event.task_id) for event in fresh] == [("task.noted", ""), ("task.added", "after")]
        tasks.add(quick, project="shop", id="last", brief="x")
        assert journal.since(reader, seq=fresh[-1].seq)[-1].task_id == "last", "the foreign transaction is still open"


def test_slow_writers_and_those_that_give_up_hide_no_line_from_a_reader(server):
    reader = server.open()
    wrote: list[int] = []

    class GaveUp(Exception):
        pass

    def write(me):
        mine = server.open()
        for number in range(25):
            with_line = number % 5 != 4
            try:
                with mine.transaction(scopes=()) as transaction:
                    journal.append(transaction, "task.noted", project="shop", which=me * 100 + number)
                    transaction.query("list_pauses")
                    time.sleep(0.0007 * ((me * 7 + number * 3) % 11))
                    if not with_line:
                        raise GaveUp  # noqa: TRY301 - out of the block, as a verb that fails
            except GaveUp:
                continue
            wrote.append(me * 100 + number)

    seen: list[journal.Event] = []
    with threads(*(lambda me=me: write(me) for me in range(6))) as running:
        while any(thread.is_alive() for thread in running):
            seen += journal.since(reader, seq=seen[-1].seq if seen else 0)
    seen += journal.since(reader, seq=seen[-1].seq if seen else 0)
    assert Counter(event.body["which"] for event in seen) == Counter(wrote)
    assert [event.seq for event in seen] == sorted(event.seq for event in seen)


def test_who_was_rolled_back_for_another_writer_is_made_again(server):
    database, other = server.open(), server.open()
    keys = [tasks.add(database, project="shop", id=name, brief="x").key for name in ("one", "two")]
    both = threading.Barrier(2, timeout=20)
    tries: list[int] = []
    through = threading.Event()

    @beside_others
    def cross(store, order):
        if order[0] in tries:  # else it could take its row again before the one that waits for it has woken up
            assert through.wait(20)
        tries.append(order[0])
        with store.transaction(scopes=()) as transaction:
            transaction.query("lock_need", key=order[0])
            if tries.count(order[0]) == 1:
                both.wait()
            transaction.execute("lower_one_need", key=order[1])

    def whole(store, order):
        cross(store, order)
        through.set()

    with threads(lambda: whole(database, keys), lambda: whole(other, keys[::-1])):
        pass
    assert len(tries) == 3, "one of the two stood back and came again"
    assert {tasks.get(database, key=key).open_needs for key in keys} == {-1}
    assert issubclass(Contended, Exception)
