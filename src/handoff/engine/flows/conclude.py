"""A phase is over: judge it, write down what was decided, carry that out, and chain the next one.

What was decided stands in the flow's row before anything is done about it (`pending`). Whoever finds it there after a crash
carries it out: the commit comes out the same, the note and the documents are written again without effect, and the last
transaction finishes the task, moves the flow and adds the next phase's task, or nothing of it.
"""

from __future__ import annotations

import os

from handoff.agents.contract import FAILED, LIMIT, OK, AgentOutcome
from handoff.base.errors import Conflict, HandoffError
from handoff.base.record import TYPE_CHECKING
from handoff.board import gates
from handoff.board.events import texts
from handoff.board.sessions import leases
from handoff.board.tasks import flows, outcomes, states, tasks
from handoff.engine.fanout import views
from handoff.engine.flows import documents, judge, prompts
from handoff.engine.flows.state import FlowState, moving, now, owned_patterns
from handoff.engine.home import host_label
from handoff.engine.proof import git_notes
from handoff.engine.safety import snapshots
from handoff.git.commits.phases import publish
from handoff.git.notes.record import Check
from handoff.git.snapshots.take import SnapshotRequest
from handoff.workflows.model import DONE, GATE, ROLL_BACK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from handoff.board.tasks.flows import Flow
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.flows.judge import PhaseVerdict
    from handoff.engine.tasks.kinds import EndedSession
    from handoff.store.database import Transaction

_KEPT_FAILURES = 12
_SUMMARY = 300


def decide(app: App, ended: EndedSession) -> AgentOutcome | None:
    """What comes of a phase's session. None leaves it to the ordinary way: it reported, or waits for its provider."""
    flow = flows.of_task(app.database, task=ended.task.key)
    if flow is None:
        return (
            AgentOutcome(OK, ended.task.result)
            if ended.task.ended
            else AgentOutcome(FAILED, "the flow it belongs to is gone")
        )
    with moving(app, flow):
        state = now(app, flow.key)
        if state.flow.task != ended.task.key:
            return AgentOutcome(OK, ended.task.result)
        if state.flow.pending:
            return _carried(app, state)
        if not ended.holds or ended.outcome.kind == LIMIT or ended.outcome.asked:
            return None
        if ended.outcome.kind != OK:
            said = [f"session-failed: {ended.outcome.reason or ended.outcome.kind}"]
            return _refused(app, state, ended.task, said, session=ended.session)
        judged = judge.judge_phase(app, state)
        if not judged.ok:
            said = [str(one) for one in judged.faults]
            return _refused(app, state, ended.task, said, session=ended.session, judged=judged)
        if judged.more:
            _snapshot(app, state, ended.session)
        write_intent(app, state, judged, task=ended.task, session=ended.session)
        return _carried(app, now(app, flow.key))


def _carried(app: App, state: FlowState) -> AgentOutcome:
    done = state.flow.intent
    carry_out(app, state)
    _drive(app, state.flow.key)
    return AgentOutcome(OK, str(done.get("said", "")))


# --- a phase that is right -------------------------------------------------------------------------------


def write_intent(
    app: App, state: FlowState, judged: PhaseVerdict, *, task: Task | None = None, session: str = "", skipped: str = ""
) -> Flow:
    """Write down what was decided about the phase, before anything is done about it."""
    phase, flow = state.phase, state.flow
    moment = int(app.clock.now())
    following = phase.next[judged.outcome]
    said = f"{phase.name}: {judged.subject or judged.outcome}" + (f" (skipped: {skipped})" if skipped else "")
    intent = {
        "phase": phase.name, "cycle": flow.cycle, "outcome": judged.outcome, "next": following, "tree": judged.tree,
        "message": _message(state, judged, task) if phase.commit and judged.changed else "", "moment": moment, "said": said[:_SUMMARY],
        "checks": [check._asdict() for check in judged.checks], "facts": judged.facts, "documents": judged.documents,
        "step": judged.step, "session": session, "agent": task.held_agent if task else "", "skipped": skipped,
        "attempt": task.attempt if task else 1, "began": (task.started_at if task else None) or flow.changed_at,
        "warnings": [str(one) for one in judged.warnings],
    }  # fmt: skip
    with app.database.transaction() as transaction:
        return flows.move(transaction, flow, pending=intent)


