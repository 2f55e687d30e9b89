"""Leases and fences: one session at a time, silence is noticed, a replaced session is refused."""

from __future__ import annotations

import pytest

from handoff.base.errors import Conflict, HandoffError, Refused, UserError
from handoff.board.events import journal
from handoff.board.sessions import leases, pauses, sessions, watchdog
from handoff.board.sessions.leases import ClaimLimits
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import outcomes, tasks


def add(database, name, **more):
    return tasks.add(database, project=more.pop("project", "shop"), id=name, brief="x", **more)


def who(name, **more):
    return SessionIdentity(name, host=more.pop("host", "here"), **more)


def test_a_claim_gives_the_task_its_next_fence_and_a_lease(database):
    task = add(database, "login")
    claim = leases.claim_next(database, who=who("s1", agent="codex"), lease_seconds=60)
    assert (claim.task.key, claim.fence, claim.task.state) == (task.key, 1, "running")
    assert (claim.task.held_by, claim.task.held_host, claim.task.held_agent) == ("s1", "here", "codex")
    assert leases.claim_next(database, who=who("s2")) is None
    with pytest.raises(Conflict, match="session s1 on here holds it with fence 1"):
        leases.claim(database, key=task.key, who=who("s2"))


def test_the_highest_priority_comes_first_and_then_the_oldest(database):
    for name, priority in (("first", 0), ("second", 0), ("urgent", 5)):
        add(database, name, priority=priority)
    order = [leases.claim_next(database, who=who(f"s{number}")).task.id for number in range(3)]
    assert order == ["urgent", "first", "second"]


def test_a_task_for_later_is_not_claimed_before_its_time(database):
    with database.transaction(write=False) as look:
        start = look.now() + 100
    task = add(database, "later", not_before=start)
    assert leases.claim_next(database, who=who("s1")) is None
    assert leases.why_idle(database, who=who("s1")) == "the ready tasks are to start later"
    with pytest.raises(Refused, match="start later"):
        leases.claim(database, key=task.key, who=who("s1"))
    database.shift += 101
    assert leases.claim_next(database, who=who("s1")).task.id == "later"


def test_a_task_for_an_agent_or_a_role_waits_for_it(database):
    add(database, "for-codex", agent="codex")
    add(database, "red-one", role="red")
    assert leases.claim_next(database, who=who("s1", agent="aider"), role="green") is None
    assert leases.claim_next(database, who=who("s1", agent="codex"), role="green").task.id == "for-codex"
    assert leases.claim_next(database, who=who("s2", agent="aider"), role="red").task.id == "red-one"


def test_a_task_that_a_person_has_is_not_shown_as_the_agents_it_was_for(database):
    named = add(database, "named", agent="codex")
    add(database, "next", agent="codex")
    claim = leases.claim(database, key=named.key, who=who("s1", kind=sessions.TAB))
    following = leases.claim_next(database, who=who("s2", kind=sessions.TAB))
    assert [one.task.held_agent for one in (claim, following)] == ["", ""]


def test_a_session_that_asks_again_gets_the_same_task_and_fence(database):
    add(database, "one")
    add(database, "two")
    first = leases.claim_next(database, who=who("s1"))
    database.shift += 899
    again = leases.claim_next(database, who=who("s1"))
    database.shift += 899
    assert watchdog.scan(database).quiet
    assert (again.task.key, again.fence, again.repeated) == (first.task.key, first.fence, True)
    with pytest.raises(Conflict, match="still holds 'one'"):
        leases.claim(database, key=tasks.find(database, project="shop", id="two").key, who=who("s1"))


@pytest.mark.parametrize(
    ("limits", "session", "expected"),
    [
        (ClaimLimits(machine=1), who("s2"), None),
        (ClaimLimits(machine=1), who("s2", host="there"), "two"),
        (ClaimLimits(project=1), who("s2", host="there"), "other"),
        (ClaimLimits(agent=1), who("s2", host="there", agent="codex"), None),
        (ClaimLimits(agent=1), who("s2", agent="aider"), "two"),
        (ClaimLimits(2, 2, 2), who("s2", agent="codex"), "two"),
    ],
)
def test_limits_are_kept_by_machine_project_and_agent(database, limits, session, expected):
    add(database, "one")
    add(database, "two")
    add(database, "other", project="bank")
    leases.claim_next(database, who=who("s1", agent="codex"), limits=limits)
    claim = leases.claim_next(database, who=session, limits=limits)
    assert (claim.task.id if claim else None) == expected


def test_a_named_claim_over_the_limit_is_refused_with_the_number(database):
    add(database, "one")
    two = add(database, "two")
    leases.claim_next(database, who=who("s1"))
    with pytest.raises(Refused, match="1 task runs already, the most for this project"):
        leases.claim(database, key=two.key, who=who("s2"), limits=ClaimLimits(project=1))
    assert "limit of 1" in leases.why_idle(database, who=who("s2"), project="shop", limits=ClaimLimits(project=1))


