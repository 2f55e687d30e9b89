"""From a sentence to a checked commit: one task, and sessions for it until somebody has to decide."""

from __future__ import annotations

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import project_config
from handoff.board import gates
from handoff.board.tasks import states, tasks
from handoff.engine import acts
from handoff.engine.clients import agents, review
from handoff.engine.outcome import whole_check
from handoff.engine.sessions import start as session_start
from handoff.engine.tasks import create

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.clients.review import TaskReview


class DoneSentence(Record):
    """How the sessions of a sentence's task went."""

    task: Task
    interrupted: bool = False


def add(app: App, request: create.Request) -> Task:
    """The task for a sentence; what it does not name is found: its id, the agent, the project's own tests."""
    project = create.project_of_caller(app)
    request = request._replace(
        task=create.new_id(app, project.name, request.brief),
        agent=request.agent or ",".join(project_config(project.workspace).texts("agents")) or _installed(app),
        check=request.check or whole_check.found(app, project.workspace),
    )
    return create.write_down(app, project, request)


def _installed(app: App) -> str:
    found = [one.name for one in agents.listing(app) if one.program and one.version and not one.old and not one.held]
    if len(found) == 1:
        return found[0]
    program = app.settings.program
    if not found:
        raise UserError("No coding agent was found on this machine.", f"See: {program} agent list")
    raise UserError(f"Several agents are installed: {', '.join(found)}.", f"Choose one with: --agent {found[0]}")


def until_decided(
    app: App,
    task: Task,
    *,
    words: tuple[str, ...] = (),
    tell: Callable[[str], None],
    ask: Callable[[Task, TaskReview, gates.Gate], str],
) -> DoneSentence:
    """Sessions for the task, one after the other, until it has landed, is stuck, or waits for a person who is not here.

    `ask` shows a person what waits and returns their words, or nothing where nobody answers.
    """

    def began(started: session_start.RunningSession) -> None:
        name = started.session.name
        tell(f"Session {name} works. Follow it: {app.settings.program} session log {name}")

    while task.state == states.READY:
        request = session_start.StartRequest(agent=task.agent, task=task.label, project=task.project, words=words)
        concluded = session_start.run(app, request=request, began=began, tell=tell)
        tell(concluded.words)
        task = tasks.get(app.database, key=task.key)
        if concluded.outcome.reason == session_start.INTERRUPTED:
            return DoneSentence(task, interrupted=True)
        if task.state == states.GATED:
            found = review.review(app, key=task.key)
            if found.gate is not None and found.gate.state == gates.OPEN:
                said = ask(task, found, found.gate)
                if not said:
                    return DoneSentence(task)
                word, reason = _as_answer(found.gate, said)
                tell(acts.answer(app, task.label, word, reason=reason, project=task.project).text)
            task = tasks.get(app.database, key=task.key)
    return DoneSentence(task)


def _as_answer(gate: gates.Gate, said: str) -> tuple[str, str]:
    """The answer that a person's words are, and its reason: what is no yes to a yes-or-no question says what must change."""
    if gate.open_ended:
        return said, ""
    return ("yes", "") if said.lower() in ("y", "yes") else ("no", said)
