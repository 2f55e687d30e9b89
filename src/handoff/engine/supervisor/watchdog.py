"""The watchdog's round: markers people touched, silent sessions, due fan-ins, stale files; and fresh tabs that open by themselves. It costs no tokens."""

from __future__ import annotations

import json
import os

from handoff.agents.folder import monitor_of
from handoff.base.clock import boot_id, stamp
from handoff.base.errors import ConfigError, HandoffError, UserError
from handoff.base.files import make_folder, move, read_bytes, remove, write_atomic
from handoff.base.process import start_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import host_leases, pauses, watchdog
from handoff.board.tasks import batches, tasks
from handoff.engine.app.home import RESERVED, files_folder, home_config
from handoff.engine.outcome.carry_out import carry_on
from handoff.engine.outcome.kinds import CurrentClaim
from handoff.engine.place import pulse
from handoff.engine.place.fanout import views
from handoff.engine.place.fanout.files import LOOKED, RECORDED, launched_task, read_stop_files
from handoff.engine.place.fanout.older import followed_folders
from handoff.engine.safety import incidents
from handoff.engine.session import report as journey
from handoff.engine.supervisor import handoff_fanout
from handoff.engine.work import stopping
from handoff.engine.work.tasks import admin
from handoff.engine.work.tasks.open_tab import AUTO, WAYS, way_here
from handoff.store.database import POSTGRES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    from handoff.board.sessions.watchdog import IsAlive, Process, WatchdogReport
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

_SLACK_SECONDS = 2.0
_TEMP_SECONDS = 3600.0
_FINISHED = {".done": "done", ".blocked": "blocked"}
_OLDER = {**_FINISHED, ".BLOCKED.md": "blocked", "_fan_in_done": "done"}


class Marker(Record):
    """A file somebody touched to say that a task is done or blocked; `older`: in a folder of handoff-fanout, which is only read."""

    path: str
    project: str
    batch: str
    task: str
    says: str
    older: bool = False


class Round(Record):
    """What one round found and did."""

    report: WatchdogReport
    taken_in: tuple[str, ...]
    refused: tuple[str, ...]
    files: int
    projects: int
    incidents: int = 0

    @property
    def quiet(self) -> bool:
        return self.report.quiet and not (self.taken_in or self.refused or self.files or self.incidents)


def look(app: App, *, deep: bool = False, conclude: bool = True) -> Round:
    """One round over every project; two at once do no harm. A supervisor does not `conclude`: its own runs do."""
    told = incidents.look(app)  # first: what this round rebuilds would hide that it was gone
    names = project_names(app)
    for name in names:
        read_stop_files(app, name)
    taken_in, refused = take_in_markers(app, names)
    if conclude:
        carry_on(app)
        stopping.settle_all(app)
    report = watchdog.scan(app.database, host=app.settings.host, boot=boot_id(), is_alive=_alive_here(app), deep=deep)
    known = set(tasks.project_names(app.database))
    if app.database.kind == POSTGRES:
        known &= set(names)  # others have their own files of what never was here
    files = sum(views.refresh(app, name) for name in sorted(known))
    return Round(
        report=report,
        taken_in=tuple(taken_in),
        refused=tuple(refused),
        files=files,
        projects=len(known),
        incidents=told,
    )


def _alive_here(app: App) -> IsAlive:
    """A session we started is not freed when its process ends: what it made is judged first, by whoever looks after it."""
    ours = {monitor_of(trace.folder).pid for trace in pulse.listing(app)}
    return lambda process: process.pid in ours or _is_alive(process)


def _is_alive(process: Process) -> bool:
    """The very process, not another one with its number: by boot and start time."""
    if process.boot and process.boot != boot_id():
        return False
    started = start_of(process.pid)
    return bool(started) and (not process.start or started == process.start)


def project_names(app: App) -> list[str]:
    """The projects that have a folder in the home."""
    try:
        with os.scandir(app.settings.home) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.name not in RESERVED and not entry.name.startswith((".", "_")) and entry.is_dir()
            )
    except (FileNotFoundError, NotADirectoryError):
        return []


# --- markers touched by hand -------------------------------------------------------------------------------


