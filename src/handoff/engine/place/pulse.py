"""Whether a session that holds a task still runs. On its own machine its process is looked at, before anybody says that it does."""

from __future__ import annotations

import os

from handoff.agents import folder as folders
from handoff.base.bounds import is_alive
from handoff.base.errors import UserError
from handoff.base.process import start_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import executors, sessions
from handoff.board.tasks import states

if TYPE_CHECKING:
    from handoff.board.sessions.sessions import Session
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

ENDED, LEFT = "ended", "left"
"""How a session is that runs no more: whoever looks after it concludes it now, or nobody looks after it."""
SUPERVISED = "1"
_PARTS = 4


class Trace(Record):
    """One session that was started here and is not concluded."""

    session: str
    key: int
    fence: int
    watcher: str
    """Who looks after it: SUPERVISED for a supervisor's durable run, else the process of a person's own command."""
    folder: str

    def holds(self, task: Task) -> bool:
        return task.state == states.RUNNING and task.fence == self.fence and task.held_by == self.session

    @property
    def is_watched_by_hand(self) -> bool:
        """Whether a person's own command still stays with it."""
        pid, _, start = self.watcher.partition(".")
        return bool(start) and pid.isdigit() and start_of(int(pid)) == start


def known_session(app: App, session: str) -> tuple[sessions.Session, str]:
    """A session of ours by its id, or by enough of it."""
    known = sessions.get(app.database, id=session)
    if known is None:
        close = [one for one in sessions.listing(app.database) if session and one.id.startswith(session)]
        if len(close) != 1:
            raise UserError(f"There is no session '{session}'.", f"See: {app.settings.program} session list")
        known = close[0]
    return known, folders.place(app.settings.home, known.project, known.id)


def place(app: App) -> str:
    """Where the traces of this machine's sessions are."""
    return os.path.join(app.settings.home, "sessions", "running")


def taken(app: App, session: str) -> str:
    """Where a conversation of it is that its person went on with."""
    return os.path.join(app.settings.home, "sessions", "taken", session)


def listing(app: App) -> list[Trace]:
    """Every session that was started here and is not concluded."""
    try:
        names = [name for name in os.listdir(place(app)) if not name.startswith(".")]
    except OSError:
        return []
    return [trace for name in names if (trace := _trace(app, name)) is not None]


def _trace(app: App, session: str) -> Trace | None:
    try:
        with open(os.path.join(place(app), session), encoding="utf-8") as file:
            parts = file.read().split(" ", _PARTS - 1)
    except OSError:
        return None  # it was just concluded
    if len(parts) != _PARTS or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return Trace(session, int(parts[0]), int(parts[1]), parts[2], parts[3])


def ending_of(app: App, *, project: str, session: str, known: Session | None = None) -> str:
    """Nothing while a session runs, or where this machine cannot say; else ENDED or LEFT."""
    try:
        folder = folders.place(app.settings.home, project, session)
    except UserError:
        return ""  # a name somebody gave to a session of their own
    started = folders.has_started(folder)
    if started and is_alive(folders.monitor_of(folder)):
        return ""
    known = known or sessions.get(app.database, id=session)
    if known is None or known.kind != sessions.AGENT or known.host != app.settings.host or known.ended_at is not None:
        return ""
    if started:
        return ENDED if is_watched(app, session) else LEFT
    return "" if _is_being_started(app, known) else LEFT


def left_behind(app: App) -> list[Session]:
    """The sessions of this machine that are over and that nobody looks after."""
    found = sessions.at_work(app.database)
    return [one for one in found if ending_of(app, project=one.project, session=one.id, known=one) == LEFT]


def is_watched(app: App, session: str) -> bool:
    """Whether a supervisor of this machine, or a person's own command, stays with a session that was started here."""
    trace = _trace(app, session)
    if trace is None:
        return False
    return _is_supervised(app) if trace.watcher == SUPERVISED else trace.is_watched_by_hand


def _is_being_started(app: App, known: Session) -> bool:
    """Between its claim and its first process: a command names its own, a supervisor none."""
    return start_of(known.pid) == known.process_start if known.pid else _is_supervised(app)


def _is_supervised(app: App) -> bool:
    return any(
        executors.lives(one, host=app.settings.host) for one in executors.listing(app.database, host=app.settings.host)
    )
