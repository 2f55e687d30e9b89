"""Batches: all or nothing at the start, one fan-in at the end."""

from __future__ import annotations

import pytest

from handoff.base.errors import Conflict, UserError
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import leases, pauses, watchdog
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import batches, outcomes, tasks
from handoff.board.tasks.batches import SubTask


def open_batch(database, *parts, name="split", **more):
    subs = [part if isinstance(part, SubTask) else SubTask(part, f"Do {part}.") for part in parts]
    return batches.open_batch(
        database, project="shop", id=name, sub_tasks=subs, fan_in=SubTask(f"{name}-join", "Bring it together."), **more
    )


def task(database, name):
    return tasks.find(database, project="shop", id=name)


def finish(database, name):
    return outcomes.finish(database, key=task(database, name).key)


def test_a_batch_has_ready_sub_tasks_and_a_waiting_fan_in(database):
    batch = open_batch(database, "api", "ui", workspace="/work")
    assert (batch.state, batch.total, batch.remaining) == ("open", 2, 2)
    found = [(part.label, part.kind, part.state, part.workspace) for part in tasks.of_batch(database, batch=batch.key)]
    assert found == [
        ("split/api", "sub-task", "ready", "/work"),
        ("split/ui", "sub-task", "ready", "/work"),
        ("split-join", "fan-in", "waiting", "/work"),
    ]
    assert task(database, "split-join").key == batch.fan_in


def test_the_last_sub_task_opens_the_fan_in_and_the_fan_in_ends_the_batch(database):
    batch = open_batch(database, "api", "ui", "doc")
    assert finish(database, "api").fan_in is None
    assert outcomes.block(database, key=task(database, "ui").key, reason="no key").fan_in is None
    outcome = outcomes.cancel(database, key=task(database, "doc").key)
    assert (outcome.fan_in.id, outcome.fan_in.state) == ("split-join", "gated")
    assert batches.get(database, key=batch.key).state == "joining"
    assert gates.approve(database, key=outcome.fan_in.key, answered_by="ann").task.state == "ready"
    finish(database, "split-join")
    ended = batches.find(database, project="shop", id="split")
    assert (ended.state, ended.remaining, ended.ended_at is not None) == ("done", 0, True)


def test_a_repeated_report_is_counted_once(database):
    open_batch(database, "api", "ui")
    for _ in range(3):
        finish(database, "split/api")
    assert batches.find(database, project="shop", id="split").remaining == 1


def test_sub_tasks_start_in_the_order_they_depend_on_each_other(database):
    open_batch(
        database,
        SubTask("one", "x"),
        SubTask("two", "x", depends_on=("one",)),
        SubTask("three", "x", depends_on=("one", "two", "one")),
    )
    assert [task(database, name).state for name in ("one", "two", "three")] == ["ready", "waiting", "waiting"]
    assert [woken.id for woken in finish(database, "one").woken] == ["two"]
    assert [woken.id for woken in finish(database, "two").woken] == ["three"]
    assert finish(database, "three").fan_in.id == "split-join"


def test_a_blocked_sub_task_takes_those_that_need_it_along_so_that_the_fan_in_is_reached(database):
    open_batch(
        database,
        SubTask("one", "x"),
        SubTask("two", "x", depends_on=("one",)),
        SubTask("three", "x", depends_on=("two",)),
    )
    outcome = outcomes.block(database, key=task(database, "one").key, reason="no key")
    assert {victim.id for victim in outcome.stranded} == {"two", "three"}
    assert outcome.fan_in.id == "split-join"


def test_a_retry_before_the_fan_in_counts_the_sub_tasks_in_again(database):
    batch = open_batch(database, SubTask("one", "x"), SubTask("two", "x", depends_on=("one",)), SubTask("other", "x"))
    one = task(database, "one")
    outcomes.block(database, key=one.key, reason="no key")
    assert batches.get(database, key=batch.key).remaining == 1
    outcome = outcomes.retry(database, key=one.key)
    assert (outcome.task.state, [victim.state for victim in outcome.woken]) == ("ready", ["waiting"])
    assert batches.get(database, key=batch.key).remaining == 3
    for name in ("one", "two"):
        assert finish(database, name).fan_in is None
    assert finish(database, "other").fan_in.id == "split-join"


