"""The files about tasks and batches under $HANDOFF_HOME: views of the rows, brought up to date from the journal.

Each project remembers up to which line of the journal its files are true. Whoever touches the project next takes
it from there, so a crash between a row and its files is fixed without anybody noticing it."""

from __future__ import annotations

import os

from handoff.base.clock import stamp
from handoff.base.errors import Away, UserError
from handoff.base.files import locked, make_folder, read_bytes, remove, sync_folder, write_atomic
from handoff.base.markdown import one_line, quoted
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal
from handoff.board.sessions import pauses
from handoff.board.tasks import states, tasks
from handoff.engine.app.home import APART, FILES_STAMP, files_folder, files_stamp, home_config
from handoff.engine.place import baton
from handoff.engine.place.fanout.files import RECORDED, document, is_stopped
from handoff.engine.place.fanout.tabs import Job, uri_for
from handoff.store.database import EVERY_LINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.board.tasks.batches import Batch, Measure
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.store.database import Store

_MANY = 40  # from here on one sync of the disk is cheaper than one for each file
_EVENTS = 1000
_MEASURES = 1000

Files = dict[str, "str | None"]


def refresh(app: App, project: str, *, whole: bool = False) -> int:
    """Bring a project's files up to date with its rows; how many files were written or removed."""
    folder = files_folder(app.settings.home, project)
    with app.database.transaction(write=False) as look:
        newest, stops = journal.last(look, project=project, limit=1), _stops(app, project, look)
    top = newest[-1].seq if newest else 0
    if not whole and (top == 0 or (files_stamp(app, folder), _seen_stops(folder)) == (top, stops)):
        return 0
    make_folder(os.path.join(folder, "queue"))
    with locked(os.path.join(folder, FILES_STAMP + ".lock"), what=f"the files of project {project}"):
        return _refresh(app, project, folder, whole=whole)


def mend(app: App, project: str, found: Sequence[Task]) -> None:
    """Bring the files of tasks that somebody looks at up to date; one that was removed comes back."""
    refresh(app, project)
    stops = _stops(app, project, app.database)
    for task in found:
        path = document(app, task)
        open_to_all = task.state == states.READY and not _is_held(task, stops)
        if path and not (os.path.exists(path) and (not open_to_all or os.path.exists(path[:-3] + ".uri"))):
            refresh(app, project, whole=True)
            return


def _stops(app: App, project: str, store: Store) -> set[str]:
    """What holds tasks of the project back, by rows and by files: their addresses are not offered."""
    found = {"file"} if is_stopped(app, project) else set()
    if tasks.is_any_paused(store):
        stops = pauses.listing(store)
        found |= {f"{one.scope}:{one.name}" for one in stops if one.scope == pauses.ALL or one.project == project}
    return found


def _is_held(task: Task, stops: set[str]) -> bool:
    return bool(stops & {"file", "all:", "project:", f"batch:{task.scope}", f"task:{task.id}", f"task:{task.label}"})


def mend_or_tell(app: App, project: str, found: list[Task]) -> None:
    """Mend what somebody looks at; where nothing can be written, that is noted."""
    try:
        mend(app, project, found)
    except UserError as error:
        app.notes.append(f"Warning: the files of project {project} are not up to date: {error.message}")


def refresh_or_tell(app: App, project: str, done: str) -> None:
    """Bring the files up to date; when the disk refuses, say what is safe already."""
    try:
        refresh(app, project)
    except Away:
        raise  # whoever called waits for the database and finds what was done: told otherwise, it would be done twice
    except UserError as error:
        raise UserError(
            f"{done}, but its files are not: {error.message}", f"Fix that, then: {app.settings.program} database files"
        ) from error


def keep_apart(app: App, project: str) -> None:
    """From now on our files of a project lie in a folder of their own; those of ours beside another tool's are taken away."""
    folder = os.path.join(app.settings.home, project)
    apart = os.path.join(folder, APART)
    if os.path.isdir(apart):
        return
    mine = _all(app, project).files if app.has_rows else {}
    make_folder(apart)
    for path, text in mine.items():
        if text is not None and _content(path) == text.encode("utf-8", "surrogateescape"):
            remove(path)
    remove(os.path.join(folder, FILES_STAMP))
    if mine:
        refresh(app, project, whole=True)


