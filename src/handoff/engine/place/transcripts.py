"""Sessions as they are known: which run, and what one of them said."""

from __future__ import annotations

import os

from handoff.agents import folder as folders
from handoff.agents.contract import TOOL
from handoff.agents.monitor import EVENTS, EXIT
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import sessions
from handoff.board.tasks import tasks
from handoff.engine.features import recall
from handoff.engine.features.status import fence_words
from handoff.engine.place import pulse
from handoff.engine.place.pulse import known_session

if TYPE_CHECKING:
    from typing import Any

    from handoff.agents.contract import AgentEvent
    from handoff.engine.app import App

_LAST = 8000


def fence_of(app: App, session: sessions.Session) -> str:
    """Where a session of ours works and what keeps it there; nothing for a person's own."""
    return fence_in(folders.place(app.settings.home, session.project, session.id))


def fence_in(folder: str) -> str:
    """The same from a session's folder."""
    facts = folders.get(folder, folders.FACTS)
    return fence_words(facts) if facts else ""


class WorkingSession(Record):
    """A session at work, and the name of the task it holds."""

    session: sessions.Session
    label: str
    ending: str
    """Whether it runs no more though it holds its task: see pulse."""


def running(app: App, *, project: str = "") -> list[WorkingSession]:
    """The sessions at work in a project, or in all."""
    found = sessions.at_work(app.database, project=project)
    return [
        WorkingSession(
            one,
            tasks.get(app.database, key=one.task).label if one.task is not None else "",
            pulse.ending_of(app, project=one.project, session=one.id, known=one),
        )
        for one in found
    ]


def transcript(app: App, *, session: str, raw: bool = False, limit: int = 400_000) -> list[str]:
    """What a session said, line by line; values of secrets in our own environment are blanked."""
    known, path = known_session(app, session)
    return _said(app, path, known.agent, raw=raw, limit=limit)


def last_words(app: App, *, project: str, session: str, agent: str) -> str:
    """The last thing a session of this machine said, in one line; nothing where it is not known."""
    found = said(app, project=project, session=session, agent=agent)
    return next((" ".join(line.partition(": ")[2].split()) for line in reversed(found) if ": " in line), "")


def said_so_far(app: App, *, project: str, session: str) -> int:
    """How many bytes a session of this machine has said, to see whether there is more; 0 where it is not known."""
    try:
        return folders.size_of(folders.place(app.settings.home, project, session), EVENTS)
    except UserError:
        return 0


class LastWords:
    """The last words of sessions that somebody watches, read anew only where more was said."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._heard: dict[str, tuple[int, str]] = {}

    def known(self, session: str) -> str:
        """As far as they were read."""
        return self._heard.get(session, (0, ""))[1]

    def hear(self, *, project: str, session: str, agent: str) -> str:
        """As they are now."""
        size = said_so_far(self._app, project=project, session=session)
        if size and self._heard.get(session, (0, ""))[0] != size:
            self._heard[session] = (size, last_words(self._app, project=project, session=session, agent=agent))
        return self.known(session)


def said(app: App, *, project: str, session: str, agent: str) -> list[str]:
    """What a session of this machine said lately, line by line; nothing where it is not known."""
    try:
        return _said(app, folders.place(app.settings.home, project, session), agent, raw=False, limit=_LAST)
    except UserError:
        return []  # a person's tab


def _said(app: App, path: str, agent: str, *, raw: bool, limit: int) -> list[str]:
    lines, read = recall.output_of(app, path, agent, limit=limit)
    return lines if raw else [_line(event) for line in lines for event in read(line)]


def _line(event: AgentEvent) -> str:
    """An event as people read it: of a tool also what it was asked."""
    asked = event.entry.command or event.entry.path if event.kind == TOOL and event.entry is not None else ""
    words = " ".join(filter(None, (event.text, asked if asked != event.text else "")))
    return f"{event.kind}: {words}" if words else event.kind


def old_folders(app: App, *, before: float, project: str = "") -> list[str]:
    """Folders of sessions that ended on this machine before a moment, of tasks that are over, and that no later one goes on from."""
    home = app.settings.home
    found: list[str] = []
    needed: set[str] = set()
    for name in [project] if project else sorted(os.listdir(home)) if os.path.isdir(home) else []:
        place = os.path.join(home, name, "sessions")
        for one in sorted(os.listdir(place)) if os.path.isdir(place) else ():
            path = os.path.join(place, one)
            facts = folders.get(path, folders.FACTS)
            if _is_over(app, path, facts, before):
                found.append(path)
            else:
                needed.add(str(facts.get("state", "")))
    return [path for path in found if path not in needed]


def _is_over(app: App, path: str, facts: dict[str, Any], before: float) -> bool:
    try:
        ended = os.stat(os.path.join(path, EXIT)).st_mtime
    except OSError:
        return False  # nobody saw its end
    task = tasks.look_up(app.database, key=int(facts.get("key", 0)))
    return ended < before and (task is None or task.ended)
