"""Open here what is live in a home of handoff-fanout: first as a plan, then for real. The old files are only read."""

from __future__ import annotations

import json
import os
from functools import partial

from handoff.base.clock import age, parse_stamp
from handoff.base.errors import HandoffError, UserError
from handoff.base.files import create_exclusive, make_folder
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import HOME_CONFIG
from handoff.board.sessions import pauses
from handoff.board.tasks import batches as batch_rows
from handoff.board.tasks import metrics, tasks
from handoff.engine.fanout import stop_files, views
from handoff.engine.home import APART, Project, find_project
from handoff.engine.supervisor.handoff_fanout import old_home
from handoff.engine.tasks import batches, create, current, report

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.engine.app import App
    from handoff.engine.supervisor.handoff_fanout.old_home import OldBatch, OldHome, OldMeasure, OldTask

TASK, BATCH, MEASURE, SETTING, STOP = "task", "batch", "measure", "setting", "stop"
NEW, KNOWN, REFUSED = "new", "known", "refused"
_RULES = "fanout-rules.md"
_TO_SECONDS = len("2026-11-15T08:30:00")  # its moments are UTC and end with +00:00
_FRESH_SECONDS = 600.0
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


def default_home(app: App) -> str:
    """Where the older tool's home is looked for: our own home, which it shares, else its usual places."""
    person = app.settings.get("HOME") or os.path.expanduser("~")
    places = (app.settings.home, os.path.join(person, ".handoff"), os.path.join(person, ".claude-handoff"))
    found = (place for place in places if os.path.isdir(place) and older_projects(place))
    return next(found, app.settings.home)


def older_projects(home: str) -> list[str]:
    """The projects of a home that hold work of the older tool which was not taken in."""
    if not os.path.isdir(home):
        return []
    names = (name for name in sorted(os.listdir(home)) if not name.startswith((".", "_")))
    return [
        name
        for name in names
        if old_home.is_older(os.path.join(home, name)) and not os.path.isdir(os.path.join(home, name, APART))
    ]


def import_home(app: App, *, path: str, project: str, workspace: str, execute: bool) -> ImportPlan:
    """Take in everything that is live; without `execute` only say what would be done. A second call takes in the rest."""
    old = old_home.read_home(os.path.abspath(os.path.expanduser(path)))
    return _Import(app, old, project, workspace, execute=execute).run()


