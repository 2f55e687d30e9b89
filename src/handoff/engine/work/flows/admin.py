"""What a person does to a flow: pass a phase over, pause it, go on, take it back, let it try again."""

from __future__ import annotations

import os

from handoff.base.errors import Conflict, Refused, UserError
from handoff.base.files import read_text
from handoff.base.process import pass_through
from handoff.base.record import TYPE_CHECKING
from handoff.board.sessions import pauses
from handoff.board.tasks import decisions, flows, outcomes, states, tasks
from handoff.engine.place import running
from handoff.engine.place.fanout import views
from handoff.engine.work.flows import advance, conclude
from handoff.engine.work.flows.flows import look
from handoff.engine.work.flows.judge import PhaseVerdict
from handoff.engine.work.flows.state import moving
from handoff.workflows.model import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.board.tasks.flows import Flow
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

_SKIPPABLE = ("refactor", "suite", "command", "document", "review", "none")


def skip(app: App, *, flow: Flow, reason: str) -> Flow:
    """Pass a phase over, on a person's word; only where nothing that follows rests on what it would have proved."""
    with moving(app, flow):
        state = advance.settle(app, flow.key)
        task = tasks.get(app.database, key=state.flow.task) if state.flow.task is not None else None
        if state.flow.ended_at is not None or (task is not None and task.state == states.RUNNING):
            raise Conflict(f"'{flow.id}' has nothing to skip now.", f"See: {app.settings.program} show {flow.id}")
        if state.phase.check not in _SKIPPABLE:
            raise Refused(
                f"{state.phase.name} cannot be skipped: what follows rests on its check '{state.phase.check}'.",
                f"Do it by hand: {app.settings.program} flow step {flow.id} --agent person",
            )
        tree = state.flow_checkout.ask("rev-parse", f"{state.flow.head}^{{tree}}").strip()
        verdict = PhaseVerdict(outcome=OUTCOMES[state.phase.check][0], tree=tree)
        advance.decide(app, state, verdict, task=task, skipped=reason)
    return conclude.drive(app, flow.key)


def pause(app: App, *, flow: Flow) -> Flow:
    """Nothing new begins; a session that runs goes on to its end and is judged."""
    with moving(app, flow), app.database.transaction() as transaction:
        flow = flows.get(transaction, key=flow.key)
        if flow.ended_at is not None or flow.state == flows.PAUSED:
            raise Conflict(f"The flow '{flow.id}' is {flow.state}.")
        if flow.task is not None:
            task = tasks.get(transaction, key=flow.task)
            pauses.pause(
                transaction, scope=pauses.TASK, project=flow.project, name=task.label, reason="its flow is paused"
            )
        flows.tell(transaction, flow, "flow.paused")
        return flows.move(transaction, flow, state=flows.PAUSED)


def resume(app: App, *, flow: Flow, max_cycles: int = 0) -> Flow:
    """Go on where it was paused."""
    with moving(app, flow), app.database.transaction() as transaction:
        flow = flows.get(transaction, key=flow.key)
        if flow.state != flows.PAUSED:
            raise Conflict(
                f"The flow '{flow.id}' is {flow.state}, not paused.", f"See: {app.settings.program} show {flow.id}"
            )
        if flow.task is not None:
            task = tasks.get(transaction, key=flow.task)
            pauses.resume(transaction, scope=pauses.TASK, project=flow.project, name=task.label)
        flows.tell(transaction, flow, "flow.resumed")
        flow = flows.move(transaction, flow, state=flows.RUNNING, max_cycles=max_cycles or flow.max_cycles)
    return conclude.drive(app, flow.key)