def test_a_heartbeat_renews_the_lease(database):
    task = add(database, "login")
    leases.claim(database, key=task.key, who=who("s1"), lease_seconds=60)
    for _ in range(3):
        database.shift += 50
        leases.heartbeat(database, key=task.key, fence=1)
        assert watchdog.scan(database).quiet
    database.shift += 61
    assert [freed.id for freed in watchdog.scan(database).freed] == ["login"]


def test_a_silent_session_loses_its_task_and_a_stale_fence_cannot_write(database):
    task = add(database, "login")
    leases.claim(database, key=task.key, who=who("s1"), lease_seconds=60)
    database.shift += 61
    (freed,) = watchdog.scan(database).freed
    assert (freed.state, freed.attempt) == ("ready", 2)
    assert leases.claim(database, key=task.key, who=who("s2")).fence == 2
    for write in (
        lambda: leases.heartbeat(database, key=task.key, fence=1),
        lambda: leases.release(database, key=task.key, fence=1),
        lambda: outcomes.finish(database, key=task.key, fence=1),
        lambda: outcomes.block(database, key=task.key, fence=1, reason="x"),
        lambda: outcomes.finish(database, key=task.key),
    ):
        with pytest.raises(Conflict, match="session s2 on here holds it with fence 2"):
            write()
    assert outcomes.finish(database, key=task.key, fence=2).task.state == "done"


def test_a_session_thought_dead_may_finish_while_nobody_has_taken_its_task(database):
    task = add(database, "login")
    leases.claim(database, key=task.key, who=who("s1"), lease_seconds=60)
    database.shift += 61
    watchdog.scan(database)
    outcome = outcomes.finish(database, key=task.key, fence=1, summary="late but whole")
    assert (outcome.task.state, outcome.task.result) == ("done", "late but whole")


def test_a_session_thought_dead_gets_its_task_back_by_a_sign_of_life(database):
    task = add(database, "login")
    leases.claim(database, key=task.key, who=who("s1"), lease_seconds=60)
    database.shift += 61
    watchdog.scan(database)
    assert sessions.listing(database) == []
    back = leases.heartbeat(database, key=task.key, fence=1)
    assert (back.state, back.attempt) == ("running", 1), "it was no failed attempt"
    assert [(session.id, session.task) for session in sessions.listing(database)] == [("s1", task.key)]
    assert leases.claim_next(database, who=who("s2")) is None
    assert leases.claim_next(database, who=who("s1")).repeated


def test_when_the_attempts_are_used_up_the_task_is_blocked_with_the_reason(database):
    task = add(database, "login", max_attempts=2)
    for number in (1, 2):
        leases.claim(database, key=task.key, who=who(f"s{number}"), lease_seconds=60)
        database.shift += 61
        report = watchdog.scan(database)
    (blocked,) = report.blocked
    assert blocked.state == "blocked"
    assert blocked.reason == "no sign of life before the lease ended; that was attempt 2 of 2"
    assert outcomes.finish(database, key=task.key, fence=2).task.state == "done"


def test_a_released_task_goes_on_to_the_next_and_the_old_fence_is_gone(database):
    task = add(database, "login")
    leases.claim(database, key=task.key, who=who("s1"))
    freed = leases.release(database, key=task.key, fence=1, reason="lunch")
    assert (freed.state, freed.attempt, freed.held_by) == ("ready", 1, None)
    for write in (leases.heartbeat, leases.release, outcomes.finish):
        with pytest.raises(Conflict, match="has been given back"):
            write(database, key=task.key, fence=1)
    assert leases.claim_next(database, who=who("s1")).fence == 2


def test_a_waiting_task_cannot_be_claimed_and_says_what_it_waits_for(database):
    add(database, "one")
    late = add(database, "late", after=["one"])
    with pytest.raises(Conflict, match="'late' waits for one"):
        leases.claim(database, key=late.key, who=who("s1"))


@pytest.mark.parametrize("length", [0, -1, 1e12, float("inf"), float("nan")])
def test_a_lease_without_a_sensible_length_is_refused_and_nothing_is_claimed(database, length):
    task = add(database, "login")
    with pytest.raises(UserError, match="some seconds"):
        leases.claim(database, key=task.key, who=who("s1"), lease_seconds=length)
    assert tasks.get(database, key=task.key).state == "ready"
    assert sessions.listing(database) == []


