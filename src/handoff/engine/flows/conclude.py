"""A phase is over: judge it, write down what was decided, carry that out, and chain the next one.

What was decided stands in the flow's row before anything is done about it (`pending`). Whoever finds it there after a crash
carries it out: the commit comes out the same, the note and the documents are written again without effect, and the last
transaction finishes the task, moves the flow and adds the next phase's task, or nothing of it.
"""

from __future__ import annotations

import os

from handoff.agents.contract import FAILED, LIMIT, OK, Outcome
from handoff.base.errors import Conflict, HandoffError
from handoff.base.record import TYPE_CHECKING
from handoff.board import gates
from handoff.board.events import texts
from handoff.board.sessions import leases
from handoff.board.tasks import flows, outcomes, states, tasks
from handoff.engine.fanout import views
from handoff.engine.flows import documents, judge, prompts
from handoff.engine.flows.state import Standing, moving, now, owned
from handoff.engine.home import host_label
from handoff.engine.proof import git_notes
from handoff.engine.safety import snapshots
from handoff.git.commits.phases import publish
from handoff.git.notes.record import Check
from handoff.git.snapshots.take import Wish
from handoff.workflows.model import DONE, GATE, ROLL_BACK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from handoff.board.tasks.flows import Flow
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.flows.judge import Judged
    from handoff.engine.tasks.kinds import Over
    from handoff.store.database import Transaction

_KEPT_FAILURES = 12
_SUMMARY = 300


def decide(app: App, over: Over) -> Outcome | None:
    """What comes of a phase's session. None leaves it to the ordinary way: it reported, or waits for its provider."""
    flow = flows.of_task(app.database, task=over.task.key)
    if flow is None:
        return Outcome(OK, over.task.result) if over.task.ended else Outcome(FAILED, "the flow it belongs to is gone")
    with moving(app, flow):
        at = now(app, flow.key)
        if at.flow.task != over.task.key:
            return Outcome(OK, over.task.result)
        if at.flow.pending:
            return _carried(app, at)
        if not over.holds or over.outcome.kind == LIMIT or over.outcome.asked:
            return None
        if over.outcome.kind != OK:
            said = [f"session-failed: {over.outcome.reason or over.outcome.kind}"]
            return _refused(app, at, over.task, said, session=over.session)
        judged = judge.judge_phase(app, at)
        if not judged.ok:
            said = [str(one) for one in judged.faults]
            return _refused(app, at, over.task, said, session=over.session, judged=judged)
        if judged.more:
            _snapshot(app, at, over.session)
        write_intent(app, at, judged, task=over.task, session=over.session)
        return _carried(app, now(app, flow.key))


def _carried(app: App, at: Standing) -> Outcome:
    done = at.flow.intent
    carry_out(app, at)
    _drive(app, at.flow.key)
    return Outcome(OK, str(done.get("said", "")))


# --- a phase that is right -------------------------------------------------------------------------------


def write_intent(
    app: App, at: Standing, judged: Judged, *, task: Task | None = None, session: str = "", skipped: str = ""
) -> Flow:
    """Write down what was decided about the phase, before anything is done about it."""
    phase, flow = at.phase, at.flow
    moment = int(app.clock.now())
    following = phase.next[judged.outcome]
    said = f"{phase.name}: {judged.subject or judged.outcome}" + (f" (skipped: {skipped})" if skipped else "")
    intent = {
        "phase": phase.name, "cycle": flow.cycle, "outcome": judged.outcome, "next": following, "tree": judged.tree,
        "message": _message(at, judged, task) if phase.commit and judged.changed else "", "moment": moment, "said": said[:_SUMMARY],
        "checks": [check._asdict() for check in judged.checks], "facts": judged.facts, "documents": judged.documents,
        "step": judged.step, "session": session, "agent": task.held_agent if task else "", "skipped": skipped,
        "attempt": task.attempt if task else 1, "began": (task.started_at if task else None) or flow.changed_at,
        "warnings": [str(one) for one in judged.warnings],
    }  # fmt: skip
    with app.database.transaction() as transaction:
        return flows.move(transaction, flow, pending=intent)


def _message(at: Standing, judged: Judged, task: Task | None) -> str:
    """The commit's words: what the phase is about, and whose it is, for people and for `git interpret-trailers`."""
    trailers = {
        "Handoff-Flow": at.flow.id, "Handoff-Task": task.label if task else f"{at.flow.id}/{at.flow.cycle}-{at.phase.name}",
        "Handoff-Phase": at.phase.name, "Handoff-Cycle": at.flow.cycle, "Handoff-Attempt": task.attempt if task else 1,
    }  # fmt: skip
    subject = prompts.subject(at, judged.subject or at.phase.title or at.phase.name)
    return f"{subject}\n\n" + "".join(f"{name}: {value}\n" for name, value in trailers.items())