def take_in_markers(app: App, names: list[str]) -> tuple[list[str], list[str]]:
    """Believe a touched `<sub>.done` as far as the evidence goes: what was taken in, and what was refused and why."""
    taken_in: list[str] = []
    refused: list[str] = []
    for name in names:
        folder = os.path.join(app.settings.home, name)
        if not os.path.isdir(folder):
            continue
        started, since = app.clock.now(), _last_look(folder)
        for marker in _touched(app.settings.home, name, since):
            _take_in(app, marker, taken_in, refused)
        if started - since > 2 * _SLACK_SECONDS:
            _remember_look(folder, started)
    return taken_in, refused


def _take_in(app: App, marker: Marker, taken_in: list[str], refused: list[str]) -> None:
    task = _task_of(app, marker)
    if task is None or task.ended or task.state == marker.says:
        return
    if marker.older and marker.says == "blocked" and os.lstat(marker.path).st_mtime < task.changed_at:
        return  # it is read for good, and somebody has let the task go on since
    hold = CurrentClaim(task, task.fence if task.state == "running" else None, task.held_by or "")
    try:
        if marker.says == "done":
            journey.finish(app, hold, summary=_words(marker.path))
        else:
            journey.block(app, hold, reason=_words(marker.path) or "a .blocked marker was touched")
    except HandoffError as error:
        refused.append(f"{task.label}: {error.message}")
        if marker.older:
            journey.block(
                app, hold, reason=f"handoff-fanout reported it {marker.says}, and that is not believed: {error.message}"
            )
        else:
            move(marker.path, marker.path + "-refused")
    else:
        taken_in.append(f"{task.label} is {marker.says}: {marker.path}")
    if marker.older:
        pauses.resume(app.database, scope=pauses.TASK, project=task.project, name=task.label)


def _touched(home: str, project: str, since: float) -> Iterator[Marker]:
    """Markers we did not write, also those of tabs that handoff-fanout opened before it was taken in."""
    yield from _touched_in(files_folder(home, project), project, since, _FINISHED)
    for folder in followed_folders(home, project):
        for marker in _touched_in(folder, project, since, _OLDER):
            yield marker._replace(older=True)


def _touched_in(root: str, project: str, since: float, endings: dict[str, str]) -> Iterator[Marker]:
    """Only folders and files that changed since the last look are opened."""
    yield from _markers_in(os.path.join(root, "queue"), project, "", since, endings)
    try:
        with os.scandir(os.path.join(root, "batches")) as entries:
            found = [entry.path for entry in entries if entry.is_dir() and entry.stat().st_mtime >= since]
    except FileNotFoundError:
        return
    for path in found:
        yield from _markers_in(path, project, os.path.basename(path), since, endings)


def _markers_in(folder: str, project: str, batch: str, since: float, endings: dict[str, str]) -> Iterator[Marker]:
    try:
        if os.stat(folder).st_mtime < since:
            return
        with os.scandir(folder) as entries:
            found = [(entry, ending) for entry in entries for ending in endings if entry.name.endswith(ending)]
    except FileNotFoundError:
        return
    for entry, ending in found:
        task = entry.name.removesuffix(ending)
        if task.startswith((".", "_")) or entry.stat().st_mtime < since:
            continue
        if RECORDED.encode() not in read_bytes(entry.path):
            yield Marker(path=entry.path, project=project, batch=batch, task=task, says=endings[ending])


def _task_of(app: App, marker: Marker) -> Task | None:
    try:
        if not marker.batch:
            return tasks.find(app.database, project=marker.project, id=marker.task)
        batch = batches.find(app.database, project=marker.project, id=marker.batch)
        if not marker.task:
            return tasks.get(app.database, key=batch.fan_in) if batch.fan_in is not None else None
        return tasks.find(app.database, project=marker.project, id=marker.task, batch=batch.id)
    except UserError:
        return None


def _words(path: str) -> str:
    """What a marker says beyond being there: its summary or reason line, or what stands under its Reason."""
    text = read_bytes(path).decode("utf-8", "replace")
    for line in text.splitlines():
        key, found, value = line.partition(":")
        if found and key.strip() in ("summary", "reason"):
            return value.strip()
    return handoff_fanout.reason_in(text)


