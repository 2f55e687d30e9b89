"""Who holds which task, and the sign of life. Kept light: a heartbeat is the command that runs most often."""

from __future__ import annotations

import os

from handoff.base.errors import Conflict, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import tasks
from handoff.engine.fanout.paths import document
from handoff.engine.tasks import claims

if TYPE_CHECKING:
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App


class Hold(Record):
    """A task, with which fence the caller speaks for it (none: a person who holds nothing), and where it was claimed."""

    task: Task
    fence: int | None
    session: str
    workspace: str = ""


def held(app: App, *, task: str = "", project: str = "", session: str = "", fence: int | None = None) -> Hold:
    """Which task a report is about and in whose name it is made."""
    ticket = claims.find(app, session=session, fence=fence, task=task, project=project)
    if ticket is not None:
        key = ticket.key
        if task and task not in (ticket.task, ticket.task.rpartition("/")[2]):
            key = 0
        if not key and not task:
            known = sessions.get(app.database, id=ticket.session)
            if known is None or known.task is None:
                raise UserError(f"Session {ticket.session} holds no task.", f"Take one: {app.settings.program} claim")
            key = known.task
        found = tasks.get(app.database, key=key) if key else _named(app, task, project)
        return Hold(found, ticket.fence, ticket.session, ticket.workspace)
    if not task:
        raise UserError(
            "No claim of yours is known in this folder.",
            f"Take a task first: {app.settings.program} claim. Or name one: --task TASK",
        )
    return Hold(_named(app, task, project), fence, session)


def _named(app: App, task: str, project: str) -> Task:
    from handoff.engine.home import find_project

    return tasks.find(app.database, project=find_project(app, name=project).name, id=task)


def beat(app: App, hold: Hold, *, lease: float = 0.0) -> Task:
    """A sign of life; the lease is renewed by the database's clock."""
    if hold.fence is None:
        raise UserError(f"Nobody here holds '{hold.task.label}'.", f"Take it first: {app.settings.program} claim")
    with told(app, hold):
        task = leases.heartbeat(app.database, key=hold.task.key, fence=hold.fence, lease_seconds=lease)
    touch(document(app, task).removesuffix(".md") + ".heartbeat")
    return task


class told:  # noqa: N801 - reads as a word at its place of use
    """When the fence is old, the ticket of this folder is old too: forget it, and let the error tell who holds the task."""

    def __init__(self, app: App, hold: Hold) -> None:
        self.app, self.hold = app, hold

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Conflict):
            forget(self.app, self.hold)


def forget(app: App, hold: Hold) -> None:
    """The report was made: the ticket of this folder has served."""
    if hold.session:
        claims.drop(app, hold.session)


def touch(path: str) -> None:
    """Show a sign of life to people who look at files; the lease is the truth, so a refusal is no error."""
    try:
        with open(path, "ab"):
            os.utime(path)
    except OSError:
        return
