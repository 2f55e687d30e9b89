"""Where the files about a task lie."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks.tasks import PHASE

if TYPE_CHECKING:
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App


def document(app: App, task: Task) -> str:
    """Where a task's baton lies; a phase of a flow has none before its session begins."""
    if task.kind == PHASE:
        return ""
    return os.path.join(app.settings.home, task.project, "queue", f"{task.id}.md")