def cancel(app: App, *, flow: Flow, reason: str = "") -> Flow:
    """Take it back. Its branch and its workspace stay as they are; a session that works on it is ended."""
    with app.database.transaction() as transaction:
        flow = flows.get(transaction, key=flow.key)
        if flow.ended_at is not None:
            raise Conflict(f"The flow '{flow.id}' is already {flow.state}.")
        task = tasks.get(transaction, key=flow.task) if flow.task is not None else None
        if task is not None:
            pauses.resume(transaction, scope=pauses.TASK, project=flow.project, name=task.label)
            if not task.ended:
                outcomes.cancel(transaction, key=task.key, reason=reason or "its flow was cancelled")
        flows.tell(transaction, flow, "flow.cancelled", reason=reason)
        decisions.withdraw_phase(transaction, flow)
        flow = flows.move(transaction, flow, state=flows.CANCELLED, reason=reason)
    if task is not None and task.held_by:
        running.stop(app, session=task.held_by, reason=reason or "its flow was cancelled")
    views.refresh_or_tell(app, flow.project, f"The flow '{flow.id}' is cancelled")
    return flow


def retry(app: App, *, flow: Flow, note: str = "", phase: str = "", max_cycles: int = 0) -> Flow:
    """Let a stuck flow try again: the phase it is stuck in, the one a person rejected, or another; `note` is read by the session."""
    with moving(app, flow):
        state = advance.settle(app, flow.key)
        seen = look(app, state.flow)
        if seen.state != flows.BLOCKED and not (phase and state.flow.ended_at is None):
            raise Conflict(
                f"The flow '{flow.id}' is {seen.state}; only a blocked one is tried again.", "See: handoff flow list"
            )
        rejected = seen.task is not None and seen.reason.startswith("rejected:")
        target = phase or (str(state.flow.facts.get("gated", "")) if rejected else "")
        if target and target not in [one.name for one in state.workflow.phases]:
            names = ", ".join(one.name for one in state.workflow.phases)
            raise UserError(f"'{flow.workflow}' has no phase '{target}'.", f"Its phases: {names}.")
        words = [word for word in (note, seen.reason if rejected else "") if word]
        _try_again(app, state.flow, seen.task, target, words, max_cycles)
    return conclude.drive(app, flow.key)


def _try_again(app: App, flow: Flow, task: Task | None, target: str, words: Sequence[str], max_cycles: int) -> None:
    facts = {**flow.facts, "prepared": "", "note": "\n".join(words), "after_gate": ""}
    with app.database.transaction() as transaction:
        flows.tell(transaction, flow, "flow.retried", phase=target or flow.phase, note=facts["note"])
        same = task is not None and not target and not task.ended
        if same and task is not None:
            outcomes.retry(transaction, key=task.key)
        elif task is not None and not task.ended:
            outcomes.cancel(transaction, key=task.key, reason=f"the flow goes back to {target}")
        flows.move(
            transaction,
            flow,
            state=flows.RUNNING,
            reason="",
            phase=target or flow.phase,
            data=facts,
            task=task.key if same and task is not None else None,
            max_cycles=max_cycles or max(flow.max_cycles, flow.cycle),
        )


def reword(app: App, *, flow: Flow, text: str) -> Task:
    """Give the phase's next session other words than the workflow's; its fence and its check stay."""
    if flow.task is None:
        raise Conflict(f"No session is due in '{flow.id}' now.", f"See: {app.settings.program} show {flow.id}")
    if not text.strip():
        raise UserError("The prompt is empty.")
    return tasks.edit(app.database, key=flow.task, brief=text)


def edit(app: App, *, flow: Flow) -> Task:
    """The same in the person's editor."""
    import tempfile

    flow = flows.get(app.database, key=flow.key)
    brief = tasks.get(app.database, key=flow.task).brief if flow.task is not None else ""
    editor = app.settings.get("VISUAL") or app.settings.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="handoff-") as folder:
        path = os.path.join(folder, f"{flow.phase}.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(brief)
        pass_through(["/bin/sh", "-c", f'exec {editor} "$1"', "handoff", path], environment=app.settings.environment)
        return reword(app, flow=flow, text=read_text(path))