def _last_look(folder: str) -> float:
    try:
        return float(read_bytes(os.path.join(folder, LOOKED)).decode()) - _SLACK_SECONDS
    except (UserError, ValueError):
        return 0.0


def _remember_look(folder: str, moment: float) -> None:
    path = os.path.join(folder, LOOKED)
    temp = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temp, "w", encoding="utf-8") as file:  # not synced: a lost stamp costs one longer round
            file.write(f"{moment:.3f}")
        os.rename(temp, path)
    except OSError:
        remove(temp)


# --- files nobody owns ---------------------------------------------------------------------------------------


class Orphan(Record):
    """Files of a task the board does not know, or left by a command that was killed."""

    project: str
    task: str
    files: tuple[str, ...]
    age_seconds: float


def orphans(app: App, *, project: str = "") -> list[Orphan]:
    """Files in the queues that belong to no task, and half-written ones older than an hour."""
    found = []
    for name in project_names(app):
        if project and name != project:
            continue
        files: dict[str, list[str]] = {}
        for folder in ("queue", "ack", "launched"):
            for path in _plain_files(os.path.join(app.settings.home, name, folder)):
                file = os.path.basename(path)
                files.setdefault(launched_task(file) or file.lstrip(".").partition(".")[0], []).append(path)
        known = {task.id for task in tasks.listing(app.database, project=name, include_ended=True, limit=1_000_000)}
        for task, paths in sorted(files.items()):
            newest = max(os.lstat(path).st_mtime for path in paths)
            old = app.clock.now() - newest
            left = (
                paths
                if task not in known
                else [path for path in paths if path.endswith(".tmp") and old > _TEMP_SECONDS]
            )
            if left:
                found.append(Orphan(name, task, tuple(left), round(old, 1)))
    return found


def put_aside(app: App, found: list[Orphan]) -> str:
    """Move orphans' files to `_recovery/` and write down which; nothing is deleted."""
    moment = stamp(app.clock.now()).replace("-", "").replace(":", "").replace("T", "-").rstrip("Z")
    base = os.path.join(app.settings.home, "_recovery", f"orphans-{moment}")
    make_folder(base)
    listing = [orphan._asdict() for orphan in found]
    write_atomic(base + ".json", json.dumps(listing, indent=2) + "\n")
    for orphan in found:
        for path in orphan.files:
            folder = os.path.join(base, orphan.project)
            make_folder(folder)
            move(path, os.path.join(folder, os.path.basename(path)))
    return base + ".json"


def _plain_files(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []


# --- tabs that open by themselves ----------------------------------------------------------------------------------------


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


def tabs_are_wanted(app: App) -> bool:
    """Whether the person asked for tabs that open by themselves."""
    config = home_config(app)
    way = config.text("auto_open")
    if way and way not in WAYS:
        raise ConfigError(
            f"{config.path}: auto_open: '{way}' is no way to open a task.", f"Use one of: {', '.join(WAYS)}."
        )
    return bool(way)


def open_ready_tabs(app: App) -> list[AutoTab]:
    """Open each ready task that has no tab; nothing is opened while it is paused, nor in a project whose tasks a supervisor takes."""
    host = app.settings.host
    config = home_config(app)
    way, most = config.text("auto_open"), int(config.number("max_running"))
    found = host_leases.without_tab(app.database, host=host, most=most)
    if found:
        for project in {task.project for task in found}:
            read_stop_files(app, project)
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


def wait_and_watch(app: App, seconds: float) -> WaitReport:
    """Wait so long. Touched markers are taken in and wanted tabs open meanwhile, within a second; ends early when something happened."""
    wanted = tabs_are_wanted(app)
    deadline = app.clock.monotonic() + seconds
    while True:
        taken_in, refused = take_in_markers(app, project_names(app))
        found = WaitReport(tuple(open_ready_tabs(app) if wanted else ()), tuple(taken_in), tuple(refused))
        left = deadline - app.clock.monotonic()
        if any(found) or left <= 0:
            return found
        app.database.wait_for_change(min(_LOOK_SECONDS, left))


def _nothing_here() -> NoReturn:
    raise ConfigError(
        "No editor, tmux or terminal of yours was found here.",
        'Name one in config.toml: auto_open = "tmux", or run the watchdog from inside it.',
    )
