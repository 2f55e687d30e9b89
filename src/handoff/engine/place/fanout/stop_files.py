"""Pause and resume: rows for every machine, and the files STOP_AUTO, done and STOP for people who like to touch files."""

from __future__ import annotations

import os

from handoff.base.files import make_folder, remove, write_atomic
from handoff.base.record import TYPE_CHECKING
from handoff.board.sessions import pauses
from handoff.engine.app.home import files_folder
from handoff.engine.place.fanout.paths import RECORDED, stop_places

if TYPE_CHECKING:
    from handoff.board.sessions.pauses import Pause
    from handoff.engine.app import App

_FILE = "file"


def read_files(app: App, project: str) -> list[Pause]:
    """Take in the stop files of this machine: a new one stops, one that is gone lets go on. The stops that hold."""
    store = app.database
    rows = {(stop.scope, stop.project, stop.name): stop for stop in pauses.listing(store)}
    mine = f"{_FILE}@{app.settings.host}"
    found = files_of(app, project)
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


def files_of(app: App, project: str) -> dict[tuple[str, str, str], str]:
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


def pause(app: App, *, scope: str, project: str, name: str, reason: str, by: str) -> bool:
    """Nothing in the scope is claimed from now on; what runs goes on and may finish. False when it was so already."""
    fresh = pauses.pause(app.database, scope=scope, project=project, name=name, reason=reason, paused_by=by)
    for path in _places(app, scope, project, name)[:1]:
        make_folder(os.path.dirname(path))
        write_atomic(path, f"{reason or 'paused'}\n{RECORDED}\n")
    return fresh


def resume(app: App, *, scope: str, project: str, name: str) -> bool:
    """Claims go on in the scope; False when nothing was stopped there."""
    removed = [path for path in _places(app, scope, project, name) if remove(path)]
    return pauses.resume(app.database, scope=scope, project=project, name=name) or bool(removed)