def _message(state: FlowState, judged: PhaseVerdict, task: Task | None) -> str:
    """The commit's words: what the phase is about, and whose it is, for people and for `git interpret-trailers`."""
    trailers = {
        "Handoff-Flow": state.flow.id,
        "Handoff-Task": task.label if task else f"{state.flow.id}/{state.flow.cycle}-{state.phase.name}",
        "Handoff-Phase": state.phase.name,
        "Handoff-Cycle": state.flow.cycle,
        "Handoff-Attempt": task.attempt if task else 1,
    }
    subject = prompts.subject(state, judged.subject or state.phase.title or state.phase.name)
    return f"{subject}\n\n" + "".join(f"{name}: {value}\n" for name, value in trailers.items())


def carry_out(app: App, state: FlowState) -> Flow:
    """Do what was decided. Every part may be repeated; the last one moves the rows, all or nothing."""
    flow, intent = state.flow, state.flow.intent
    state.flow_checkout.seal(str(flow.facts["git_config"]))
    head = flow.head
    if intent["message"]:
        head = state.flow_checkout.commit(
            tree=intent["tree"], parent=flow.head, message=intent["message"], moment=int(intent["moment"])
        )
    if head != flow.head or not state.flow_checkout.is_at(head):
        state.flow_checkout.arrive(head)
    facts = {**flow.facts, **intent["facts"], "note": ""}
    if head != flow.head:
        facts["published"] = publish(flow.repository, state.flow_checkout, app.git_environment)
    if intent["documents"]:
        documents.publish(app, flow, intent["documents"])
    if intent["step"]:
        documents.tick(app, flow, step=intent["step"], commit=head, moment=float(intent["moment"]))
    if intent["checks"] or head != flow.head:
        _note(app, state, head)
    return _advance(app, state, head, facts)


def _note(app: App, state: FlowState, head: str) -> None:
    """The record on the commit; that it could not be written is no reason to do the phase again."""
    flow, intent = state.flow, state.flow.intent
    work = git_notes.RecordedWork(
        project=flow.project,
        task=f"{flow.id}/{intent['cycle']}-{intent['phase']}",
        flow=flow.id,
        workflow=flow.workflow,
        phase=intent["phase"],
        role=state.phase.role,
        cycle=int(intent["cycle"]),
        attempt=int(intent["attempt"]),
        agent=intent["agent"],
        session=intent["session"],
        next=intent["next"],
    )
    checks = [Check(**{**check, "failing": tuple(check["failing"])}) for check in intent["checks"]]
    try:
        git_notes.write(
            app,
            repository=flow.repository,
            commit=head,
            tree=intent["tree"],
            work=work,
            judged=state.phase.check,
            checks=checks,
            began=float(intent["began"]),
            ended=float(intent["moment"]),
        )
    except HandoffError as error:
        with app.database.transaction() as transaction:
            flows.tell(transaction, flow, "flow.note_failed", reason=error.message)


def _advance(app: App, state: FlowState, head: str, facts: dict[str, Any]) -> Flow:
    flow, intent = state.flow, state.flow.intent
    following = str(intent["next"])
    cycle = flow.cycle + int(state.workflow.is_back(flow.phase, following))
    if cycle != flow.cycle or "cycle_base" not in facts:
        facts["cycle_base"] = head if cycle != flow.cycle else flow.base
    if (state.phase.gate or state.phase.name in flow.gated_phases) and not intent["skipped"]:
        facts["gate"] = state.phase.name
        facts["gate_subject"] = intent["documents"].get(state.phase.document, "")
    moved = flow._replace(
        head=head,
        phase=flow.phase if following == DONE else following,
        cycle=cycle,
        task=None,
        pending="",
        data="",
        reason="",
        state=flows.DONE if following == DONE else flow.state,
    )
    new = state._replace(flow=moved._replace(data=_written(facts)))
    brief = prompts.brief(app, new) if following != DONE and new.phase.role else ""
    with app.database.transaction() as transaction:
        if flow.task is not None:
            _finish_task(transaction, flow.task, intent)
        flows.tell(
            transaction,
            flow,
            "flow.skipped" if intent["skipped"] else "flow.verified",
            phase=flow.phase,
            cycle=flow.cycle,
            outcome=intent["outcome"],
            commit=head if head != flow.head else "",
            next=following,
            said=intent["said"],
            warnings=intent["warnings"],
            session=intent["session"],
        )
        return _enter(app, transaction, flow, new, facts, brief)


