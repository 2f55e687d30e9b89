"""Snapshots as journeys: take one, find one, compare, restore, undo, keep house."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from handoff.base.clock import parse_stamp
from handoff.base.errors import UserError
from handoff.git.plumbing import find_top, open_source, read_text
from handoff.git.plumbing.snapshot_repo import SnapshotRepo
from handoff.git.plumbing.untrusted import check_clone, is_clone
from handoff.git.snapshots import modes as rights
from handoff.git.snapshots import restore as restoring
from handoff.git.snapshots.index import put_index
from handoff.git.snapshots.location import Location, find_place
from handoff.git.snapshots.retention import faults
from handoff.git.snapshots.take import Snapshot, SnapshotRequest, snapshots, take

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from handoff.engine.app import App
    from handoff.git.plumbing import Source

RESTORE, UNDO = "restore", "undo"
_SHORTEST_ID = 4


class SnapshotStore(NamedTuple):
    """A checkout with the store its snapshots go to."""

    place: Location
    store: SnapshotRepo

    @property
    def source(self) -> Source:
        return self.place.source


class RestoreRequest(NamedTuple):
    """What to bring back of a snapshot."""

    paths: tuple[str, ...] = ()
    exact: bool = False
    files: bool = True
    staged: bool = False
    refs: bool = False
    settings: bool = False
    only_refs: tuple[str, ...] = ()
    only_settings: tuple[str, ...] = ()


class RestoreReport(NamedTuple):
    """A restore: from where, to where, what would change or did, and the snapshot that undoes it."""

    snapshot: Snapshot
    target: str
    changes: tuple[restoring.TreeChange, ...]
    notes: tuple[str, ...] = ()
    before: Snapshot | None = None


def open_snapshot_store(app: App, *, folder: str = ".", project: str = "") -> SnapshotStore:
    """The snapshot store of the checkout that holds `folder`."""
    top = find_top(folder)
    if top is None:
        raise UserError("This is not a git repository.", "Go to your project, or use: handoff -C DIR …")
    if is_clone(top):
        check_clone(top)
    place = find_place(top, home=app.settings.home, project=project or app.settings.get("HANDOFF_PROJECT"))
    return SnapshotStore(place, SnapshotRepo(place.store, app.settings.environment))


def snapshot(app: App, *, snapshot_store: SnapshotStore, request: SnapshotRequest) -> Snapshot:
    """Take a snapshot of the snapshot store's checkout now."""
    if not request.session:
        request = request._replace(session=app.settings.get("HANDOFF_SESSION"))
    store, place = snapshot_store.store, snapshot_store.place
    ignore_files = _ignore_files(app, place.source)
    return take(store, place.source, place.workspace, request, now=app.clock.now(), ignore_files=ignore_files)


def keep(app: App, snapshot_store: SnapshotStore, reason: str, **more: Any) -> Snapshot:
    """The same in a few words: why, and whatever else the request says."""
    return snapshot(app, snapshot_store=snapshot_store, request=SnapshotRequest(reason=reason, **more))


def listing(app: App, *, snapshot_store: SnapshotStore, session: str = "", workspace: str = "") -> list[Snapshot]:
    """Snapshots of the project, newest first; of one session or one workspace if asked."""
    del app
    found = snapshots(snapshot_store.store, workspace)
    return [one for one in found if not session or session in (one.session, one.workspace)]


def choose(app: App, *, snapshot_store: SnapshotStore, name: str = "", session: str = "", at: str = "") -> Snapshot:
    """The one snapshot a person means: by id, by session, by time; the newest of this checkout otherwise."""
    found = listing(app, snapshot_store=snapshot_store, session=session)
    if not found:
        what = f"of session '{session}'" if session else "yet"
        raise UserError(f"There is no snapshot {what}.", "See: handoff snapshots. Take one: handoff snapshot")
    if name and name not in ("last", "latest"):
        matching = [one for one in found if len(name) >= _SHORTEST_ID and one.sha.startswith(name)]
        if len(matching) != 1:
            many = "more than one snapshot" if matching else "no snapshot"
            raise UserError(f"'{name}' means {many}.", "See the ids with: handoff snapshots")
        return matching[0]
    if not session:
        found = [one for one in found if one.workspace == snapshot_store.place.workspace] or found
    if at:
        moment = parse_moment(at, now=app.clock.now())
        found = [one for one in found if one.time <= moment]
        if not found:
            raise UserError(f"There is no snapshot from before {at}.", "See: handoff snapshots")
    else:  # what a restore (or only its dry run) kept is its way back, not what a person wants to go back to
        guards = tuple(f"before {operation} of " for operation in (RESTORE, UNDO))
        found = [one for one in found if not one.reason.startswith(guards)] or found
    return found[0]


