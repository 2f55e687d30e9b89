"""The watchdog: finds what is ill, fixes it once, and costs nothing for what is well."""

from __future__ import annotations

import pytest

from handoff.board.events import journal
from handoff.board.sessions import leases, sessions, watchdog
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.sessions.watchdog import Process
from handoff.board.tasks import batches, outcomes, tasks
from handoff.board.tasks.batches import SubTask


def add(database, name, **more):
    return tasks.add(database, project="shop", id=name, brief="x", **more)


def open_batch(database, name="split", **more):
    return batches.open_batch(
        database, project="shop", id=name, sub_tasks=[SubTask("api", "x"), SubTask("ui", "x")],
        fan_in=SubTask(f"{name}-join", "x"), **more,
    )  # fmt: skip


def test_a_healthy_board_gives_a_quiet_report_and_no_line_in_the_journal(database):
    open_batch(database)
    leases.claim_next(database, who=SessionIdentity("s1"))
    before = journal.since(database)
    assert watchdog.scan(database, host="here", is_alive=lambda _: True, deep=True).quiet
    assert journal.since(database) == before


def test_a_dead_process_frees_its_task_before_the_lease_ends(database):
    for name in ("dead", "alive", "elsewhere", "nameless"):
        add(database, name)
    asked = []
    people = [
        SessionIdentity("s-dead", host="here", boot="b1", pid=41, process_start="100"),
        SessionIdentity("s-alive", host="here", boot="b1", pid=42, process_start="200"),
        SessionIdentity("s-elsewhere", host="there", boot="b2", pid=41, process_start="100"),
        SessionIdentity("s-nameless", host="here"),
    ]
    for who in people:
        leases.claim_next(database, who=who)

    def is_alive(process):
        asked.append(process)
        return process.pid != 41

    report = watchdog.scan(database, host="here", is_alive=is_alive)
    assert [(task.id, task.reason, task.attempt) for task in report.freed] == [
        ("dead", "its process 41 on here is gone", 1)
    ], "nothing is known of the agent"
    assert sorted(asked) == [Process("here", "b1", 41, "100"), Process("here", "b1", 42, "200")]
    assert sessions.get(database, id="s-dead").ending == "its process 41 on here is gone"
    assert watchdog.scan(database, host="here", is_alive=is_alive).quiet


def test_what_ran_before_its_host_was_restarted_is_free_again_and_charged_to_nobody(database):
    add(database, "before", max_attempts=1)
    add(database, "silent")
    for name, boot in (("s-before", "b1"), ("s-silent", "b2")):
        leases.claim_next(database, who=SessionIdentity(name, host="here", boot=boot), lease_seconds=60)
    database.shift += 61
    report = watchdog.scan(database, host="here", boot="b2")
    assert [(task.id, task.reason, task.attempt) for task in report.freed] == [
        ("before", "here was restarted", 1),
        ("silent", "no sign of life before the lease ended", 2),
    ]


def test_a_sign_of_life_between_look_and_deed_keeps_the_task(database):
    task = add(database, "login")
    leases.claim(database, key=task.key, who=SessionIdentity("s1"), lease_seconds=60)
    database.shift += 61
    seen = tasks.get(database, key=task.key)
    leases.heartbeat(database, key=task.key, fence=1)
    assert leases.hand_back(database, task=seen, reason="x") is None
    assert tasks.get(database, key=task.key).state == "running"


def test_a_fan_in_that_is_due_and_was_not_opened_is_opened_once(database):
    batch = open_batch(database)
    with database.transaction() as transaction:
        transaction.execute("set_remaining", key=batch.key, remaining=0)
    assert [task.id for task in watchdog.scan(database).opened_fan_ins] == ["split-join"]
    assert watchdog.scan(database).quiet


def test_a_deep_look_puts_a_wrong_counter_right(database):
    batch = open_batch(database)
    with database.transaction() as transaction:
        transaction.execute("set_remaining", key=batch.key, remaining=7)
    assert watchdog.scan(database).quiet
    watchdog.scan(database, deep=True)
    assert batches.get(database, key=batch.key).remaining == 2


def test_a_task_that_waits_for_nothing_is_woken(database):
    first = add(database, "one")
    late = add(database, "late", after=["one"])
    with database.transaction() as transaction:
        transaction.execute("lower_one_need", key=late.key)
    assert [task.id for task in watchdog.scan(database).woken] == ["late"]
    assert tasks.get(database, key=first.key).state == "ready"


def test_an_overdue_batch_is_told_once_and_nothing_starts_beside_it(database):
    open_batch(database, timeout_hours=1)
    database.shift += 3601
    report = watchdog.scan(database)
    assert [batch.id for batch in report.overdue_batches] == ["split"]
    assert report.opened_fan_ins == ()
    assert watchdog.scan(database).quiet
    for name in ("api", "ui"):
        outcome = outcomes.finish(database, key=tasks.find(database, project="shop", id=name).key)
    assert outcome.fan_in.id == "split-join"


def test_a_fan_in_nobody_takes_is_told_and_left_alone(database):
    open_batch(database)
    for name in ("api", "ui"):
        outcomes.finish(database, key=tasks.find(database, project="shop", id=name).key)
    assert watchdog.scan(database).quiet
    database.shift += watchdog.FAN_IN_SECONDS + 1
    for _ in range(2):
        assert [task.id for task in watchdog.scan(database).idle_fan_ins] == ["split-join"]
    assert tasks.find(database, project="shop", id="split-join").state == "ready"


def test_a_session_that_holds_nothing_and_is_silent_for_long_is_ended(database):
    sessions.register(database, who=SessionIdentity("idle"))
    add(database, "login")
    leases.claim_next(database, who=SessionIdentity("busy"), lease_seconds=10 * watchdog.SESSION_SECONDS)
    database.shift += watchdog.SESSION_SECONDS + 1
    assert watchdog.scan(database).ended_sessions == ("idle",)
    assert [session.id for session in sessions.listing(database)] == ["busy"]


@pytest.mark.parametrize(
    "query", ["list_expired", "list_idle_fan_ins", "list_joinable_batches", "count_freed", "count_overdue_batches",
              "count_overdue_gates", "list_idle_sessions"],
)  # fmt: skip
def test_every_look_goes_by_an_index_of_ill_rows(place, query):
    """So that its cost does not grow with what is finished or well."""
    if place.kind != "sqlite":  # the planner of Postgres decides by size
        return
    database = place.open()
    values = {"lease_now": 1.0, "limit": 5, "before": 1.0, "now": 1.0}
    plan = database._connection.execute("EXPLAIN QUERY PLAN " + database._queries[query], values).fetchall()
    text = " ".join(row["detail"] for row in plan)
    assert "INDEX" in text, text
    assert "TEMP B-TREE" not in text, text
