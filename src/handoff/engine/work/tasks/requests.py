"""What a session may ask of the relay beside done and blocked: a question for a person, a path, a note; and tasks it writes, which get at most
what their writer has: what goes beyond waits for a person."""

from __future__ import annotations

import os

from handoff.agents import folder as folders
from handoff.base.clock import age
from handoff.base.errors import Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import questions, races, requirements, states, tasks
from handoff.engine.app.home import home_config
from handoff.engine.place import task_clones
from handoff.engine.place.fanout import views
from handoff.engine.place.task_clones import is_sandboxed
from handoff.engine.session import current
from handoff.engine.work.tasks import batches, create
from handoff.engine.work.tasks.manifests import path_problem, plain_path
from handoff.git.ownership import Ownership
from handoff.git.ownership.patterns import EXACT, written
from handoff.git.workspaces import write_workspace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from handoff.board.gates import Gate
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.outcome.kinds import CurrentClaim
    from handoff.engine.work.tasks.batches import OpenedBatch
    from handoff.engine.work.tasks.create import Request
    from handoff.engine.work.tasks.manifests import Manifest
    from handoff.store.database import Store

WANTED, GRANTED, ASKED = "path.wanted", "path.granted", journal.PATH_ASKED
_NEVER = (".git", ".handoff", ".worktreeinclude")  # what git, forges and handoff obey, in any folder and any case
_MOST = 100_000
_LONGEST_CHOICE = 100
_MOST_CHOICES = 9  # a key of the board for each


def ask_human(
    app: App,
    held: CurrentClaim,
    *,
    question: str,
    subject: str = "",
    choices: Sequence[str] = (),
    within: float | None = None,
    fallback: str = "",
) -> Gate:
    """Put the task behind a gate with the question; the session lets it go and a later one goes on with the answer.

    `subject` is a text the person may change, `choices` are answers they may choose from; any other text answers too. After `within` seconds without an answer `fallback` counts, where a person
    asks; what a session that we started would take is shown to them and nothing more, unless their settings say otherwise.
    """
    if not question.strip():
        raise UserError("Say what you want to know.", "For example: handoff task ask 'May I drop the old table?'")
    if subject and choices:
        raise UserError("A question has choices or a text to change, not both.", "Leave one of them out.")
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
        choices=None if subject else _choices(app, choices),
    )
    current.forget(app, held)
    views.refresh_or_tell(app, held.task.project, f"Task {held.task.label} waits for a person")
    return gate


def _choices(app: App, given: Sequence[str]) -> list[str]:
    """The offered answers, each a line of its own that cannot be taken for a yes or a no."""
    found = [app.clean(one.strip()) for one in given]
    for one in found:
        if not one or "\n" in one or len(one) > _LONGEST_CHOICE or one.lower() in ("yes", "no", "edit"):
            raise UserError(
                f"'{one}' is no choice.",
                f"A choice is one line of at most {_LONGEST_CHOICE} characters, and not yes, no or edit: those always answer.",
            )
    if len(set(found)) < len(found) or len(found) > _MOST_CHOICES:
        raise UserError(f"Offer at most {_MOST_CHOICES} choices, each once.")
    return found


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
        return f"'{path}' belongs to '{owner.label}': its session gets a note. It is not yours yet: go on without it, or block the task."
    return _note_wish(app, task, held, path, reason)


def _note_wish(app: App, task: Task, held: CurrentClaim, path: str, reason: str) -> str:
    with app.database.transaction() as transaction:
        body = {"path": path, "reason": reason, "session": held.session}
        questions.post_message(transaction, kind=WANTED, project=task.project, task=task.key, body=body)
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


_NEVER_EMPTY = "(none)"


class Writer(Record):
    """The sandboxed session that writes a task, and the task it holds."""

    task: Task
    session: str
    agent: str
    limits: dict[str, Any]
    labels: tuple[str, ...]

    @property
    def mark(self) -> dict[str, Any]:
        """What a task of its own remembers: whoever starts it keeps it inside, with the limits of its writer."""
        return {tasks.WRITTEN_INSIDE: {"session": self.session, "task": self.task.label}, "limits": self.limits}


