"""Behind PgBouncer in transaction mode: no transaction knows which connection it meets, and nothing is left behind on it."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter

import psycopg
import pytest

from databases import Place, empty, quick_folder
from handoff.board.events import journal
from handoff.board.sessions import host_leases, leases, pauses
from handoff.board.sessions.leases import ClaimLimits
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import batches, outcomes, tasks
from handoff.board.tasks.batches import SubTask
from pooler import Pooler

LIMITS = ClaimLimits(3, 0, 0)


@pytest.fixture
def pooled(postgres_server):
    """An address behind a pooler with three connections, and the server's own."""
    direct = Place("postgres", postgres_server.url)
    empty(direct.url)
    with tempfile.TemporaryDirectory(prefix="pb-", dir=quick_folder(), ignore_cleanup_errors=True) as folder:
        pooler = Pooler(folder, postgres_server.url.partition("host=")[2])
        found = Place("postgres", pooler.url)
        yield found, direct
        found.close()
        pooler.stop()
    direct.close()


def test_many_clients_share_few_connections_and_every_promise_holds(pooled):
    place, direct = pooled
    database = place.open()
    for number in range(4):
        parts = [SubTask(f"part-{one}", "x") for one in range(8)]
        batches.open_batch(
            database, project="shop", id=f"split-{number}", sub_tasks=parts, fan_in=SubTask(f"join-{number}", "x")
        )
    done: list[int] = []
    joined: list[str] = []
    most: list[int] = []
    faults: list[BaseException] = []

    def work(me):
        mine = place.open()
        try:
            number = 0
            while tasks.count(mine, state="ready") or tasks.count(mine, state="running"):
                number += 1
                who = [SessionIdentity(f"s{me}-{number:04}-{one}", host="here") for one in range(1 + me % 3)]
                claims = host_leases.claim(mine, who=who, limits=LIMITS)
                with mine.transaction(write=False) as look:
                    most.append(leases.count_running(look, who[0], "")["machine"])
                for claim in claims:
                    leases.heartbeat(mine, key=claim.task.key, fence=claim.fence)
                    outcome = outcomes.finish(mine, key=claim.task.key, fence=claim.fence)
                    done.append(claim.task.key)
                    joined.extend([outcome.fan_in.id] if outcome.fan_in else [])
        except BaseException as fault:  # noqa: BLE001 - told to the test's own thread
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not faults, faults
    assert set(Counter(done).values()) == {1}
    assert len(done) == 4 * 9
    assert sorted(joined) == [f"join-{number}" for number in range(4)]
    assert max(most) <= LIMITS.machine
    with psycopg.connect(direct.url) as raw:
        row = raw.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'handoff'").fetchone()
        assert row is not None
        assert row[0] <= 3, "eight clients, three connections"
        assert raw.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    lines = journal.since(direct.open(), limit=10_000)
    assert Counter(event.kind for event in lines)["task.finished"] == 4 * 9


def test_nothing_of_ours_stays_on_a_connection_that_others_use(pooled):
    place, _ = pooled
    database = place.open()
    tasks.add(database, project="shop", id="login", brief="x")
    pauses.pause(database)
    leases.claim_next(database, who=SessionIdentity("one", host="here"))
    for _ in range(4):  # whichever of the connections it is
        with psycopg.connect(place.url, autocommit=True, prepare_threshold=None) as other:
            shown = [
                other.execute(f"SHOW {name}".encode()).fetchone() for name in ("search_path", "lock_timeout", "jit")
            ]
            assert shown == [('"$user", public',), ("0",), ("on",)]
            assert other.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)


def test_who_waits_for_a_change_behind_a_pooler_is_told(pooled):
    place, _ = pooled
    reader, writer = place.open(), place.open()
    reader.wait_for_change(0)
    assert not reader.wait_for_change(0.02)
    tasks.add(writer, project="shop", id="login", brief="x")
    assert reader.wait_for_change(5)