def test_a_retry_after_the_fan_in_opened_closes_it_until_the_part_is_done(database):
    batch = open_batch(database, "one", "two")
    one = task(database, "one")
    outcomes.block(database, key=one.key, reason="no key")
    assert finish(database, "two").fan_in.state == "gated"
    outcomes.retry(database, key=one.key)
    assert task(database, "split-join").state == "waiting"
    assert batches.get(database, key=batch.key).remaining == 1
    assert outcomes.finish(database, key=one.key).fan_in.state == "ready"
    assert batches.get(database, key=batch.key).remaining == 0
    kinds = [event.kind for event in journal.since(database)]
    assert (kinds.count("batch.joined"), kinds.count("batch.reopened")) == (2, 1)


def test_a_fan_in_that_was_done_is_opened_again_by_a_part_that_is_tried_again(database):
    batch = open_batch(database, "one", "two")
    one = task(database, "one")
    outcomes.block(database, key=one.key, reason="no key")
    fan_in = finish(database, "two").fan_in
    gates.approve(database, key=fan_in.key)
    finish(database, "split-join")
    assert batches.get(database, key=batch.key).state == "done"
    outcomes.retry(database, key=one.key)
    found = batches.get(database, key=batch.key)
    assert (found.state, found.remaining, found.ended_at) == ("open", 1, None)
    assert (task(database, "split-join").state, task(database, "split-join").ended_at) == ("waiting", None)


def test_a_part_of_a_batch_whose_name_is_used_again_cannot_join_the_old_one(database):
    open_batch(database, "one")
    one = task(database, "one")
    outcomes.block(database, key=one.key, reason="no key")
    gates.approve(database, key=task(database, "split-join").key)
    finish(database, "split-join")
    open_batch(database, "three")
    with pytest.raises(Conflict, match="a newer one has its name"):
        outcomes.retry(database, key=one.key)
    assert tasks.get(database, key=one.key).state == "blocked"


def test_a_fan_in_blocked_before_its_time_asks_about_missing_parts_when_it_is_tried_again(database):
    open_batch(database, "one")
    fan_in = task(database, "split-join")
    outcomes.block(database, key=fan_in.key, reason="wait for me")
    outcomes.block(database, key=task(database, "one").key, reason="no key")
    assert outcomes.retry(database, key=fan_in.key).task.state == "gated"


def test_a_fan_in_blocked_before_its_time_is_ready_after_a_retry(database):
    open_batch(database, "api")
    fan_in = task(database, "split-join")
    outcomes.block(database, key=fan_in.key, reason="wait for me")
    assert finish(database, "api").fan_in is None
    assert batches.find(database, project="shop", id="split").state == "joining"
    assert outcomes.retry(database, key=fan_in.key).task.state == "ready"
    finish(database, "split-join")
    assert batches.find(database, project="shop", id="split").state == "done"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "has no sub-tasks"),
        (["api", "api"], "two sub-tasks named 'api'"),
        (["../x"], "cannot name a sub-task"),
        (["split-join"], "both a sub-task and the fan-in"),
        ([SubTask("one", "x", depends_on=("ghost",))], "depends on 'ghost', which is not in batch"),
        ([SubTask("one", "x", depends_on=("one",))], "one needs one"),
        (
            [SubTask("aa", "x"), SubTask("bb", "x", depends_on=("dd",)), SubTask("cc", "x", depends_on=("bb", "aa")), SubTask("dd", "x", depends_on=("cc",))],
            "(bb needs dd needs cc needs bb|dd needs cc needs bb needs dd|cc needs bb needs dd needs cc)",
        ),
    ],
    ids=["empty", "twice", "escape", "fan-in", "ghost", "itself", "circle"],
)  # fmt: skip
def test_a_bad_batch_is_refused_and_nothing_is_written(database, parts, message):
    with pytest.raises(UserError, match=message):
        open_batch(database, *parts)
    assert batches.listing(database, include_ended=True) == []
    assert tasks.listing(database, include_ended=True) == []
    assert journal.since(database) == []