def _written(facts: dict[str, Any]) -> str:
    return texts.write(facts)


def _finish_task(transaction: Transaction, key: int, intent: dict[str, Any]) -> None:
    """Done, whoever holds it: it was this very phase that was judged."""
    task = tasks.get(transaction, key=key)
    if not task.ended:
        outcomes.finish(
            transaction,
            key=key,
            fence=task.fence if task.state == states.RUNNING else None,
            summary=str(intent["said"]),
            evidence={"tree": intent["tree"], "checks": len(intent["checks"])},
            session=str(intent["session"]),
        )


def _enter(app: App, transaction: Transaction, seen: Flow, new: FlowState, facts: dict[str, Any], brief: str) -> Flow:
    """The flow stands in its next phase: with a task, with the orchestrator's own move, or at its end."""
    flow = new.flow
    ended = flow.cycle > flow.max_cycles and flow.state == flows.RUNNING
    if ended:
        flow = flow._replace(state=flows.BLOCKED, reason=f"{flow.max_cycles} cycles are used up")
    task = None
    if brief and not ended and flow.state == flows.RUNNING:
        task = add_task(app, transaction, new, brief)
        asked = facts.pop("gate", "")
        if asked:
            facts["gated"] = asked
            question = f"{asked} is done; go on with {flow.phase}?"
            _ask(transaction, new, asked, task=task, question=question, subject=str(facts.pop("gate_subject", "")))
    moved = flows.move(
        transaction,
        seen,
        head=flow.head,
        phase=flow.phase,
        cycle=flow.cycle,
        task=task.key if task else None,
        state=flow.state,
        reason=flow.reason,
        pending="",
        data=facts,
    )
    if moved.state == flows.DONE:
        flows.tell(transaction, moved, "flow.done", head=moved.head, branch=moved.branch)
    elif ended:
        flows.tell(transaction, moved, "flow.blocked", reason=moved.reason)
    return moved


def add_task(app: App, transaction: Transaction, state: FlowState, brief: str) -> Task:
    """The task of the phase the flow stands in."""
    phase, flow = state.phase, state.flow
    limits = {"minutes": phase.minutes, "turns": phase.turns, "money": phase.money}
    agents = flow.agent_by_role
    return flows.add_phase(
        transaction,
        flow,
        id=f"{flow.cycle}-{phase.name}",
        title=phase.title or phase.name,
        brief=brief,
        role=phase.role,
        agent=agents.get(phase.role) or phase.agent or agents.get("", ""),
        owns=owned_patterns(state),
        attempts=phase.retries,
        limits=limits,
        host=host_label(app),
    )


def _ask(
    transaction: Transaction,
    state: FlowState,
    phase: str,
    *,
    task: Task,
    question: str,
    fence: int | None = None,
    subject: str = "",
) -> None:
    """Put the task behind the gate of a phase, with its time limit and what counts when that is up."""
    asking = state.workflow.phase(phase)
    within, default = state.flow.facts.get("gate_limits", {}).get(phase) or (asking.gate_within, asking.gate_default)
    gates.ask(
        transaction,
        key=task.key,
        question=question,
        fence=fence,
        due_seconds=within or None,
        fallback=default if within else "",
        subject=subject,
    )


# --- a phase that is not ---------------------------------------------------------------------------------


def _refused(
    app: App, state: FlowState, task: Task, said: Sequence[str], *, session: str, judged: PhaseVerdict | None = None
) -> AgentOutcome:
    """The work is kept as a snapshot and undone; the next attempt reads why. Used up: block, ask, or roll back."""
    flow, phase = state.flow, state.phase
    diff = state.flow_checkout.diff(flow.head, judged.tree) if judged else _diff_now(state)
    failure = {
        "task": task.key,
        "phase": phase.name,
        "cycle": flow.cycle,
        "attempt": task.attempt,
        "said": list(said),
        "diff": diff,
        "snapshot": _snapshot(app, state, session),
        "tail": judged.tail if judged else "",
    }
    facts = flow.facts
    facts["failures"] = [*facts.get("failures", []), failure][-_KEPT_FAILURES:]
    used_up = task.attempt >= task.max_attempts
    reason = "; ".join(said)
    with app.database.transaction() as transaction:
        held = tasks.get(transaction, key=task.key)
        if held.fence != task.fence or held.state != states.RUNNING:
            raise Conflict(f"'{task.label}' was given to somebody else.", f"See: handoff show {task.label}")
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
            snapshot=failure["snapshot"],
        )
        if used_up and phase.when_used_up == GATE:
            question = f"{phase.name} was refused {task.attempt} times ({reason}); try again?"
            _ask(transaction, state, phase.name, task=task, question=question, fence=task.fence)
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


