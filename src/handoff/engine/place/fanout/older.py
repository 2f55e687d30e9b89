"""What handoff-fanout left in a home: whether live work of it was not taken in, and which of its folders are followed. Nothing is written."""

from __future__ import annotations

import os
import re

from handoff.base.errors import HandoffError
from handoff.base.files import names_in, read_bytes, read_text
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from handoff.engine.app import App

FOLLOWED = ".older"
"""In a project's folder: the folders of handoff-fanout that were taken in, a line each, with the moment."""

TRIGGERED, ABORTED = "_fanin_triggered", "_aborted"
TAKEN_OVER = "taken over by handoff"
"""How the two marks begin that keep handoff-fanout from a fan-in of its own; its reports and its watchdog read them by name alone."""

_OVER = ("_fan_in_done", ABORTED, "_corrupted")
_LOOKED_AT = 200  # files of a folder that are opened to see whose they are


def homes(app: App) -> list[str]:
    """Where the older tool's home may be: our own home, which it shares, and its usual places."""
    person = app.settings.get("HOME") or os.path.expanduser("~")
    places = (app.settings.home, os.path.join(person, ".handoff"), os.path.join(person, ".claude-handoff"))
    return [place for place in dict.fromkeys(places) if os.path.isdir(place)]


def home_with_work(app: App, project: str = "") -> str:
    """The home that holds live work of the older tool, of one project or of any, which was not taken in; empty if none does."""
    return next((home for home in homes(app) if projects_with_work(app, home, project)), "")


def projects_with_work(app: App, home: str, project: str = "") -> list[str]:
    """The projects of a home that hold live work of the older tool which was not taken in."""
    known: dict[str, float] = {}
    for name in names_in(app.settings.home):
        known.update(followed_folders(app.settings.home, name))
    names = [project] if project else [name for name in names_in(home) if not name.startswith((".", "_"))]
    folders = {name: os.path.join(home, name) for name in names}
    return [
        name for name, folder in folders.items() if _has_work(folder, since=known.get(os.path.realpath(folder), 0.0))
    ]


def followed_folders(home: str, project: str) -> dict[str, float]:
    """The folders of handoff-fanout whose reports count for a project, and when each was last taken in."""
    path = os.path.join(home, project, FOLLOWED)
    lines = (line.partition(" ") for line in read_text(path).splitlines()) if os.path.exists(path) else ()
    return {folder: float(moment) for moment, _, folder in lines}


def is_over(at: str) -> bool:
    """Whether a batch's folder says that the batch is over; what we stopped there ourselves goes on here."""
    marks = [mark for mark in _OVER if os.path.lexists(os.path.join(at, mark))]
    return bool(marks) and not (marks == [ABORTED] and text_of(os.path.join(at, ABORTED)).startswith(TAKEN_OVER))


def _has_work(folder: str, *, since: float) -> bool:
    """Whether a project's folder holds live tasks or batches of the older tool that were written after a moment."""
    queue, batches = os.path.join(folder, "queue"), os.path.join(folder, "batches")
    parts: set[str] = set()
    for name in names_in(batches)[:_LOOKED_AT]:
        path = os.path.join(batches, name, "manifest.json")
        text = text_of(path)
        if text and '"project"' not in text:
            if not is_over(os.path.dirname(path)) and newest(path) > since:
                return True
            parts.update(re.findall(r'"(?:id|fan_in_task)": *"([^"]+)"', text))
    names = names_in(queue)
    over = (".done", ".BLOCKED.md") if since else (".done",)  # a report about what was taken in is no new work
    ended = {name.partition(".")[0] for name in names if name.endswith(over)} | parts
    documents = [name for name in names if name.endswith(".md") and name.partition(".")[0] not in ended][:_LOOKED_AT]
    paths = (os.path.join(queue, name) for name in documents if name.removesuffix("-watchdog.md") not in parts)
    return any(newest(path) > since and text_of(path).startswith("# Handoff") for path in paths)


def newest(*paths: str) -> float:
    """When the latest of these files was written; 0 where none is there."""
    return max((os.lstat(path).st_mtime for path in paths if os.path.lexists(path)), default=0.0)


def text_of(path: str) -> str:
    """What a file says; nothing where it cannot be read."""
    try:
        return read_bytes(path).decode("utf-8", "replace")
    except HandoffError:
        return ""
