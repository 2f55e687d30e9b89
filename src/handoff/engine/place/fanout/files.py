"""Where the files about a task lie, and those that stop everything: STOP_AUTO, done and STOP, for people who like to touch files.

A stop is a row, for every machine, and a file of this one."""

from __future__ import annotations

import os

from handoff.base.files import make_folder, remove, write_atomic
from handoff.base.record import TYPE_CHECKING
from handoff.board.sessions import pauses
from handoff.board.tasks.tasks import PHASE, Task
from handoff.engine.app.home import files_folder

if TYPE_CHECKING:
    from handoff.board.sessions.pauses import Pause
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


# --- pause and resume ------------------------------------------------------------------------------------------------------


_FILE = "file"


def read_stop_files(app: App, project: str) -> list[Pause]:
    """Take in the stop files of this machine: a new one stops, one that is gone lets go on. The stops that hold."""
    store = app.database
    rows = {(stop.scope, stop.project, stop.name): stop for stop in pauses.listing(store)}
    mine = f"{_FILE}@{app.settings.host}"
    found = stop_files_of(app, project)
    for (scope, owner, name), path in found.items():
        if (scope, owner, name) not in rows:
            pauses.pause(
                store, scope=scope, project=owner, name=name, reason=f"the file {path} is there", paused_by=mine
            )
    for (scope, owner, name), stop in rows.items():
        gone = (scope, owner, name) not in found and (scope == pauses.ALL or owner == project)
        if gone and stop.paused_by == mine:
            pauses.resume(store, scope=scope, project=owner, name=name)
    changed = found.keys() - rows.keys() or any(stop.paused_by == mine for stop in rows.values())
    stops = pauses.listing(store) if changed else list(rows.values())
    return [stop for stop in stops if stop.scope == pauses.ALL or stop.project == project]


def stop_files_of(app: App, project: str) -> dict[tuple[str, str, str], str]:
    """The stop files of a project on this machine: what each of them stops, and where it lies."""
    home = app.settings.home
    folder = os.path.join(files_folder(home, project), "batches")
    batches = os.listdir(folder) if os.path.isdir(folder) else []
    wanted = {
        (pauses.ALL, "", ""): stop_places(home),
        (pauses.PROJECT, project, ""): stop_places(home, project=project),
    }
    wanted.update({(pauses.BATCH, project, name): stop_places(home, project=project, batch=name) for name in batches})
    found = {key: [path for path in places if os.path.lexists(path)] for key, places in wanted.items()}
    return {key: places[-1] for key, places in found.items() if places}


def _places(app: App, scope: str, project: str, name: str) -> tuple[str, ...]:
    names = {pauses.ALL: {}, pauses.PROJECT: {"project": project}, pauses.BATCH: {"project": project, "batch": name}}
    return stop_places(app.settings.home, **names[scope]) if scope in names else ()


def pause_with_file(app: App, *, scope: str, project: str, name: str, reason: str, by: str) -> bool:
    """Nothing in the scope is claimed from now on; what runs goes on and may finish. False when it was so already."""
    fresh = pauses.pause(app.database, scope=scope, project=project, name=name, reason=reason, paused_by=by)
    for path in _places(app, scope, project, name)[:1]:
        make_folder(os.path.dirname(path))
        write_atomic(path, f"{reason or 'paused'}\n{RECORDED}\n")
    return fresh


def resume_with_file(app: App, *, scope: str, project: str, name: str) -> bool:
    """Claims go on in the scope; False when nothing was stopped there."""
    removed = [path for path in _places(app, scope, project, name) if remove(path)]
    return pauses.resume(app.database, scope=scope, project=project, name=name) or bool(removed)
