"""What a session may say to the relay beside done and blocked: a question for a person, a wish for a path, a note."""

from __future__ import annotations

import os

from handoff.agents import folder as folders
from handoff.base.clock import age
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board import gates
from handoff.board.events import inbox, journal
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import races, states, tasks
from handoff.engine.fanout import views
from handoff.engine.home import home_config
from handoff.engine.tasks import current
from handoff.engine.tasks.manifests.fields import path_problem, plain_path
from handoff.engine.workspaces import task_clones
from handoff.git.ownership.ownership import Ownership
from handoff.git.ownership.patterns import EXACT, written
from handoff.git.workspaces.workspaces import write_workspace

if TYPE_CHECKING:
    from handoff.board.gates import Gate
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.outcome.ended import CurrentClaim
    from handoff.store.database import Store

WANTED, GRANTED, ASKED = "path.wanted", "path.granted", journal.PATH_ASKED
_NEVER = (".git", ".handoff", ".worktreeinclude")  # what git, forges and handoff obey, in any folder and any case
_MOST = 100_000


def ask_human(
    app: App, held: CurrentClaim, *, question: str, subject: str = "", within: float | None = None, fallback: str = ""
) -> Gate:
    """Put the task behind a gate with the question; the session lets it go and a later one goes on with the answer.

    `subject` is a text the person may change. After `within` seconds without an answer `fallback` counts, where a person
    asks; what a session that we started would take is shown to them and nothing more, unless their settings say otherwise.
    """
    if not question.strip():
        raise UserError("Say what you want to know.", "For example: handoff task ask 'May I drop the old table?'")
    if fallback and within is not None and not _may_answer_itself(app, held.session):
        question = (
            f"{question.strip()}\nThe session would take '{fallback}' after {age(within)}. Nothing counts without you."
        )
        fallback = ""
    gate = gates.ask(
        app.database,
        key=held.task.key,
        question=app.clean(question.strip()),
        fence=held.fence,
        due_seconds=within,
        fallback=app.clean(fallback),
        subject=app.clean(subject),
    )
    current.forget(app, held)
    views.refresh_or_tell(app, held.task.project, f"Task {held.task.label} waits for a person")
    return gate


def _may_answer_itself(app: App, session: str) -> bool:
    """Whether a default of the asker counts: a person's own tab may agree with itself, an agent's session may not."""
    known = sessions.get(app.database, id=session) if session else None
    return known is None or known.kind != sessions.AGENT or bool(home_config(app).values["session_defaults"])


def request_path(app: App, held: CurrentClaim, *, path: str, reason: str) -> str:
    """A session needs a file it does not own. A part of a batch has it at once if it is nobody's; its owner, or a person, is told."""
    if not path.strip() or not reason.strip():
        raise UserError("Say which path you need and why.")
    reason = app.clean(reason.strip())
    problem = path_problem(EXACT, path.strip())
    path = plain_path(path.strip())
    if problem:
        raise UserError(f"{path}: {problem[0]}.", problem[1])
    task = tasks.get(app.database, key=held.task.key)
    if Ownership.parse(task.patterns).covers(path) or not task.patterns:
        return f"'{path}' is yours already."
    may = task.kind in tasks.PARTS and not any(part.lower().startswith(_NEVER) for part in path.split("/"))
    owner = _owner(app.database, task, path)
    if may and owner is None and _grant(app, task, held, path, reason):
        return f"'{path}' is yours now: nobody else owns it."
    if owner is not None and not owner.ended:
        with app.database.transaction() as transaction:
            words = f"'{task.label}' needs a change in {path}, which is yours: {reason}"
            journal.append(transaction, ASKED, task=owner, session=held.session, text=words)
            journal.append(
                transaction, WANTED, task=task, session=held.session, path=path, reason=reason, owner=owner.label
            )
        return f"'{path}' belongs to '{owner.label}', which is told. It is not yours yet: go on without it, or block the task."
    return _note_wish(app, task, held, path, reason)


def _note_wish(app: App, task: Task, held: CurrentClaim, path: str, reason: str) -> str:
    with app.database.transaction() as transaction:
        body = {"path": path, "reason": reason, "session": held.session}
        inbox.post(transaction, kind=WANTED, project=task.project, task=task.key, body=body)
        journal.append(transaction, WANTED, task=task, session=held.session, path=path, reason=reason)
    return f"Your wish for '{path}' is noted for a person. It is not yours yet: go on without it, or block the task."


def _owner(store: Store, task: Task, path: str) -> Task | None:
    """Which other task may change the path: one that lives, or a part of the same batch, ended or not."""
    others = {one.key: one for one in tasks.listing(store, project=task.project, limit=_MOST)}
    if task.batch is not None:
        others |= {one.key: one for one in tasks.of_batch(store, batch=task.batch)}
    part = races.part_of(store, task)
    rivals = {part.key, *(one.key for one in races.entrants_of(store, part))} if part is not None else {task.key}
    found = [
        one
        for one in others.values()
        if one.key not in rivals
        and one.state != states.CANCELLED
        and one.patterns
        and Ownership.parse(one.patterns).covers(path)
    ]
    return min(found, key=lambda one: (one.ended, one.batch != task.batch), default=None)


def _grant(app: App, task: Task, held: CurrentClaim, path: str, reason: str) -> bool:
    """The row first: what it owns decides; then the clone and the session's own permissions follow.

    A path is asked for, so a path is given: `**` is the file of that name, never the pattern.
    """
    pattern = written(EXACT, path)
    with app.database.transaction() as transaction:
        if _owner(transaction, task, path) is not None:
            return False  # somebody asked at the same moment
        task = leases.widen(transaction, key=task.key, fence=held.fence, owns=(*task.patterns, pattern))
        journal.append(transaction, GRANTED, task=task, session=held.session, path=path, reason=reason)
    clone = task_clones.of_task(app, task)
    if clone is not None:
        write_workspace(clone._replace(owns=task.patterns))
    folder = folders.place(app.settings.home, task.project, held.session) if held.session else ""
    given = folders.text_of(folder, folders.PERMISSIONS) if folder and os.path.isdir(folder) else ""
    if given:
        patterns, empty, whole = given.partition("\n\n")
        folders.put(folder, folders.PERMISSIONS, f"{patterns}\n{pattern}{empty}{whole}")
    views.refresh_or_tell(app, task.project, f"{path} belongs to {task.label} now")
    return True


def add_note(app: App, held: CurrentClaim, *, text: str) -> None:
    """Leave a line for whoever goes on with this task."""
    if not text.strip():
        raise UserError("The note is empty.")
    with app.database.transaction() as transaction:
        journal.append(
            transaction,
            "note.added",
            task=tasks.get(transaction, key=held.task.key),
            session=held.session,
            text=app.clean(text.strip()),
        )
