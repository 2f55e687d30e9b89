"""Conflicts while sessions still run: their clones' trees are merged in memory, two and two and with the branch, and told once."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from handoff.base.errors import HandoffError
from handoff.base.ids import on_one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.board.events.journal import CONFLICT_GONE, CONFLICT_SEEN, DOUBT_GONE, DOUBT_SEEN
from handoff.board.tasks import races, tasks
from handoff.engine.app import App
from handoff.engine.place import task_clones
from handoff.engine.place.landing.members import member_of, target_of
from handoff.engine.safety.snapshots import keep
from handoff.git.landing.doubts import doubts_of
from handoff.git.landing.merge import Merged, MergeStep, collisions, merge
from handoff.git.plumbing.refs import head

if TYPE_CHECKING:
    import threading

    from handoff.base.settings import Settings
    from handoff.board.tasks.tasks import Task
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.landing.doubts import ChangeKey, Doubt, PythonFacts
    from handoff.git.landing.merge import Member

LEAST_SECONDS, SHARE = 5.0, 50
"""A look every five seconds, and at most a fiftieth of the time: the dearer one was, the later is the next."""
_ROUNDS = 2
"""Half-written work conflicts by chance: what stands in so many looks is told."""
_MOST = 200


class LiveConflict(Record):
    """A file that a running task and another, or the branch (0), have changed so that git cannot join it, or may join it wrongly."""

    first: int
    second: int
    path: str
    what: str = ""
    """What to look at in a clean join; empty where git cannot join."""


class _AtWork(Record):
    """A running task with what its clone holds now."""

    task: Task
    member: Member


class LiveWatch:
    """What was seen in the looks before; the rest is in the journal, so that the next supervisor goes on from there."""

    def __init__(self, app: App, *, project: str = "") -> None:
        self.app, self.project = app, project
        self.rounds: dict[LiveConflict, int] = {}
        self.told: dict[int, set[LiveConflict]] = {}
        self._verdicts: dict[tuple[str, str], frozenset[str]] = {}
        self._doubted: dict[tuple[str, ...], tuple[Doubt, ...]] = {}
        self._facts: dict[ChangeKey, PythonFacts] = {}
        self._tips: dict[str, str] = {}
        self.merges = 0

    def look(self) -> list[LiveConflict]:
        """One look at all that run here; what is new and stands is told to both, what is gone too. Which conflicts there are now."""
        working = self._at_work()
        found = {one for some, store, tip in working for one in self._conflicts(some, store, tip)}
        found |= {one for some, store, tip in working for one in self._doubts(some, store, tip)}
        now = {one.member.commit for some, _, _ in working for one in some}
        self._verdicts = {pair: paths for pair, paths in self._verdicts.items() if pair[1] in now}
        running = {one.task.key: one.task for some, _, _ in working for one in some}
        self.rounds = {one: self.rounds.get(one, 0) + 1 for one in found}
        for key, task in running.items():
            self.told.setdefault(key, _told_before(self.app, task))
        self.told = {key: told for key, told in self.told.items() if key in running}
        for one in sorted(found):
            if self.rounds[one] >= _ROUNDS and one not in self.told[one.first]:
                self._tell(one, running, seen=True)
        for one in sorted({one for told in self.told.values() for one in told} - found):
            if one.first in running and (one.second in running or not one.second):
                self._tell(one, running, seen=False)
        return sorted(found)

    def _at_work(self) -> list[tuple[list[_AtWork], SnapshotStore, str]]:
        """The running tasks of this machine that have clones, checkout by checkout, with the tip of the branch they are for."""
        groups: dict[tuple[str, str], list[Task]] = {}
        for task in tasks.running_on(self.app.database, host=self.app.settings.host, project=self.project):
            if task.kind in (*tasks.PARTS, tasks.TASK):
                groups.setdefault((task.project, task.workspace), []).append(task)
        found = []
        for some in groups.values():
            clones = [(task, clone) for task in some if (clone := task_clones.of_task(self.app, task)) is not None]
            if not clones:
                continue
            store = task_clones.snapshot_store_of_project(self.app, clones[0][0])
            here = []
            for task, clone in sorted(clones, key=lambda pair: pair[0].key):
                with suppress(HandoffError, OSError):  # it is being made, or cannot be read now
                    here.append(_AtWork(task, member_of(self.app, snapshot_store=store, workspace=clone)))
            tip = target_of(self.app, store).tip(head(store.place.source).ref)
            if tip != self._tips.get(store.place.source.top) and any(one.member.base != tip for one in here):
                keep(self.app, store, "before comparing")  # the store owns all objects now
            self._tips[store.place.source.top] = tip
            found.append((here, store, tip))
        return found

    def _conflicts(self, some: list[_AtWork], snapshot_store: SnapshotStore, tip: str) -> list[LiveConflict]:
        store, found = snapshot_store.store, []
        for number, one in enumerate(some):
            for other in some[number + 1 :]:
                if self._rivals(one.task, other.task):
                    continue
                key = (one.member.commit, other.member.commit)
                if key not in self._verdicts:
                    self.merges += 1
                    hard, _ = collisions(store, [one.member, other.member])
                    self._verdicts[key] = frozenset(each.path for each in hard)
                found += [LiveConflict(one.task.key, other.task.key, path) for path in self._verdicts[key]]
            if tip and one.member.touches and tip != one.member.base:
                key = (tip, one.member.commit)
                if key not in self._verdicts:
                    self.merges += 1
                    joined = merge(store, tip, [one.member], moment=0)
                    self._verdicts[key] = frozenset(each.path for each in joined.conflicts)
                found += [LiveConflict(one.task.key, 0, path) for path in self._verdicts[key]]
        return found[:_MOST]

    def _doubts(self, some: list[_AtWork], snapshot_store: SnapshotStore, tip: str) -> list[LiveConflict]:
        """What all of them together join cleanly and may be wrong: looked at once for each state of their work."""
        alone = [one for one in some if one.member.touches and races.part_of(self.app.database, one.task) is None]
        if not tip or (len(alone) < 2 and all(one.member.base == tip for one in alone)):  # noqa: PLR2004 - one alone meets nobody
            return []
        members, source = [one.member for one in alone], snapshot_store.place.source.top
        key = (source, tip, *(member.commit for member in members))
        if key not in self._doubted:
            steps = tuple(MergeStep(one.name, one.commit) for one in members)
            joined = Merged(old=tip, new=tip, steps=steps, conflicts=(), skipped=())
            paths = [path for member in members for path in member.paths]
            if len({*paths}) < len(paths) or any(member.base != tip for member in members):
                self.merges += 1
                joined = merge(snapshot_store.store, tip, members, moment=0)
            self._doubted = {old: kept for old, kept in self._doubted.items() if old[0] != source}
            if len(self._facts) > _MOST:
                self._facts.clear()
            self._doubted[key] = doubts_of(snapshot_store.store, members, joined, known=self._facts)
        keys = {one.member.name: one.task.key for one in alone}
        found = []
        for doubt in self._doubted[key]:
            first, second = sorted(keys.get(name, 0) for name in (doubt.first, doubt.second))
            if second and not doubt.note:
                found.append(LiveConflict(first or second, second if first else 0, doubt.path, on_one_line(doubt.what)))
        return found

    def _rivals(self, one: Task, other: Task) -> bool:
        """Who runs in one race does the same by design: only one of them lands."""
        mine, theirs = races.part_of(self.app.database, one), races.part_of(self.app.database, other)
        return mine is not None and theirs is not None and mine.key == theirs.key

    def _tell(self, one: LiveConflict, running: dict[int, Task], *, seen: bool) -> None:
        first, second = running[one.first], running.get(one.second)
        kind = _KINDS[bool(one.what)][0 if seen else 1]
        with self.app.database.transaction() as transaction:
            for task, other in ((first, second), (second, first)) if second else ((first, None),):
                if task is not None:
                    body: dict[str, Any] = {
                        "path": one.path,
                        "key": other.key if other else 0,
                        "other": other.label if other else "",
                        **({"what": one.what} if one.what else {}),
                    }
                    text = _words(kind, one, other.label if other else "")
                    journal.append(transaction, kind, task=task, session=task.held_by or "", text=text, **body)
        for key in {one.first, one.second} & self.told.keys():
            (self.told[key].add if seen else self.told[key].discard)(one)


_KINDS = ((CONFLICT_SEEN, CONFLICT_GONE), (DOUBT_SEEN, DOUBT_GONE))


def _words(kind: str, one: LiveConflict, other: str) -> str:
    path, whose = on_one_line(one.path), f"'{other}'" if other else "the branch your work is for"
    if kind == DOUBT_GONE:
        return f"{path}: settled with {whose}, it is no longer so that {one.what}."
    if kind == DOUBT_SEEN:
        return (
            f"{path}: {one.what}. Your work and {whose} join cleanly there and may be wrong together: see whether yours still fits"
            " before you report."
        )
    if kind == CONFLICT_GONE:
        return f"{path} joins again with what {whose} has there."
    return (
        f"{path}: {whose} has changed the same lines meanwhile, and git cannot join the two. Finish your work; keep to your own lines"
        " there if you can. It is settled when your work lands."
    )


def _told_before(app: App, task: Task) -> set[LiveConflict]:
    """What the journal says was told about a task and is not gone."""
    found: set[LiveConflict] = set()
    for event in journal.of_task(app.database, key=task.key):
        if event.kind in (*_KINDS[0], *_KINDS[1]):
            other = int(event.body.get("key", 0))
            first, second = (task.key, other) if not other or task.key < other else (other, task.key)
            one = LiveConflict(first, second, str(event.body.get("path", "")), str(event.body.get("what", "")))
            (found.add if event.kind in (CONFLICT_SEEN, DOUBT_SEEN) else found.discard)(one)
    return found


def keep_watch(settings: Settings, leaving: threading.Event, project: str) -> None:
    """Look again and again until told to leave, on a thread of its own; whatever fails is tried again at the next look."""
    app, wait = App(settings), LEAST_SECONDS
    watch = LiveWatch(app, project=project)
    while not leaving.wait(wait):
        began = app.clock.monotonic()
        with suppress(HandoffError, OSError):
            watch.look()
        wait = max(LEAST_SECONDS, SHARE * (app.clock.monotonic() - began))