def _all(app: App, project: str) -> _Writer:
    """Every file of a project's live batches and tasks."""
    from handoff.board.tasks import batches

    writer = _Writer(app, _stops(app, project, app.database))
    for batch in batches.listing(app.database, project=project, limit=1_000_000):
        writer.add_batch(batch.key)
    for task in tasks.listing(app.database, project=project, limit=1_000_000):
        writer.add_task(task)
    return writer


def _refresh(app: App, project: str, folder: str, *, whole: bool) -> int:
    store = app.database
    settled = store.settled()
    seen = -1 if whole else files_stamp(app, folder)
    names: dict[str, None] = {}
    opened: dict[int, None] = {}
    joined: dict[int, None] = {}
    if seen < 0:
        from handoff.board.tasks import batches

        newest = journal.last(store, project=project, limit=1)
        seen = newest[-1].seq if newest else 0
        opened.update((batch.key, None) for batch in batches.listing(store, project=project, limit=1_000_000))
        live = tasks.listing(store, project=project, limit=1_000_000)
        names.update((task.id, None) for task in live if task.batch not in opened)
    else:
        more = True
        while more:
            events = journal.since(store, seq=seen, project=project, limit=_EVENTS, settled=EVERY_LINE)
            more = len(events) == _EVENTS
            for event in events:
                seen = event.seq
                if event.task is not None:
                    names[event.task_id.rpartition("/")[2]] = None
                elif event.batch is not None:
                    (opened if event.kind == "batch.opened" else joined)[event.batch] = None
    stops = _stops(app, project, store)
    if stops != _seen_stops(folder):
        names.update((task.id, None) for task in tasks.listing(store, project=project, limit=1_000_000))
    writer = _Writer(app, stops)
    for key in opened:
        writer.add_batch(key)
    for key in joined:
        writer.add_fan_in(key)
    with store.transaction(write=False) as look:
        newest_of = [_newest(look, project, name) for name in names]
    for task in newest_of:
        if task is not None:
            writer.add_task(task)
    count = _put({path: text and app.clean(text, tell=False) for path, text in writer.files.items()})
    if opened or joined:
        from handoff.engine.place import batch_guard

        batch_guard.settle(app, {writer.batch(key).workspace for key in (*opened, *joined)})
    _remember(app, folder, min(seen, settled), stops)
    return count


def _newest(store: Store, project: str, name: str) -> Task | None:
    found = tasks.of_id(store, project=project, id=name)
    return next((task for task in found if not task.ended), found[0] if found else None)


# --- what belongs where ------------------------------------------------------------------------------


