"""Read the home of handoff-fanout (1.0 to 1.9): tasks, batches, measures, settings. Nothing is written."""

from __future__ import annotations

import json
import os
import re

from handoff.base.errors import HandoffError, UserError
from handoff.base.files import read_bytes
from handoff.base.ids import check_id
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.fanout.older import TAKEN_OVER, TRIGGERED, is_over, names_in, newest, text_of

if TYPE_CHECKING:
    from typing import Any

LIVE, BLOCKED, DONE = "live", "blocked", "done"
NO_BRIEF = "handoff-fanout kept no brief for this task."
_OURS = ("locks", "workspaces", "sessions", "logs")
_BRIEF = r"^## 下一步任务[^\n]*\n(.*?)(?=^## 必读|\Z)"
_WORKSPACE = r"^\*\*Project\*\*: `[^`]*` \((.+)\)$"
_TESTS = r"^pytest (.+?) 2>&1 \| tail"
_REASON = r"^## Reason[^\n]*\n(.*)"
_HOME_STOPS = ("STOP_AUTO", "done")


class OldTask(Record):
    """A task that stands alone, as the older tool left it."""

    project: str
    id: str
    state: str
    brief: str
    workspace: str
    reason: str = ""
    tests: str = ""
    seen: float = 0.0


class OldBatch(Record):
    """A batch that is not over: its manifest as text, what each part has said, and when each live tab was last seen."""

    project: str
    id: str
    manifest: str
    workspace: str
    parts: dict[str, tuple[str, str]]
    stopped: bool
    seen: dict[str, float]


class OldMeasure(Record):
    """One line of metrics.jsonl."""

    project: str
    batch: str
    line: dict[str, Any]


class OldHome(Record):
    """What lies in a home of the older tool."""

    path: str
    tasks: tuple[OldTask, ...]
    batches: tuple[OldBatch, ...]
    measures: tuple[OldMeasure, ...]
    settings: dict[str, Any]
    stops: tuple[str, ...]
    ended: int
    faults: tuple[str, ...]


def read_home(path: str) -> OldHome:
    """Everything a home holds; what cannot be read is a fault with its file, and the rest is read all the same."""
    if not os.path.isdir(path):
        raise UserError(f"There is no folder {path}.", "Name the older tool's home, for example: ~/.handoff")
    reader = _Reader(path)
    for project in names_in(path):
        folder = os.path.join(path, project)
        if project not in _OURS and not project.startswith((".", "_")) and os.path.isdir(folder):
            reader.project(project, folder)
    return OldHome(
        path=path,
        tasks=tuple(reader.tasks),
        batches=tuple(reader.batches),
        measures=tuple(reader.measures),
        settings=reader.settings(),
        stops=tuple(reader.stops),
        ended=reader.ended,
        faults=tuple(reader.faults),
    )


