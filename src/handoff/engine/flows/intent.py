"""What was decided about a phase stands in the flow's row before anything is done about it; then it is carried out.

Whoever finds it there (`pending`) after a crash carries it out: the commit comes out the same, the note and the documents
are written again without effect, and the last transaction finishes the task, moves the flow and adds the next phase's
task, or nothing of it.
"""

from __future__ import annotations

from handoff.base.errors import HandoffError
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.board import gates
from handoff.board.events import texts
from handoff.board.tasks import flows, outcomes, states, tasks
from handoff.checks.judge import NOT_TESTED
from handoff.engine.flows import documents, evidence, prompts
from handoff.engine.flows.state import NO_PATH, owned_patterns
from handoff.engine.home import host_label
from handoff.engine.proof import git_notes
from handoff.git.commits.phases import publish
from handoff.git.notes.record import Check
from handoff.workflows.model import DONE

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.tasks.flows import Flow
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.flows.judge import PhaseVerdict
    from handoff.engine.flows.state import FlowState
    from handoff.store.database import Transaction

_SUMMARY = 300
_REQUEST_LENGTH = 1000
_GREEN_BEFORE = "its check was green before the work too"


def write_intent(
    app: App, state: FlowState, judged: PhaseVerdict, *, task: Task | None = None, session: str = "", skipped: str = ""
) -> Flow:
    """Write down what was decided about the phase, before anything is done about it."""
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
        "facts": judged.facts,
        "documents": judged.documents,
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
        return flows.move(transaction, flow, pending=intent)


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
    facts = {**flow.facts, **intent["facts"], "note": "", "untested": _untested(flow, intent)}
    if head != flow.head:
        facts["published"] = publish(flow.repository, state.flow_checkout, app.git_environment)
    if intent["documents"]:
        documents.publish(app, flow, intent["documents"])
    if intent["step"]:
        doubt = next((_GREEN_BEFORE for one in intent["warnings"] if one.startswith(f"{evidence.GREEN_BEFORE}:")), "")
        documents.tick(app, flow, step=intent["step"], commit=head, moment=float(intent["moment"]), doubt=doubt)
    if intent["checks"] or head != flow.head:
        _note(app, state, head)
    return _advance(app, state, head, facts)


def _untested(flow: Flow, intent: dict[str, Any]) -> list[str]:
    """The phases whose last result no test has seen."""
    others = [name for name in flow.facts.get("untested", ()) if name != intent["phase"]]
    return others if intent.get("tested", True) else [*others, intent["phase"]]


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
        pending="",
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
        task = _add_question(app, transaction, new)
        _ask_person(transaction, new, task, facts, "end the flow" if facts["after_gate"] == DONE else "go on")
    elif brief and not ended and flow.state == flows.RUNNING:
        task = add_task(app, transaction, new, brief)
        if facts.get("gate"):
            _ask_person(transaction, new, task, facts, f"go on with {flow.phase}")
    standing = {name: getattr(flow, name) for name in ("head", "phase", "cycle", "state", "reason")}
    moved = flows.move(transaction, seen, task=task.key if task else None, pending="", data=facts, **standing)
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


def _add_question(app: App, transaction: Transaction, state: FlowState) -> Task:
    """A task nobody works on: it only waits for a person's answer."""
    flow = state.flow
    return flows.add_phase(
        transaction,
        flow,
        id=f"{flow.cycle}-{flow.phase}-answer",
        title=f"a person's word on {flow.phase}",
        brief="A person answers; there is nothing to be done.\n",
        role="",
        agent="",
        owns=(NO_PATH,),
        attempts=1,
        limits={},
        host=host_label(app),
    )


def add_task(app: App, transaction: Transaction, state: FlowState, brief: str) -> Task:
    """The task of the phase the flow stands in."""
    phase, flow, agents = state.phase, state.flow, state.flow.agent_by_role
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
        limits={"minutes": phase.minutes, "turns": phase.turns, "money": phase.money},
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
