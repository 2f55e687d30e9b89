"""Where the relay keeps things for people: the home's settings, the projects and their folders."""

from __future__ import annotations

import os

from handoff.base.errors import ConfigError, UserError
from handoff.base.files import (
    create_exclusive,
    git_home,
    kept_project,
    main_checkout,
    make_folder,
    project_of,
    project_owners,
    read_bytes,
    read_text,
    write_atomic,
)
from handoff.base.ids import check_id, slug
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import HOME_CONFIG, HOME_KEYS, load_config

if TYPE_CHECKING:
    from handoff.base.settings import Config
    from handoff.engine.app import App

RESERVED = frozenset("sessions logs locks backups done config guard hooks snapshots workspaces endpoints".split())
APART = "relay"
_LEAST_NAME = 2
_LONGEST_LABEL = 60


class Project(Record):
    """A project as the relay names it, and the checkout the command was started in."""

    name: str
    workspace: str
    folder: str

    def batch_folder(self, batch_id: str) -> str:
        return os.path.join(files_folder(os.path.dirname(self.folder), self.name), "batches", batch_id)


def person(app: App) -> str:
    """Who acts, for the journal."""
    return app.settings.get("USER") or app.settings.get("LOGNAME") or "a person"


def files_folder(home: str, project: str) -> str:
    """Where the files about a project's tasks lie: its folder, or one apart inside it where an older tool keeps files too."""
    folder = os.path.join(home, project)
    apart = os.path.join(folder, APART)
    return apart if os.path.isdir(apart) else folder


FILES_STAMP = ".views"


def files_stamp(app: App, folder: str) -> int:
    """Up to which line of the journal a project's files are true; -1 when that is not known or was another database."""
    path = os.path.join(folder, FILES_STAMP)
    text = read_bytes(path).decode("utf-8", "replace") if os.path.exists(path) else ""
    number, _, place = text.partition("\n")[0].strip().partition(" ")
    return int(number) if number.isdigit() and place == app.database.place else -1


def find_project(app: App, *, name: str = "", workspace: str = "") -> Project:
    """The project a command means: the one named, else the checkout's name (not that of the folder inside it)."""
    from handoff.git.plumbing import find_top

    start = os.path.abspath(os.path.expanduser(workspace or app.settings.here))
    if not os.path.isdir(start):
        raise UserError(f"There is no folder {start}.", "Name the checkout with --workspace, or leave the option out.")
    top = find_top(start) or start
    name = name or app.settings.get("HANDOFF_PROJECT")
    if name:
        chosen = check_id(name, "project")
        if chosen in RESERVED:
            raise UserError(
                f"'{chosen}' cannot name a project: handoff keeps its own files there.", "Choose another name."
            )
    else:
        chosen = project_name(app, top)
    return Project(chosen, top, os.path.join(app.settings.home, chosen))


def project_name(app: App, top: str) -> str:
    """The project of a checkout: the one it is known by, else its folder's name. A namesake elsewhere gets a longer one."""
    home, place = app.settings.home, git_home(top)
    known = project_of(place, home)
    if known or place.startswith(os.path.realpath(home) + os.sep):
        return known or name_of(top)  # a workspace of ours is known by other means
    moved = kept_project(place, home)
    if moved:
        take_over(app, moved, place)
        return moved
    name = name_of(top)
    if _may_have(app, name, place):
        return name
    from handoff.git.plumbing.objects import digest

    return f"{name}-{digest(os.fsencode(place))[:6]}"  # as its snapshots are


def _may_have(app: App, name: str, place: str) -> bool:
    """Whether the checkout may go by that name. In a home of before, whoever has tasks under a name keeps it."""
    home = app.settings.home
    owners = project_owners(home, name)
    if owners or not os.path.isdir(os.path.join(home, name)):
        return not owners or place in owners
    from handoff.board.tasks import tasks

    # In a database of many machines the folders are other machines' too, and say nothing about ours.
    alone = app.database_url.endswith(os.path.join(home, "handoff.db"))
    folders = tasks.project_workspaces(app.database, project=name) if alone and app.has_rows else []
    places = {git_home(folder) for folder in folders if os.path.isdir(folder)}
    if places and place not in places:
        return False
    _write_owners(app, name, sorted(places | {place}))
    return True


