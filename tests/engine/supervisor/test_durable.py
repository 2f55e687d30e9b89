"""The contract of whatever runs the phases, on both databases and with real processes; and what is dbos alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading

import pytest
import sqlalchemy as sa

from durable_process import engine_at
from handoff.base.clock import SystemClock
from handoff.base.errors import UserError
from handoff.board.sessions import executors
from handoff.engine.supervisor import durable, runs
from sandbox import WARM_HEAVY
from source import ROOT, read
from warm import Call

on_server = pytest.mark.parametrize("place", ["postgres"], indirect=True)
beside_a_file = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
PROCESS = os.path.join(ROOT, "tests", "support", "durable_process.py")


@pytest.fixture
def spot(place, tmp_path):
    """A fresh database for both the store and the engine."""
    if place.kind == "postgres":
        import psycopg

        with psycopg.connect(place.url, autocommit=True) as connection:
            connection.execute("SET client_min_messages = warning")
            connection.execute("DROP SCHEMA IF EXISTS dbos CASCADE")
    return place


@pytest.fixture
def engine(spot, tmp_path):
    """The engine in this process, with one kind of work that records what it was given."""
    spot.seen = []
    store = spot.open()
    found = engine_at(spot.url, store, executor=runs.new_executor_id("here", os.getpid()), folder=str(tmp_path))

    def work(value: str) -> str:
        spot.seen.append(found.step("one", value.upper))
        return value

    spot.inside, spot.go_on, spot.left = threading.Event(), threading.Event(), threading.Event()
    spot.may_end = threading.Event()
    spot.may_end.set()

    def first() -> None:
        spot.seen.append("first")
        spot.inside.set()
        spot.go_on.wait(60)

    def two_steps() -> None:
        try:
            found.step("first", first)
            found.step("second", lambda: spot.seen.append("second"))
        finally:
            spot.left.set()
            assert spot.may_end.wait(60)

    def falls() -> None:
        raise ZeroDivisionError

    found.launch({"work": work, "two steps": two_steps, "falls": falls})
    found.store = store
    yield found
    found.close()


def start(spot, folder, *words):
    """The process of the tests' support, forked where that can be: the engine alone takes a second to import."""
    arguments = (spot.url, str(folder), *words)
    forked = WARM_HEAVY.start(Call(arguments, os.getcwd(), dict(os.environ), PROCESS), speaks=True)
    return forked or subprocess.Popen(
        [sys.executable, PROCESS, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finished(process):
    out, err = process.communicate(timeout=100)
    return process.returncode, out.decode().strip(), err.decode()


def steps(folder):
    return (folder / "steps").read_text().splitlines()


def rows(spot, text):
    """What stands in the engine's own tables."""
    if spot.kind == "postgres":
        import psycopg

        with psycopg.connect(spot.url) as connection:
            return connection.execute(text.replace("FROM ", "FROM dbos.").encode()).fetchall()
    import sqlite3

    connection = sqlite3.connect(spot.url.removeprefix("sqlite:///"))
    try:
        return connection.execute(text).fetchall()
    finally:
        connection.close()


def drained(engine, but=()):
    """Wait until the engine has nothing left, by asking it."""
    clock = SystemClock()
    while [work.id for work in engine.listing() if work.id not in but]:
        engine.nudge()
        clock.sleep(0.02)


def test_work_and_our_rows_are_committed_together_or_not_at_all(engine, spot):
    with pytest.raises(KeyError), engine.store.transaction() as transaction:  # noqa: PT012 - the block is the subject
        transaction.query("post_inbox", kind="lost", project="", task=None, body="{}", now=1.0)
        engine.enqueue(transaction, name="work", id="lost", values=("lost",))
        raise KeyError
    with engine.store.transaction() as transaction:
        transaction.query("post_inbox", kind="kept", project="", task=None, body="{}", now=1.0)
        engine.enqueue(transaction, name="work", id="kept", values=("kept",))
    drained(engine)
    with engine.store.transaction(write=False) as transaction:
        assert [row["kind"] for row in transaction.query("read_inbox", limit=9)] == ["kept"]
    assert spot.seen == ["KEPT"]
    assert [work.id for work in engine.listing(live=False)] == ["kept"]


def test_the_same_id_runs_once_however_often_it_is_asked_for(engine, spot):
    for _ in range(3):
        with engine.store.transaction() as transaction:
            engine.enqueue(transaction, name="work", id="t1:work:1", values=("once",))
        drained(engine)
    assert spot.seen == ["ONCE"]


def test_what_has_ended_is_forgotten_without_a_trace(engine, spot):
    with engine.store.transaction() as transaction:
        engine.enqueue(transaction, name="work", id="old", values=("old",))
    drained(engine)
    now = SystemClock().now()
    assert engine.delete(before=now - 3600) == 0
    assert engine.delete(before=now + 3600) == 1
    for table in ("run",) if spot.kind == "sqlite" else ("workflow_status", "operation_outputs"):
        assert rows(spot, f"SELECT count(*) FROM {table}") == [(0,)]


def test_a_run_that_falls_is_over_and_harms_no_other(engine, spot):
    with engine.store.transaction() as transaction:
        engine.enqueue(transaction, name="falls", id="falls", values=())
        engine.enqueue(transaction, name="work", id="stands", values=("stands",))
    drained(engine)
    assert spot.seen == ["STANDS"]
    assert sorted(work.id for work in engine.listing(live=False)) == ["falls", "stands"]


def test_what_another_has_taken_over_goes_no_further_than_its_present_step_here(engine, spot):
    with engine.store.transaction() as transaction:
        engine.enqueue(transaction, name="two steps", id="frozen", values=())
    engine.nudge()
    assert spot.inside.wait(60)
    assert engine.recover(engine.executor) == 1, "as another does that thinks us dead"
    assert [work.id for work in engine.listing()] == ["frozen"], "it waits for the other"
    spot.go_on.set()
    assert spot.left.wait(60)
    assert spot.seen == ["first"]
    drained(engine)
    assert spot.seen == ["first", "first", "second"], "the other does it from where it was recorded"


@beside_a_file
def test_what_was_taken_away_and_came_back_before_its_run_had_ended_is_done_all_the_same(engine, spot):
    with engine.store.transaction() as transaction:
        engine.enqueue(transaction, name="two steps", id="back", values=())
    spot.may_end.clear()
    engine.nudge()
    assert spot.inside.wait(60)
    engine.recover(engine.executor)
    spot.go_on.set()
    assert spot.left.wait(60), "its step was not recorded: the row was nobody's then"
    engine.nudge()  # it is ours again, while the run that lost it is about to end
    spot.may_end.set()
    drained(engine)
    assert spot.seen == ["first", "first", "second"]


@on_server
def test_work_that_was_taken_just_before_the_server_went_away_is_begun_when_it_is_back(engine, spot):
    away = []

    def fall(connection, cursor, statement, *rest):
        if away and statement.startswith("SELECT"):  # what it took is read in a second question
            away.pop()
            raise sa.exc.OperationalError(statement, None, RuntimeError("the server is away"))

    sa.event.listen(engine._tables.plain, "before_cursor_execute", fall)
    with engine.store.transaction() as transaction:
        engine.enqueue(transaction, name="two steps", id="runs", values=())
    engine.nudge()
    assert spot.inside.wait(60)
    with engine.store.transaction() as transaction:
        engine.enqueue(transaction, name="work", id="taken", values=("taken",))
    taken = threading.Event()

    def after(connection, cursor, statement, *rest):
        if "workflow_status" in statement and statement.startswith("UPDATE") and not taken.is_set():
            taken.set()
            away.append(1)

    sa.event.listen(engine._tables.plain, "after_cursor_execute", after)
    with pytest.raises(sa.exc.OperationalError):
        engine.nudge()
    drained(engine, but=("runs",))
    assert spot.seen == ["first", "TAKEN"]
    spot.go_on.set()
    assert spot.left.wait(60)
    drained(engine)
    assert spot.seen == ["first", "TAKEN", "second"], "what ran meanwhile was not begun again"
    assert engine._begun == set(), "and nothing is remembered of what is over"


@beside_a_file
def test_work_that_was_taken_and_never_begun_is_begun_at_the_next_look(engine, spot):
    with engine.store.transaction() as transaction:
        engine.enqueue(transaction, name="two steps", id="runs", values=())
    engine.nudge()
    assert spot.inside.wait(60)
    with engine.store.transaction() as transaction:
        engine.enqueue(transaction, name="work", id="taken", values=("taken",))
    executors.take_runs(
        engine.store, queue=engine.queue, version=runs.PROTOCOL, executor=engine.executor
    )  # and no answer came
    drained(engine, but=("runs",))
    assert spot.seen == ["first", "TAKEN"]
    spot.go_on.set()
    assert spot.left.wait(60)
    drained(engine)
    assert spot.seen == ["first", "TAKEN", "second"], "what ran meanwhile was not begun again"


@beside_a_file
def test_a_step_waits_for_a_file_that_another_writes_to_and_is_recorded_then(engine, spot):
    with engine.store.transaction() as transaction:
        engine.enqueue(transaction, name="two steps", id="waits", values=())
    engine.nudge()
    assert spot.inside.wait(60)
    with engine.store.transaction() as transaction:
        transaction.query("post_inbox", kind="long", project="", task=None, body="{}", now=1.0)
        spot.go_on.set()
        assert not spot.left.wait(1.0), "its first step is not recorded yet, so the second does not begin"
        assert spot.seen == ["first"]
    assert spot.left.wait(60)
    assert spot.seen == ["first", "second"]


def test_rows_hold_json_and_our_own_version_never_pickles(engine, spot):
    with engine.store.transaction() as transaction:
        engine.enqueue(transaction, name="work", id="plain", values=("plain",))
    drained(engine)
    if spot.kind == "sqlite":
        found = rows(spot, "SELECT inputs, version, executor FROM run")
        assert found == [('["plain"]', runs.PROTOCOL, engine.executor)]
        return
    ((kind, version, executor),) = rows(
        spot, "SELECT serialization, application_version, executor_id FROM workflow_status"
    )
    assert '"plain"' in str(rows(spot, "SELECT * FROM workflow_input"))
    assert "json" in kind
    assert version == runs.PROTOCOL
    assert executor == engine.executor


@on_server
def test_an_engine_without_work_asks_its_database_for_nothing(engine, spot):
    asked = []
    sa.event.listen(engine._tables.plain, "before_cursor_execute", lambda *words: asked.append(words[2]))
    polling = [one for one in threading.enumerate() if re.search("queue|timeout|scheduler", one.name)]
    while polling:  # each may be in the middle of its first question, and the queue's may begin another
        polling[0].join(60)
        assert not polling[0].is_alive(), polling[0]
        polling = [one for one in threading.enumerate() if re.search("queue|timeout|scheduler", one.name)]
    asked.clear()
    SystemClock().sleep(1.3)  # each of its threads asks every second
    assert asked == []
    assert engine.nudge() == 0
    assert asked != []


PRIVATE = [
    "_core.execute_dequeued_workflow",
    "_dbos.DBOS._recover_pending_workflows",
    "_dbos.DBOS._sys_db",
    "_sys_db.SystemDatabase.get_workflow_statuses",
    "_sys_db.SystemDatabase.reenqueue_for_recovery",
    "_sys_db.SystemDatabase.start_queued_workflows",
]


@pytest.mark.parametrize("name", PRIVATE)
def test_a_private_name_of_the_engine_is_as_it_was_when_it_was_tried(name):
    assert durable.find_changed({name: durable.PRIVATE[name]}) == []


def test_no_other_private_name_is_used_and_each_is_looked_at_before_a_launch():
    assert sorted(durable.PRIVATE) == PRIVATE
    with open(durable.__file__, encoding="utf-8") as file:
        used = set(re.findall(r"(?:self\._dbos|dbos\.DBOS)\.(_\w+)|\b_core\.(\w+)|\brows\.(\w+)", file.read()))
    assert {word for words in used for word in words if word} == {name.rpartition(".")[2] for name in PRIVATE}


@pytest.mark.parametrize(
    ("name", "parameters"), [("_dbos.DBOS._gone", ""), ("_core.execute_dequeued_workflow", "dbos status no_such")]
)
def test_an_engine_that_changed_is_refused_with_its_version_and_the_way_back(name, parameters):
    with pytest.raises(UserError, match=rf"dbos \d.* has changed {re.escape(name)}") as refused:
        durable.refuse_changed({**durable.PRIVATE, name: parameters})
    assert f"pip install dbos=={durable.TESTED}" in refused.value.hint
    assert f"dbos=={durable.TESTED}" in read("constraints.txt").splitlines()


def test_a_fresh_install_takes_no_engine_that_was_not_tried():
    major, minor, _ = map(int, durable.TESTED.split("."))
    assert f'"dbos>={major}.{minor},<{major}.{minor + 1}"' in read("pyproject.toml")


def test_executor_ids_are_never_the_same():
    assert len({runs.new_executor_id("here", 1) for _ in range(100)}) == 100


@pytest.mark.slow
def test_a_killed_process_is_recovered_and_no_finished_step_is_repeated(spot, tmp_path):
    first = start(spot, tmp_path, "die=write", "enqueue=t1:work:1")
    code, executor, _ = finished(first)
    assert code == -9
    code, _, err = finished(start(spot, tmp_path, f"recover={executor}"))
    assert code == 0, err
    assert steps(tmp_path) == [
        "plan enter", "write enter",  # the first process dies here
        "write enter", "check enter", "end t1:work:1 7 plan-write-check",
    ]  # fmt: skip
    code, _, err = finished(start(spot, tmp_path, f"again={executor}", "enqueue=t2:work:1"))
    assert code == 0, err
    assert [line for line in steps(tmp_path)[5:] if "t1" in line] == [], "recovering twice does nothing more"


def test_a_second_process_leaves_the_work_of_the_first_alone(spot, tmp_path):
    first = start(spot, tmp_path, "hold=write", "enqueue=t1:work:1", "stay=1")
    try:
        first.stdout.readline()
        clock = SystemClock()
        while not (tmp_path / "steps").exists() or "write holds" not in steps(tmp_path):
            clock.sleep(0.02)
        code, _, err = finished(start(spot, tmp_path, "enqueue=t2:work:1", "queue=phases@there"))
        assert code == 0, err
    finally:
        first.kill()
        first.communicate()
    assert steps(tmp_path).count("write holds") == 1
    assert [line for line in steps(tmp_path) if line.startswith("end")] == ["end t2:work:1 7 plan-write-check"]


@pytest.mark.slow
def test_eight_first_launches_at_once_all_succeed(spot, tmp_path):
    code, executors, err = finished(start(spot, tmp_path, "enqueue=t", "queue=phases@", "times=8"))
    assert code == 0, err
    assert len(set(executors.splitlines())) == 8
    assert sorted(line for line in steps(tmp_path) if line.startswith("end")) == sorted(
        f"end t{number} 7 plan-write-check" for number in range(8)
    )
    if spot.kind == "sqlite":
        assert rows(spot, "PRAGMA integrity_check") == [("ok",)]