def _diff_now(state: FlowState) -> str:
    state.flow_checkout.seal(str(state.flow.facts["git_config"]))
    return state.flow_checkout.diff(state.flow.head, state.flow_checkout.whole_tree(state.flow.head))


def _snapshot(app: App, state: FlowState, session: str) -> str:
    """The whole working tree as it is; nothing is thrown away."""
    snapshot_store = snapshots.open_snapshot_store(app, folder=state.flow.workspace)
    return snapshots.snapshot(
        app,
        snapshot_store=snapshot_store,
        request=SnapshotRequest(reason=f"the end of {state.phase.name}", session=session),
    ).sha


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
    new = state._replace(flow=back._replace(data=_written(facts)))
    flows.tell(transaction, flow, "flow.rolled_back", phase=flow.phase, to=first, head=back.head, reason=reason)
    return _enter(app, transaction, flow, new, facts, prompts.brief(app, new) if new.phase.role else "")


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
        state = now(app, flow.key)
        if state.flow.pending:
            carry_out(app, state)
            _drive(app, flow.key)
            raise Conflict(f"'{task.label}' was done already.", f"See: handoff flow status {flow.id}")
        mark = f"{task.key}:{task.attempt}"
        if state.flow.facts.get("prepared") != mark:
            restore(app, state, state.flow.head)
            documents.bring(app, state.flow)
            _forget_report(state)
            with app.database.transaction() as transaction:
                moved = flows.move(transaction, state.flow, data={**state.flow.facts, "prepared": mark})
            state = state._replace(flow=moved)
        return prompts.baton(app, state, _with_answer(app, state, task))


def _forget_report(state: FlowState) -> None:
    """A report from an earlier round, which git may ignore, must not speak for this one."""
    path = os.path.join(state.flow.workspace, state.phase.report)
    if state.phase.report and os.path.lexists(path):
        os.unlink(path)


def _with_answer(app: App, state: FlowState, task: Task) -> Task:
    """A document that a person changed at the gate is the document from now on, and the session reads that one."""
    gate = gates.of_task(app.database, key=task.key)
    name = prompts.asked_about(state)
    if gate is None or gate.state != gates.APPROVED or not gate.answer or not name:
        return task
    documents.publish(app, state.flow, {name: gate.answer})
    documents.bring(app, state.flow)
    return task._replace(brief=prompts.brief(app, state))


def drive(app: App, key: int) -> Flow:
    """Do what is the orchestrator's own move, until a session is needed or the flow ends."""
    flow = flows.get(app.database, key=key)
    with moving(app, flow):
        moved = _drive(app, key)
    if moved.version != flow.version:
        views.refresh_or_tell(app, flow.project, f"The flow '{flow.id}' has moved on")
    return moved


def _drive(app: App, key: int) -> Flow:
    while True:
        state = now(app, key)
        flow = state.flow
        if flow.state != flows.RUNNING or flow.ended_at is not None:
            return flow
        if flow.pending:
            carry_out(app, state)
            continue
        if flow.task is not None:
            return flow
        if state.phase.role:
            brief = prompts.brief(app, state)
            with app.database.transaction() as transaction:
                _enter(app, transaction, flow, state, flow.facts, brief)
            continue
        judged = judge.judge_phase(app, state)
        if judged.ok:
            write_intent(app, state, judged)
            continue
        reason = "; ".join(str(one) for one in judged.faults)
        with app.database.transaction() as transaction:
            flows.tell(transaction, flow, "flow.blocked", phase=flow.phase, cycle=flow.cycle, reason=reason)
            return flows.move(transaction, flow, state=flows.BLOCKED, reason=reason)
