"""Diff: what a task changed, old beside new, tests first, with what speaks for and against it and what was written on its lines."""

from __future__ import annotations

import re

from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.engine.place.baton import COMMENTED
from handoff.engine.work import review
from handoff.engine.work.tasks import admin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from handoff.engine.app import App
    from handoff.engine.outcome.reviews import ReviewedFile
    from handoff.engine.work.review import TaskReview

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
UNIFIED = "unified"
_SHORT = 10
_FOLDED = 400
_MOST = 4000
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


def read(app: App, *, project: str, label: str, at: str = "", view: str = "") -> TaskDiff:
    """The work of the task an address names; `at` is FILE:LINE."""
    task = admin.find_task(app, label, project=project)
    found = review.review(app, key=task.key)
    written: dict[tuple[str, int], list[tuple[str, LineComment]]] = {}
    for event in journal.of_task(app.database, key=task.key):
        if event.kind == COMMENTED:
            place = (str(event.body["path"]), int(event.body["line"]))
            word = LineComment(event.session, event.at, str(event.body["text"]), outdated=False)
            written.setdefault(place, []).append((str(event.body.get("code", "")), word))
    files, left = [], _MOST
    for one in found.files:
        if left > 0:
            files.append(_file(one, written, unified=view == UNIFIED))
            left -= len(one.lines)
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


def plain_file(one: ReviewedFile) -> DiffFile:
    """A file as it is drawn where nobody writes on its lines."""
    return _file(one, {})


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