def carry_out(app: App, at: Standing) -> Flow:
    """Do what was decided. Every part may be repeated; the last one moves the rows, all or nothing."""
    flow, intent = at.flow, at.flow.intent
    at.lane.seal(str(flow.facts["git_config"]))
    head = flow.head
    if intent["message"]:
        head = at.lane.commit(
            tree=intent["tree"], parent=flow.head, message=intent["message"], moment=int(intent["moment"])
        )
    if head != flow.head or not at.lane.is_at(head):
        at.lane.arrive(head)
    facts = {**flow.facts, **intent["facts"], "note": ""}
    if head != flow.head:
        facts["published"] = publish(flow.repository, at.lane, app.git_environment)
    if intent["documents"]:
        documents.publish(app, flow, intent["documents"])
    if intent["step"]:
        documents.tick(app, flow, step=intent["step"], commit=head, moment=float(intent["moment"]))
    if intent["checks"] or head != flow.head:
        _note(app, at, head)
    return _advance(app, at, head, facts)


def _note(app: App, at: Standing, head: str) -> None:
    """The record on the commit; that it could not be written is no reason to do the phase again."""
    flow, intent = at.flow, at.flow.intent
    work = git_notes.Work(
        flow.project, f"{flow.id}/{intent['cycle']}-{intent['phase']}", flow.id, flow.workflow, intent["phase"],
        at.phase.role, int(intent["cycle"]), int(intent["attempt"]), intent["agent"], intent["session"], intent["next"],
    )  # fmt: skip
    checks = [Check(**{**check, "failing": tuple(check["failing"])}) for check in intent["checks"]]
    try:
        git_notes.write(
            app, repository=flow.repository, commit=head, tree=intent["tree"], work=work, judged=at.phase.check,
            checks=checks, began=float(intent["began"]), ended=float(intent["moment"]),
        )  # fmt: skip
    except HandoffError as error:
        with app.database.transaction() as transaction:
            flows.tell(transaction, flow, "flow.note_failed", reason=error.message)


def _advance(app: App, at: Standing, head: str, facts: dict[str, Any]) -> Flow:
    flow, intent = at.flow, at.flow.intent
    following = str(intent["next"])
    cycle = flow.cycle + int(at.workflow.is_back(flow.phase, following))
    if cycle != flow.cycle or "cycle_base" not in facts:
        facts["cycle_base"] = head if cycle != flow.cycle else flow.base
    if (at.phase.gate or at.phase.name in flow.gated_phases) and not intent["skipped"]:
        facts["gate"] = at.phase.name
        facts["gate_subject"] = intent["documents"].get(at.phase.document, "")
    moved = flow._replace(
        head=head, phase=flow.phase if following == DONE else following, cycle=cycle, task=None, pending="",
        data="", reason="", state=flows.DONE if following == DONE else flow.state,
    )  # fmt: skip
    new = at._replace(flow=moved._replace(data=_written(facts)))
    brief = prompts.brief(app, new) if following != DONE and new.phase.role else ""
    with app.database.transaction() as transaction:
        if flow.task is not None:
            _finish_task(transaction, flow.task, intent)
        flows.tell(
            transaction, flow, "flow.skipped" if intent["skipped"] else "flow.verified", phase=flow.phase,
            cycle=flow.cycle, outcome=intent["outcome"], commit=head if head != flow.head else "", next=following,
            said=intent["said"], warnings=intent["warnings"], session=intent["session"],
        )  # fmt: skip
        return _enter(app, transaction, flow, new, facts, brief)


def _written(facts: dict[str, Any]) -> str:
    return texts.write(facts)


def _finish_task(transaction: Transaction, key: int, intent: dict[str, Any]) -> None:
    """Done, whoever holds it: it was this very phase that was judged."""
    task = tasks.get(transaction, key=key)
    if not task.ended:
        outcomes.finish(
            transaction, key=key, fence=task.fence if task.state == states.RUNNING else None,
            summary=str(intent["said"]), evidence={"tree": intent["tree"], "checks": len(intent["checks"])},
            session=str(intent["session"]),
        )  # fmt: skip


