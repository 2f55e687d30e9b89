"""Gates: a row that waits for a person, answered once."""

from __future__ import annotations

import pytest

from handoff.base.errors import Conflict, UserError
from handoff.board import gates, leases, outcomes, tasks, watchdog
from handoff.board.sessions import Who


@pytest.fixture
def held(database):
    task = tasks.add(database, project="shop", id="login", brief="x")
    return leases.claim(database, key=task.key, who=Who("s1"))


def test_a_session_that_asks_lets_its_task_go_and_a_yes_makes_it_ready(database, held):
    gates.ask(database, key=held.task.key, fence=held.fence, question="Ship it?")
    assert tasks.get(database, key=held.task.key).state == "gated"
    assert leases.claim_next(database, who=Who("s2")) is None
    (waiting,) = gates.listing(database)
    assert (waiting.task, waiting.gate.question) == ("login", "Ship it?")
    assert gates.approve(database, key=held.task.key, answered_by="ann").task.state == "ready"
    assert gates.listing(database) == []
    assert leases.claim_next(database, who=Who("s2")).fence == 2


def test_a_yes_may_be_the_end(database, held):
    gates.ask(database, key=held.task.key, fence=held.fence, question="All there?", on_yes="done")
    assert gates.approve(database, key=held.task.key).task.state == "done"


def test_a_no_blocks_with_the_reason_and_a_retry_goes_on(database, held):
    gates.ask(database, key=held.task.key, fence=held.fence, question="Ship it?")
    assert gates.reject(database, key=held.task.key, reason="no tests").task.reason == "rejected: no tests"
    assert outcomes.retry(database, key=held.task.key).task.state == "ready"


@pytest.mark.parametrize("second", ["approve", "reject"])
def test_the_second_answer_is_refused_and_names_the_first(database, held, second):
    gates.ask(database, key=held.task.key, fence=held.fence, question="Ship it?")
    gates.approve(database, key=held.task.key, answered_by="ann")
    answer = {"approve": gates.approve, "reject": lambda *a, **k: gates.reject(*a, **k, reason="no")}[second]
    with pytest.raises(Conflict, match="already approved by ann"):
        answer(database, key=held.task.key)
    assert tasks.get(database, key=held.task.key).state == "ready"


def test_only_who_holds_the_fence_may_ask(database, held):
    with pytest.raises(Conflict, match="Your fence 7 is old"):
        gates.ask(database, key=held.task.key, fence=7, question="?")
    with pytest.raises(Conflict, match="waits for nobody"):
        gates.approve(database, key=held.task.key)


def test_a_no_needs_a_reason_and_a_yes_a_known_end(database, held):
    gates.ask(database, key=held.task.key, fence=held.fence, question="Ship it?")
    with pytest.raises(UserError, match="Say why"):
        gates.reject(database, key=held.task.key, reason=" ")
    with pytest.raises(UserError, match="ready or done"):
        gates.ask(database, key=held.task.key, question="?", on_yes="running")
    assert gates.of_task(database, key=held.task.key).state == "open"


def test_a_cancelled_task_leaves_no_gate_open(database, held):
    gates.ask(database, key=held.task.key, fence=held.fence, question="Ship it?")
    outcomes.cancel(database, key=held.task.key)
    assert gates.listing(database) == []
    with pytest.raises(Conflict):
        gates.approve(database, key=held.task.key)


def test_a_gate_nobody_answers_is_told_once(database, held):
    gates.ask(database, key=held.task.key, fence=held.fence, question="Ship it?", due_seconds=60)
    assert watchdog.scan(database).quiet
    database.shift += 61
    assert [gate.question for gate in watchdog.scan(database).overdue_gates] == ["Ship it?"]
    assert watchdog.scan(database).quiet
    assert gates.approve(database, key=held.task.key).task.state == "ready"