class _Import:
    """One run over an old home."""

    def __init__(self, app: App, old: OldHome, only: str, workspace: str, *, execute: bool) -> None:
        self.app, self.old, self.only, self.workspace, self.execute = app, old, only, workspace, execute
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
        if self.old.settings and not self.only:
            self._each(SETTING, "", "config.json", self._settings)
        return ImportPlan(self.old.path, tuple(self.items), self.old.ended, self.old.faults)

    @property
    def _shared(self) -> bool:
        return os.path.realpath(self.old.path) == os.path.realpath(self.app.settings.home)

    def _each(self, kind: str, project: str, name: str, act: Callable[[], tuple[str, str]]) -> None:
        total = len(self.old.measures) + len(self.old.batches) + len(self.old.tasks)
        self.app.tell("Taking in the old home", len(self.items), total)
        """One thing; what goes wrong with it does not keep the others."""
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
        top = next((one for one in (workspace, self.workspace, usual) if one and os.path.isdir(one)), "")
        if not top:
            raise UserError(
                f"Its checkout {workspace or usual} is not there.",
                f"Say where it is now: import fanout {self.old.path} --project {project} --workspace DIR",
            )
        found = find_project(self.app, workspace=top)
        if self.execute and self._shared:
            views.keep_apart(self.app, found.name)
        self._places[project, workspace] = found
        return found

    # --- each kind ---------------------------------------------------------------------------------------

    def _task(self, old: OldTask) -> tuple[str, str]:
        place = self._place(old.project, old.workspace)
        if self.app.has_rows and tasks.is_known(self.app.database, project=place.name, id=old.id):
            return KNOWN, f"project {place.name} has a task of that id"
        tests = f"\n\nIts tests, as the older tool noted them: `pytest {old.tests}`" if old.tests else ""
        request = create.Request(task=old.id, brief=old.brief + tests)
        words = f"{'ready' if old.state == old_home.LIVE else 'blocked: ' + (old.reason or 'no reason given')}"
        silent = self.app.clock.now() - old.seen
        if old.seen and silent < _FRESH_SECONDS:
            words += f"; a tab of the older tool was at it {age(silent)} ago: close that one"
        if not self.execute:
            create.prepare(self.app, place, request)
            return NEW, words
        task = create.write_down(self.app, place, request)
        if old.state == old_home.BLOCKED:
            report.block(self.app, current.CurrentClaim(task, None, ""), reason=old.reason or "no reason given")
        return NEW, words

    def _batch(self, old: OldBatch) -> tuple[str, str]:
        place = self._place(old.project, old.workspace)
        if self.app.has_rows and batch_rows.is_known(self.app.database, project=place.name, id=old.id):
            return KNOWN, f"project {place.name} has a batch of that id"
        name = os.path.join(self.old.path, old.project, "batches", old.id, "manifest.json")
        manifest = batches.read_checked(name, old.manifest)
        states = [state for state, _ in old.parts.values()]
        done, blocked = states.count(old_home.DONE), states.count(old_home.BLOCKED)
        words = f"{len(manifest.sub_tasks)} parts: {done} done, {blocked} blocked, {len(states) - done - blocked} to be done"
        if self.execute:
            batch = batches.open_batch(self.app, place, name, old.manifest).batch
            for part, (state, said) in old.parts.items():
                if state == old_home.DONE:
                    report.finish(self.app, batches.hold_part(self.app, batch, part), summary=said or "done before")
                elif state == old_home.BLOCKED:
                    report.block(self.app, batches.hold_part(self.app, batch, part), reason=said or "no reason given")
            if old.stopped:
                stop_files.pause(
                    self.app, scope=pauses.BATCH, project=place.name, name=old.id, reason="its STOP file", by="import"
                )
        return NEW, words

    def _measure(self, old: OldMeasure) -> tuple[str, str]:
        place = self._place(old.project, self._known_workspace(old.project))
        line = old.line
        thought, taken = float(line["estimated_minutes_sum"]), float(line["actual_minutes_sum"])
        words = f"{thought:g} minutes thought, {taken:g} taken"
        if self.app.has_rows and batch_rows.is_known(self.app.database, project=place.name, id=old.batch):
            return KNOWN, words
        if self.execute:
            metrics.take_in(
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
            stop_files.pause(
                self.app, scope=scope, project=name, name="", reason="stopped in handoff-fanout", by="import"
            )
        return NEW, f"{words}; nothing is taken until `handoff resume`"

    def _settings(self) -> tuple[str, str]:
        """`config.json` as our `config.toml`; one that is there is never changed."""
        old, home = self.old.settings, self.app.settings.home
        path = os.path.join(home, HOME_CONFIG)
        blocks = [str(block) for block in old.get("inject_blocks") or ()]
        roadmap = str((old.get("roadmap") or {}).get("path") or "")
        lines = []
        if str(old.get("uri_template") or _DEFAULT_URI) != _DEFAULT_URI:
            lines.append(f"uri_template = {json.dumps(str(old['uri_template']))}")
        if old.get("workspace_root"):
            lines.append(f"workspace_roots = {json.dumps([os.path.expanduser(str(old['workspace_root']))])}")
        if blocks or roadmap:
            reading = ["AGENTS.md", "CLAUDE.md", "README.md", *([roadmap] if roadmap else [])]
            reading += [os.path.join(home, _RULES)] if blocks else []
            lines.append(f"reading_list = {json.dumps(reading, ensure_ascii=False)}")
        hooks = [str(hook.get("name")) for hook in old.get("baseline_hooks") or () if isinstance(hook, dict)]
        left = (
            f"; baseline_hooks ({', '.join(hooks)}) have no brother here: use dump --tests or --check" if hooks else ""
        )
        if not lines:
            return KNOWN, f"nothing to set{left}"
        if os.path.lexists(path):
            return KNOWN, f"{path} is there and stays as it is; it would have said: {'; '.join(lines)}{left}"
        if self.execute:
            make_folder(home, mode=0o700)
            if blocks:
                create_exclusive(os.path.join(home, _RULES), "\n\n".join(blocks) + "\n")
            create_exclusive(path, "# Taken over from handoff-fanout's config.json\n" + "\n".join(lines) + "\n")
        return NEW, f"{path}: {'; '.join(lines)}{left}"
