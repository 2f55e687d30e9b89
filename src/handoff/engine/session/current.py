"""Who holds which task, and the sign of life. Kept light: a heartbeat is the command that runs most often."""

from __future__ import annotations

import os

from handoff.base.errors import Conflict, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import tasks
from handoff.engine.outcome.kinds import CurrentClaim
from handoff.engine.place.fanout.files import document
from handoff.engine.session import claims

if TYPE_CHECKING:
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App


def find(app: App, *, task: str = "", project: str = "", session: str = "", fence: int | None = None) -> CurrentClaim:
    """Which task a report is about and in whose name it is made."""
    local_claim = claims.find(app, session=session, fence=fence, task=task, project=project)
    if local_claim is not None:
        key = local_claim.key
        if task and task not in (local_claim.task, local_claim.task.rpartition("/")[2]):
            key = 0
        if not key and not task:
            known = sessions.get(app.database, id=local_claim.session)
            if known is None:
                raise UserError(
                    f"Session {local_claim.session} holds no task.", f"Take one: {app.settings.program} task claim"
                )
            if known.task is None:  # it has reported, or lost its task to somebody else: it must stop either way
                raise Conflict(
                    f"Session {known.id} holds no task any more.",
                    f"Stop working on it; see: {app.settings.program} task list",
                )
            key = known.task
        found = tasks.get(app.database, key=key) if key else _named(app, task, project)
        _refuse_stranger(found, local_claim.fence or None, local_claim.session)
        if not local_claim.fence:
            raise UserError(
                f"The fence of session {local_claim.session} is not known here.",
                "Give it: --fence N (claim printed it).",
            )
        _hear(app, found, local_claim.session)
        return CurrentClaim(found, local_claim.fence, local_claim.session, local_claim.workspace)
    if not task:
        raise UserError(
            "No claim of yours is known in this folder.",
            f"Take a task first: {app.settings.program} task claim. Or name one: --task TASK",
        )
    found = _named(app, task, project)
    if fence is not None:
        _refuse_stranger(found, fence, session)
    return CurrentClaim(found, fence, session)


def _hear(app: App, task: Task, session: str) -> None:
    """What others' work means for the caller is told once, with the answer to whatever it asked."""
    if not task.ended:
        app.notes.extend(journal.hear(app.database, task=task, session=session).told)


def _refuse_stranger(task: Task, fence: int | None, session: str) -> None:
    """A fence belongs to the session it was given to: whoever else knows the number does not speak for the task."""
    if task.held_by and task.held_by != session:
        raise tasks.stale(task, fence)


def _named(app: App, task: str, project: str) -> Task:
    from handoff.engine.app.home import find_project

    return tasks.find(app.database, project=find_project(app, name=project).name, id=task)


def beat(app: App, held: CurrentClaim, *, lease: float = 0.0) -> Task:
    """A sign of life; the lease is renewed by the database's clock."""
    if held.fence is None:
        raise UserError(f"Nobody here holds '{held.task.label}'.", f"Take it first: {app.settings.program} task claim")
    with dropping_stale_claim(app, held):
        task = leases.heartbeat(app.database, key=held.task.key, fence=held.fence, lease_seconds=lease)
    if task.state != held.task.state:  # thought dead, and back: its files offered the task to others
        from handoff.engine.place.fanout import views

        views.refresh(app, task.project)
    touch(document(app, task).removesuffix(".md") + ".heartbeat")
    return task


class dropping_stale_claim:  # noqa: N801 - reads as a word at its place of use
    """When the fence is old, the ticket of this folder is old too: forget it, and let the error tell who holds the task."""

    def __init__(self, app: App, held: CurrentClaim) -> None:
        self.app, self.held = app, held

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Conflict):
            forget(self.app, self.held)


def forget(app: App, held: CurrentClaim) -> None:
    """The report was made: the ticket of this folder has served."""
    if held.session:
        claims.drop(app, held.session)


def touch(path: str) -> None:
    """Show a sign of life to people who look at files; the lease is the truth, so a refusal is no error."""
    try:
        with open(path, "ab"):
            os.utime(path)
    except OSError:
        return