def _enter(app: App, transaction: Transaction, seen: Flow, new: Standing, facts: dict[str, Any], brief: str) -> Flow:
    """The flow stands in its next phase: with a task, with the orchestrator's own move, or at its end."""
    flow = new.flow
    over = flow.cycle > flow.max_cycles and flow.state == flows.RUNNING
    if over:
        flow = flow._replace(state=flows.BLOCKED, reason=f"{flow.max_cycles} cycles are used up")
    task = None
    if brief and not over and flow.state == flows.RUNNING:
        task = add_task(app, transaction, new, brief)
        asked = facts.pop("gate", "")
        if asked:
            facts["gated"] = asked
            question = f"{asked} is done; go on with {flow.phase}?"
            _ask(transaction, new, asked, task=task, question=question, subject=str(facts.pop("gate_subject", "")))
    moved = flows.move(
        transaction, seen, head=flow.head, phase=flow.phase, cycle=flow.cycle, task=task.key if task else None,
        state=flow.state, reason=flow.reason, pending="", data=facts,
    )  # fmt: skip
    if moved.state == flows.DONE:
        flows.tell(transaction, moved, "flow.done", head=moved.head, branch=moved.branch)
    elif over:
        flows.tell(transaction, moved, "flow.blocked", reason=moved.reason)
    return moved


def add_task(app: App, transaction: Transaction, at: Standing, brief: str) -> Task:
    """The task of the phase the flow stands in."""
    phase, flow = at.phase, at.flow
    limits = {"minutes": phase.minutes, "turns": phase.turns, "money": phase.money}
    agents = flow.agent_by_role
    return flows.add_phase(
        transaction, flow, id=f"{flow.cycle}-{phase.name}", title=phase.title or phase.name, brief=brief,
        role=phase.role, agent=agents.get(phase.role) or phase.agent or agents.get("", ""), owns=owned(at),
        attempts=phase.retries, limits=limits, host=host_label(app),
    )  # fmt: skip


def _ask(
    transaction: Transaction, at: Standing, phase: str, *, task: Task, question: str, fence: int | None = None,
    subject: str = "",
) -> None:  # fmt: skip
    """Put the task behind the gate of a phase, with its time limit and what counts when that is up."""
    asking = at.workflow.phase(phase)
    within, default = at.flow.facts.get("gate_limits", {}).get(phase) or (asking.gate_within, asking.gate_default)
    gates.ask(
        transaction, key=task.key, question=question, fence=fence, due_seconds=within or None,
        fallback=default if within else "", subject=subject,
    )  # fmt: skip


# --- a phase that is not ---------------------------------------------------------------------------------


def _refused(
    app: App, at: Standing, task: Task, said: Sequence[str], *, session: str, judged: Judged | None = None
) -> Outcome:
    """The work is kept as a snapshot and undone; the next attempt reads why. Used up: block, ask, or roll back."""
    flow, phase = at.flow, at.phase
    diff = at.lane.diff(flow.head, judged.tree) if judged else _diff_now(at)
    failure = {
        "task": task.key, "phase": phase.name, "cycle": flow.cycle, "attempt": task.attempt, "said": list(said),
        "diff": diff, "snapshot": _snapshot(app, at, session), "tail": judged.tail if judged else "",
    }  # fmt: skip
    facts = flow.facts
    facts["failures"] = [*facts.get("failures", []), failure][-_KEPT_FAILURES:]
    used_up = task.attempt >= task.max_attempts
    reason = "; ".join(said)
    with app.database.transaction() as transaction:
        held = tasks.get(transaction, key=task.key)
        if held.fence != task.fence or held.state != states.RUNNING:
            raise Conflict(f"'{task.label}' was given to somebody else.", f"See: handoff show {task.label}")
        flows.tell(
            transaction, flow, "flow.refused", task=held, session=session, phase=phase.name, cycle=flow.cycle,
            attempt=task.attempt, said=list(said), snapshot=failure["snapshot"],
        )  # fmt: skip
        if used_up and phase.when_used_up == GATE:
            question = f"{phase.name} was refused {task.attempt} times ({reason}); try again?"
            _ask(transaction, at, phase.name, task=task, question=question, fence=task.fence)
            flow = flows.move(transaction, flow, data=facts)
        elif used_up and phase.when_used_up == ROLL_BACK:
            flow = _roll_back_cycle(app, transaction, at, facts, reason)
        else:
            leases.hand_back(transaction, task=held, reason=reason)
            if not used_up:
                pauses = phase.back_off_seconds
                pause = pauses[min(task.attempt, len(pauses)) - 1] if pauses else 0.0
                tasks.edit(transaction, key=task.key, not_before=transaction.now() + pause if pause else 0.0)
            flow = flows.move(transaction, flow, data=facts)
    restore(app, at._replace(flow=flow), flow.head)
    if flow.task is None:
        _drive(app, flow.key)
    return Outcome(FAILED, reason)


