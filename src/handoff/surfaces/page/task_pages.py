"""One task: its page, its sessions, its work as a diff, and the gate behind the one-time link of a notice."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from contextlib import suppress

from handoff.base.errors import HandoffError, UserError
from handoff.base.files import read_text
from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.board.sessions import sessions
from handoff.board.tasks import states, tasks
from handoff.engine.place import pulse, transcripts
from handoff.engine.place.baton import COMMENTED
from handoff.engine.work import overview, review, stopping
from handoff.engine.work.acts.landing import landing_of, undo
from handoff.engine.work.tasks import admin
from handoff.engine.work.tasks.splitting import report
from handoff.surfaces.page.drawing import HERE, draw

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from handoff.board.events.journal import Event, SpokenWords
    from handoff.board.gates import Waiting
    from handoff.board.sessions.sessions import Session
    from handoff.engine.app import App
    from handoff.engine.outcome.reviews import ReviewedFile
    from handoff.engine.work.review import TaskReview
    from handoff.engine.work.tasks.admin import TaskDetails
    from handoff.engine.work.tasks.splitting.report import SessionReport


_TAIL = 80


class TaskPage(Record):
    """Everything about one task."""

    address: str
    path: str
    look: str
    details: TaskDetails
    sessions: tuple[SessionReport, ...]
    evidence: str
    said: tuple[str, ...]
    now: float
    flow: str
    """The flow it is a phase of."""
    unstoppable: str
    """Why the session at work cannot be stopped from here; empty where it can."""
    untakeable: str
    """Why nobody can take it over from here; empty where somebody can."""
    lands: bool
    """Whether its work is kept on a branch of its own and nowhere else."""
    landed: str
    """The commit that brought its work; empty where it is on no branch of the person."""
    back: str
    """What taking that back would do, in words."""
    kept: str
    """Why it cannot be taken back now; empty where it can."""

    @property
    def events(self) -> list[Event]:
        return self.details.events[::-1]


def read_task(app: App, *, project: str, label: str) -> TaskPage:
    """The task an address names."""
    found = admin.picture(app, admin.find_task(app, label, project=project))
    task = found.task
    worked = tuple(report.sessions_of(app, found.events))
    last = worked[-1].id if worked else ""
    known = sessions.get(app.database, id=last) if last else None
    said = transcripts.said(app, project=task.project, session=last, agent=known.agent) if known else []
    held = sessions.get(app.database, id=task.held_by) if task.held_by else None
    obstacle = stopping.why_not(app, held) if held else UserError("No session works on it.")
    own = task.state == states.DONE and task.kind in (tasks.TASK, tasks.FAN_IN)
    branch = str(found.evidence.get("branch", "")) if own else ""
    landed, back, kept = _landed(app, task.project, branch, found.evidence) if own else ("", "", "")
    return TaskPage(
        address=task.label,
        path=f"{task.project}/{task.label}",
        look=overview.standing(app, [task.key])[task.key].look,
        details=found,
        sessions=worked,
        evidence=json.dumps(found.evidence, indent=2, ensure_ascii=False) if found.evidence else "",
        said=tuple(said[-_TAIL:]),
        now=app.clock.now(),
        flow=task.scope if task.kind == "phase" else "",
        unstoppable=obstacle.message if obstacle else "",
        untakeable=obstacle.message if obstacle and held and not stopping.is_taken(app, task) else "",
        lands=bool(branch) and not landed,
        landed=landed,
        back=back,
        kept=kept,
    )


def _landed(app: App, project: str, branch: str, evidence: dict[str, Any]) -> tuple[str, str, str]:
    """The commit that brought its work, what taking that back would do, or why it cannot be done."""
    landed = ""
    try:
        landed = landing_of(app, project=project, branch=branch, landed=str(evidence.get("landed", "")))
        return landed, undo(app, landed, dry_run=True, project=project).text if landed else "", ""
    except HandoffError as error:
        return landed, "", error.message


_SAID_BYTES = 200_000
_SAID_LINES = 400


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


def read_session(app: App, *, project: str, id: str) -> SessionPage:
    """The session of an id, or of the beginning of one."""
    known, _ = pulse.known_session(app, id)
    if project and known.project != project:
        raise UserError(f"There is no session '{id}' in the project '{project}'.", "All of them: handoff session list")
    task = tasks.look_up(app.database, key=known.task) if known.task is not None else None
    lines: list[str] = []
    with suppress(UserError):  # an agent the settings know no more
        lines = transcripts.transcript(app, session=known.id, limit=_SAID_BYTES)
    return SessionPage(
        session=known,
        label=task.label if task else "",
        fence=transcripts.fence_of(app, known).removeprefix(", "),
        ending="" if known.ended_at is not None else pulse.ending_of(app, project=known.project, session=known.id),
        said=tuple((kind, words) for kind, _, words in (line.partition(": ") for line in lines[-_SAID_LINES:])),
        cut=len(lines) > _SAID_LINES,
        messages=tuple(journal.said_to(known.id, journal.of_task(app.database, key=task.key) if task else [])),
        unstoppable=obstacle.message if (obstacle := stopping.why_not(app, known)) else "",
        elsewhere=bool(known.host) and known.host != app.settings.host,
        now=app.clock.now(),
    )


_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
UNIFIED = "unified"
_SHORT = 10
_FOLDED = 400
_MOST_LINES = 4000
"""Lines of all files that are drawn; what is more is named, with the command that shows it."""


class LineComment(Record):
    """What a person wrote on a line."""

    by: str
    at: float
    text: str
    outdated: bool


class DiffRow(Record):
    """One row: the old line beside the new one; a number is 0 where there is none."""

    kind: str
    """same, changed, or the head of a hunk"""
    old: int = 0
    left: str = ""
    new: int = 0
    right: str = ""
    comments: tuple[LineComment, ...] = ()


class DiffFile(Record):
    """One file with its rows."""

    path: str
    added: int
    removed: int
    is_test: bool
    folded: bool
    rows: tuple[DiffRow, ...]


class TaskDiff(Record):
    """A task's work as a page."""

    address: str
    path: str
    review: TaskReview
    files: tuple[DiffFile, ...]
    left_out: int
    comments: int
    chosen: tuple[str, int]
    """The line that is being written on."""
    may_comment: bool
    unified: bool
    """Whether what was taken away stands above what came in its place, not beside it."""
    where: str
    """The branch and the commit of the work, as far as they are known."""
    now: float


