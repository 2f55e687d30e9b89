"""What a person must see before they answer: the question, the checks, weakened tests, the files and the diff, tests first."""

from __future__ import annotations

import json
import os

from handoff.base.errors import HandoffError
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.tasks import decisions, tasks
from handoff.checks.assertions.assertions import find_weakened
from handoff.checks.suite import is_test
from handoff.engine.workspaces import task_clones
from handoff.engine.workspaces.landing.members import member_of
from handoff.git.plumbing import checkout, find_top

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.base.process import Completed
    from handoff.board.gates import Gate, Waiting
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

_MOST_FILES = 200


class ReviewedFile(Record):
    """One file of a diff, with its lines."""

    path: str
    added: int
    removed: int
    is_test: bool
    lines: tuple[str, ...]


class TaskReview(Record):
    """A task as a person decides on it."""

    task: Task
    gate: Gate | None
    checks: tuple[str, ...]
    weakened: tuple[str, ...]
    files: tuple[ReviewedFile, ...]
    trouble: str = ""
    """Why the work cannot be shown, if it cannot."""


class RankedGate(Record):
    """A gate, and where it is a review what speaks for looking at it first."""

    waiting: Waiting
    weakened: int = 0
    lines: int = 0

    @property
    def words(self) -> str:
        weak = f"weakens {number_of(self.weakened, 'test')}, " if self.weakened else ""
        return f"{weak}{number_of(self.lines, 'line')}" if self.lines else ""


def by_risk(app: App, found: list[Waiting]) -> list[RankedGate]:
    """Questions as they came, then reviews: weakened tests first, then the larger diff, then the older one."""
    keys = {one.task for one in decisions.in_review(app.database)}
    ranked = []
    for item in found:
        if item.gate.task in keys and item.gate.state == gates.OPEN:
            seen = review(app, key=item.gate.task)
            lines = sum(file.added + file.removed for file in seen.files)
            ranked.append(RankedGate(item, len(seen.weakened), lines))
    ranked.sort(key=lambda one: (not one.weakened, -one.lines, one.waiting.gate.opened_at))
    rest = [RankedGate(item) for item in found if item not in [one.waiting for one in ranked]]
    return [*rest, *ranked]


def review(app: App, *, key: int) -> TaskReview:
    """Everything about a task that speaks for or against it."""
    task = tasks.get(app.database, key=key)
    trouble = text = ""
    weakened: tuple[str, ...] = ()
    try:
        text, weakened = _work(app, task)
    except HandoffError as error:
        trouble = error.message
    files = sorted(_files(text), key=lambda one: (not one.is_test, one.path))
    return TaskReview(
        task=task,
        gate=gates.of_task(app.database, key=key),
        checks=_checks(app, task),
        weakened=weakened,
        files=tuple(files[:_MOST_FILES]),
        trouble=trouble,
    )


def _checks(app: App, task: Task) -> tuple[str, ...]:
    """What the orchestrator ran for it, the latest last."""
    said = []
    for event in journal.of_task(app.database, key=task.key):
        check = event.body.get("check")
        if isinstance(check, dict) and check.get("command"):
            said.append(f"{check.get('verdict', 'not run')}: {check['command']}")
    evidence = json.loads(task.evidence or "{}").get("check")
    if isinstance(evidence, dict) and evidence.get("command"):
        said.append(f"{evidence.get('verdict', 'not run')}: {evidence['command']}")
    return tuple(dict.fromkeys(said))[-3:]


def _work(app: App, task: Task) -> tuple[str, tuple[str, ...]]:
    """The diff of what the task made, and the tests it weakened: from our own copy, never through a session's git folder."""
    clone = task_clones.of_task(app, task)
    if clone is not None:
        store = task_clones.snapshot_store_of_project(app, task)
        member = member_of(app, snapshot_store=store, workspace=clone)
        run = store.store.git
        text = run("diff", "--no-ext-diff", "--no-textconv", "--no-color", member.base, member.commit).text
        return text, _weakened(text, lambda side, path: _blob(run, (member.base, member.commit)[side], path))
    top = find_top(task.workspace) if os.path.isdir(task.workspace) else None
    base = str(task.baseline_facts.get("head") or "HEAD")
    if top is None:
        return "", ()

    def ask(*words: str) -> Completed:
        return checkout.git(top, *words, environment=app.git_environment)

    text = ask("diff", "--no-ext-diff", "--no-textconv", "--no-color", base).text
    return text, _weakened(text, lambda side, path: _blob(ask, base, path) if not side else _on_disk(top, path))


def _blob(run: Callable[..., Completed], commit: str, path: str) -> str | None:
    found = run("cat-file", "blob", f"{commit}:{path}")
    return found.text if found.code == 0 else None


def _on_disk(top: str, path: str) -> str | None:
    try:
        with open(os.path.join(top, path), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def _weakened(text: str, side: Callable[[int, str], str | None]) -> tuple[str, ...]:
    paths = [one.path for one in _files(text) if one.is_test]
    found = find_weakened({path: (side(0, path), side(1, path)) for path in paths})
    return tuple(one.message for one in found)


def _files(text: str) -> list[ReviewedFile]:
    """The files of a diff, one after the other."""
    found: list[ReviewedFile] = []
    for part in ("\n" + text).split("\ndiff --git ")[1:]:
        lines = part.rstrip("\n").split("\n")
        path = lines[0].rpartition(" b/")[2]
        body = lines[1:]
        start = next((number for number, line in enumerate(body) if line.startswith("@@")), len(body))
        hunks = body[start:]
        found.append(
            ReviewedFile(
                path=path,
                added=sum(line.startswith("+") for line in hunks),
                removed=sum(line.startswith("-") for line in hunks),
                is_test=is_test(path),
                lines=tuple(hunks or body),
            )
        )
    return found
