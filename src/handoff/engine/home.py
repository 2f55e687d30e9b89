"""Where the relay keeps things for people: the home's settings, the projects and their folders."""

from __future__ import annotations

import os

from handoff.base.errors import ConfigError, UserError
from handoff.base.files import main_checkout
from handoff.base.ids import check_id, slug
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import HOME_CONFIG, HOME_KEYS, load_config

if TYPE_CHECKING:
    from handoff.base.settings import Config
    from handoff.engine.app import App

RESERVED = frozenset("sessions logs locks backups done config guard hooks snapshots workspaces endpoints".split())
_LEAST_NAME = 2
_LONGEST_LABEL = 60


class Project(Record):
    """A project as the relay names it, and the checkout the command was started in."""

    name: str
    workspace: str
    folder: str

    def batch_folder(self, batch_id: str) -> str:
        return os.path.join(self.folder, "batches", batch_id)


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
        chosen = name_of(top)
    return Project(chosen, top, os.path.join(app.settings.home, chosen))


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
