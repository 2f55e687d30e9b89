"""What an operation is about to change, written down with the snapshot taken before it: so that it alone can be taken back."""

from __future__ import annotations

import os
import stat

from handoff.base.errors import Refused
from handoff.base.light_json import dumps, loads
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing.objects import Entry, differences
from handoff.git.plumbing.refs import head, refs
from handoff.git.snapshots import parts as rights
from handoff.git.snapshots.parts import logs, settings_files, split_logs, stashes
from handoff.git.snapshots.restore import GitStep, TreeChange, is_planted, missing_lines, side_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from handoff.git.plumbing import Source
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.snapshots.parts import Modes
    from handoff.git.snapshots.restore import Sides

HEAD = "HEAD"
_SHOWN = 10


class RestorePlan(Record):
    """Everything one restore or undo does: files with their rights, index, refs, settings, and what a person is told."""

    files: tuple[TreeChange, ...] = ()
    kinds: Mapping[str, str] = {}
    modes: Modes | None = None
    within: tuple[str, ...] = ()
    bits: Mapping[str, tuple[int, int]] = {}
    staged: str = ""
    refs: tuple[GitStep, ...] = ()
    settings: tuple[GitStep, ...] = ()
    logs: Mapping[str, bytes] = {}
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.files or self.bits or self.staged or self.refs or self.settings or self.notes)

    @property
    def shown(self) -> tuple[TreeChange, ...]:
        """The changes a person is told of: files, then paths of which only the permission bits are others."""
        written = {change.path for change in self.files}
        bits = ((path, new) for path, (_, new) in self.bits.items() if path not in written)
        return (*self.files, *(TreeChange("mode", path, f"{new:04o}", "") for path, new in bits))

    @property
    def words(self) -> tuple[str, ...]:
        """What else a person is told: refs, settings, index, the rest."""
        moved = [f"{one.name} -> {shorten(one.new)}" if one.new else f"{one.name} removed" for one in self.refs]
        gone = {True: "(put aside)", False: "removed"}
        put = [one.name if one.new else f"{one.name} {gone[is_planted(one.name)]}" for one in self.settings]
        return (*moved, *put, *self.notes, *(("index",) if self.staged else ()))


class DoneOperation(Record):
    """An operation as the snapshot before it tells: the tree and index it left, and every other change it made."""

    tree: str
    staged: str = ""
    refs: tuple[GitStep, ...] = ()
    settings: tuple[GitStep, ...] = ()
    bits: Mapping[str, tuple[int, int]] = {}
    closed: Mapping[str, int] = {}


def shorten(value: str) -> str:
    """A ref's value as people read it."""
    return value if value.startswith("refs/") else value[:10]


def wanted_changes(differing: Sequence[TreeChange], *, exact: bool) -> tuple[TreeChange, ...]:
    """Of all differences those that are made: without `exact` nothing is deleted but what stands in the way of a file."""
    if exact:
        return tuple(differing)
    written = {change.path for change in differing if change.kind != "delete"}
    above = {path[:at] for path in written for at in range(len(path)) if path[at] == "/"}
    return tuple(
        change
        for change in differing
        if change.kind != "delete"
        or change.path in above
        or any(change.path[:at] in written for at in range(len(change.path)) if change.path[at] == "/")
    )


def write_down(store: SnapshotRepo, plan: RestorePlan, before: str, closed: Mapping[str, int], source: str) -> str:
    """Keep the plan as a commit beside the tree `before`; `source` is the snapshot that holds what is brought back."""
    entries = {
        os.fsencode(one.path): None if one.kind == "delete" else Entry(one.mode.lstrip("0"), one.sha)
        for one in plan.files
    }
    facts = {
        "staged": plan.staged,
        "refs": plan.refs,
        "settings": plan.settings,
        "bits": {name: list(pair) for name, pair in plan.bits.items()},
        "closed": dict(closed),
    }
    tree = store.graft(store.load(before, entries), entries) if entries else before
    parents = [sha for sha in dict.fromkeys((source, plan.staged)) if sha]
    return store.write_commit(tree, parents, f"then\n\n{dumps(facts)}\n", moment=0)


def read_done(store: SnapshotRepo, commit: str) -> DoneOperation:
    """What `write_down` kept."""
    data = store.read(commit)
    facts = loads(data.partition(b"\n\n")[2].partition(b"\n\n")[2].decode())
    return DoneOperation(
        tree=data[5 : data.index(b"\n")].decode(),
        staged=facts["staged"],
        refs=tuple(GitStep(*one) for one in facts["refs"]),
        settings=tuple(GitStep(*one) for one in facts["settings"]),
        bits={name: (old, new) for name, (old, new) in facts["bits"].items()},
        closed=facts["closed"],
    )


