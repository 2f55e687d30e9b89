"""Outcomes: done once, blocked with a reason, cancelled for good, tried again."""

from __future__ import annotations

import pytest

from handoff.base.errors import Conflict, UserError
from handoff.board.events import journal
from handoff.board.sessions import leases
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import batches, cards, outcomes, tasks


def add(database, name, **more):
    return tasks.add(database, project="shop", id=name, brief="x", **more)


def state(database, name):
    return tasks.find(database, project="shop", id=name).state


def test_a_repeated_report_changes_nothing(database):
    task = add(database, "login")
    leases.claim(database, key=task.key, who=SessionIdentity("s1"))
    first = outcomes.finish(database, key=task.key, fence=1, summary="one", evidence={"tests": 12})
    again = outcomes.finish(database, key=task.key, fence=1, summary="two")
    assert (first.repeated, again.repeated, again.task) == (False, True, first.task)
    assert [event.kind for event in journal.since(database)].count("task.finished") == 1
    assert '"tests": 12' in first.task.evidence


def test_a_blocked_task_is_not_done_by_the_session_that_blocked_it(database):
    task = add(database, "login")
    leases.claim(database, key=task.key, who=SessionIdentity("s1"))
    outcomes.block(database, key=task.key, fence=1, reason="no key")
    assert outcomes.block(database, key=task.key, fence=1, reason="no key").repeated
    with pytest.raises(Conflict, match=r"it is blocked \(no key\)"):
        outcomes.finish(database, key=task.key, fence=1)
    assert state(database, "login") == "blocked"


def test_a_block_without_a_reason_is_refused(database):
    task = add(database, "login")
    with pytest.raises(UserError, match="Say why"):
        outcomes.block(database, key=task.key, reason="  ")
    assert state(database, "login") == "ready"


def test_a_person_may_finish_what_nobody_works_on_but_not_what_a_session_holds(database):
    task = add(database, "login")
    leases.claim(database, key=task.key, who=SessionIdentity("s1"))
    with pytest.raises(Conflict, match="session s1"):
        outcomes.finish(database, key=task.key)
    with pytest.raises(Conflict, match="session s1"):
        outcomes.block(database, key=task.key, reason="x")
    leases.release(database, key=task.key, fence=1)
    assert outcomes.finish(database, key=task.key).task.state == "done"


def test_a_blocked_task_leaves_its_followers_waiting_and_a_retry_lets_them_come(database):
    first = add(database, "one")
    add(database, "two", after=["one"])
    outcomes.block(database, key=first.key, reason="no key")
    assert state(database, "two") == "waiting"
    assert outcomes.retry(database, key=first.key).task.state == "ready"
    outcomes.finish(database, key=first.key)
    assert state(database, "two") == "ready"


def test_a_cancelled_task_blocks_what_waits_for_it_and_what_waits_for_that(database):
    first = add(database, "one")
    add(database, "two", after=["one"])
    add(database, "three", after=["two"])
    outcome = outcomes.cancel(database, key=first.key, reason="not wanted")
    assert [(task.id, task.reason) for task in outcome.stranded] == [
        ("two", "it needs 'one', which is cancelled"),
        ("three", "it needs 'one', which is cancelled"),
    ]
    second = tasks.find(database, project="shop", id="two")
    assert outcomes.retry(database, key=second.key).task.state == "ready"


def test_a_cancelled_task_refuses_the_session_that_worked_on_it(database):
    task = add(database, "login")
    leases.claim(database, key=task.key, who=SessionIdentity("s1"))
    outcomes.cancel(database, key=task.key, reason="not wanted")
    assert outcomes.cancel(database, key=task.key).repeated
    for write in (leases.heartbeat, outcomes.finish, leases.release):
        with pytest.raises(Conflict, match=r"it is cancelled \(not wanted\)"):
            write(database, key=task.key, fence=1)
    assert leases.claim_next(database, who=SessionIdentity("s1")) is None