def read_diff(app: App, *, project: str, label: str, at: str = "", view: str = "") -> TaskDiff:
    """The work of the task an address names; `at` is FILE:LINE."""
    task = admin.find_task(app, label, project=project)
    found = review.review(app, key=task.key)
    written: dict[tuple[str, int], list[tuple[str, LineComment]]] = {}
    for event in journal.of_task(app.database, key=task.key):
        if event.kind == COMMENTED:
            place = (str(event.body["path"]), int(event.body["line"]))
            word = LineComment(event.session, event.at, str(event.body["text"]), outdated=False)
            written.setdefault(place, []).append((str(event.body.get("code", "")), word))
    files = [_file(one, written, unified=view == UNIFIED) for one in _first_files(found.files, _MOST_LINES)]
    path, _, number = at.rpartition(":")
    return TaskDiff(
        address=task.label,
        path=f"{task.project}/{task.label}",
        review=found,
        files=tuple(files),
        left_out=len(found.files) - len(files),
        comments=sum(map(len, written.values())),
        chosen=(path, int(number)) if number.isdecimal() else ("", 0),
        may_comment=not task.ended,
        unified=view == UNIFIED,
        where=_where(loads(task.evidence) if task.evidence else {}),
        now=app.clock.now(),
    )


def _where(evidence: dict[str, Any]) -> str:
    commit = str(evidence.get("landed") or evidence.get("commit") or "")[:_SHORT]
    branch = str(evidence.get("onto" if evidence.get("landed") else "branch") or "").removeprefix("refs/heads/")
    return " on ".join(filter(None, (commit, branch)))