class _Reader:
    """Walks through a home and collects what it finds."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.tasks: list[OldTask] = []
        self.batches: list[OldBatch] = []
        self.measures: list[OldMeasure] = []
        self.stops = ["*"] if any(os.path.lexists(os.path.join(home, name)) for name in _HOME_STOPS) else []
        self.faults: list[str] = []
        self.ended = 0

    def settings(self) -> dict[str, Any]:
        path = os.path.join(self.home, "config.json")
        if not os.path.isfile(path):
            return {}
        try:
            found = json.loads(read_bytes(path))
        except (ValueError, HandoffError) as error:
            self.faults.append(f"{path}: {error}; its settings are left out.")
            return {}
        if not isinstance(found, dict):
            self.faults.append(f"{path}: it holds no object; its settings are left out.")
            return {}
        return found

    def project(self, project: str, folder: str) -> None:
        if os.path.lexists(os.path.join(folder, "STOP_AUTO")):
            self.stops.append(project)
        inside: set[str] = set()
        for name in names_in(os.path.join(folder, "batches")):
            self.batch(project, folder, name, inside)
        queue = os.path.join(folder, "queue")
        names = names_in(queue)
        for task in sorted({name.partition(".")[0] for name in names if name.endswith(".md")}):
            if task and task not in inside:
                self.task(project, queue, task)
        self.measured(project, os.path.join(folder, "metrics.jsonl"))

    def batch(self, project: str, folder: str, name: str, inside: set[str]) -> None:
        at = os.path.join(folder, "batches", name)
        path = os.path.join(at, "manifest.json")
        if not os.path.isfile(path):
            return
        try:
            text = read_bytes(path).decode("utf-8")
            manifest = json.loads(text)
            parts = [str(part["id"]) for part in manifest["sub_tasks"]]
            fan_in = str(manifest["fan_in_task"])
        except (ValueError, KeyError, TypeError, HandoffError) as error:
            self.faults.append(f"{path}: it cannot be read ({error}).")
            return
        if "project" in manifest:
            return  # a view of ours
        inside.update((*parts, fan_in, f"{fan_in}-watchdog"))
        if is_over(at):
            self.ended += 1
            return
        queue = os.path.join(folder, "queue")
        places = (_address(queue, folder, part) for part in (*parts, fan_in))
        said = {part: _said(at, queue, part) for part in parts}
        seen = {part: _tab_seen(folder, part, at) for part in parts if said[part][0] == LIVE}
        if not text_of(os.path.join(at, TRIGGERED)).startswith(TAKEN_OVER):
            seen[fan_in] = newest(*(os.path.join(at, mark) for mark in (TRIGGERED, "_fan_in_heartbeat")))
        self.batches.append(
            OldBatch(
                project=project,
                id=name,
                manifest=text,
                workspace=str(manifest.get("workspace") or "") or next((place for place in places if place), ""),
                parts=said,
                stopped=os.path.lexists(os.path.join(at, "STOP")),
                seen={name: moment for name, moment in seen.items() if moment},
            )
        )

    def task(self, project: str, queue: str, name: str) -> None:
        path = os.path.join(queue, f"{name}.md")
        text = text_of(path)
        blocked = os.path.join(queue, f"{name}.BLOCKED.md")
        if text and not text.startswith("# Handoff"):
            return  # not a document of the older tool
        if not text and not text_of(blocked).startswith("# BLOCKED —"):
            return
        if os.path.lexists(os.path.join(queue, f"{name}.done")):
            self.ended += 1
            return
        try:
            check_id(name, "task")
        except UserError as error:
            self.faults.append(f"{path}: {error.message}")
            return
        is_blocked = os.path.lexists(blocked)
        self.tasks.append(
            OldTask(
                project=project,
                id=name,
                state=BLOCKED if is_blocked else LIVE,
                brief=_match(_BRIEF, text) or text or NO_BRIEF,
                workspace=_address(queue, os.path.dirname(queue), name) or _match(_WORKSPACE, text),
                reason=reason_in(text_of(blocked)) if is_blocked else "",
                tests=_match(_TESTS, text),
                seen=0.0 if is_blocked else _tab_seen(os.path.dirname(queue), name, queue),
            )
        )

    def measured(self, project: str, path: str) -> None:
        latest: dict[str, dict[str, Any]] = {}
        for number, line in enumerate(text_of(path).splitlines(), 1):
            try:
                found = json.loads(line)
                name = check_id(str(found["batch_id"]), "batch")
                float(found["estimated_minutes_sum"]), float(found["actual_minutes_sum"])
            except (ValueError, KeyError, TypeError, UserError):
                self.faults.append(f"{path}:{number}: not a line of measures; it is left out.")
            else:
                if "serial_share" not in found:  # else a line of ours
                    latest[name] = found  # the older tool writes a line for each report of one batch
        self.measures += [OldMeasure(project, name, line) for name, line in latest.items()]


def _tab_seen(folder: str, task: str, beats: str) -> float:
    """When a tab of the older tool last showed that it is at the task."""
    return newest(os.path.join(beats, f"{task}.heartbeat"), os.path.join(folder, "ack", f"{task}.spawned"))


def _said(at: str, queue: str, part: str) -> tuple[str, str]:
    """What a part has reported: its state, and its words."""
    for ending, state, key in ((".done", DONE, "summary"), (".blocked", BLOCKED, "reason")):
        path = os.path.join(at, part + ending)
        if os.path.lexists(path):
            return state, _match(rf"^{key}:[ \t]*(.*)$", text_of(path))
    alone = os.path.join(queue, f"{part}.BLOCKED.md")
    if os.path.lexists(alone):
        return BLOCKED, reason_in(text_of(alone))
    return LIVE, ""


def reason_in(text: str) -> str:
    """Why a task is blocked, as its BLOCKED.md says it."""
    return _match(_REASON, text) or _match(r"^Reason:[ \t]*(.*)$", text)


def _address(queue: str, folder: str, task: str) -> str:
    """The checkout an address file names, also one that a launcher has taken away."""
    launched = os.path.join(folder, "launched")
    taken = [os.path.join(launched, name) for name in names_in(launched) if re.fullmatch(rf"{task}-\d+\.txt", name)]
    for path in (os.path.join(queue, f"{task}.uri"), *taken):
        found = _match(r"^WORKSPACE=(.+)$", text_of(path))
        if found:
            return found
    return ""


def _match(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE | (re.DOTALL if pattern in (_BRIEF, _REASON) else 0))
    return found.group(1).strip() if found else ""
