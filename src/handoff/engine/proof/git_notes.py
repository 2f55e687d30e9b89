"""The record in git: a note on the commit after each verified phase or finished task, shown, compared and exchanged."""

from __future__ import annotations

import os

from handoff.base.clock import stamp
from handoff.base.errors import HandoffError, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.notes.record import GREEN, Check, Note
from handoff.git.notes.store import Notebook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.board.tasks.tasks import Task
    from handoff.checks.commands import Verdict
    from handoff.engine.app import App
    from handoff.git.notes.store import Annotated, Synced


TRAILER = "Handoff-Task"
"""In a commit's message: whose work it is."""
_BESIDE = 50  # commits of others that may stand among those that landed


class RecordedWork(Record):
    """Whose work a record tells of; what does not apply stays empty."""

    project: str
    task: str
    flow: str = ""
    workflow: str = ""
    phase: str = ""
    role: str = ""
    cycle: int = 0
    attempt: int = 1
    agent: str = ""
    session: str = ""
    next: str = ""


def write(
    app: App,
    *,
    repository: str,
    commit: str,
    tree: str,
    work: RecordedWork,
    judged: str,
    checks: Sequence[Check] = (),
    began: float,
    ended: float | None = None,
) -> Note:
    """Put the record on the commit; again after a crash it changes nothing. Write it before the row that follows from it."""
    moment = app.clock.now() if ended is None else ended
    note = Note(
        ended=stamp(moment),
        began=stamp(began),
        commit=commit,
        tree=tree,
        judged=judged,
        checks=tuple(checks),
        **work._asdict(),
    )
    book(app, repository).add(commit, [note], moment=moment)
    return note


def work_of(task: Task, *, session: str) -> RecordedWork:
    """Whose work a record on a finished task's commit tells of."""
    return RecordedWork(
        project=task.project,
        task=task.label,
        role=task.role,
        attempt=task.attempt,
        agent=task.held_agent,
        session=session,
        next="done",
    )


def record_check(
    app: App, repository: str, verdict: Verdict, *, commit: str, tree: str, work: RecordedWork, began: float
) -> str:
    """The record of one green check that was run on exactly this commit; what went wrong in writing it, or nothing."""
    check = Check(command=verdict.command, verdict=GREEN, code=verdict.code, seconds=round(verdict.seconds, 3))
    try:
        write(
            app,
            repository=repository,
            commit=commit,
            tree=tree,
            work=work,
            judged="command",
            checks=[check],
            began=began,
        )
    except HandoffError as error:
        return f"The note on {commit[:10]} could not be written: {error.message}"
    return ""


def carry(app: App, repository: str, kept: Sequence[str], *, landed: str) -> str:
    """What was recorded on commits before they landed is on the commits they became; what went wrong, or nothing.

    A part's commit is known by the task in its trailers; its record goes on telling the commit and the tree it was made on.
    """
    notes = book(app, repository)
    try:
        words = (
            "log",
            f"-{len(kept) + _BESIDE}",
            f"--format=%H%x00%(trailers:key={TRAILER},valueonly,separator=%x20)%x01",
        )
        answer = notes.git(*words, landed, "--")
        pairs = (line.strip().split("\0") for line in answer.text.split("\x01") if "\0" in line)
        became = {task: commit for commit, task in reversed(list(pairs)) if task}
        for one in notes.read(*kept, walk=False) if kept else ():
            for record in one.noted.records:
                target = became.get(record.task)
                if target is not None and target != one.commit:
                    notes.add(target, [record], moment=app.clock.now())
    except HandoffError as error:
        return f"The notes of what landed could not be written: {error.message}"
    return ""


def book(app: App, repository: str = "") -> Notebook:
    """The notes of the repository around a folder; a bare one is named by its own folder."""
    return Notebook(repository or os.getcwd(), app.git_environment)


def listing(app: App, *, repository: str = "", revisions: str = "HEAD", limit: int = 0) -> list[Annotated]:
    """Commits with their records, newest first; commits nobody verified are among them."""
    return book(app, repository).read(*revisions.split(), limit=limit)


def follow(app: App, *, repository: str = "") -> bool:
    """Let notes survive rebase and amend in this repository; False when they did already."""
    return book(app, repository).follow_rewrites()


def unfollow(app: App, *, repository: str = "") -> bool:
    """Take that setting back; False when it was not ours."""
    return book(app, repository).stop_following()


def sync(app: App, *, repository: str = "", remote: str = "") -> Synced:
    """Exchange notes with a remote: what both have is merged, nothing is overwritten."""
    notes = book(app, repository)
    return notes.sync(remote or _remote(notes))


def _remote(notes: Notebook) -> str:
    """The remote of the present branch, else the only one, else `origin`."""
    branch = notes.git("symbolic-ref", "-q", "--short", "HEAD").text.strip()
    chosen = notes.git("config", "--get", f"branch.{branch}.remote").text.strip() if branch else ""
    names = notes.git("remote").text.split()
    if chosen and chosen != ".":
        return chosen
    if len(names) == 1:
        return names[0]
    if "origin" in names:
        return "origin"
    raise UserError(
        "This repository has no remote to exchange notes with." if not names else "There are several remotes.",
        "Name one: handoff record sync REMOTE",
    )
