"""A phase is over: judge it, let what was decided be carried out, or undo the work and say why; before that, prepare it."""

from __future__ import annotations

import os

from handoff.agents.contract import ENVIRONMENT, FAILED, OK, AgentOutcome
from handoff.base.errors import Conflict, UserError
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.board import gates
from handoff.board.events import texts
from handoff.board.sessions import leases
from handoff.board.tasks import decisions, flows, outcomes, states, tasks
from handoff.engine.outcome import kinds
from handoff.engine.place.fanout import views
from handoff.engine.place.proof import faults
from handoff.engine.safety import snapshots
from handoff.engine.work.flows import advance, documents, evidence, judge, prompts
from handoff.engine.work.flows.state import FlowState, moving, now
from handoff.git.commits.phases import publish
from handoff.git.snapshots.take import SnapshotRequest
from handoff.workflows import test_list
from handoff.workflows.model import DONE, GATE, ROLL_BACK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from handoff.board.gates import Gate
    from handoff.board.tasks.decisions import Decision
    from handoff.board.tasks.flows import Flow
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.outcome.kinds import EndedSession
    from handoff.engine.work.flows.judge import PhaseVerdict
    from handoff.store.database import Transaction

_KEPT_FAILURES = 12
_SUITES = "the suites"
_BY_SUITES = ("red", "green", "refactor", "suite", "unbroken")
_A_PERSON_MAY = ("test-vanished", "dropped-silently")


def decide(app: App, ended: EndedSession) -> AgentOutcome | None:
    """What comes of a phase's session. None leaves it to the ordinary way: it reported, or the fault was no agent's."""
    flow = flows.of_task(app.database, task=ended.task.key)
    if flow is None:
        gone = AgentOutcome(FAILED, "the flow it belongs to is gone")
        return AgentOutcome(OK, ended.task.result) if ended.task.ended else gone
    with moving(app, flow):
        state = now(app, flow.key)
        if state.flow.task != ended.task.key:
            return AgentOutcome(OK, ended.task.result)
        decision = decisions.of_flow(app.database, key=flow.key)
        if decision is not None:
            return _carried(app, state, decision)
        if not ended.holds or not faults.is_attempt(ended.outcome):
            return None
        if ended.outcome.kind != OK:
            said = [f"session-failed: {ended.outcome.reason or ended.outcome.kind}"]
            return _refused(app, state, ended.task, said, session=ended.session)
        try:
            judged = judge.judge_phase(app, state, ended.session)
        except faults.GroundFault as error:
            return AgentOutcome(ENVIRONMENT, error.message, fix=error.hint)
        if not judged.ok:
            said = [str(one) for one in judged.faults]
            return _refused(app, state, ended.task, said, session=ended.session, judged=judged)
        decision = advance.decide(app, state, judged, task=ended.task, fence=ended.fence, session=ended.session)
        return _carried(app, state, decision)


def _carried(app: App, state: FlowState, decision: Decision) -> AgentOutcome:
    advance.carry(app, state, decision)
    _drive(app, state.flow.key)
    return AgentOutcome(OK, str(decision.intent["said"]))


# --- a phase that is not ---------------------------------------------------------------------------------


def _refused(
    app: App, state: FlowState, task: Task, said: Sequence[str], *, session: str, judged: PhaseVerdict | None = None
) -> AgentOutcome:
    """The work is kept as a snapshot and undone; the next attempt reads why. Used up: block, ask, or roll back."""
    flow, phase = state.flow, state.phase
    tree = judged.tree if judged else state.flow_checkout.tree_of(evidence.taken(app, state, session).commit)
    failure = {
        "task": task.key,
        "phase": phase.name,
        "cycle": flow.cycle,
        "attempt": task.attempt,
        "said": list(said),
        "diff": state.flow_checkout.diff(flow.head, tree),
        "snapshot": _snapshot(app, state, session),
        "tail": judged.tail if judged else "",
    }
    facts = flow.facts
    facts["failures"] = [*facts.get("failures", []), failure][-_KEPT_FAILURES:]
    reason = "; ".join(said)
    with app.database.transaction() as transaction:
        held = tasks.get(transaction, key=task.key)
        used_up = task.attempt >= task.max_attempts and not outcomes.next_agent(transaction, held)
        if held.fence != task.fence or held.state != states.RUNNING:
            raise Conflict(f"'{task.label}' was given to somebody else.", f"See: handoff show {task.label}")
        kinds.tell_concluded(transaction, held, session, AgentOutcome(FAILED, reason))
        flows.tell(
            transaction,
            flow,
            "flow.refused",
            task=held,
            session=session,
            phase=phase.name,
            cycle=flow.cycle,
            attempt=task.attempt,
            said=list(said),
            asked=evidence.asked_lines(judged.checks) if judged else [],
            snapshot=failure["snapshot"],
        )
        if used_up and phase.when_used_up == GATE:
            question = f"{phase.name} was refused {number_of(task.attempt, 'time')} ({reason}); try again?"
            advance.ask(transaction, state, phase.name, task=task, question=question, fence=task.fence)
            flow = flows.move(transaction, flow, data=facts)
        elif used_up and phase.when_used_up == ROLL_BACK:
            flow = _roll_back_cycle(app, transaction, state, facts, reason)
        else:
            leases.hand_back(transaction, task=held, reason=reason)
            if not used_up:
                pauses = phase.back_off_seconds
                pause = pauses[min(task.attempt, len(pauses)) - 1] if pauses else 0.0
                tasks.edit(transaction, key=task.key, not_before=transaction.now() + pause if pause else 0.0)
            flow = flows.move(transaction, flow, data=facts)
    restore(app, state._replace(flow=flow), flow.head)
    if flow.task is None:
        _drive(app, flow.key)
    return AgentOutcome(FAILED, reason)