def parse_moment(text: str, *, now: float) -> float:
    """A moment as people write it: 2026-11-15T08:30:00Z, 2026-11-15 08:30 (local), 08:30 (today), 10m, 2h, 3d ago."""
    units = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
    bare = text.removesuffix("ago").strip()
    number = bare.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = bare[len(number) :].strip()
    if unit in units and number.replace(".", "", 1).isdigit():
        return now - float(number) * units[unit]
    if text.endswith("Z"):
        moment = parse_stamp(text)
        if moment is not None:
            return moment + 1
    today = time.strftime("%Y-%m-%d", time.localtime(now))
    for shape, value in (
        ("%Y-%m-%d %H:%M:%S", text.replace("T", " ")),
        ("%Y-%m-%d %H:%M", text.replace("T", " ")),
        ("%Y-%m-%d", text),
        ("%Y-%m-%d %H:%M", f"{today} {text}"),
        ("%Y-%m-%d %H:%M:%S", f"{today} {text}"),
    ):
        try:
            return time.mktime(time.strptime(value, shape)) + (86400 if shape == "%Y-%m-%d" else 1)
        except ValueError:
            continue
    raise UserError(f"'{text}' is not a time.", "Write 10m, 2h, 3d, 08:30, or 2026-11-15 08:30.")


def restore(
    app: App,
    *,
    snapshot_store: SnapshotStore,
    chosen: Snapshot,
    want: RestoreRequest,
    dry_run: bool = False,
    operation: str = RESTORE,
) -> RestoreReport:
    """Bring a snapshot back into its own checkout, after a snapshot of what is there now."""
    store, source = snapshot_store.store, snapshot_store.source
    request = SnapshotRequest(
        reason=f"before {operation} of {chosen.short}",
        operation="" if dry_run else operation,
        undone=chosen.sha if operation == UNDO else "",
        force=not dry_run,
    )
    first = snapshot(app, snapshot_store=snapshot_store, request=request._replace(operation="", force=False))
    target = restoring.tree_of(store, chosen.sha)
    differing = restoring.changes(store, first.sha, target, want.paths)
    if want.paths and not differing and not store.ask("ls-tree", "-r", "-z", "--name-only", target, "--", *want.paths):
        missing = ", ".join(want.paths)
        raise UserError(f"The snapshot has no {missing}.", "Paths are relative to the top of the checkout.")
    sides = restoring.parts_of(store, chosen.sha)
    modes = rights.read_modes(store, sides.modes) if want.files else None
    kinds = rights.kinds_of(store, target, want.paths) if want.files else {}
    other = rights.differing_modes(source.top, kinds, modes, paths=want.paths) if modes else {}
    if dry_run:
        return RestoreReport(chosen, source.top, _shown(differing, want, other))
    # What its owner cannot read is in no snapshot: let him in before anything is overwritten.
    closed, notes = rights.open_up(source.top, kinds, source.folder)
    # Name what is about to be overwritten: also an ignored file, or a folder of them, is in the snapshot then.
    paths = [change.path for change in differing if os.path.lexists(os.path.join(source.top, change.path))]
    request = request._replace(paths=None if closed else paths or None)
    before = snapshot(app, snapshot_store=snapshot_store, request=request)
    differing = restoring.changes(store, before.sha, target, want.paths)
    if want.refs:
        notes += restoring.put_refs(store, source, sides.refs, only=want.only_refs)
    if want.settings:
        notes += restoring.put_settings(store, source, sides.refs, only=want.only_settings)
    if want.files:
        made = rights.missing_folders(source.top, (change.path for change in differing))
        notes += restoring.put_files(store, source.top, differing, exact=want.exact, modes=modes)
        if modes:
            opened = frozenset(closed)
            closed |= rights.differing_modes(source.top, kinds, modes, paths=want.paths, made=made, opened=opened)
        notes += rights.put_modes(source.top, closed)
    if want.staged:
        put_index(store, source, sides.staged)
        notes.append("index")
    return RestoreReport(chosen, source.top, _shown(differing, want, other), tuple(notes), before)


