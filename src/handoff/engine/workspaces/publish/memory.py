"""What a machine remembers of its pushes: what was last seen at the shared repository, and what could not go there yet."""

from __future__ import annotations

import json
import os

from handoff.base.files import make_folder, write_atomic
from handoff.base.ids import slug
from handoff.base.record import TYPE_CHECKING
from handoff.engine.safety.snapshots import SnapshotStore
from handoff.git.plumbing import find_top
from handoff.git.plumbing.snapshot_repo import SnapshotRepo
from handoff.git.snapshots.location import find_place

if TYPE_CHECKING:
    from typing import Any

    from handoff.engine.app import App


def here(app: App) -> str:
    """This machine as its refs name it."""
    return slug(app.settings.host) or "host"


def snapshot_store_of(app: App, folder: str, project: str) -> SnapshotStore:
    """Where the snapshots of a checkout are."""
    place = find_place(find_top(folder) or folder, home=app.settings.home, project=project)
    return SnapshotStore(place, SnapshotRepo(place.store, app.settings.environment))


def mirror_of(app: App, project: str) -> str:
    """What this machine has fetched of a project; all its checkouts borrow their history there."""
    return os.path.join(app.settings.home, project, "remote.git")


def folder_of(app: App, project: str) -> str:
    """Where it is remembered what was pushed of a project."""
    return os.path.join(app.settings.home, project, "remotes")


def read(app: App, project: str, name: str) -> dict[str, Any]:
    """What is remembered of one task."""
    try:
        with open(os.path.join(folder_of(app, project), f"{name}.json"), encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return {}


def write(app: App, project: str, name: str, values: dict[str, Any]) -> None:
    """Remember it."""
    make_folder(folder_of(app, project))
    write_atomic(os.path.join(folder_of(app, project), f"{name}.json"), json.dumps(values), sync=False)


def known_projects(app: App) -> list[str]:
    """The projects of which anything was pushed from here."""
    home = app.settings.home
    return (
        [name for name in sorted(os.listdir(home)) if os.path.isdir(folder_of(app, name))]
        if os.path.isdir(home)
        else []
    )


def troubles(app: App) -> list[str]:
    """Which tasks' work could not be pushed from this machine when it was last tried, and why."""
    found = []
    for project in known_projects(app):
        for file in sorted(os.listdir(folder_of(app, project))):
            trouble = read(app, project, file.removesuffix(".json")).get("trouble") if file.endswith(".json") else ""
            if trouble:
                found.append(f"{project}/{file.removesuffix('.json')}: {trouble}")
    return found


def waiting_bases(app: App) -> list[tuple[str, str, str]]:
    """Commits that could not be pushed with their tasks: project, name, checkout."""
    found = []
    for project in known_projects(app):
        for file in os.listdir(folder_of(app, project)):
            if file.endswith(".waits"):
                with open(os.path.join(folder_of(app, project), file), encoding="utf-8") as opened:
                    found.append((project, file.removesuffix(".waits"), opened.read()))
    return found