def writer_of(app: App) -> Writer | None:
    """The sandboxed session that calls; None for everybody else. One that lost its task is refused."""
    session, project = app.settings.get("HANDOFF_SESSION"), app.settings.get("HANDOFF_PROJECT")
    if not is_sandboxed(app, project=project, session=session):
        return None
    facts = create.session_facts(app)
    task = leases.heartbeat(app.database, key=int(facts["key"]), fence=int(facts["fence"]))
    return Writer(
        task=task,
        session=session,
        agent=str(facts.get("agent", "")),
        limits=dict(facts.get("limits", {})),
        labels=requirements.of_task(app.database, key=task.key),
    )


def write_down(app: App, request: Request) -> Task:
    """Record a task for whoever calls; one from inside a sandbox stays inside, and beyond its writer's means it is asked for."""
    project, writer = create.project_of_caller(app), writer_of(app)
    if writer is None:
        return create.write_down(app, project, request)
    request = request._replace(owns=request.owns or writer.task.patterns)
    beyond = _exceeding(writer, request)
    values, project = create.values_of_new(app, project, request)
    values["baseline"] = {**values["baseline"], **writer.mark}
    with app.database.transaction() as transaction:
        task = tasks.add(
            transaction,
            **values,
            after=request.after,
            labels=request.labels,
            session=writer.session,
            gated=bool(beyond),
        )
        if beyond:
            questions.put(transaction, task, question=app.clean(_question(writer, request, beyond)))
    views.refresh_or_tell(app, project.name, f"Task {task.label} is recorded")
    return task


def open_batch(app: App, text: str) -> OpenedBatch:
    """Open a batch for whoever calls; from inside a sandbox only one whose parts keep to what their writer has."""
    project, writer = create.project_of_caller(app), writer_of(app)
    if writer is None:
        return batches.open_batch(app, project, "parts", text)
    return batches.open_batch(
        app,
        project,
        "parts",
        text,
        bound=lambda manifest: _bounded(writer, manifest),
        mark=writer.mark,
        owns=writer.task.patterns,
    )


def _bounded(writer: Writer, manifest: Manifest) -> None:
    for part in manifest.sub_tasks:
        request = create.Request(
            task=part.id,
            brief=part.brief,
            owns=part.owns or writer.task.patterns,
            agent=part.agent or manifest.agent,
            check=part.check_command or manifest.check,
            labels=(*part.labels, *manifest.labels),
        )
        beyond = _exceeding(writer, request)
        if beyond:
            raise Refused(
                f"Part '{part.id}' goes beyond what you have: {'; '.join(beyond)}.",
                "Keep within that. What needs more is written with the tool `handoff`, as a task of its own: a person decides.",
            )


def _exceeding(writer: Writer, request: Request) -> list[str]:
    """What of a task its writer does not have itself, in words."""
    found, mine = [], writer.task
    if mine.patterns:
        path = Ownership.parse(request.owns).beyond(Ownership.parse(mine.patterns))
        found += [f"it would own {path}, which '{mine.label}' does not"] if path else []
    if request.agent not in ("", writer.agent):
        found.append(f"it asks for the agent {request.agent}, '{mine.label}' is done by {writer.agent}")
    if request.check not in ("", mine.check_command):
        found.append("it brings a check of its own")
    strange = [label for label in request.labels if label not in writer.labels]
    found += [f"it demands the host label {', '.join(strange)}"] if strange else []
    if request.priority > mine.priority:
        found.append(f"it asks for priority {request.priority}, '{mine.label}' has {mine.priority}")
    return found


def _question(writer: Writer, request: Request, beyond: list[str]) -> str:
    """What a person needs to know for a yes: what would run, where, and what in it is new."""
    lines = [
        f"May this task run? The session of '{writer.task.label}' wrote it, and {'; '.join(beyond)}.",
        f"Owns: {', '.join(request.owns) or 'everything'}",
        f"Check: {request.check or _NEVER_EMPTY}",
        f"Agent: {request.agent or 'any'}",
        "Where: in a clone of its own inside the sandbox, its check too",
        f"Written by: session {writer.session} ({writer.agent})",
        "Brief:",
        *(f"  {line}" for line in request.brief.strip().splitlines()),
    ]
    return "\n".join(lines)
