"""Move over from handoff-fanout (1.0 to 1.9): read its home, open here what is live there, and change nothing of it."""

from __future__ import annotations

import json
import os
import re
from functools import partial

from handoff.base.clock import age, parse_stamp
from handoff.base.errors import HandoffError, UserError
from handoff.base.files import create_exclusive, make_folder, names_in, read_bytes, remove, write_atomic
from handoff.base.ids import check_id
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import HOME_CONFIG
from handoff.board.sessions import pauses
from handoff.board.tasks import batches as batch_rows
from handoff.board.tasks import tasks
from handoff.engine.app.home import Project, find_project
from handoff.engine.outcome.kinds import CurrentClaim
from handoff.engine.place.fanout import files, views
from handoff.engine.place.fanout.files import LOOKED
from handoff.engine.place.fanout.older import (
    ABORTED,
    FOLLOWED,
    TAKEN_OVER,
    TRIGGERED,
    followed_folders,
    is_over,
    newest,
    text_of,
)
from handoff.engine.session import report
from handoff.engine.work.tasks import batches, create
from handoff.feature.baton import RULES_FILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.engine.app import App

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


TASK, BATCH, MEASURE, SETTING, STOP = "task", "batch", "measure", "setting", "stop"
NEW, KNOWN, REFUSED = "new", "known", "refused"
_TO_SECONDS = len("2026-11-15T08:30:00")  # its moments are UTC and end with +00:00
_FRESH_SECONDS = 600.0
_ELSEWHERE = "a tab of handoff-fanout is at it. Its report counts here. To do it here, close that tab first"
_MARK = f"""{TAKEN_OVER}: the fan-in of this batch is there, and what the parts report here counts there.
To go back to handoff-fanout: remove {TRIGGERED} and {ABORTED}.
"""
_DEFAULT_URI = "vscode://anthropic.claude-code/open?prompt={prompt}"


class ImportItem(Record):
    """One thing of the old home: what becomes of it here, and why not if nothing does."""

    kind: str
    project: str
    name: str
    fate: str
    words: str


class ImportPlan(Record):
    """Everything an old home holds, each with its fate."""

    home: str
    items: tuple[ImportItem, ...]
    ended: int
    faults: tuple[str, ...]

    def count(self, fate: str) -> int:
        return sum(item.fate == fate for item in self.items)


def import_home(app: App, *, path: str, project: str, workspace: str, execute: bool) -> ImportPlan:
    """Take in everything that is live; without `execute` only say what would be done. A second call takes in the rest."""
    began = app.clock.now()
    old = read_home(os.path.abspath(os.path.expanduser(path)))
    return _Import(app, old, project, workspace, began=began if execute else 0.0).run()