def _snapshot(app: App, state: FlowState, session: str) -> str:
    """The whole working tree as it is; nothing is thrown away."""
    store = snapshots.open_snapshot_store(app, folder=state.flow.workspace)
    request = SnapshotRequest(reason=f"the end of {state.phase.name}", session=session)
    return snapshots.snapshot(app, snapshot_store=store, request=request).sha


def _roll_back_cycle(app: App, transaction: Transaction, state: FlowState, facts: dict[str, Any], reason: str) -> Flow:
    """Back to where the cycle began: its first phase gets another chance, in another cycle."""
    flow = state.flow
    first = state.workflow.phases[0].name
    for event in flows.events(transaction, flow):
        if event.kind == "flow.verified" and state.workflow.is_back(event.body["phase"], event.body["next"]):
            first = str(event.body["next"])
    assert flow.task is not None  # noqa: S101 - a refused phase has its task
    outcomes.cancel(transaction, key=flow.task, reason=f"rolled back: {reason}")
    back = flow._replace(head=str(facts["cycle_base"]), phase=first, cycle=flow.cycle + 1, task=None)
    new = state._replace(flow=back._replace(data=texts.write(facts)))
    flows.tell(transaction, flow, "flow.rolled_back", phase=flow.phase, to=first, head=back.head, reason=reason)
    return advance.enter(app, transaction, flow, new, facts, prompts.brief(app, new) if new.phase.role else "")


def restore(app: App, state: FlowState, commit: str) -> None:
    """The workspace as the last good commit has it; what lay there is in a snapshot first."""
    state.flow_checkout.seal(str(state.flow.facts["git_config"]))
    if not state.flow_checkout.is_at(commit):
        _snapshot(app, state, "")
        state.flow_checkout.arrive(commit)


# --- before a session, and without one -------------------------------------------------------------------


def prepare(app: App, task: Task) -> str:
    """Before a phase's session: the workspace is clean, what a crash left is carried out, and the baton is written.

    A session that ended for its provider's limit goes on in what it left; any other attempt begins at the last good commit.
    """
    flow = flows.of_task(app.database, task=task.key)
    if flow is None:
        raise Conflict(f"The flow of '{task.label}' has gone on without it.", f"See: handoff show {task.label}")
    with moving(app, flow):
        state = advance.settle(app, flow.key)
        if state.flow.task != task.key:
            _drive(app, flow.key)
            raise Conflict(f"'{task.label}' was done already.", f"See: handoff show {flow.id}")
        state, task = _with_answer(app, state, task)
        mark = f"{task.key}:{task.attempt}"
        if state.flow.facts.get("prepared") != mark:
            restore(app, state, state.flow.head)
            documents.bring(state.flow)
            # a report from an earlier round, which git may ignore, must not speak for this one
            path = os.path.join(state.flow.workspace, state.phase.report)
            if state.phase.report and os.path.lexists(path):
                os.unlink(path)
            ran = _try_out(app, state)
            with app.database.transaction() as transaction:
                moved = flows.move(transaction, state.flow, data={**state.flow.facts, "prepared": mark, "ran": ran})
            state = state._replace(flow=moved)
        return prompts.baton(app, state, task)


def _try_out(app: App, state: FlowState) -> list[str]:
    """Before a session: what will judge its phase runs once on the last good tree, unless it is known to run by now.

    Red is expected; a check that cannot be started is refused before anybody is paid.
    """
    ran = [str(name) for name in state.flow.facts.get("ran", ())]
    command = state.phase.command if state.phase.check == "command" else ""
    if state.phase.check == "step":
        found = documents.current_step(app, state.flow)
        command = found[1] if found else ""
    if command and command not in ran:
        judge.by_command(app, state, evidence.PhaseWork(tree=state.flow.head, changed=()), command)
        ran.append(command)
    by_suites = state.phase.check in _BY_SUITES and bool(state.suites)
    if by_suites and "baseline" not in state.flow.facts and _SUITES not in ran:
        judge.run_suites(app, state, state.flow.head)
        ran.append(_SUITES)
    return ran


