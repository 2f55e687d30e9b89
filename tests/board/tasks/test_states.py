"""The table of moves, and the board held against it."""

from __future__ import annotations

import os
import re
import tempfile

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databases import quick_folder
from handoff.base.clock import SystemClock
from handoff.base.errors import HandoffError
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import leases, watchdog
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import batches, outcomes, states, tasks
from handoff.board.tasks.batches import SubTask
from handoff.store import open_database
from source import ROOT


def test_every_state_can_be_reached_and_every_live_one_can_be_left():
    reached = {states.WAITING, states.READY}
    for _ in states.STATES:
        reached |= {after for before in reached for after in states.MOVES[before]}
    assert reached == set(states.STATES)
    for state in states.LIVE:
        assert states.DONE in states.MOVES[state]
        assert states.CANCELLED in states.MOVES[state]
    assert states.ENDED == ("done", "cancelled")


def test_only_a_ready_task_starts():
    assert [state for state in states.STATES if states.may_move(state, states.RUNNING)] == ["ready"]


def test_the_picture_in_the_documentation_shows_only_moves_of_the_table():
    page = os.path.join(ROOT, "ARCHITECTURE.md")
    with open(page, encoding="utf-8") as file:
        moves = re.findall(r"^    (\w+) --> (\w+)", file.read(), re.MULTILINE)
    assert len(moves) > 10
    for before, after in moves:
        assert states.may_move(before, after), (before, after)


VERBS = ("claim", "heartbeat", "release", "finish", "finish-free", "block", "cancel", "retry", "ask", "approve",
         "reject", "expire")  # fmt: skip


def _do(database, verb, key, fence):
    if verb == "claim":
        leases.claim(database, key=key, who=SessionIdentity(f"s{fence}-{key}-{verb}"), lease_seconds=60)
    elif verb in ("heartbeat", "release"):
        getattr(leases, verb)(database, key=key, fence=fence)
    elif verb == "finish":
        outcomes.finish(database, key=key, fence=fence)
    elif verb == "finish-free":
        outcomes.finish(database, key=key)
    elif verb == "block":
        outcomes.block(database, key=key, fence=fence or None, reason="x")
    elif verb in ("cancel", "retry"):
        getattr(outcomes, verb)(database, key=key)
    elif verb == "ask":
        gates.ask(database, key=key, fence=fence or None, question="?", on_yes="done" if key % 2 else "ready")
    elif verb == "approve":
        gates.approve(database, key=key)
    elif verb == "reject":
        gates.reject(database, key=key, reason="x")
    else:
        database.shift += 61
        watchdog.scan(database)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.sampled_from(VERBS), st.sampled_from((0, 0, 1, 2, 3, 4)), st.sampled_from((0, 0, 0, 1))),
        min_size=5,
        max_size=40,
    )
)
def test_whatever_is_asked_only_the_moves_of_the_table_happen_and_the_counter_stays_true(steps):
    with tempfile.TemporaryDirectory(dir=quick_folder()) as folder:
        database = open_database(f"sqlite:///{folder}/handoff.db", clock=SystemClock())
        batch = batches.open_batch(
            database, project="shop", id="split", fan_in=SubTask("join", "x"),
            sub_tasks=[SubTask("one", "x", max_attempts=2), SubTask("two", "x", depends_on=("one",)), SubTask("three", "x")],
        )  # fmt: skip
        tasks.add(database, project="shop", id="after", brief="x", after=["join"])
        before = {task.key: task for task in tasks.listing(database, include_ended=True)}
        keys = sorted(before)
        for verb, which, behind in steps:
            key = keys[which]
            try:
                _do(database, verb, key, max(0, before[key].fence - behind))
            except HandoffError:
                assert {task.key: task for task in tasks.listing(database, include_ended=True)} == before, (
                    "refused, but written"
                )
                continue
            now = {task.key: task for task in tasks.listing(database, include_ended=True)}
            for changed in (key for key in keys if now[key].state != before[key].state):
                assert states.may_move(before[changed].state, now[changed].state), (verb, before[changed], now[changed])
            assert all(now[key].fence >= before[key].fence for key in keys)
            before = now
            _check(database, batch.key, now)
        database.close()


def _check(database, batch, now):
    subs = [task for task in now.values() if task.kind == "sub-task"]
    found = batches.get(database, key=batch)
    if found.state == "open":
        assert found.remaining == sum(1 for task in subs if not task.counted)
        assert found.remaining > 0
    else:
        assert now[found.fan_in].state != states.WAITING
    for task in now.values():
        assert (task.ended_at is not None) == (task.state in states.ENDED)
        assert (task.lease_until is not None) == (task.state == states.RUNNING)
        assert task.state != states.WAITING or task.open_needs > 0
        assert (gates.of_task(database, key=task.key) or _NONE).state != "open" or task.state == states.GATED
    kinds = [event.kind for event in journal.since(database)]
    assert kinds.count("batch.joined") - kinds.count("batch.reopened") <= 1


class _NONE:
    state = ""
