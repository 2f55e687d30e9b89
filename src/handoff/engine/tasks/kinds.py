"""Who decides what comes of a task when its session is over, where the ordinary judgement is not enough."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks.tasks import PHASE, PLAN

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.agents.contract import AgentOutcome
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

# Kinds of tasks, and the module whose `decide` judges them: `decide(app, over) -> Outcome | None`, None for the ordinary
# way. It may be called again after a crash, so it looks at what is there before it writes. Its `prepare(app, task) -> str`
# is called before a session begins: it makes the workspace ready and writes the baton.
BY_KIND: dict[str, str] = {
    PHASE: "handoff.engine.flows.conclude",
    PLAN: "handoff.engine.tasks.splitting.planner",
}


class EndedSession(Record):
    """A session that is over. Nothing of it runs any more; who decides keeps what it does not commit."""

    task: Task
    """The row as it is now."""
    fence: int
    session: str
    workspace: str
    outcome: AgentOutcome
    """How the client came out, by its own words and its exit code."""
    holds: bool
    """Whether the session still holds the task; otherwise it has reported, or the task went on without it."""


def decider_of(task: Task) -> Callable[[App, EndedSession], AgentOutcome | None] | None:
    """The function for tasks of this kind; it is imported only when it is needed."""
    found: Callable[[App, EndedSession], AgentOutcome | None] | None = getattr(_module(task), "decide", None)
    return found


def prepare(app: App, task: Task) -> str:
    """The baton of a task whose kind has its own, with the workspace made ready for it; nothing for all others."""
    module = _module(task)
    return str(module.prepare(app, task)) if module is not None else ""


def check_answer(app: App, task: Task, answer: str) -> None:
    """Before a person's yes counts: its kind may refuse what would be done then."""
    check = getattr(_module(task), "check_answer", None)
    if check is not None:
        check(app, task, answer)


def answer(app: App, task: Task) -> None:
    """Tell the kind of a task that a person has answered its gate."""
    module = _module(task)
    if module is not None:
        module.answer(app, task)


def _module(task: Task) -> Any:
    if task.kind not in BY_KIND:
        return None
    from importlib import import_module

    return import_module(BY_KIND[task.kind])
