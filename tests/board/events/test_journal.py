"""The journal: only added to, read from any line on."""

from __future__ import annotations

import pytest

from handoff.board.events import journal
from handoff.board.sessions import leases, pauses, sessions
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import outcomes, questions, tasks


def test_a_reader_goes_on_where_it_stopped(database):
    for name in ("one", "two", "three"):
        tasks.add(database, project="shop", id=name, brief="x")
    first, *_ = journal.since(database)
    assert [event.task_id for event in journal.since(database, seq=first.seq)] == ["two", "three"]
    assert [event.task_id for event in journal.since(database, limit=2)] == ["one", "two"]
    assert [event.task_id for event in journal.last(database, limit=2)] == ["two", "three"]


def test_a_project_sees_its_own_lines(database):
    tasks.add(database, project="shop", id="one", brief="x")
    tasks.add(database, project="bank", id="two", brief="x")
    assert [event.task_id for event in journal.since(database, project="bank")] == ["two"]
    assert [event.task_id for event in journal.last(database, project="shop")] == ["one"]


def test_every_kind_is_a_noun_and_a_past(database):
    task = tasks.add(database, project="shop", id="one", brief="x")
    leases.claim(database, key=task.key, who=SessionIdentity("s1"))
    outcomes.block(database, key=task.key, fence=1, reason="no key")
    pauses.pause(database)
    pauses.resume(database)
    sessions.end(database, id="s1")
    kinds = [event.kind for event in journal.since(database)]
    assert kinds == [
        "task.added", "session.started", "task.claimed", "task.blocked", "claims.stopped", "claims.resumed",
        "session.ended",
    ]  # fmt: skip
    assert [event.body.get("reason") for event in journal.of_task(database, key=task.key)] == [None, None, "no key"]


def test_a_line_belongs_to_the_transaction_that_makes_it_true(database):
    mark = journal.since(database)

    def fail():
        with database.transaction() as transaction:
            journal.append(transaction, "task.added", project="shop")
            transaction.query("no_such_query")

    with pytest.raises(KeyError):
        fail()
    assert journal.since(database) == mark


def test_a_message_is_taken_once_and_in_order(database):
    first = questions.post_message(database, kind="advance", project="shop", body={"phase": "green"})
    questions.post_message(database, kind="advance", project="shop")
    assert [message.key for message in questions.unread_messages(database)] == [first.key, first.key + 1]
    assert questions.take_message(database, key=first.key, taken_by="one").body == '{"phase": "green"}'
    assert questions.take_message(database, key=first.key, taken_by="two") is None
    assert [message.key for message in questions.unread_messages(database)] == [first.key + 1]
