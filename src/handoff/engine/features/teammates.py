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
_NAMED = 3


def at_work(app: App) -> list[str]:
    """One line for each session that holds a task of this project, but for the one that asks."""
    if not app.has_rows:
        return []
    from handoff.board.tasks import states, tasks
    from handoff.engine.home import find_project

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


def under_way(app: App) -> tuple[dict[str, int], list[str]]:
    """How much the relay has under way in this project: as numbers, and in at most one line each with what shows it."""
    if not app.has_rows:
        return {}, []
    from handoff.board.tasks import tasks
    from handoff.engine.home import find_project

    try:
        project = find_project(app).name
        found = {what: count for what, count in tasks.counts(app.database, project=project).items() if count}
        batches = tasks.open_batches(app.database, project=project) if "batches" in found else []
    except HandoffError as error:
        return {}, [f"Relay: it cannot be read: {error.message}"]
    return found, _sentences(app, found, batches)


def _sentences(app: App, found: Mapping[str, int], batches: list[str]) -> list[str]:
    from handoff.board.tasks import states

    program = app.settings.program
    lines = []
    by_state = ", ".join(f"{found[state]} {state}" for state in states.LIVE if state in found)
    if by_state:
        lines.append(f"Tasks: {by_state}. See: {program} queue")
    if batches:
        which = ", ".join(batches[:_NAMED]) + (f" and {len(batches) - _NAMED} more" if len(batches) > _NAMED else "")
        lines.append(f"Batches: {which}. See: {program} heartbeat status {batches[0]}")
    if "flows" in found:
        lines.append(f"Flows: {found['flows']} under way. See: {program} flow status")
    if "gates" in found:
        verb = "waits" if found["gates"] == 1 else "wait"
        lines.append(f"Gates: {found['gates']} {verb} for your answer. See: {program} gates")
    if "stops" in found:
        lines.append(f"Stopped: not everything may be taken. See: {program} queue")
    if "held" in found:
        lines.append(f"Held: {found['held']} of agents and tasks cannot start for now. See: {program} queue")
    if "incidents" in found:
        lines.append(f"Incidents: {found['incidents']} new. See: {program} incidents")
    return lines


def _place_of(app: App, task: Task) -> str:
    """Where a session of this machine works and what keeps it there."""
    path = os.path.join(app.settings.home, task.project, "sessions", task.held_by or "-", "session.json")
    if not os.path.exists(path):
        return ""
    from handoff.base.files import read_text
    from handoff.base.light_json import loads

    return fence_words(loads(read_text(path)))


def fence_words(facts: Mapping[str, Any]) -> str:
    """Where a session works and what keeps it there, from its own facts."""
    place = "in a clone of its own" if facts.get("kind") == "clone" else "in this checkout"
    sandbox = f"inside {facts.get('layer')}" if facts.get("sandbox", "none") != "none" else "without a sandbox"
    return f", {place} {sandbox}"
