"""Gates: a row that waits for a person, answered once."""

from __future__ import annotations

import pytest

from handoff.base.errors import Conflict, UserError
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import leases, watchdog
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import outcomes, questions, tasks


@pytest.fixture
def held(database):
    task = tasks.add(database, project="shop", id="login", brief="x")
    return leases.claim(database, key=task.key, who=SessionIdentity("s1"))


def test_a_session_that_asks_lets_its_task_go_and_a_yes_makes_it_ready(database, held):
    gates.ask(database, key=held.task.key, fence=held.fence, question="Ship it?")
    assert tasks.get(database, key=held.task.key).state == "gated"
    assert leases.claim_next(database, who=SessionIdentity("s2")) is None
    (waiting,) = gates.listing(database)
    assert (waiting.task, waiting.gate.question) == ("login", "Ship it?")
    assert gates.approve(database, key=held.task.key, answered_by="ann").task.state == "ready"
    assert gates.listing(database) == []
    assert leases.claim_next(database, who=SessionIdentity("s2")).fence == 2


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


@pytest.mark.parametrize(("fallback", "state"), [("yes", "ready"), ("no", "blocked")])
def test_when_the_time_is_up_what_was_agreed_on_counts_once_and_the_journal_says_so(database, held, fallback, state):
    gates.ask(database, key=held.task.key, fence=held.fence, question="Ship it?", due_seconds=60, fallback=fallback)
    assert watchdog.scan(database).quiet
    database.shift += 61
    report = watchdog.scan(database)
    assert ([gate.question for gate in report.defaulted_gates], report.overdue_gates) == (["Ship it?"], ())
    assert tasks.get(database, key=held.task.key).state == state
    gate = gates.of_task(database, key=held.task.key)
    assert (gate.answered_by, "nobody answered" in gate.reason) == ("the time limit", True)
    (event,) = [one for one in journal.of_task(database, key=held.task.key) if one.kind in gate_ends]
    assert event.body["by_default"] is True
    assert watchdog.scan(database).quiet
    with pytest.raises(Conflict, match=r"already \w+ by the time limit"):
        gates.approve(database, key=held.task.key)


gate_ends = ("gate.approved", "gate.rejected")


def test_a_default_needs_a_time_and_is_yes_or_no(database, held):
    with pytest.raises(UserError, match="needs a time"):
        gates.ask(database, key=held.task.key, fence=held.fence, question="?", fallback="yes")
    with pytest.raises(UserError, match="yes, no or one of the choices"):
        gates.ask(database, key=held.task.key, fence=held.fence, question="?", fallback="perhaps", due_seconds=5)
    assert tasks.get(database, key=held.task.key).state == "running"


def test_a_question_with_choices_takes_any_words_and_its_default_may_be_a_choice(database, held):
    gates.ask(
        database,
        key=held.task.key,
        fence=held.fence,
        question="Which?",
        choices=["a", "b"],
        due_seconds=5,
        fallback="b",
    )
    (waiting,) = gates.listing(database)
    assert (waiting.gate.open_ended, waiting.gate.offered) == (True, ("a", "b"))
    assert waiting.gate.commands("login") == ["answer login a", "answer login b", "answer login 'YOUR ANSWER'"]
    database.shift += 6
    watchdog.scan(database)
    (answer,) = questions.answers_of(database, key=held.task.key)
    assert (answer.answer, answer.answered_by) == ("b", gates.TIME_IS_UP)
    assert tasks.get(database, key=held.task.key).state == "ready"


def test_an_answer_in_time_keeps_the_default_from_counting(database, held):
    gates.ask(database, key=held.task.key, fence=held.fence, question="Ship it?", due_seconds=60, fallback="no")
    gates.approve(database, key=held.task.key, answered_by="ann")
    database.shift += 61
    assert watchdog.scan(database).quiet
    assert tasks.get(database, key=held.task.key).state == "ready"


def test_a_yes_may_bring_the_text_as_it_is_to_be(database, held):
    gates.ask(database, key=held.task.key, fence=held.fence, question="This spec?", subject="old text")
    gates.approve(database, key=held.task.key, answered_by="ann", answer="new text")
    (said,) = questions.answers_of(database, key=held.task.key)
    assert (said.question, said.state, said.answer) == ("This spec?", "approved", "new text")


def test_a_code_finds_its_gate_once_and_no_list_shows_it(database, held):
    gate = gates.ask(database, key=held.task.key, fence=held.fence, question="Ship it?")
    assert len(gate.code) > 18
    assert gate.code not in str(gate.shown())
    assert gates.by_code(database, code=gate.code).key == gate.key
    gates.approve(database, key=held.task.key)
    with pytest.raises(Conflict, match="was used"):
        gates.by_code(database, code=gate.code)
    for wrong in ("", "nonsense"):
        assert gates.by_code(database, code=wrong) is None
    assert not [event for event in journal.since(database) if gate.code in str(event)]
