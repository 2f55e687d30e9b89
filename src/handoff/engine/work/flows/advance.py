"""From a verdict to the next phase: what was decided about a phase, its flow's branch, and which phase follows.

The decision is a row like that of any other task, and whoever finds it open carries it out. The commit comes out the same, the
note and the documents are written again without effect, and the last transaction finishes the task, moves the flow and adds
the next phase's task, or nothing of it.
"""

from __future__ import annotations

import os

from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.board import gates
from handoff.board.events import texts
from handoff.board.sessions import leases
from handoff.board.tasks import decisions, flows, outcomes, states, tasks
from handoff.checks.judge import NOT_TESTED
from handoff.engine.app.home import host_label
from handoff.engine.place.proof import git_notes
from handoff.engine.work.flows import documents, evidence, prompts
from handoff.engine.work.flows.state import NO_PATH, moving, now, owned_patterns
from handoff.git.commits.phases import publish
from handoff.workflows.model import DONE

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.tasks.decisions import Decision
    from handoff.board.tasks.flows import Flow
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.work.flows.judge import PhaseVerdict
    from handoff.engine.work.flows.state import FlowState
    from handoff.store.database import Transaction

_SUMMARY = 300
_REQUEST_LENGTH = 1000


def decide(
    app: App,
    state: FlowState,
    judged: PhaseVerdict,
    *,
    task: Task | None = None,
    fence: int = 0,
    session: str = "",
    skipped: str = "",
) -> Decision:
    """Write down what was decided about the phase, before anything is done about it. Raises Conflict where it is in other hands."""
    phase, flow = state.phase, state.flow
    said = f"{phase.name}: {judged.subject or judged.outcome}" + (f" (skipped: {skipped})" if skipped else "")
    intent = {
        "phase": phase.name,
        "cycle": flow.cycle,
        "outcome": judged.outcome,
        "next": phase.next[judged.outcome],
        "tree": judged.tree,
        "message": _message(state, judged, task) if phase.commit and judged.changed else "",
        "moment": int(app.clock.now()),
        "said": said[:_SUMMARY],
        "checks": [check._asdict() for check in judged.checks],
        "asked": evidence.asked_lines(judged.checks),
        "facts": judged.facts,
        "documents": judged.documents,
        "home": documents.plan_home(app, flow, judged.documents),
        "step": judged.step,
        "session": session,
        "agent": task.held_agent if task else "",
        "skipped": skipped,
        "attempt": task.attempt if task else 1,
        "began": (task.started_at if task else None) or flow.changed_at,
        "warnings": [str(one) for one in judged.warnings],
        "tested": not any(one.code == NOT_TESTED for one in judged.warnings),
    }
    with app.database.transaction() as transaction:
        if task is not None and fence:  # nobody gives the task away beside it
            leases.heartbeat(transaction, key=task.key, fence=fence)
        decision = decisions.add_phase(
            transaction, flow, fence=fence, session=session, host=app.settings.host, intent=intent
        )
    if decision is None:
        raise flows.moved_on(flow)
    return decision


def _message(state: FlowState, judged: PhaseVerdict, task: Task | None) -> str:
    """The commit's words: what the phase is about, and whose it is, for people and for `git interpret-trailers`."""
    trailers = {
        "Handoff-Flow": state.flow.id,
        "Handoff-Task": task.label if task else f"{state.flow.id}/{state.flow.cycle}-{state.phase.name}",
        "Handoff-Phase": state.phase.name,
        "Handoff-Cycle": state.flow.cycle,
        "Handoff-Attempt": task.attempt if task else 1,
        "Handoff-Workflow": state.flow.workflow,
        "Handoff-Next": state.phase.next[judged.outcome],
    }
    if test := str({**state.flow.facts, **judged.facts}.get("test", "")):
        trailers["Handoff-Test"] = " ".join(test.split())
    if state.flow.head == state.flow.base:
        trailers["Handoff-Request"] = " ".join(state.flow.request.split())[:_REQUEST_LENGTH]
    tested = evidence.tested_lines(judged.checks, judged.warnings)
    if tested:
        trailers["Handoff-Tested"] = " ".join("; ".join(tested).split())
    if task is not None and task.held_agent:
        trailers["Handoff-Agent"] = task.held_agent
    subject = prompts.subject(state, judged.subject or state.phase.title or state.phase.name)
    return f"{subject}\n\n" + "".join(f"{name}: {value}\n" for name, value in trailers.items())


