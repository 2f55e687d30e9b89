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
from handoff.engine.outcome.reviews import ReviewedFile, blob, changes_of, files_of, weakened_by
from handoff.engine.place import task_clones
from handoff.engine.place.landing.members import member_of
from handoff.git.plumbing import checkout, find_top

if TYPE_CHECKING:
    from handoff.base.process import Completed
    from handoff.board.gates import Gate, Waiting
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

_MOST_FILES = 200


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
    """What waits for a person, in the order in which to look at it."""
    known = {one.task: one for one in decisions.in_review(app.database)}
    reviewed = {item.gate.key: known.get(item.gate.task) if item.gate.state == gates.OPEN else None for item in found}
    ranked = []
    for item in sorted(found, key=lambda one: decisions.review_rank(reviewed[one.gate.key], one.gate.opened_at)):
        decision = reviewed[item.gate.key]
        ranked.append(RankedGate(item, *(decisions.risk_of(decision) if decision is not None else (0, 0))))
    return ranked


def review(app: App, *, key: int) -> TaskReview:
    """Everything about a task that speaks for or against it."""
    task = tasks.get(app.database, key=key)
    trouble = text = ""
    weakened: tuple[str, ...] = ()
    try:
        text, weakened = _work(app, task)
    except HandoffError as error:
        trouble = error.message
    files = sorted(files_of(text), key=lambda one: (not one.is_test, one.path))
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
        return changes_of(store.store.git, member_of(app, snapshot_store=store, workspace=clone))
    top = find_top(task.workspace) if os.path.isdir(task.workspace) else None
    base = str(task.baseline_facts.get("head") or "HEAD")
    if top is None:
        return "", ()

    def ask(*words: str) -> Completed:
        return checkout.git(top, *words, environment=app.git_environment)

    text = ask("diff", "--no-ext-diff", "--no-textconv", "--no-color", base).text
    return text, weakened_by(text, lambda side, path: blob(ask, base, path) if not side else _on_disk(top, path))


def _on_disk(top: str, path: str) -> str | None:
    try:
        with open(os.path.join(top, path), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