def test_what_is_done_cannot_be_cancelled_or_tried_again(database):
    task = add(database, "login")
    outcomes.finish(database, key=task.key)
    with pytest.raises(Conflict, match="already done"):
        outcomes.cancel(database, key=task.key)
    with pytest.raises(Conflict, match="only a blocked task"):
        outcomes.retry(database, key=task.key)


def test_a_retry_gives_all_attempts_back(database):
    task = add(database, "login", max_attempts=1)
    outcomes.block(database, key=task.key, reason="x")
    again = outcomes.retry(database, key=task.key).task
    assert (again.attempt, again.reason, again.held_by) == (1, "", None)


def test_a_finished_part_that_is_sent_back_makes_its_fan_in_wait_again(database):
    parts = [batches.SubTask(id=name, brief=name) for name in ("one", "two")]
    batch = batches.open_batch(
        database, project="shop", id="login", sub_tasks=parts, fan_in=batches.SubTask(id="join", brief="join")
    )
    for name in ("one", "two"):
        outcomes.finish(database, key=tasks.find(database, project="shop", id=name, batch="login").key)
    fan_in = tasks.get(database, key=batch.fan_in)
    assert fan_in.state == "ready"
    one = tasks.find(database, project="shop", id="one", batch="login")
    back = outcomes.send_back(database, key=one.key, reason="red with the others")
    assert (back.task.state, back.task.reason, back.task.attempt) == ("ready", "red with the others", 1)
    assert tasks.get(database, key=batch.fan_in).state == "waiting"
    with pytest.raises(Conflict, match="only a finished part"):
        outcomes.send_back(database, key=one.key, reason="again")
    assert outcomes.finish(database, key=one.key).fan_in.state == "ready", "the fan-in comes when it is done again"
    outcomes.finish(database, key=batch.fan_in)
    with pytest.raises(Conflict, match="has not landed"):
        outcomes.send_back(database, key=one.key, reason="too late")


def test_what_landed_and_was_taken_back_is_known_and_a_task_of_its_own_may_be_done_again(database):
    parts = [batches.SubTask(id=name, brief=name) for name in ("one", "two")]
    batch = batches.open_batch(
        database, project="shop", id="login", sub_tasks=parts, fan_in=batches.SubTask(id="join", brief="join")
    )
    keys = [tasks.find(database, project="shop", id=name, batch="login").key for name in ("one", "two")]
    for key in keys:
        outcomes.finish(database, key=key)
    outcomes.finish(database, key=batch.fan_in, evidence={"landed": "b" * 40, "parts": []})
    alone = add(database, "alone")
    outcomes.finish(database, key=alone.key, evidence={"landed": "a" * 40})

    def looks():
        return {card.label: card.outcome for card in cards.listing(database, since=0.0)}

    def mark(commit, *some, undone):
        found = outcomes.mark_landing(database, keys=some, landed=commit * 40, undone=undone)
        return [task.label for task in found]

    there = dict.fromkeys(("login/one", "login/two", "join", "alone"), "landed")
    assert mark("a", alone.key, undone=True) == ["alone"]
    assert mark("a", alone.key, undone=True) == [], "once is enough"
    assert mark("c", keys[0], undone=True) == ["login/one"], "a late part landed alone"
    assert looks() == {**there, "login/one": "undone", "alone": "undone"}
    assert mark("b", *keys, undone=True) == ["login/two", "join"]
    assert looks() == dict.fromkeys(there, "undone")
    for key in (keys[0], batch.fan_in):
        with pytest.raises(Conflict, match="landed with its batch"):
            outcomes.retry(database, key=key)
    again = outcomes.retry(database, key=alone.key).task
    assert (again.state, again.reason, again.ended_at) == ("ready", "its landing was taken back", None)
    assert mark("a", alone.key, undone=False) == [], "it is under way anew"
    assert mark("b", *keys, undone=False) == ["login/one", "login/two", "join"]
    assert looks() == {**there, "alone": ""}
    with pytest.raises(Conflict, match="only a blocked task"):
        outcomes.retry(database, key=batch.fan_in)
