"""What a session may say to the relay beside done and blocked: a question for a person, a wish for a path, a note."""

from __future__ import annotations

from handoff.base.clock import age
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board import gates
from handoff.board.events import inbox, journal
from handoff.board.sessions import sessions
from handoff.board.tasks import tasks
from handoff.engine.fanout import views
from handoff.engine.home import home_config
from handoff.engine.tasks import current

if TYPE_CHECKING:
    from handoff.board.gates import Gate
    from handoff.engine.app import App
    from handoff.engine.tasks.current import CurrentClaim


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
    """Note that a session needs a path it does not own; a person or the supervisor may widen the ownership."""
    if not path.strip() or not reason.strip():
        raise UserError("Say which path you need and why.")
    path, reason = path.strip(), app.clean(reason.strip())
    with app.database.transaction() as transaction:
        inbox.post(
            transaction,
            kind="path.wanted",
            project=held.task.project,
            task=held.task.key,
            body={"path": path, "reason": reason, "session": held.session},
        )
        journal.append(transaction, "path.wanted", task=held.task, session=held.session, path=path, reason=reason)
    return f"Your wish for '{path}' is noted for a person. It is not yours yet: go on without it, or block the task."


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