class _Writer:
    """Collects which file must hold what; None means that it must not be there."""

    def __init__(self, app: App, stops: set[str]) -> None:
        self.app, self.stops = app, stops
        self.config = home_config(app)
        self.files: Files = {}
        self._batches: dict[int, Batch] = {}
        self._parts: dict[int, list[Task]] = {}
        self._guards: dict[tuple[str, str], dict[str, str]] = {}

    def batch(self, key: int) -> Batch:
        if key not in self._batches:
            from handoff.board.tasks import batches

            self._batches[key] = batches.get(self.app.database, key=key)
        return self._batches[key]

    def parts(self, batch: Batch) -> list[Task]:
        """All tasks of a batch, as they are while these files are written."""
        if batch.key not in self._parts:
            self._parts[batch.key] = tasks.of_batch(self.app.database, batch=batch.key)
        return self._parts[batch.key]

    def folder(self, batch: Batch) -> str:
        return os.path.join(files_folder(self.app.settings.home, batch.project), "batches", batch.id)

    def guarded(self, role: str, batch: Batch) -> dict[str, str]:
        """Where the guarded git of a role is, and in which repository it guards."""
        if (role, batch.workspace) not in self._guards:
            from handoff.git.guard import place_shim
            from handoff.git.plumbing import find_top
            from handoff.git.plumbing.objects import Repository

            top = find_top(batch.workspace) if batch.workspace else None
            shared = Repository(top, self.app.git_environment).common if top else ""
            self._guards[role, batch.workspace] = {"guard": place_shim(self.app.settings.home, role), "shared": shared}
        return self._guards[role, batch.workspace]

    def add_batch(self, key: int) -> None:
        """Everything of a batch that was just opened."""
        batch = self.batch(key)
        self.files[os.path.join(self.folder(batch), "manifest.json")] = manifest_file(batch)
        for part in self.parts(batch):
            self.add_task(part)

    def add_fan_in(self, key: int) -> None:
        batch = self.batch(key)
        if batch.fan_in is not None:
            self.add_task(tasks.get(self.app.database, key=batch.fan_in))

    def add_task(self, task: Task) -> None:
        """The files of one task: its baton, address and markers, and those in its batch's folder.

        A phase of a flow has none: its words are written when its session begins, and nobody reports it by a marker.
        """
        if not document(self.app, task):
            return
        batch = self.batch(task.batch) if task.batch is not None else None
        parts: list[Task] = []
        if batch is not None and task.kind == tasks.FAN_IN:
            self.add_fan_in_marks(batch, task)
        elif batch is not None:
            self.add_part(batch, task)
        if batch is not None and (task.kind != tasks.FAN_IN or task.state != states.WAITING):
            parts = self.parts(batch)
        base = document(self.app, task).removesuffix(".md")
        job = Job(task.project, task.id, task.workspace, base + ".md", task.agent)
        ready = task.state == states.READY and not _is_held(task, self.stops)
        self.files[base + ".md"] = baton.baton(self.app, self.config, task, batch=batch, parts=parts)
        self.files[base + ".uri"] = uri_file(task.workspace, uri_for(self.config, job)) if ready else None
        self.files[base + ".done"] = done_marker(task) if task.state == states.DONE else None
        self.files[base + ".BLOCKED.md"] = blocked_file(task) if task.state == states.BLOCKED else None
        if task.ended:
            self.files[base + ".heartbeat"] = None

    def add_part(self, batch: Batch, task: Task) -> None:
        at = os.path.join(self.folder(batch), task.id)
        blocked = task.state in (states.BLOCKED, states.CANCELLED)
        self.files[at + ".env"] = env_file("sub-task", batch.id, task.id, **self.guarded("sub-task", batch))
        self.files[at + ".done"] = done_marker(task, sub_task=True) if task.state == states.DONE else None
        self.files[at + ".blocked"] = blocked_marker(task) if blocked else None

    def add_fan_in_marks(self, batch: Batch, task: Task) -> None:
        marks = {
            "_fanin_triggered": batch.joined_at is not None,
            "_fan_in_started": task.state in (states.RUNNING, states.DONE),  # a lost session has not started it
            "_fan_in_done": task.state == states.DONE,
            "_aborted": batch.state == states.CANCELLED,
        }
        for name, on in marks.items():
            self.files[os.path.join(self.folder(batch), name)] = RECORDED + "\n" if on else None
        self.files[os.path.join(self.folder(batch), "fan-in.env")] = env_file(
            "fan-in", batch.id, **self.guarded("fan-in", batch)
        )
        if batch.state == states.DONE:
            from handoff.board.tasks import batches

            rows = batches.list_measures(self.app.database, project=batch.project, limit=_MEASURES)
            known = {
                one.key: one.id for one in batches.listing(self.app.database, project=batch.project, include_ended=True)
            }
            lines = [measure_line(row, known.get(row.batch, f"batch-{row.batch}")) for row in reversed(rows)]
            path = os.path.join(files_folder(self.app.settings.home, batch.project), "metrics.jsonl")
            self.files[path] = "".join(lines)


# --- on disk -----------------------------------------------------------------------------------------


def _put(files: Files) -> int:
    """Write what differs and remove what no longer holds; a marker somebody touched by hand stays for `watch` to read."""
    new: dict[str, str] = {}
    gone: list[str] = []
    for path, text in files.items():
        there = _content(path)
        if text is None:
            if there is not None and (not path.endswith((".done", ".blocked")) or RECORDED.encode() in there):
                gone.append(path)
        elif there != text.encode("utf-8", "surrogateescape"):
            new[path] = text
    for folder in {os.path.dirname(path) for path in new}:
        make_folder(folder)
    if len(new) < _MANY:
        for path, text in new.items():
            write_atomic(path, text.encode("utf-8", "surrogateescape"))
    else:
        _put_many(new)
    for path in gone:
        remove(path)
    return len(new) + len(gone)


def _put_many(new: dict[str, str]) -> None:
    """The same promise as write_atomic for thousands of files, with one sync instead of two for each."""
    temps: dict[str, str] = {}
    try:
        for path, text in new.items():
            folder, name = os.path.split(path)
            temps[path] = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
            with open(temps[path], "wb") as file:
                file.write(text.encode("utf-8", "surrogateescape"))
        os.sync()
        for path, temp in temps.items():
            os.rename(temp, path)
        for folder in {os.path.dirname(path) for path in new}:
            sync_folder(folder)
    except OSError as error:
        for temp in temps.values():
            if os.path.exists(temp):
                os.unlink(temp)
        raise UserError(
            f"Cannot write {error.filename}: {error.strerror}.", "The rows are safe; then: handoff database files"
        ) from error