def settle(app: App, project: Project) -> Project:
    """Write down whose a project is before its first row; of two namesakes that come at once, one gets the longer name."""
    place = git_home(project.workspace)
    if project_of(place, app.settings.home) or project_name(app, project.workspace) != project.name:
        return project  # known, or named by the person
    if not project_owners(app.settings.home, project.name):
        app.open_home()
        make_folder(project.folder)
        create_exclusive(os.path.join(project.folder, ".checkout"), f"{place}\n")
    if place not in project_owners(app.settings.home, project.name):
        return settle(app, find_project(app, workspace=project.workspace))
    _tell(app, project.name, place)
    return project


def take_over(app: App, name: str, place: str) -> int:
    """The checkout at `place` is the project's from now on: its rows say so too. How many of them did not."""
    from handoff.board.tasks import tasks

    old = [os.path.dirname(owner) for owner in project_owners(app.settings.home, name)]
    new = os.path.dirname(place) if os.path.basename(place) == ".git" else place
    moved = tasks.move_project(app.database, project=name, old=old, new=new) if app.has_rows else 0
    _move_claims(app, old, new)
    _write_owners(app, name, [place])
    return moved


def _write_owners(app: App, name: str, places: list[str]) -> None:
    app.open_home()
    make_folder(os.path.join(app.settings.home, name))
    write_atomic(os.path.join(app.settings.home, name, ".checkout"), "".join(f"{place}\n" for place in places))
    for place in places:
        _tell(app, name, place)


def _tell(app: App, name: str, place: str) -> None:
    """Write the name into the git folder, which keeps it when the checkout is moved; a folder without git has no such place."""
    path, home = os.path.join(place, "handoff-project"), os.path.realpath(app.settings.home)
    if not os.path.isfile(os.path.join(place, "HEAD")):
        return
    others = (
        [line for line in read_text(path).splitlines() if line.partition(" ")[2] != home]
        if os.path.isfile(path)
        else []
    )
    try:
        write_atomic(path, "".join(f"{line}\n" for line in (*others, f"{name} {home}")))
    except UserError:
        return  # a git folder that may not be written: the home knows it by its path


def _move_claims(app: App, old: list[str], new: str) -> None:
    """A tab that holds a task goes on in the moved folder."""
    folder = os.path.join(app.settings.home, "sessions")
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        text = read_text(path) if name.endswith(".session") else ""
        fresh = text
        for place in old:
            fresh = fresh.replace(f"\nworkspace={place}\n", f"\nworkspace={new}\n")
        if fresh != text:
            write_atomic(path, fresh, mode=0o600)


def name_of(top: str) -> str:
    """A checkout's project name; a worktree has the name of the checkout it belongs to."""
    name = slug(os.path.basename(main_checkout(top) or top))
    if len(name) < _LEAST_NAME or name in RESERVED:
        name = f"{name}-project" if name else "project"
    return name


def home_config(app: App) -> Config:
    """The settings in $HANDOFF_HOME/config.toml; an unknown key or a wrong value is an error that names its line."""
    config = load_config(os.path.join(app.settings.home, HOME_CONFIG), HOME_KEYS)
    for agent, value in config.values["max_running_agent"].items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(
                f"{config.path}: max_running_agent.{agent} must be a whole number above 0, not {value!r}.",
                "For example: max_running_agent = { claude = 3 }",
            )
    return config


def set_in_home(app: App, key: str, value: str) -> str:
    """Write a setting that has no line yet into the home's file, above what is there; what was written."""
    path, line = os.path.join(app.settings.home, HOME_CONFIG), f'{key} = "{value}"'
    app.open_home()
    write_atomic(path, f"{line}\n{read_text(path) if os.path.exists(path) else ''}")
    return f"Wrote {line} into {path}."


def host_label(app: App) -> str:
    """The label only this machine has: a task whose workspace is here demands it."""
    return f"host-{slug(app.settings.host)}"[:_LONGEST_LABEL].rstrip("-")


def labels_of(app: App, *, said: str = "") -> tuple[str, ...]:
    """The labels of this machine: its own name, those said on the command line, and those in the settings."""
    from handoff.board.tasks.requirements import check_labels

    return check_labels(
        [
            host_label(app),
            *(name.strip() for name in said.split(",") if name.strip()),
            *home_config(app).texts("labels"),
        ]
    )
