"""What the relay knows of this project right now: who else works here, and how much is under way."""

from __future__ import annotations

import os

from handoff.base.clock import age
from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

_SHOWN = 10


def at_work(app: App) -> list[str]:
    """One line for each session that holds a task of this project, but for the one that asks."""
    if not app.has_rows:
        return []
    from handoff.board.tasks import states, tasks
    from handoff.engine.app.home import find_project

    try:
        project = find_project(app).name
        held = tasks.listing(app.database, project=project, state=states.RUNNING, limit=_SHOWN)
    except HandoffError as error:
        return [f"unknown: {error.message}"]
    mine = app.settings.get("HANDOFF_SESSION")
    now = app.clock.now()
    return [
        f"{task.held_agent or 'a session'} on task {task.label}"
        + (f" ({', '.join(task.patterns[:5])})" if task.patterns else "")
        + _place_of(app, task)
        + (f", seen {age(now - task.seen_at)} ago" if task.seen_at else "")
        for task in held
        if task.held_by != mine
    ]


def project_of(app: App) -> str:
    """Under which name the relay knows this folder; empty where it does not."""
    from handoff.engine.app.home import find_project

    try:
        return find_project(app).name
    except HandoffError:
        return ""


def tasks_of(app: App, project: str, feature: str) -> list[Task]:
    """The tasks that were made from steps of a feature, ended ones too."""
    if not app.has_rows:
        return []
    from handoff.board.tasks import tasks

    found = tasks.listing(app.database, project=project, include_ended=True)
    return [task for task in found if (task.baseline_facts.get("step") or {}).get("feature") == feature]


def under_way(app: App) -> dict[str, int]:
    """How much the relay has under way in this project, as numbers; nothing where it cannot be read."""
    if not app.has_rows:
        return {}
    from handoff.board.tasks import tasks
    from handoff.engine.app.home import find_project

    try:
        project = find_project(app).name
        return {what: count for what, count in tasks.counts(app.database, project=project).items() if count}
    except HandoffError:
        return {}


def _place_of(app: App, task: Task) -> str:
    """Where a session of this machine works and what keeps it there."""
    if not has_folder(app, project=task.project, session=task.held_by or "-"):
        return ""
    from handoff.base.files import read_text
    from handoff.base.light_json import loads

    return fence_words(loads(read_text(_facts_path(app, task.project, task.held_by or "-"))))


def has_folder(app: App, *, project: str, session: str) -> bool:
    """Whether a session was started by this machine's relay, which keeps a folder for each; a person's tab has none."""
    return os.path.exists(_facts_path(app, project, session))


def _facts_path(app: App, project: str, session: str) -> str:
    return os.path.join(app.settings.home, project, "sessions", session, "session.json")


def fence_words(facts: Mapping[str, Any]) -> str:
    """Where a session works and what keeps it there, from its own facts."""
    place = "in a clone of its own" if facts.get("kind") == "clone" else "in this checkout"
    sandbox = f"inside {facts.get('layer')}" if facts.get("sandbox", "none") != "none" else "without a sandbox"
    return f", {place} {sandbox}"
