"""Flows as rows, on both databases: one live flow an id, one mover at a time, phases as tasks, a journal of their own."""

from __future__ import annotations

import pytest

from handoff.base.errors import Conflict, UserError
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import decisions, flows, tasks


def begin(store, name: str = "calc", **more) -> flows.Flow:
    values = {
        "project": "shop", "id": name, "workflow": "tdd", "text": "x", "prompts": {"a.md": "words"}, "request": "a calculator",
        "feature": "", "repository": "/r", "workspace": "/w", "branch": "refs/heads/handoff/calc", "base": "b", "phase": "plan",
        "max_cycles": 3, "agents": {"tester": "scripted"}, "gates": ["plan"], "data": {"suites": []},
    }  # fmt: skip
    return flows.add(store, **{**values, **more})


def add_phase(store, flow: flows.Flow, name: str = "1-plan") -> tasks.Task:
    with store.transaction() as transaction:
        task = flows.add_phase(
            transaction, flow, id=name, title="t", brief="b", role="planner", agent="", owns=["a"], attempts=3,
            limits={"minutes": 5}, host="host-here",
        )  # fmt: skip
        flows.move(transaction, flow, task=task.key)
        return task


def test_a_flow_is_found_by_its_name_and_an_id_names_one_live_flow(database):
    flow = begin(database)
    assert flows.find(database, project="shop") == flows.get(database, key=flow.key) == flow
    assert (flow.agent_by_role, flow.gated_phases, flow.prompt_texts) == (
        {"tester": "scripted"},
        ("plan",),
        {"a.md": "words"},
    )
    with pytest.raises(Conflict, match="still under way"):
        begin(database)
    begin(database, "other")
    with pytest.raises(UserError, match="Several flows"):
        flows.find(database, project="shop")
    with database.transaction() as transaction:
        ended = flows.move(transaction, flow, state=flows.CANCELLED)
    assert ended.ended_at is not None
    again = begin(database)
    assert flows.find(database, project="shop", id="calc").key == again.key
    assert [one.id for one in flows.listing(database, project="shop")] == ["calc", "other"]
    assert len(flows.listing(database, include_ended=True)) == 3
    with pytest.raises(UserError, match="no flow 'nine'"):
        flows.find(database, project="shop", id="nine")


def test_who_read_a_flow_before_it_was_moved_is_refused(database):
    flow = begin(database)
    with database.transaction() as transaction:
        moved = flows.move(transaction, flow, phase="red", data={"test": "adds"})
    assert (moved.phase, moved.facts) == ("red", {"test": "adds"})
    assert [one.key for one in flows.idle(database)] == [flow.key]
    with pytest.raises(Conflict, match="moved on"), database.transaction() as transaction:
        flows.move(transaction, flow, phase="green")


def decide(database, flow) -> decisions.Decision | None:
    with database.transaction() as transaction:
        return decisions.add_phase(transaction, flow, fence=0, session="", host="here", intent={"tree": "t"})


def test_a_phase_is_decided_once_and_by_who_has_read_the_flow_as_it_is(database):
    flow = begin(database)
    made = decide(database, flow)
    assert (made.flow, made.task, made.state, made.intent) == (flow.key, None, "open", {"tree": "t"})
    assert decide(database, flow) is None, "there is one already"
    assert [one.key for one in decisions.open_on(database, host="here")] == [made.key]
    with database.transaction() as transaction:
        decisions.move(transaction, made, state=decisions.DONE)
        moved = flows.move(transaction, flow, phase="red")
    assert decisions.of_flow(database, key=flow.key) is None
    assert decide(database, flow) is None, "it was moved on"
    again = decide(database, moved)
    with database.transaction() as transaction:
        decisions.withdraw_phase(transaction, moved)
    assert again is not None
    assert decisions.open_on(database, host="here") == []


def test_a_phase_is_a_task_that_agents_take_and_tabs_do_not(database):
    task = add_phase(database, begin(database))
    assert (task.label, task.kind, task.baseline_facts["limits"]) == ("calc/1-plan", "phase", {"minutes": 5})
    assert flows.of_task(database, task=task.key).id == "calc"
    assert flows.idle(database) == []
    labels = ("host-here",)
    assert leases.claim_next(database, who=sessions.SessionIdentity("tab", labels=labels), project="shop") is None
    assert leases.claim_next(database, who=sessions.SessionIdentity("far", kind=sessions.AGENT), project="shop") is None
    claim = leases.claim_next(
        database, who=sessions.SessionIdentity("near", kind=sessions.AGENT, labels=labels), project="shop"
    )
    assert claim is not None
    assert claim.task.key == task.key


def test_the_journal_of_a_flow_holds_its_tasks_and_nobody_elses(database):
    flow = begin(database)
    add_phase(database, flow)
    add_phase(database, begin(database, "calc-2"))
    kinds = [(event.kind, event.task_id) for event in flows.events(database, flow)]
    assert kinds == [("flow.started", ""), ("task.added", "calc/1-plan")]
