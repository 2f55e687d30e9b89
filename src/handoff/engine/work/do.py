"""From a sentence to a checked commit: one task, and sessions for it until somebody has to decide."""

from __future__ import annotations

from handoff.agents.contract import ENVIRONMENT
from handoff.base.errors import Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import project_config
from handoff.board import gates
from handoff.board.tasks import states, tasks
from handoff.engine.outcome import whole_check
from handoff.engine.session import agents
from handoff.engine.session import start as session_start
from handoff.engine.work import acts, review, stopping
from handoff.engine.work.tasks import create

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.work.review import TaskReview


class DoneSentence(Record):
    """How the sessions of a sentence's task went."""

    task: Task
    interrupted: bool = False
    refusal: Refused | None = None
    """Why no session could start for it now."""


def add(app: App, request: create.Request) -> Task:
    """The task for a sentence; what it does not name is found: its id, the agent, the project's own tests."""
    project = create.project_of_caller(app)
    request = request._replace(
        task=create.new_id(app, project.name, request.brief),
        agent=agent_for(app, project.workspace, request.agent),
        check=request.check or whole_check.found(app, project.workspace),
    )
    return create.write_down(app, project, request)


def agent_for(app: App, workspace: str, said: str = "") -> str:
    """Who works for a sentence: who is said, the project's own, or the only one that is installed."""
    return said or ",".join(project_config(workspace).texts("agents")) or _installed(app)


def _installed(app: App) -> str:
    found = [one.name for one in agents.listing(app) if one.program and one.version and not one.old and not one.held]
    if len(found) == 1:
        return found[0]
    program = app.settings.program
    if not found:
        raise UserError(
            "No coding agent was found on this machine.",
            f"Install one of these: {program} agent list. Or use a command of yours: {program} help docs/howto/agents.md."
            f" Or do it yourself: {program} task add ID 'what to do'",
        )
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
        try:
            concluded = session_start.run(app, request=request, began=began, tell=tell)
        except Refused as error:
            return DoneSentence(tasks.get(app.database, key=task.key), refusal=error)
        tell(concluded.words)
        task = tasks.get(app.database, key=task.key)
        if concluded.outcome.reason in (session_start.INTERRUPTED, stopping.STOPPED):
            return DoneSentence(task, interrupted=True)
        if concluded.outcome.kind == ENVIRONMENT and task.state == states.READY:  # only a person can mend that
            return DoneSentence(task, refusal=Refused(concluded.outcome.reason, concluded.outcome.fix))
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