def _content(path: str) -> bytes | None:
    if not os.path.exists(path):
        return None
    return read_bytes(path)


def _seen_stops(folder: str) -> set[str]:
    """The stops that the files know."""
    return set((_content(os.path.join(folder, FILES_STAMP)) or b"").decode("utf-8", "replace").split("\n")[1:]) - {""}


def _remember(app: App, folder: str, seq: int, stops: set[str]) -> None:
    # Not synced: if it is lost in a power cut, the files are rebuilt once.
    path = os.path.join(folder, FILES_STAMP)
    temp = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temp, "w", encoding="utf-8") as file:
            file.write("\n".join((f"{seq} {app.database.place}", *sorted(stops), "")))
        os.rename(temp, path)
    except OSError as error:
        raise UserError(
            f"Cannot write {path}: {error.strerror}.",
            "The task is recorded; fix the folder, then: handoff database files",
        ) from error


# The text of the files that scripts of handoff-fanout read: addresses, markers, environments, measures.


def uri_file(workspace: str, uri: str) -> str:
    """Two lines, as launchers of the older tool read them."""
    return f"WORKSPACE={workspace}\nURI={uri}\n"


def blocked_file(task: Task) -> str:
    """Why the task is blocked, and how it goes on."""
    head = str(task.baseline_facts.get("head", ""))[:10]
    return (
        f"# BLOCKED: project `{task.project}` / task `{task.id}`\n\n"
        f"Generated: {stamp(task.changed_at)}\nHEAD: {head or 'unknown'}\n\n## Reason\n\n{task.reason.strip() or 'none given'}\n\n"
        f"## What next\n\nMend the cause, then: handoff retry {task.id} --project {task.project}\n\n<!-- {RECORDED} -->\n"
    )


def done_marker(task: Task, *, sub_task: bool = False) -> str:
    """The content of `.done`: the older tool's three lines, and that we wrote it."""
    key = "sub_task_id" if sub_task else "task_id"
    when = stamp(task.ended_at or task.changed_at)
    return f"{key}: {task.id}\ncompleted_at: {when}\nsummary: {one_line(task.result)}\n{RECORDED}\n"


def blocked_marker(task: Task) -> str:
    """The content of a sub-task's `.blocked`."""
    return (
        f"sub_task_id: {task.id}\nblocked_at: {stamp(task.changed_at)}\nreason: {one_line(task.reason)}\n{RECORDED}\n"
    )


def env_file(role: str, batch_id: str, sub_task: str = "", *, guard: str = "", shared: str = "") -> str:
    """What a tab sources: its role, its batch, and the guarded git first on PATH."""
    lines = [f"export HANDOFF_ROLE={role}", f"export HANDOFF_BATCH_ID={batch_id}"]
    if sub_task:
        lines.append(f"export HANDOFF_SUB_TASK_ID={sub_task}")
    if shared:
        lines.append(f"export HANDOFF_SHARED={quoted(shared)}")
    if guard:
        lines.append(f'export PATH={quoted(guard)}:"$PATH"')
    return "\n".join(lines) + "\n"


def manifest_file(batch: Batch) -> str:
    """The manifest as it was given, with what the older tool adds and the workspace it forgot."""
    import json

    added = {"created_at": stamp(batch.created_at), "workspace": batch.workspace, "project": batch.project}
    return json.dumps({**json.loads(batch.manifest), **added}, ensure_ascii=False, indent=2) + "\n"


def measure_line(measure: Measure, batch_id: str) -> str:
    """One line of metrics.jsonl, in the older tool's words."""
    import json

    line = {
        "batch_id": batch_id,
        "n_sub_tasks": measure.sub_tasks,
        "estimated_minutes_sum": round(measure.estimated_minutes, 2),
        "actual_minutes_sum": round(measure.session_minutes, 2),
        "amdahl_estimated": round(measure.estimated_speedup, 3),
        "amdahl_actual": round(measure.speedup, 3),
        "wall_minutes": round(measure.wall_minutes, 2),
        "serial_share": None if measure.serial_share is None else round(measure.serial_share, 3),
        "summary": measure.summary,
        "completed_at": stamp(measure.at),
    }
    return json.dumps(line, ensure_ascii=False) + "\n"