def _diff_now(at: Standing) -> str:
    at.lane.seal(str(at.flow.facts["git_config"]))
    return at.lane.diff(at.flow.head, at.lane.whole_tree(at.flow.head))


def _snapshot(app: App, at: Standing, session: str) -> str:
    """The whole working tree as it is; nothing is thrown away."""
    vault = snapshots.open_vault(app, folder=at.flow.workspace)
    return snapshots.snapshot(app, vault=vault, wish=Wish(f"the end of {at.phase.name}", session=session)).sha


def _roll_back_cycle(app: App, transaction: Transaction, at: Standing, facts: dict[str, Any], reason: str) -> Flow:
    """Back to where the cycle began: its first phase gets another chance, in another cycle."""
    flow = at.flow
    first = at.workflow.phases[0].name
    for event in flows.events(transaction, flow):
        if event.kind == "flow.verified" and at.workflow.is_back(event.body["phase"], event.body["next"]):
            first = str(event.body["next"])
    assert flow.task is not None  # noqa: S101 - a refused phase has its task
    outcomes.cancel(transaction, key=flow.task, reason=f"rolled back: {reason}")
    back = flow._replace(head=str(facts["cycle_base"]), phase=first, cycle=flow.cycle + 1, task=None)
    new = at._replace(flow=back._replace(data=_written(facts)))
    flows.tell(transaction, flow, "flow.rolled_back", phase=flow.phase, to=first, head=back.head, reason=reason)
    return _enter(app, transaction, flow, new, facts, prompts.brief(app, new) if new.phase.role else "")


def restore(app: App, at: Standing, commit: str) -> None:
    """The workspace as the last good commit has it; what lay there is in a snapshot first."""
    at.lane.seal(str(at.flow.facts["git_config"]))
    if not at.lane.is_at(commit):
        _snapshot(app, at, "")
        at.lane.arrive(commit)


# --- before a session, and without one -------------------------------------------------------------------


def prepare(app: App, task: Task) -> str:
    """Before a phase's session: the workspace is clean, what a crash left is carried out, and the baton is written.

    A session that ended for its provider's limit goes on in what it left; any other attempt begins at the last good commit.
    """
    flow = flows.of_task(app.database, task=task.key)
    if flow is None:
        raise Conflict(f"The flow of '{task.label}' has gone on without it.", f"See: handoff show {task.label}")
    with moving(app, flow):
        at = now(app, flow.key)
        if at.flow.pending:
            carry_out(app, at)
            _drive(app, flow.key)
            raise Conflict(f"'{task.label}' was done already.", f"See: handoff flow status {flow.id}")
        mark = f"{task.key}:{task.attempt}"
        if at.flow.facts.get("prepared") != mark:
            restore(app, at, at.flow.head)
            documents.bring(app, at.flow)
            _forget_report(at)
            with app.database.transaction() as transaction:
                moved = flows.move(transaction, at.flow, data={**at.flow.facts, "prepared": mark})
            at = at._replace(flow=moved)
        return prompts.baton(app, at, _with_answer(app, at, task))


def _forget_report(at: Standing) -> None:
    """A report from an earlier round, which git may ignore, must not speak for this one."""
    path = os.path.join(at.flow.workspace, at.phase.report)
    if at.phase.report and os.path.lexists(path):
        os.unlink(path)


def _with_answer(app: App, at: Standing, task: Task) -> Task:
    """A document that a person changed at the gate is the document from now on, and the session reads that one."""
    gate = gates.of_task(app.database, key=task.key)
    name = prompts.asked_about(at)
    if gate is None or gate.state != gates.APPROVED or not gate.answer or not name:
        return task
    documents.publish(app, at.flow, {name: gate.answer})
    documents.bring(app, at.flow)
    return task._replace(brief=prompts.brief(app, at))


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
        at = now(app, key)
        flow = at.flow
        if flow.state != flows.RUNNING or flow.ended_at is not None:
            return flow
        if flow.pending:
            carry_out(app, at)
            continue
        if flow.task is not None:
            return flow
        if at.phase.role:
            brief = prompts.brief(app, at)
            with app.database.transaction() as transaction:
                _enter(app, transaction, flow, at, flow.facts, brief)
            continue
        judged = judge.judge_phase(app, at)
        if judged.ok:
            write_intent(app, at, judged)
            continue
        reason = "; ".join(str(one) for one in judged.faults)
        with app.database.transaction() as transaction:
            flows.tell(transaction, flow, "flow.blocked", phase=flow.phase, cycle=flow.cycle, reason=reason)
            return flows.move(transaction, flow, state=flows.BLOCKED, reason=reason)