class _Import:
    """One run over an old home."""

    def __init__(self, app: App, old: OldHome, only: str, workspace: str, *, began: float) -> None:
        self.app, self.old, self.only, self.workspace, self.began = app, old, only, workspace, began
        self.execute = bool(began)
        self.items: list[ImportItem] = []
        self._places: dict[tuple[str, str], Project] = {}

    def run(self) -> ImportPlan:
        for measure in self.old.measures:
            self._each(MEASURE, measure.project, measure.batch, partial(self._measure, measure))
        for batch in self.old.batches:
            self._each(BATCH, batch.project, batch.id, partial(self._batch, batch))
        for task in self.old.tasks:
            self._each(TASK, task.project, task.id, partial(self._task, task))
        for name in self.old.stops if not self._shared else ():
            self._each(STOP, name, name, partial(self._stop, name))
        for project, blocks in self._all_rules().items():
            self._each(SETTING, project, "rules", partial(self._rules, project, blocks))
        if self.old.settings and not self.only:
            self._each(SETTING, "", "config.json", self._settings)
        return ImportPlan(self.old.path, tuple(self.items), self.old.ended, self.old.faults)

    @property
    def _shared(self) -> bool:
        return os.path.realpath(self.old.path) == os.path.realpath(self.app.settings.home)

    def _each(self, kind: str, project: str, name: str, act: Callable[[], tuple[str, str]]) -> None:
        """One thing; what goes wrong with it does not keep the others."""
        total = len(self.old.measures) + len(self.old.batches) + len(self.old.tasks)
        self.app.tell("Taking in the old home", len(self.items), total)
        if self.only and project not in (self.only, "*"):
            return
        try:
            fate, words = act()
        except HandoffError as error:
            fate, words = REFUSED, " ".join(filter(None, (error.message, error.hint)))
        self.items.append(ImportItem(kind, project, name, fate, words))

    def _place(self, project: str, workspace: str) -> Project:
        """Our project for a checkout of theirs; in a home both share, our files are kept apart from theirs first."""
        if (project, workspace) in self._places:
            return self._places[project, workspace]
        root = str(self.old.settings.get("workspace_root") or "~/Projects")
        usual = os.path.join(os.path.expanduser(root), project)
        places = map(os.path.expanduser, (workspace, self.workspace, usual))
        top = next((one for one in places if one and os.path.isdir(one)), "")
        if not top:
            raise UserError(
                f"Its checkout {workspace or usual} is not there.",
                f"Say where it is now: import fanout {self.old.path} --project {project} --workspace DIR",
            )
        found = find_project(self.app, workspace=top)
        if self.execute and self._shared:
            views.keep_apart(self.app, found.name)
        if self.execute:
            self._follow(project, found)
        self._places[project, workspace] = found
        return found

    def _follow(self, project: str, found: Project) -> None:
        """From now on the reports in the old folder count; the next look reads all of them."""
        self.app.open_home()
        make_folder(found.folder)
        folders = followed_folders(self.app.settings.home, found.name)
        folders[os.path.realpath(os.path.join(self.old.path, project))] = self.began
        lines = "".join(f"{moment:.3f} {folder}\n" for folder, moment in folders.items())
        write_atomic(os.path.join(found.folder, FOLLOWED), lines)
        remove(os.path.join(found.folder, LOOKED))

    # --- each kind ---------------------------------------------------------------------------------------

    def _task(self, old: OldTask) -> tuple[str, str]:
        place = self._place(old.project, old.workspace)
        if self.app.has_rows and tasks.is_known(self.app.database, project=place.name, id=old.id):
            return KNOWN, f"project {place.name} has a task of that id"
        tests = f"\n\nIts tests, as the older tool noted them: `pytest {old.tests}`" if old.tests else ""
        request = create.Request(task=old.id, brief=old.brief + tests)
        words = f"{'ready' if old.state == LIVE else 'blocked: ' + (old.reason or 'no reason given')}"
        held = self._in_flight({old.id: old.seen})
        words += self._told(held)
        if not self.execute:
            create.prepare(self.app, place, request)
            return NEW, words
        self._hold(place, held)
        task = create.write_down(self.app, place, request)
        if old.state == BLOCKED:
            report.block(self.app, CurrentClaim(task, None, ""), reason=old.reason or "no reason given")
        return NEW, words

    def _batch(self, old: OldBatch) -> tuple[str, str]:
        place = self._place(old.project, old.workspace)
        at = os.path.join(self.old.path, old.project, "batches", old.id)
        if self.app.has_rows and batch_rows.is_known(self.app.database, project=place.name, id=old.id):
            self._stop_there(at)
            return KNOWN, f"project {place.name} has a batch of that id"
        name = os.path.join(at, "manifest.json")
        manifest = batches.read_checked(name, old.manifest)
        states = [state for state, _ in old.parts.values()]
        done, blocked = states.count(DONE), states.count(BLOCKED)
        words = f"{len(manifest.sub_tasks)} parts: {done} done, {blocked} blocked, {len(states) - done - blocked} to be done"
        held = self._in_flight(
            {one if one == manifest.fan_in_task else f"{old.id}/{one}": moment for one, moment in old.seen.items()}
        )
        if self.execute:
            self._open(place, old, held)
            self._stop_there(at)
        return NEW, words + self._told(held)

    def _open(self, place: Project, old: OldBatch, held: dict[str, float]) -> None:
        """Open a batch with what its parts have said; nobody takes a part before that is known."""
        store, name = self.app.database, os.path.join(self.old.path, old.project, "batches", old.id, "manifest.json")
        stop = {"scope": pauses.BATCH, "project": place.name, "name": old.id}
        pauses.pause(store, **stop, reason="it is being taken in from handoff-fanout", paused_by=pauses.IMPORT)
        try:
            batch = batches.open_batch(self.app, place, name, old.manifest).batch
            self._hold(place, held)
            for part, (state, said) in old.parts.items():
                if state == DONE:
                    report.finish(self.app, batches.hold_part(self.app, batch, part), summary=said or "done before")
                elif state == BLOCKED:
                    report.block(self.app, batches.hold_part(self.app, batch, part), reason=said or "no reason given")
        finally:
            pauses.resume(store, **stop)
        if old.stopped:
            files.pause_with_file(self.app, **stop, reason="its STOP file", by=pauses.IMPORT)

    def _in_flight(self, seen: dict[str, float]) -> dict[str, float]:
        """What tabs of the older tool are at now, and for how many seconds each was silent."""
        silent = {name: self.app.clock.now() - moment for name, moment in seen.items()}
        return {name: seconds for name, seconds in silent.items() if seconds < _FRESH_SECONDS}

    def _told(self, held: dict[str, float]) -> str:
        program = self.app.settings.program
        return "".join(
            f"; a tab of the older tool was at {name} {age(silent)} ago: let it report as before, or close that tab and say: "
            f"{program} resume {name}"
            for name, silent in held.items()
        )

    def _hold(self, place: Project, held: dict[str, float]) -> None:
        """Nobody here takes what a tab of the older tool is at: it would be done twice."""
        for name in held:
            pauses.pause(
                self.app.database,
                scope=pauses.TASK,
                project=place.name,
                name=name,
                reason=_ELSEWHERE,
                paused_by=pauses.IMPORT,
            )

    def _stop_there(self, at: str) -> None:
        """The one fan-in is ours: neither the last report nor the watchdog of the older tool opens another."""
        if self.execute:
            for mark in (TRIGGERED, ABORTED):
                create_exclusive(os.path.join(at, mark), _MARK)

    def _measure(self, old: OldMeasure) -> tuple[str, str]:
        place = self._place(old.project, self._known_workspace(old.project))
        line = old.line
        thought, taken = float(line["estimated_minutes_sum"]), float(line["actual_minutes_sum"])
        words = f"{thought:g} minutes thought, {taken:g} taken"
        if self.app.has_rows and batch_rows.is_known(self.app.database, project=place.name, id=old.batch):
            return KNOWN, words
        if self.execute:
            batch_rows.take_in(
                self.app.database,
                project=place.name,
                batch=old.batch,
                sub_tasks=int(line.get("n_sub_tasks") or 0),
                estimated_minutes=thought,
                session_minutes=taken,
                estimated_speedup=float(line.get("amdahl_estimated") or 0),
                speedup=float(line.get("amdahl_actual") or 0),
                summary=str(line.get("summary") or ""),
                at=parse_stamp(f"{str(line.get('completed_at', ''))[:_TO_SECONDS]}Z") or self.app.clock.now(),
            )
        return NEW, words

    def _known_workspace(self, project: str) -> str:
        found = [task.workspace for task in self.old.tasks if task.project == project]
        found += [batch.workspace for batch in self.old.batches if batch.project == project]
        return next(filter(None, found), "")

    def _stop(self, project: str) -> tuple[str, str]:
        if project == "*":
            scope, name, words = pauses.ALL, "", "everything was stopped there"
        else:
            scope, words = pauses.PROJECT, "it was stopped there"
            name = self._place(project, self._known_workspace(project)).name
        if self.execute:
            files.pause_with_file(
                self.app, scope=scope, project=name, name="", reason="stopped in handoff-fanout", by="import"
            )
        return NEW, f"{words}; nothing is taken until `handoff resume`"

    def _all_rules(self) -> dict[str, list[str]]:
        """What the older tool put into every prompt, by project ('' is every one); a roadmap of some projects is theirs alone."""
        old, found = self.old.settings, {"": _texts(self.old.settings.get("inject_blocks"))}
        blocks = old.get("project_inject_blocks")
        for project, texts in blocks.items() if isinstance(blocks, dict) else ():
            found.setdefault(str(project), []).extend(_texts(texts))
        path, projects = self._roadmap()
        for project in projects:
            top = os.path.realpath(self._known_workspace(project) or os.sep)
            inside = top != os.sep and os.path.realpath(path).startswith(top + os.sep)
            name = os.path.relpath(os.path.realpath(path), top) if inside else path
            found.setdefault(project, []).append(f"Read the roadmap of this project first: `{name}`")
        return {project: texts for project, texts in found.items() if texts}

    def _roadmap(self) -> tuple[str, list[str]]:
        """Where the roadmap lies, and whose it is; nobody named means every project."""
        value = self.old.settings.get("roadmap")
        spec = value if isinstance(value, dict) else {}
        return os.path.expanduser(str(spec.get("path") or "")), _texts(spec.get("projects")) if spec.get("path") else []

    def _rules(self, project: str, blocks: list[str]) -> tuple[str, str]:
        """Rules of the home or of one project: a file that every baton quotes, also those just written. One that is there stays."""
        place = self._place(project, self._known_workspace(project)).name if project else ""
        path = os.path.join(self.app.settings.home, place, RULES_FILE)
        if os.path.lexists(path):
            return KNOWN, f"{path} is there"
        if self.execute:
            make_folder(os.path.dirname(path), mode=0o700)
            create_exclusive(path, "\n\n".join(blocks) + "\n")
            for name in {one.name for one in self._places.values()}:
                views.refresh(self.app, name, whole=True)
        return NEW, f"{path}: every task's document quotes it"

    def _settings(self) -> tuple[str, str]:
        """`config.json` as our `config.toml`; one that is there is never changed."""
        old, home = self.old.settings, self.app.settings.home
        path = os.path.join(home, HOME_CONFIG)
        lines = []
        if str(old.get("uri_template") or _DEFAULT_URI) != _DEFAULT_URI:
            lines.append(f"uri_template = {json.dumps(str(old['uri_template']))}")
        if old.get("workspace_root"):
            lines.append(f"workspace_roots = {json.dumps([os.path.expanduser(str(old['workspace_root']))])}")
        roadmap, projects = self._roadmap()
        if roadmap and not projects:
            reading = ["AGENTS.md", "CLAUDE.md", "README.md", roadmap]
            lines.append(f"reading_list = {json.dumps(reading, ensure_ascii=False)}")
        hooks = [_hook_words(hook) for hook in old.get("baseline_hooks") or () if isinstance(hook, dict)]
        left = f"; baseline_hooks ({', '.join(hooks)}) are not run here: use dump --tests or --check" if hooks else ""
        if not lines:
            return KNOWN, f"nothing to set{left}"
        if os.path.lexists(path):
            return KNOWN, f"{path} is there and stays as it is; it would have said: {'; '.join(lines)}{left}"
        if self.execute:
            make_folder(home, mode=0o700)
            create_exclusive(path, "# Taken over from handoff-fanout's config.json\n" + "\n".join(lines) + "\n")
        return NEW, f"{path}: {'; '.join(lines)}{left}"


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _hook_words(hook: dict[str, Any]) -> str:
    """A hook by its name, and whose it is."""
    projects = _texts(hook.get("projects"))
    return f"{hook.get('name')}{' of ' + ' and '.join(projects) if projects else ''}"
