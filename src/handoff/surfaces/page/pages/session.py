"""Session: one run of one agent. Whose it is, where it worked and what kept it there, how it ended, and what it said."""

from __future__ import annotations

from contextlib import suppress

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.board.tasks import tasks
from handoff.engine.place import pulse, transcripts
from handoff.engine.work import stopping

if TYPE_CHECKING:
    from handoff.board.events.journal import SpokenWords
    from handoff.board.sessions.sessions import Session
    from handoff.engine.app import App

_BYTES = 200_000
_LINES = 400


class SessionPage(Record):
    """A session as a page."""

    session: Session
    label: str
    """The task it holds, or held last; empty where that is not known."""
    fence: str
    said: tuple[tuple[str, str], ...]
    """What it did and said, in order: the kind of each line, and its words."""
    cut: bool
    """Whether it said more before."""
    messages: tuple[SpokenWords, ...]
    """What a person said to it, each with how far it got."""
    ending: str
    """Whether it runs no more though nobody has concluded it: see pulse."""
    elsewhere: bool
    unstoppable: str
    """Why it cannot be stopped from here; empty where it can."""
    now: float

    @property
    def address(self) -> str:
        return self.session.id


def read(app: App, *, project: str, id: str) -> SessionPage:
    """The session of an id, or of the beginning of one."""
    known, _ = pulse.known_session(app, id)
    if project and known.project != project:
        raise UserError(f"There is no session '{id}' in the project '{project}'.", "All of them: handoff session list")
    task = tasks.look_up(app.database, key=known.task) if known.task is not None else None
    lines: list[str] = []
    with suppress(UserError):  # an agent the settings know no more
        lines = transcripts.transcript(app, session=known.id, limit=_BYTES)
    return SessionPage(
        session=known,
        label=task.label if task else "",
        fence=transcripts.fence_of(app, known).removeprefix(", "),
        ending="" if known.ended_at is not None else pulse.ending_of(app, project=known.project, session=known.id),
        said=tuple((kind, words) for kind, _, words in (line.partition(": ") for line in lines[-_LINES:])),
        cut=len(lines) > _LINES,
        messages=tuple(journal.said_to(known.id, journal.of_task(app.database, key=task.key) if task else [])),
        unstoppable=obstacle.message if (obstacle := stopping.why_not(app, known)) else "",
        elsewhere=bool(known.host) and known.host != app.settings.host,
        now=app.clock.now(),
    )