@pytest.mark.parametrize(
    "stop",
    [{}, {"scope": "project", "project": "shop"}, {"scope": "task", "project": "shop", "name": "login"}],
    ids=["all", "project", "task"],
)
def test_a_stop_keeps_tasks_from_being_claimed_but_loses_no_result_and_no_new_task(database, stop):
    held = add(database, "held")
    leases.claim(database, key=held.key, who=who("s1"))
    assert pauses.pause(database, reason="deploy", **stop)
    task = add(database, "login")
    with pytest.raises(Refused, match="is stopped: deploy"):
        leases.claim(database, key=task.key, who=who("s2"))
    with pytest.raises(Refused, match="is stopped: deploy"):
        leases.claim(database, key=task.key, who=who("s2"), by_hand=True)
    assert leases.claim_next(database, who=who("s2")) is None
    assert leases.heartbeat(database, key=held.key, fence=1).state == "running"
    assert outcomes.finish(database, key=held.key, fence=1).task.state == "done"
    assert pauses.resume(database, **stop)
    assert leases.claim_next(database, who=who("s2")).task.id == "login"


def test_a_person_takes_what_they_name_past_a_persons_pause_and_past_none_of_handoffs_own(database):
    task = add(database, "login")
    pauses.pause(database, reason="deploy", paused_by="ann")
    with pytest.raises(Refused, match="is stopped: deploy"):
        leases.claim(database, key=task.key, who=who("s1"))
    claim = leases.claim(database, key=task.key, who=who("s1"), by_hand=True)
    leases.release(database, key=task.key, fence=claim.fence)
    pauses.pause(database, scope="project", project="shop", reason="taken in", paused_by=pauses.IMPORT)
    with pytest.raises(Refused, match="is stopped: taken in"):
        leases.claim(database, key=task.key, who=who("s1"), by_hand=True)


def test_values_no_row_can_hold_are_errors_in_words_and_change_nothing(database):
    task = add(database, "login")
    claim = leases.claim(database, key=task.key, who=who("s1"))
    for write in (
        lambda: leases.heartbeat(database, key=task.key, fence=1, lease_seconds=float("nan")),
        lambda: leases.heartbeat(database, key=task.key, fence=1, lease_seconds=-5),
        lambda: leases.heartbeat(database, key=task.key, fence=10**30),
        lambda: outcomes.finish(database, key=task.key, fence=-(10**30)),
        lambda: leases.release(database, key=task.key, fence=1, reason="caf\udce9"),
        lambda: tasks.add(database, project="shop", id="path", brief="x", workspace="/caf\udce9"),
        lambda: tasks.add(database, project="shop", id="much", brief="x", priority=10**30),
    ):
        with pytest.raises(HandoffError):
            write()
    assert tasks.listing(database, include_ended=True) == [claim.task]


def test_each_hand_over_is_a_line_of_the_journal(database):
    task = add(database, "login")
    leases.claim(database, key=task.key, who=who("s1"), lease_seconds=60)
    database.shift += 61
    watchdog.scan(database)
    leases.claim(database, key=task.key, who=who("s2"))
    outcomes.finish(database, key=task.key, fence=2, summary="ok")
    lines = [(event.kind, event.session, event.fence) for event in journal.of_task(database, key=task.key)]
    assert lines == [
        ("task.added", "", 0),
        ("task.claimed", "s1", 1),
        ("task.expired", "s1", 1),
        ("task.claimed", "s2", 2),
        ("task.finished", "s2", 2),
    ]


def test_the_time_of_every_session_is_added_up(database):
    task = add(database, "login")
    leases.claim(database, key=task.key, who=who("s1"))
    database.shift += 100
    leases.release(database, key=task.key, fence=1)
    database.shift += 1000
    leases.claim(database, key=task.key, who=who("s2"))
    database.shift += 50
    done = outcomes.finish(database, key=task.key, fence=2).task
    assert done.busy_seconds == pytest.approx(150, abs=5)


def test_a_late_heartbeat_brings_the_task_back_for_as_long_as_it_says(database):
    task = add(database, "login")
    leases.claim(database, key=task.key, who=who("s1"), lease_seconds=60)
    database.shift += 61
    watchdog.scan(database)
    assert tasks.get(database, key=task.key).state == "ready"
    back = leases.heartbeat(database, key=task.key, fence=1, lease_seconds=600)
    assert (back.state, back.lease_seconds) == ("running", 600)


def test_at_work_is_who_holds_a_task_or_was_started_by_us_and_a_sign_of_life_is_seen(database):
    add(database, "login")
    add(database, "other", project="bakery")
    claim = leases.claim_next(database, who=who("tab"), project="shop")
    leases.claim_next(database, who=who("away"), project="bakery")
    sessions.register(database, who=who("idle", project="shop"))
    sessions.register(database, who=who("ours", project="shop", kind=sessions.AGENT))
    database.shift += 100
    leases.heartbeat(database, key=claim.task.key, fence=claim.fence)
    found = {one.id: one for one in sessions.at_work(database, project="shop")}
    assert sorted(found) == ["ours", "tab"]
    assert found["tab"].seen_at >= found["tab"].started_at + 100
    assert sorted(one.id for one in sessions.at_work(database)) == ["away", "ours", "tab"]
