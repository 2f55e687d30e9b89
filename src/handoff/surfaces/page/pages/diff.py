"""Diff: what a task changed, tests first, with what speaks for and against it."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.clients import review
from handoff.engine.tasks import admin

if TYPE_CHECKING:
    from handoff.engine.app import App
    from handoff.engine.clients.review import TaskReview


class TaskDiff(Record):
    """A task's work as a page."""

    address: str
    path: str
    review: TaskReview


def read(app: App, *, project: str, label: str) -> TaskDiff:
    """The work of the task an address names."""
    task = admin.find_task(app, label, project=project)
    return TaskDiff(f"{task.project}/{task.label}", f"{task.project}/{task.label}", review.review(app, key=task.key))