def modes_of(store: SnapshotRepo, sides: Sides) -> Modes | None:
    """The permission bits a snapshot holds; what was opened only to be read has the bits it had."""
    found = rights.read_modes(store, sides.modes)
    closed = read_done(store, sides.then).closed if sides.then else {}
    return found._replace(odd={**found.odd, **closed}) if found and closed else found


# --- forwards -----------------------------------------------------------------------------------------


def plan_bits(top: str, wanted: Mapping[str, int], closed: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Which permission bits change from what to what."""
    found = {}
    for name, new in wanted.items():
        old = closed.get(name, stat.S_IMODE(os.lstat(os.path.join(top, name)).st_mode))
        if old != new:
            found[name] = (old, new)
    return found


def plan_refs(store: SnapshotRepo, source: Source, commit: str, *, only: Sequence[str] = ()) -> RestorePlan:
    """Deleted and moved refs, stash entries and reflog lines that come back: all, or `only` some. Refs made since stay."""
    if not commit:
        return RestorePlan()
    files = side_files(store, commit)
    lines = os.fsdecode(store.read(files["refs"][1])).splitlines()
    first = lines[0].partition(" ")[2]
    saved = {name: value for value, _, name in (line.partition(" ") for line in lines[1:])}
    if only:
        saved = {name: value for name, value in saved.items() if name in only}
    now = refs(source)
    steps = [
        GitStep(name, now.get(name, ""), value)
        for name, value in saved.items()
        if not value.startswith("ref:") and name != "refs/stash" and now.get(name) != value
    ]
    if not only:  # a ref that replaces objects changes what every other one means
        steps += [
            GitStep(name, now[name], "") for name in now if name.startswith("refs/replace/") and name not in saved
        ]
        stands = head(source).ref or head(source).commit
        if first and first != stands:
            steps.append(GitStep(HEAD, stands, first))
    kept = split_logs(store.read(files["logs"][1])) if "logs" in files else {}
    if only:
        kept = {name: log for name, log in kept.items() if name in only}
    return RestorePlan(refs=tuple(steps), logs=kept, notes=tuple(_log_notes(source, kept)))


def _log_notes(source: Source, kept: Mapping[str, bytes]) -> Iterable[str]:
    there = logs(source)
    for name, log in kept.items():
        missing = missing_lines(log, there.get(name, b""))
        if missing:
            yield f"{len(missing)} reflog lines of {name}"
        if name == "refs/stash" and log and (missing or not refs(source).get(name)):
            count = len(
                {*stashes(source), *(line.split(b" ")[1].decode() for line in log.splitlines() if b" " in line)}
            )
            yield f"the stash ({count} entries)"


def plan_settings(store: SnapshotRepo, source: Source, commit: str, *, only: Sequence[str] = ()) -> tuple[GitStep, ...]:
    """Configuration, hooks and unfinished operations that become what they were; hooks planted since go."""
    if not commit:
        return ()
    files = {
        name: " ".join(facts)
        for name, facts in side_files(store, commit).items()
        if name not in ("refs", "logs") and not name.startswith("tags/") and (not only or name in only)
    }
    now = _settings_now(store, source)
    steps = [GitStep(name, now.get(name, ""), value) for name, value in files.items() if now.get(name) != value]
    planted = (name for name in now if is_planted(name) and (not only or name in only))
    return (*steps, *(GitStep(name, now[name], "") for name in planted if name not in files))


def _settings_now(store: SnapshotRepo, source: Source) -> dict[str, str]:
    return {name: f"{mode} {store.write('blob', data)}" for name, (data, mode) in settings_files(source).items()}


# --- backwards ----------------------------------------------------------------------------------------


def plan_undo(
    store: SnapshotRepo,
    source: Source,
    sides: Sides,
    before: str,
    done: DoneOperation,
    now: tuple[str, str],
    *,
    closed: Mapping[str, int] | None,
) -> RestorePlan:
    """Take back what `done` says and nothing else; where something changed once more since, that is said and nothing done.

    `before` is the tree it was done to, `now` the tree and the index as they are, `closed` what was opened only to be read.
    Without that it is a draft, which only says which files there are.
    """
    draft = closed is None
    in_the_way: list[str] = []
    tree, staged = now
    if draft:
        tree = done.tree  # what is ignored is not seen before it is named
    files = _files_back(store, before, done.tree, tree, in_the_way)
    index = _index_back(store, (sides.staged, done.staged, staged), in_the_way)
    moves = _steps_back(done.refs, {**refs(source), HEAD: head(source).ref or head(source).commit}, in_the_way)
    settings = _steps_back(done.settings, _settings_now(store, source), in_the_way) if done.settings else ()
    if in_the_way and not draft:
        more = f" and {len(in_the_way) - _SHOWN} more" if len(in_the_way) > _SHOWN else ""
        raise Refused(
            f"Later work stands in the way: {'; '.join(in_the_way[:_SHOWN])}{more}. Nothing was changed.",
            "Commit it or move it away and undo again, or take back single files: handoff snapshot restore ID --path PATH",
        )
    modes = modes_of(store, sides)
    bits = {}
    for name, (old, new) in done.bits.items():
        path = os.path.join(source.top, name)
        if not os.path.lexists(path) or os.path.islink(path):
            continue
        if (closed or {}).get(name, stat.S_IMODE(os.lstat(path).st_mode)) == new:
            bits[name] = (new, old)
    touched = {change.path for change in files}
    wanted = {*touched, *bits, *rights.missing_folders(source.top, touched)}
    kinds = {name: kind for name, kind in rights.kinds_of(store, before).items() if name in wanted} if modes else {}
    return RestorePlan(files=files, kinds=kinds, modes=modes, bits=bits, staged=index, refs=moves, settings=settings)


def _files_back(
    store: SnapshotRepo, before: str, after: str, now: str, in_the_way: list[str]
) -> tuple[TreeChange, ...]:
    back = differences(store, after, before)
    paths = {one.path for one in back}
    since = {one.path for one in differences(store, after, now) if one.path in paths} if now != after else set()
    open_ones = {one.path for one in differences(store, now, before) if one.path in paths} if since else paths
    in_the_way += [f"{path} was changed since" for path in sorted(since & open_ones)]
    kinds = {"A": "add", "D": "delete"}
    return tuple(
        TreeChange(kinds.get(one.letter, "change"), one.path, one.mode, one.sha)
        for one in back
        if one.path in open_ones
    )


def _index_back(store: SnapshotRepo, commits: tuple[str, str, str], in_the_way: list[str]) -> str:
    """The index to put in place: the one from before, or the present one with only these entries taken back."""
    before, after, now = commits
    if not after or not before or now == before:
        return ""
    if now == after:
        return before
    if any(store.read(commit).partition(b"\n\n")[0].count(b"\nparent ") for commit in commits):
        in_the_way.append("the index has changed since, and holds conflicts or flags")
        return ""
    back = {one.path: one for one in differences(store, after, before)}
    since = {one.path for one in differences(store, after, now)} & back.keys()
    open_ones = {one.path for one in differences(store, now, before)} & back.keys()
    in_the_way += [f"{path} was staged anew since" for path in sorted(since & open_ones)]
    entries = {
        os.fsencode(path): None if one.letter == "D" else Entry(one.mode, one.sha)
        for path, one in back.items()
        if path in open_ones
    }
    if not entries:
        return ""
    return store.write_commit(store.graft(store.load(now, entries), entries), [], "index\n", moment=0)


def _steps_back(steps: Iterable[GitStep], now: Mapping[str, str], in_the_way: list[str]) -> tuple[GitStep, ...]:
    found = []
    for one in steps:
        there = now.get(one.name, "")
        if there == one.new:
            found.append(GitStep(one.name, one.new, one.old))
        elif there != one.old:
            is_now = shorten(there) if one.name.startswith(("refs/", HEAD)) else "another one"
            in_the_way.append(
                f"{one.name} has moved on since: it is {is_now or 'gone'}, not {shorten(one.new) or 'gone'}"
            )
    return tuple(found)


def steps_between(store: SnapshotRepo, old: str, new: str) -> tuple[GitStep, ...]:
    """The refs that moved between two snapshots' sides; those made or deleted since are not a move."""
    if not old or not new:
        return ()
    both = []
    for commit in (old, new):
        lines = os.fsdecode(store.read(side_files(store, commit)["refs"][1])).splitlines()[1:]
        both.append({name: value for value, _, name in (line.partition(" ") for line in lines)})
    before, after = both
    return tuple(
        GitStep(name, value, after[name])
        for name, value in before.items()
        if name.startswith("refs/heads/") and after.get(name, value) != value
    )


def only_of(store: SnapshotRepo, after: str, before: str, owned: Callable[[str], bool]) -> str:
    """The tree `before`, but with what somebody else owns as it is in `after`: so it is no change of this one."""
    foreign = [one for one in differences(store, before, after) if not owned(one.path)]
    entries = {os.fsencode(one.path): None if one.letter == "D" else Entry(one.mode, one.sha) for one in foreign}
    return store.graft(store.load(before, entries), entries) if entries else before
