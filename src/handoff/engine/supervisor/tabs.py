"""A fresh tab opens by itself: whoever watches opens a ready task in the person's editor, tmux or terminal, once."""

from __future__ import annotations

import os

from handoff.base.errors import ConfigError, HandoffError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import host_leases
from handoff.engine.app.home import home_config
from handoff.engine.place.fanout import stop_files
from handoff.engine.supervisor import watchdog
from handoff.engine.work.tasks import admin
from handoff.engine.work.tasks.open_tab import AUTO, WAYS, way_here

if TYPE_CHECKING:
    from typing import NoReturn

    from handoff.engine.app import App

_STAGGER_SECONDS = 0.3
_LOOK_SECONDS = 0.5


class AutoTab(Record):
    """What came of one task: the words of what was opened, or why nothing was."""

    task: str
    project: str
    opened: bool
    words: str


class WaitReport(Record):
    """What happened while the watchdog waited for its next look."""

    tabs: tuple[AutoTab, ...]
    taken_in: tuple[str, ...]
    refused: tuple[str, ...]


def is_wanted(app: App) -> bool:
    """Whether the person asked for tabs that open by themselves."""
    config = home_config(app)
    way = config.text("auto_open")
    if way and way not in WAYS:
        raise ConfigError(
            f"{config.path}: auto_open: '{way}' is no way to open a task.", f"Use one of: {', '.join(WAYS)}."
        )
    return bool(way)


def open_ready(app: App) -> list[AutoTab]:
    """Open each ready task that has no tab; nothing is opened while it is paused, nor in a project whose tasks a supervisor takes."""
    host = app.settings.host
    config = home_config(app)
    way, most = config.text("auto_open"), int(config.number("max_running"))
    found = host_leases.without_tab(app.database, host=host, most=most)
    if found:
        for project in {task.project for task in found}:
            stop_files.read_files(app, project)
        found = host_leases.without_tab(app.database, host=host, most=most)
    told: list[AutoTab] = []
    for task in found:
        if not os.path.isdir(task.workspace):
            continue  # another machine's
        if told:
            app.clock.sleep(_STAGGER_SECONDS)
        if not host_leases.take_tab(app.database, task, host=host):
            continue
        try:
            chosen = (way_here(app, config) if way == AUTO else way) or _nothing_here()
            told.append(AutoTab(task.label, task.project, True, admin.open_(app, task, way=chosen).words))
        except HandoffError as error:
            told.append(AutoTab(task.label, task.project, False, f"{error.message} {error.hint}".strip()))
    return told


def watch(app: App, seconds: float) -> WaitReport:
    """Wait so long. Touched markers are taken in and wanted tabs open meanwhile, within a second; ends early when something happened."""
    wanted = is_wanted(app)
    deadline = app.clock.monotonic() + seconds
    while True:
        taken_in, refused = watchdog.take_in_markers(app, watchdog.project_names(app))
        found = WaitReport(tuple(open_ready(app) if wanted else ()), tuple(taken_in), tuple(refused))
        left = deadline - app.clock.monotonic()
        if any(found) or left <= 0:
            return found
        app.database.wait_for_change(min(_LOOK_SECONDS, left))


def _nothing_here() -> NoReturn:
    raise ConfigError(
        "No editor, tmux or terminal of yours was found here.",
        'Name one in config.toml: auto_open = "tmux", or run the watchdog from inside it.',
    )