def test_a_live_batch_or_fan_in_of_that_name_is_a_conflict_and_nothing_is_written(database):
    open_batch(database, "api")
    with pytest.raises(Conflict, match="Batch 'split' of project 'shop' is still open"):
        open_batch(database, "other")
    tasks.add(database, project="shop", id="next-join", brief="x")
    with pytest.raises(Conflict, match="'next-join' of project 'shop' is still ready"):
        open_batch(database, "other", name="next")
    assert len(batches.listing(database, include_ended=True)) == 1


def test_a_batch_name_may_be_used_again_after_its_end(database):
    open_batch(database, "api")
    finish(database, "api")
    finish(database, "split-join")
    open_batch(database, "api")
    assert (task(database, "api").generation, task(database, "split-join").generation) == (2, 2)


def test_a_cancelled_batch_keeps_what_is_finished_and_refuses_who_still_works(database):
    batch = open_batch(database, "api", "ui", SubTask("doc", "x", depends_on=("ui",)))
    finish(database, "api")
    claim = leases.claim(database, key=task(database, "ui").key, who=SessionIdentity("s1"))
    assert outcomes.cancel_batch(database, key=batch.key, reason="wrong split").state == "cancelled"
    states = {part.id: part.state for part in tasks.of_batch(database, batch=batch.key)}
    assert states == {"api": "done", "ui": "cancelled", "doc": "cancelled", "split-join": "cancelled"}
    with pytest.raises(Conflict, match="wrong split"):
        outcomes.finish(database, key=claim.task.key, fence=claim.fence)
    assert batches.list_measures(database) == []


def test_a_stopped_batch_starts_nothing_and_takes_every_result(database):
    open_batch(database, "api", "ui")
    held = leases.claim(database, key=task(database, "api").key, who=SessionIdentity("s1"))
    pauses.pause(database, scope="batch", project="shop", name="split")
    assert leases.claim_next(database, who=SessionIdentity("s2")) is None
    outcomes.finish(database, key=held.task.key, fence=held.fence)
    assert finish(database, "ui").fan_in.state == "ready"
    assert leases.claim_next(database, who=SessionIdentity("s2")) is None


def test_a_sub_task_whose_sessions_all_died_counts_as_closed(database):
    open_batch(database, SubTask("api", "x", max_attempts=1), "ui")
    finish(database, "ui")
    leases.claim(database, key=task(database, "api").key, who=SessionIdentity("s1"), lease_seconds=60)
    database.shift += 61
    report = watchdog.scan(database)
    assert ([found.id for found in report.blocked], [found.id for found in report.opened_fan_ins]) == (
        ["api"],
        ["split-join"],
    )
    assert task(database, "split-join").state == "gated", "a person is asked before half a batch goes on"
    late = outcomes.finish(database, key=task(database, "api").key, fence=1)
    assert (late.task.state, late.fan_in.state) == ("done", "ready")


def test_a_dead_fan_in_is_tried_again_and_never_runs_beside_another(database):
    open_batch(database, "api")
    finish(database, "api")
    fan_in = task(database, "split-join")
    leases.claim(database, key=fan_in.key, who=SessionIdentity("s1"), lease_seconds=60)
    database.shift += 61
    assert [found.id for found in watchdog.scan(database).freed] == ["split-join"]
    assert leases.claim(database, key=fan_in.key, who=SessionIdentity("s2")).fence == 2
    with pytest.raises(Conflict):
        outcomes.finish(database, key=fan_in.key, fence=1)


def test_ten_thousand_sub_tasks_open_at_once(database):
    parts = [
        SubTask(f"part-{number}", "x", depends_on=(f"part-{number - 1}",) if number % 10 else ())
        for number in range(10_000)
    ]
    batch = open_batch(database, *parts)
    assert (batch.total, batch.remaining) == (10_000, 10_000)
    assert len(tasks.listing(database, state="ready", limit=5_000)) == 1_000


def test_a_long_chain_is_looked_through_without_recursion():
    chain = {str(number): [str(number + 1)] for number in range(50_000)} | {"50000": []}
    assert batches.find_circle(chain) == []
    chain["50000"] = ["0"]
    assert len(batches.find_circle(chain)) == 50_002