def _file(
    one: ReviewedFile, written: dict[tuple[str, int], list[tuple[str, LineComment]]], *, unified: bool = False
) -> DiffFile:
    rows = []
    for row in _unified(_rows(one.lines)) if unified else _rows(one.lines):
        said = written.get((one.path, row.new), []) if row.new else []
        told = tuple(word._replace(outdated=bool(code) and code != row.right) for code, word in said)
        rows.append(row._replace(comments=told) if told else row)
    return DiffFile(
        path=one.path,
        added=one.added,
        removed=one.removed,
        is_test=one.is_test,
        folded=len(one.lines) > _FOLDED,
        rows=tuple(rows),
    )


def _first_files(found: Sequence[ReviewedFile], limit: int) -> Iterator[ReviewedFile]:
    """Files until so many lines are drawn; the last one is drawn to its end."""
    for one in found:
        if limit <= 0:
            return
        yield one
        limit -= len(one.lines)


def _rows(lines: Sequence[str]) -> Iterator[DiffRow]:
    """The lines of a unified diff as pairs: what was taken away beside what came in its place."""
    old = new = 0
    gone: list[tuple[int, str]] = []
    come: list[tuple[int, str]] = []
    for line in lines:
        if line.startswith("-") and old:
            if come:
                yield from _pairs(gone, come)
            gone.append((old, line[1:]))
            old += 1
            continue
        if line.startswith("+") and old + new:
            come.append((new, line[1:]))
            new += 1
            continue
        yield from _pairs(gone, come)
        if hunk := _HUNK.match(line):
            old, new = max(1, int(hunk[1])), max(1, int(hunk[2]))
            yield DiffRow(kind="hunk", right=line)
        elif line.startswith(" ") and old:
            yield DiffRow(kind="same", old=old, left=line[1:], new=new, right=line[1:])
            old, new = old + 1, new + 1
        else:
            yield DiffRow(kind="hunk", right=line)
    yield from _pairs(gone, come)


def _unified(rows: Iterable[DiffRow]) -> Iterator[DiffRow]:
    """The same rows with what was taken away above what came in its place."""
    come: list[DiffRow] = []
    for row in rows:
        if row.kind != "changed":
            yield from come
            come.clear()
            yield row
            continue
        if row.old:
            yield row._replace(new=0, right="")
        if row.new:
            come.append(row._replace(old=0, left=""))
    yield from come


def _pairs(gone: list[tuple[int, str]], come: list[tuple[int, str]]) -> Iterator[DiffRow]:
    for index in range(max(len(gone), len(come))):
        old, left = gone[index] if index < len(gone) else (0, "")
        new, right = come[index] if index < len(come) else (0, "")
        yield DiffRow(kind="changed", old=old, left=left, new=new, right=right)
    gone.clear()
    come.clear()


_MOST_GATE_LINES = 1500


class GatePages:
    """Draws what a link shows. Its style stands in it: whoever serves it need serve nothing else."""

    def __init__(self) -> None:
        self._style = read_text(os.path.join(HERE, "static", "page.css"))
        known = base64.b64encode(hashlib.sha256(self._style.encode()).digest()).decode()
        self.policy = f"default-src 'none'; style-src 'sha256-{known}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

    def asked(self, app: App, *, waiting: Waiting, code: str, to: str) -> str:
        """What is asked, all that speaks for and against it, and the three answers."""
        found = review.review(app, key=waiting.gate.task)
        files = [_file(one, {}) for one in _first_files(found.files, _MOST_GATE_LINES)]
        return self._draw(
            title=f"{waiting.project}/{waiting.task}",
            gate=waiting.gate,
            review=found,
            files=files,
            left_out=len(found.files) - len(files),
            code=code,
            to=to,
            now=app.clock.now(),
        )

    def told(self, message: str, hint: str = "", *, good: bool) -> str:
        """What came of it."""
        return self._draw(title=message, gate=None, hint=hint, good=good)

    def _draw(self, **values: object) -> str:
        return draw("gate.html", style=self._style, **values)
