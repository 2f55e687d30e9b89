"""Where the files about a task lie, and those that stop everything."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks.tasks import PHASE, Task
from handoff.engine.app.home import files_folder

if TYPE_CHECKING:
    from handoff.engine.app import App

RECORDED = "recorded: yes"
"""The line that tells a file we wrote from a marker somebody touched by hand."""


def document(app: App, task: Task) -> str:
    """Where a task's baton lies; a phase of a flow has none before its session begins."""
    if task.kind == PHASE:
        return ""
    return os.path.join(files_folder(app.settings.home, task.project), "queue", f"{task.id}.md")


LOOKED = ".markers"
"""In a project's folder: when its markers were last looked at."""

_PASSING = (".uri", ".heartbeat", ".529-suspected")
_LASTING = (".md", ".done", ".BLOCKED.md")


def leftovers(app: App, project: str, name: str, *, forgotten: bool) -> list[str]:
    """The files of an ended task that no longer say anything; all of them when the task itself is forgotten."""
    base = os.path.join(files_folder(app.settings.home, project), "queue", name)
    endings = (*_PASSING, *_LASTING) if forgotten else _PASSING
    launched = os.path.join(app.settings.home, project, "launched")
    taken = os.listdir(launched) if os.path.isdir(launched) else []
    return [
        *(base + ending for ending in endings if os.path.lexists(base + ending)),
        *(os.path.join(launched, one) for one in taken if launched_task(one) == name),
    ]


def launched_task(file: str) -> str:
    """The task of an address that a launcher has taken: `<task>-<nanoseconds>.txt`; empty if it is none."""
    name, _, rest = file.rpartition("-")
    return name if rest.endswith(".txt") and rest[:-4].isdigit() else ""


def stop_places(home: str, *, project: str = "", batch: str = "") -> tuple[str, ...]:
    """The files that stop a batch, or a project, or everything, the one we write ourselves first."""
    if batch:
        return (os.path.join(files_folder(home, project), "batches", batch, "STOP"),)
    if project:
        return (os.path.join(home, project, "STOP_AUTO"),)
    return os.path.join(home, "STOP_AUTO"), os.path.join(home, "done")


def is_stopped(app: App, project: str) -> bool:
    """Whether a file stops the project, or everything."""
    home = app.settings.home
    return any(map(os.path.lexists, (*stop_places(home), *stop_places(home, project=project))))