def settle(app: App, key: int) -> FlowState:
    """The flow as it stands when what was decided about its phase is carried out; for who is alone with it."""
    state, decision = now(app, key), decisions.of_flow(app.database, key=key)
    if decision is None:
        return state
    carry(app, state, decision)
    return now(app, key)


def carry_on(app: App, key: int, *, patience: float) -> str:
    """The same for whoever finds it; the flow's id. Where the clone is not on this machine, nothing is done and named."""
    flow = flows.get(app.database, key=key)
    if not os.path.isdir(flow.workspace):
        return ""
    with moving(app, flow, patience=patience):
        settle(app, key)
    return flow.id


def carry(app: App, state: FlowState, decision: Decision) -> Flow:
    """Do what was decided. Every part may be repeated; the last one moves the rows, all or nothing."""
    flow, intent, checkout = state.flow, decision.intent, state.flow_checkout
    checkout.seal(str(flow.facts["git_config"]))
    head = flow.head
    if intent["message"]:  # the same values give the same commit
        head = checkout.commit(
            tree=intent["tree"], parent=flow.head, message=intent["message"], moment=int(intent["moment"])
        )
    if head != flow.head or not checkout.is_at(head):
        checkout.arrive(head)
    untested = [name for name in flow.facts.get("untested", ()) if name != intent["phase"]]
    untested += [] if intent.get("tested", True) else [intent["phase"]]
    facts = {**flow.facts, **intent["facts"], "note": "", "untested": untested}
    if head != flow.head:
        facts["published"] = publish(flow.repository, checkout, app.git_environment)
    if intent["checks"] or head != flow.head:
        trouble = git_notes.put(app, _note(state, intent, head))
        if trouble:
            with app.database.transaction() as transaction:
                flows.tell(transaction, flow, "flow.note_failed", reason=trouble)
    if intent["documents"]:
        documents.take_home(app, flow, intent)
    if intent["step"]:
        documents.tick(app, flow, intent, commit=head)
    return _advance(app, state, decision, head, facts)


def _note(state: FlowState, intent: dict[str, Any], head: str) -> dict[str, Any]:
    """The record on the commit of a phase."""
    flow, same = state.flow, {name: intent[name] for name in ("phase", "cycle", "attempt", "agent", "session", "next")}
    work = {
        "project": flow.project,
        "task": f"{flow.id}/{intent['cycle']}-{intent['phase']}",
        "flow": flow.id,
        "workflow": flow.workflow,
        "role": state.phase.role,
        **same,
    }
    when = {"began": float(intent["began"]), "ended": float(intent["moment"])}
    said = {"work": work, "judged": state.phase.check, "checks": intent["checks"], **when}
    return {"repository": flow.repository, "commit": head, "tree": intent["tree"], **said}


def _advance(app: App, state: FlowState, decision: Decision, head: str, facts: dict[str, Any]) -> Flow:
    flow, intent = state.flow, decision.intent
    following = str(intent["next"])
    gated = (state.phase.gate or state.phase.name in flow.gated_phases) and not intent["skipped"]
    if gated:
        facts["gate"] = state.phase.name
        planned = state.phase.check == "test-list" and following != DONE and state.workflow.phase(following).role
        text = state.flow_checkout.read(head, state.workflow.test_list) if planned else None
        facts["gate_subject"] = text or intent["documents"].get(state.phase.document, "")
        facts["gate_page"] = evidence.gate_page(app, state, head, facts)
    if gated and (following == DONE or not state.workflow.phase(following).role):
        facts["after_gate"] = following  # no session follows whose task could wait: the answer itself is waited for
        new, brief = state._replace(flow=flow._replace(head=head, task=None, data=texts.write(facts))), ""
    else:
        new, brief = _stand(app, state, head, following, facts)
    with app.database.transaction() as transaction:
        decisions.move(transaction, decision, state=decisions.DONE)
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
            tested=intent.get("tested", True),
            asked=intent.get("asked", []),
        )
        return enter(app, transaction, flow, new, facts, brief)