def restore_into(
    app: App, *, snapshot_store: SnapshotStore, chosen: Snapshot, folder: str, paths: Sequence[str] = ()
) -> RestoreReport:
    """Write a snapshot's files into an empty folder, whoever they belonged to."""
    del app
    store, target = snapshot_store.store, os.path.abspath(folder)
    if os.path.isdir(target) and os.listdir(target):
        raise UserError(f"{target} is not empty.", "Name a folder that does not exist yet.")
    os.makedirs(target, exist_ok=True)
    differing = restoring.changes(store, store.graft("", {}), chosen.sha, tuple(paths))
    modes = rights.read_modes(store, restoring.parts_of(store, chosen.sha).modes)
    made = rights.missing_folders(target, (change.path for change in differing))
    notes = restoring.put_files(store, target, differing, exact=False, modes=modes)
    if modes:
        kinds = rights.kinds_of(store, chosen.sha, tuple(paths))
        rights.put_modes(target, rights.differing_modes(target, kinds, modes, paths=tuple(paths), made=made))
    return RestoreReport(chosen, target, tuple(differing), tuple(notes))


def undo(app: App, *, snapshot_store: SnapshotStore, session: str = "", dry_run: bool = False) -> RestoreReport:
    """Take back the last operation of ours in this checkout, or all a session did since it started."""
    found = [one for one in listing(app, snapshot_store=snapshot_store, session=session) if one.operation]
    if not session:
        found = [one for one in found if one.workspace == snapshot_store.place.workspace]
    if not found:
        raise UserError("There is nothing to undo here.", "See what can be restored: handoff snapshots")
    chosen = found[0]
    if session:
        chosen = next((one for one in found if one.operation == "start"), chosen)
    want = RestoreRequest(exact=True, staged=True, refs=True)
    home = home_of(app, snapshot_store=snapshot_store, chosen=chosen)
    return restore(app, snapshot_store=home, chosen=chosen, want=want, dry_run=dry_run, operation=UNDO)


def home_of(app: App, *, snapshot_store: SnapshotStore, chosen: Snapshot) -> SnapshotStore:
    """The snapshot store of the checkout a snapshot was taken from; an error where it is gone."""
    if chosen.workspace == snapshot_store.place.workspace or chosen.top == snapshot_store.source.top:
        return snapshot_store
    if not os.path.lexists(os.path.join(chosen.top, ".git")):
        raise UserError(
            f"The checkout {chosen.top} is gone.",
            f"Restore it somewhere else: handoff restore {chosen.short} --into DIR",
        )
    place = Location(open_source(chosen.top), snapshot_store.place.project, chosen.workspace)
    return SnapshotStore(place, SnapshotRepo(place.store, app.settings.environment))


def compare(
    app: App, *, snapshot_store: SnapshotStore, old: str, new: str, paths: Sequence[str] = (), form: str = ""
) -> str:
    """The difference of two snapshots as git prints it."""
    del app
    words = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", *((form,) if form else ())]
    return snapshot_store.store.ask(*words, old, new, "--", *paths)


def _shown(
    differing: Sequence[restoring.TreeChange], want: RestoreRequest, other: Mapping[str, int]
) -> tuple[restoring.TreeChange, ...]:
    """The changes a person is told of: files, then paths of which only the permission bits are others."""
    if not want.files:
        return ()
    written = {change.path for change in differing}
    bits = [
        restoring.TreeChange("mode", path, f"{mode:04o}", "") for path, mode in other.items() if path not in written
    ]
    return (*(change for change in differing if want.exact or change.kind != "delete"), *bits)


def _ignore_files(app: App, source: Source) -> list[str]:
    """The person's own lists of ignored files; git's settings are read as text, nothing is run."""
    home = app.settings.get("HOME")
    config_home = app.settings.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    own = os.path.join(config_home, "git", "ignore")
    chosen = app.settings.get("GIT_CONFIG_GLOBAL")
    configs = [chosen] if chosen else [os.path.join(config_home, "git", "config"), os.path.join(home, ".gitconfig")]
    for line in (line for path in configs for line in read_text(path).splitlines()):
        key, equals, value = line.strip().partition("=")
        if equals and key.strip().lower() == "excludesfile":
            own = os.path.expanduser(value.strip().strip('"'))
    return [os.path.join(source.common, "info", "exclude"), own]


def verify(app: App, *, snapshot_store: SnapshotStore) -> list[str]:
    """What is wrong with the store; nothing when every snapshot can be read in full."""
    del app
    return faults(snapshot_store.store) if snapshot_store.store.exists else []