def check_answer(app: App, task: Task, answer: str) -> None:
    """A list of tests that a person changed must be one that the flow can go on with."""
    flow = flows.of_task(app.database, task=task.key)
    if flow is None or not answer:
        return
    state = now(app, flow.key)
    if prompts.asked_about(state) == state.workflow.test_list:
        before = state.flow_checkout.read(flow.head, state.workflow.test_list) or ""
        found = [one.words for one in test_list.judge(before, answer) if one.code not in _A_PERSON_MAY]
        if not prompts.next_test(answer):
            found.append("No test is open: leave one '- [ ] what must hold' line, or say no with a reason.")
        if found:
            raise UserError(f"This list cannot be taken. {' '.join(found)}", "Nothing was answered. Change the text.")


def _with_answer(app: App, state: FlowState, task: Task) -> tuple[FlowState, Task]:
    """A document that a person changed at the gate is the document from now on, and the session reads that one."""
    gate = gates.of_task(app.database, key=task.key)
    name = prompts.asked_about(state)
    if (
        gate is not None and gate.open_ended and name
    ):  # a session asked since: the change is in the flow, its row has the old words
        return state, task._replace(brief=prompts.brief(app, state))
    if gate is None or gate.state != gates.APPROVED or not gate.answer or not name:
        return state, task
    if name == state.workflow.test_list:
        state = _with_list(app, state, gate)
    else:
        feature = documents.feature_of(app, state.flow)
        with feature.locked():
            documents.put(feature, {name: gate.answer})
        documents.bring(state.flow)
    return state, task._replace(brief=prompts.brief(app, state))


def _with_list(app: App, state: FlowState, gate: Gate) -> FlowState:
    """The list of tests as a person changed it, as a commit of the flow: its first open test is the one that comes next."""
    flow, name, text = state.flow, state.workflow.test_list, gate.answer.rstrip("\n") + "\n"
    if state.flow_checkout.read(flow.head, name) == text:
        return state
    message = (
        f"plan: {name} as a person changed it\n\nHandoff-Flow: {flow.id}\nHandoff-Phase: {flow.facts['gated']}\n"
        f"Handoff-Cycle: {flow.cycle}\n"
    )
    state.flow_checkout.seal(str(flow.facts["git_config"]))
    tree = state.flow_checkout.tree_with(flow.head, {name: text})
    moment = int(gate.answered_at or flow.changed_at)
    head = state.flow_checkout.commit(tree=tree, parent=flow.head, message=message, moment=moment)
    restore(app, state, head)
    published = publish(flow.repository, state.flow_checkout, app.git_environment)
    facts = {**flow.facts, "test": prompts.next_test(text), "published": published}
    with app.database.transaction() as transaction:
        return state._replace(flow=flows.move(transaction, flow, head=head, data=facts))


def drive(app: App, key: int) -> Flow:
    """Do what is the orchestrator's own move, until a session is needed or the flow ends."""
    flow = flows.get(app.database, key=key)
    with moving(app, flow):
        moved = _drive(app, key)
    if moved.version != flow.version:
        views.refresh_or_tell(app, flow.project, f"The flow '{flow.id}' has moved on")
    return moved


def is_answered(app: App, flow: Flow) -> bool:
    """Whether a flow that waited for nothing but a person's yes has got it."""
    waited = bool(flow.facts.get("after_gate")) and flow.task is not None
    return waited and tasks.get(app.database, key=int(flow.task or 0)).state == states.DONE


def answer(app: App, task: Task) -> None:
    """A person answered: where that was all the flow waited for and it ends now, it ends at once."""
    flow = flows.of_task(app.database, task=task.key)
    if flow is not None and flow.facts.get("after_gate") == DONE and is_answered(app, flow):
        drive(app, flow.key)


def _drive(app: App, key: int) -> Flow:
    while True:
        state = advance.settle(app, key)
        flow = state.flow
        if flow.state != flows.RUNNING or flow.ended_at is not None:
            return flow
        if flow.task is not None:
            if not is_answered(app, flow):
                return flow
            advance.go_on(app, state)
            continue
        if state.phase.role:
            brief = prompts.brief(app, state)
            with app.database.transaction() as transaction:
                advance.enter(app, transaction, flow, state, flow.facts, brief)
            continue
        try:
            judged = judge.judge_phase(app, state)
            reason = "; ".join(str(one) for one in judged.faults)
        except faults.GroundFault as error:
            reason = f"{error.message} {error.hint}"
        else:
            if judged.ok:
                advance.decide(app, state, judged)
                continue
        with app.database.transaction() as transaction:
            flows.tell(transaction, flow, "flow.blocked", phase=flow.phase, cycle=flow.cycle, reason=reason)
            return flows.move(transaction, flow, state=flows.BLOCKED, reason=reason)
