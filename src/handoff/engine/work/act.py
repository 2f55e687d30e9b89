"""An act as a button, a key or a request asks for it, and what came of it."""

from __future__ import annotations

import os
import shlex

from handoff.agents import folder as folders
from handoff.base.errors import Refused
from handoff.base.process import parents_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import sessions
from handoff.board.tasks import tasks
from handoff.engine.place import pulse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from handoff.base.errors import HandoffError
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.store.database import Store


class ActDone(Record):
    """What came of an act: lines for a person, facts for a program."""

    text: str
    facts: dict[str, Any]
    style: str = ""
    hint: str = ""
    """Lines that say what comes next."""
    tasks: tuple[Task, ...] = ()
    notes: tuple[str, ...] = ()
    ok: bool = True
    """False where the flow is stuck all the same: its command ends with 1."""
    refusal: HandoffError | None = None
    """Why nothing was done, where there is more to tell of it than an error can."""


class Act(Record):
    """An act that a button, a key or a request asks for, in the words of its command."""

    verb: str
    words: tuple[str, ...] = ()
    options: Mapping[str, Any] = {}
    project: str = ""

    def line(self, program: str) -> str:
        """The command line that does the same."""
        given = {f"--{name.replace('_', '-')}": value for name, value in self.options.items() if value}
        named = [name if value is True else f"{name}={value}" for name, value in given.items()]
        named += ["--project", self.project] if self.project else []
        dashed = any(word.startswith("-") for word in self.words)
        rest = [*named, "--", *self.words] if dashed else [*self.words, *named]
        return shlex.join([program, *self.verb.split(), *rest])


def task_of_session(app: App, store: Store, session: sessions.Session) -> Task | None:
    """What a session works on, or worked on, as far as that is known."""
    folder = folders.place(app.settings.home, session.project, session.id)
    key = session.task or folders.get(folder, folders.FACTS).get("key")
    return tasks.look_up(store, key=int(key)) if key else None


def refuse_sessions(app: App, what: str) -> None:
    """A session that handoff started does not decide in its person's name, also not from below it without its variables."""
    for id in (app.settings.get("HANDOFF_SESSION"), _session_above(app)):
        known = sessions.get(app.database, id=id or "-")
        if known is not None and known.kind == sessions.AGENT and known.ended_at is None:
            raise Refused(
                f"Only a person {what}, and this command runs in session {known.id}.",
                f"Ask them: {app.settings.program} task ask 'your question'",
            )


def _session_above(app: App) -> str:
    """The session whose monitor is among the processes above this one; empty for a person."""
    above = set(parents_of(os.getpid()))
    return next((one.session for one in pulse.listing(app) if _of_monitor(one.folder) in above), "")


def _of_monitor(folder: str) -> str:
    monitor = folders.monitor_of(folder)
    return f"{monitor.pid}.{monitor.start}"
