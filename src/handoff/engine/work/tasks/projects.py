"""The projects of this machine: which there are, whose they are, and how one is moved or renamed."""

from __future__ import annotations

import os

from handoff.base import files
from handoff.base.errors import Conflict, Refused, UserError
from handoff.base.ids import check_id
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks import states, tasks
from handoff.engine.app.home import RESERVED, find_project, project_name, take_over

if TYPE_CHECKING:
    from handoff.engine.app import App

_KEPT_APART = ("workspaces", "checkouts", "sessions")


class KnownProject(Record):
    """A project with its tasks and its checkouts; those that are gone are told apart."""

    name: str
    tasks: int
    live: int
    folders: tuple[str, ...]
    gone: tuple[str, ...]


def listing(app: App) -> list[KnownProject]:
    """Every project that has rows or a checkout written down, by name."""
    counts = {str(row["project"]): row for row in tasks.projects(app.database)} if app.has_rows else {}
    home = app.settings.home
    folders = os.listdir(home) if os.path.isdir(home) else []
    names = sorted(counts.keys() | {name for name in folders if files.project_owners(home, name)})
    found = []
    for name in names:
        places = _places(app, name)
        row = counts.get(name)
        found.append(
            KnownProject(
                name=name,
                tasks=int(row["tasks"]) if row else 0,
                live=int(row["live"]) if row else 0,
                folders=tuple(place for place in places if os.path.isdir(place)),
                gone=tuple(place for place in places if not os.path.isdir(place)),
            )
        )
    return found


def checkout(app: App, name: str) -> str:
    """Where a project is checked out on this machine: here, if this is it."""
    if not name or find_project(app).name == name:
        return find_project(app).workspace
    place = known_checkout(app, name)
    if not place:
        raise UserError(
            f"Project '{name}' has no checkout on this machine.",
            f"See where it is: {app.settings.program} project list",
        )
    return place


def known_checkout(app: App, name: str) -> str:
    """The first checkout of a project that is there, or nothing."""
    return next((one for one in _places(app, name) if os.path.isdir(one)), "")


def left_behind(app: App, folder: str) -> list[KnownProject]:
    """Projects with live tasks whose checkout is gone and had the name of this folder: it may have been cloned anew."""
    name = os.path.basename(folder)
    return [
        one
        for one in listing(app)
        if one.live and not one.folders and any(os.path.basename(place) == name for place in one.gone)
    ]


def _places(app: App, name: str) -> list[str]:
    """The checkouts of a project: as written down, else as its tasks say."""
    owners = files.project_owners(app.settings.home, name)
    if owners or not app.has_rows:
        return [os.path.dirname(place) if os.path.basename(place) == ".git" else place for place in owners]
    return tasks.project_workspaces(app.database, project=name)


def _known(app: App, name: str) -> KnownProject:
    found = next((one for one in listing(app) if one.name == name), None)
    if found is None:
        raise UserError(f"There is no project '{name}'.", f"See: {app.settings.program} project list")
    held = tasks.listing(app.database, project=name, state=states.RUNNING, limit=1) if found.live else []
    if held:
        raise Conflict(
            f"Session {held[0].held_by} works on {held[0].label} of project '{name}'.",
            f"Let it end, or take the task back: {app.settings.program} cancel {held[0].label} --project {name}",
        )
    return found


def move(app: App, *, name: str, execute: bool) -> KnownProject:
    """Give a project whose checkout is gone to the checkout we stand in; nothing is changed unless `execute`."""
    found, program = _known(app, name), app.settings.program
    here = find_project(app).workspace
    current = project_name(app, here)
    if current == name:
        raise UserError(f"'{name}' is the project of this checkout already.", f"See: {program} task list")
    if found.folders:
        raise Refused(
            f"'{name}' belongs to {found.folders[0]}, which is there.",
            f"To work on its tasks from here, say --project {name}.",
        )
    mine = next((one for one in listing(app) if one.name == current), None)
    if mine is not None and mine.live:
        raise Refused(
            f"This checkout is project '{current}' and has {mine.live} live tasks of its own.",
            f"End them first: {program} task list",
        )
    if execute:
        if not files.project_owners(app.settings.home, name) and found.gone:
            files.make_folder(os.path.join(app.settings.home, name))
            gone = "".join(f"{place}/.git\n" for place in found.gone)  # where its rows say that it was
            files.write_atomic(os.path.join(app.settings.home, name, ".checkout"), gone)
        take_over(app, name, files.git_home(here))
    return found._replace(folders=(here,))


def rename(app: App, *, name: str, new: str, execute: bool) -> KnownProject:
    """Let a project go by another name, with its folder under the home; nothing is changed unless `execute`."""
    check_id(new, "project")
    found, home, program = _known(app, name), app.settings.home, app.settings.program
    if new in RESERVED or os.path.lexists(os.path.join(home, new)) or any(one.name == new for one in listing(app)):
        raise Refused(f"'{new}' is taken.", f"Choose another name; see: {program} project list")
    for kind in _KEPT_APART:
        inside = os.path.join(home, name, kind)
        if os.path.isdir(inside) and os.listdir(inside):
            raise Refused(
                f"{inside} holds work of sessions, which knows where it lies.",
                f"Land or remove it first: {program} workspace list",
            )
    if execute:
        owners = files.project_owners(home, name)
        if app.has_rows:
            tasks.rename_project(app.database, old=name, new=new)
        if os.path.isdir(os.path.join(home, name)):
            os.rename(os.path.join(home, name), os.path.join(home, new))
        for place in owners:
            take_over(app, new, place)
    return found._replace(name=new)