def _stand(app: App, state: FlowState, head: str, following: str, facts: dict[str, Any]) -> tuple[FlowState, str]:
    """The flow as it stands in the phase that follows, and what that phase's session is told."""
    flow = state.flow
    cycle = flow.cycle + int(state.workflow.is_back(flow.phase, following))
    if cycle != flow.cycle or "cycle_base" not in facts:
        facts["cycle_base"] = head if cycle != flow.cycle else flow.base
    moved = flow._replace(
        head=head,
        phase=flow.phase if following == DONE else following,
        cycle=cycle,
        task=None,
        data="",
        reason="",
        state=flows.DONE if following == DONE else flow.state,
    )
    new = state._replace(flow=moved._replace(data=texts.write(facts)))
    return new, prompts.brief(app, new) if following != DONE and new.phase.role else ""


def go_on(app: App, state: FlowState) -> Flow:
    """A person said yes where no session follows: the flow takes the way that was decided before the question."""
    facts = state.flow.facts
    new, brief = _stand(app, state, state.flow.head, str(facts.pop("after_gate")), facts)
    with app.database.transaction() as transaction:
        return enter(app, transaction, state.flow, new, facts, brief)


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


def enter(app: App, transaction: Transaction, seen: Flow, new: FlowState, facts: dict[str, Any], brief: str) -> Flow:
    """The flow stands in its next phase: with a task, with the orchestrator's own move, or at its end."""
    flow = new.flow
    ended = flow.cycle > flow.max_cycles and flow.state == flows.RUNNING
    if ended:
        flow = flow._replace(
            state=flows.BLOCKED, reason=f"the limit of {number_of(flow.max_cycles, 'cycle')} is reached"
        )
    task = None
    if not ended and flow.state == flows.RUNNING and facts.get("after_gate") and "gate" in facts:
        task = _add_task(app, transaction, new, "")
        _ask_person(transaction, new, task, facts, "end the flow" if facts["after_gate"] == DONE else "go on")
    elif brief and not ended and flow.state == flows.RUNNING:
        task = _add_task(app, transaction, new, brief)
        if facts.get("gate"):
            _ask_person(transaction, new, task, facts, f"go on with {flow.phase}")
    standing = {name: getattr(flow, name) for name in ("head", "phase", "cycle", "state", "reason")}
    moved = flows.move(transaction, seen, task=task.key if task else None, data=facts, **standing)
    if moved.state == flows.DONE:
        flows.tell(transaction, moved, "flow.done", head=moved.head, branch=moved.branch)
    elif ended:
        flows.tell(transaction, moved, "flow.blocked", reason=moved.reason)
    return moved


def _ask_person(transaction: Transaction, new: FlowState, task: Task, facts: dict[str, Any], what: str) -> None:
    """The gate that was ordered: the question, and below it what there is to go by."""
    asked = facts["gated"] = str(facts.pop("gate"))
    question = f"{asked} is done; {what}?\n{facts.pop('gate_page', '')}".rstrip()
    on_yes = states.DONE if facts.get("after_gate") else states.READY
    ask(
        transaction, new, asked, task=task, question=question, subject=str(facts.pop("gate_subject", "")), on_yes=on_yes
    )


def _add_task(app: App, transaction: Transaction, state: FlowState, brief: str) -> Task:
    """The task of the phase the flow stands in; without a brief one that nobody works on: it waits for a person's answer."""
    phase, flow, agents = state.phase, state.flow, state.flow.agent_by_role
    models = flow.facts.get("models", {})
    return flows.add_phase(
        transaction,
        flow,
        id=f"{flow.cycle}-{phase.name}" + ("" if brief else "-answer"),
        title=(phase.title or phase.name) if brief else f"a person's word on {phase.name}",
        brief=brief or "A person answers; there is nothing to be done.\n",
        role=phase.role if brief else "",
        agent=(agents.get(phase.role) or phase.agent or agents.get("", "")) if brief else "",
        model=models.get(phase.role) or phase.model or models.get("", ""),
        owns=owned_patterns(state) if brief else (NO_PATH,),
        attempts=phase.retries if brief else 1,
        limits={"minutes": phase.minutes, "turns": phase.turns, "money": phase.money} if brief else {},
        host=host_label(app),
    )


def ask(
    transaction: Transaction,
    state: FlowState,
    phase: str,
    *,
    task: Task,
    question: str,
    fence: int | None = None,
    subject: str = "",
    on_yes: str = states.READY,
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
        on_yes=on_yes,
    )
