"""Snapshots as journeys: take one, find one, compare, restore, undo, keep house."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from handoff.base.clock import parse_stamp
from handoff.base.errors import UserError
from handoff.git.plumbing.checkout import find_top
from handoff.git.plumbing.query import open_source
from handoff.git.plumbing.snapshot_repo import Store
from handoff.git.plumbing.untrusted import check_clone, is_clone
from handoff.git.snapshots import modes as rights
from handoff.git.snapshots import restore as restoring
from handoff.git.snapshots.index import put_index
from handoff.git.snapshots.location import Place, find_place
from handoff.git.snapshots.retention import faults
from handoff.git.snapshots.take import Snapshot, Wish, snapshots, take

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.engine.app import App

RESTORE, UNDO = "restore", "undo"
_SHORTEST_ID = 4


class Vault(NamedTuple):
    """A checkout with the store its snapshots go to."""

    place: Place
    store: Store


class Want(NamedTuple):
    """What to bring back of a snapshot."""

    paths: tuple[str, ...] = ()
    exact: bool = False
    files: bool = True
    staged: bool = False
    refs: bool = False
    settings: bool = False
    only_refs: tuple[str, ...] = ()
    only_settings: tuple[str, ...] = ()


class Report(NamedTuple):
    """A restore: from where, to where, what would change or did, and the snapshot that undoes it."""

    snapshot: Snapshot
    target: str
    changes: tuple[restoring.Change, ...]
    notes: tuple[str, ...] = ()
    before: Snapshot | None = None


def open_vault(app: App, *, folder: str = ".") -> Vault:
    """The vault of the checkout that holds `folder`."""
    top = find_top(folder)
    if top is None:
        raise UserError("This is not a git repository.", "Go to your project, or use: handoff -C DIR …")
    if is_clone(top):
        check_clone(top)
    place = find_place(top, home=app.settings.home, project=app.settings.get("HANDOFF_PROJECT"))
    return Vault(place, Store(place.store, app.settings.environment))


def snapshot(app: App, *, vault: Vault, wish: Wish) -> Snapshot:
    """Take a snapshot of the vault's checkout now."""
    if not wish.session:
        wish = wish._replace(session=app.settings.get("HANDOFF_SESSION"))
    return take(
        vault.store,
        vault.place.source,
        vault.place.workspace,
        wish,
        now=app.clock.now(),
        ignore_files=_ignore_files(app, vault),
    )


def listing(app: App, *, vault: Vault, session: str = "", workspace: str = "") -> list[Snapshot]:
    """Snapshots of the project, newest first; of one session or one workspace if asked."""
    del app
    found = snapshots(vault.store, workspace)
    return [one for one in found if not session or session in (one.session, one.workspace)]


def choose(app: App, *, vault: Vault, name: str = "", session: str = "", at: str = "") -> Snapshot:
    """The one snapshot a person means: by id, by session, by time; the newest of this checkout otherwise."""
    found = listing(app, vault=vault, session=session)
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
        found = [one for one in found if one.workspace == vault.place.workspace] or found
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
        ("%Y-%m-%d %H:%M:%S", text.replace("T", " ")), ("%Y-%m-%d %H:%M", text.replace("T", " ")),
        ("%Y-%m-%d", text), ("%Y-%m-%d %H:%M", f"{today} {text}"), ("%Y-%m-%d %H:%M:%S", f"{today} {text}"),
    ):  # fmt: skip
        try:
            return time.mktime(time.strptime(value, shape)) + (86400 if shape == "%Y-%m-%d" else 1)
        except ValueError:
            continue
    raise UserError(f"'{text}' is not a time.", "Write 10m, 2h, 3d, 08:30, or 2026-11-15 08:30.")


def restore(
    app: App, *, vault: Vault, chosen: Snapshot, want: Want, dry_run: bool = False, operation: str = RESTORE
) -> Report:
    """Bring a snapshot back into its own checkout, after a snapshot of what is there now."""
    wish = Wish(
        f"before {operation} of {chosen.short}", operation="" if dry_run else operation,
        undone=chosen.sha if operation == UNDO else "", force=not dry_run,
    )  # fmt: skip
    first = snapshot(app, vault=vault, wish=wish._replace(operation="", force=False))
    target = restoring.tree_of(vault.store, chosen.sha)
    differing = restoring.changes(vault.store, restoring.tree_of(vault.store, first.sha), target, want.paths)
    if want.paths and not differing:
        _must_exist(vault, target, want.paths)
    source, sides = vault.place.source, restoring.parts_of(vault.store, chosen.sha)
    modes = rights.read_modes(vault.store, sides.modes) if want.files else None
    kinds = rights.kinds_of(vault.store, target, want.paths) if want.files else {}
    other = rights.differing_modes(source.top, kinds, modes, paths=want.paths) if modes else {}
    if dry_run:
        return Report(chosen, source.top, _shown(differing, want, other))
    # What its owner cannot read is in no snapshot: let him in before anything is overwritten.
    closed, notes = rights.open_up(source.top, kinds, source.folder)
    # Name what is about to be overwritten: also an ignored file, or a folder of them, is in the snapshot then.
    paths = [change.path for change in differing if os.path.lexists(os.path.join(source.top, change.path))]
    before = snapshot(app, vault=vault, wish=wish._replace(paths=None if closed else paths or None))
    differing = restoring.changes(vault.store, restoring.tree_of(vault.store, before.sha), target, want.paths)
    if want.refs:
        notes += restoring.put_refs(vault.store, source, sides.refs, only=want.only_refs)
    if want.settings:
        notes += restoring.put_settings(vault.store, source, sides.refs, only=want.only_settings)
    if want.files:
        made = rights.missing_folders(source.top, (change.path for change in differing))
        notes += restoring.put_files(vault.store, source.top, differing, exact=want.exact, modes=modes).notes
        if modes:
            closed |= rights.differing_modes(
                source.top, kinds, modes, paths=want.paths, made=made, opened=frozenset(closed)
            )
        notes += rights.put_modes(source.top, closed)
    if want.staged:
        put_index(vault.store, source, sides.staged)
        notes.append("index")
    return Report(chosen, source.top, _shown(differing, want, other), tuple(notes), before)


def restore_into(app: App, *, vault: Vault, chosen: Snapshot, folder: str, paths: Sequence[str] = ()) -> Report:
    """Write a snapshot's files into an empty folder, whoever they belonged to."""
    del app
    target = os.path.abspath(folder)
    if os.path.isdir(target) and os.listdir(target):
        raise UserError(f"{target} is not empty.", "Name a folder that does not exist yet.")
    os.makedirs(target, exist_ok=True)
    empty = vault.store.write_tree([])
    tree = restoring.tree_of(vault.store, chosen.sha)
    differing = restoring.changes(vault.store, empty, tree, tuple(paths))
    modes = rights.read_modes(vault.store, restoring.parts_of(vault.store, chosen.sha).modes)
    made = rights.missing_folders(target, (change.path for change in differing))
    done = restoring.put_files(vault.store, target, differing, exact=False, modes=modes)
    if modes:
        kinds = rights.kinds_of(vault.store, tree, tuple(paths))
        wanted = rights.differing_modes(target, kinds, modes, paths=tuple(paths), made=made)
        rights.put_modes(target, wanted)
    return Report(chosen, target, tuple(differing), done.notes)


def undo(app: App, *, vault: Vault, session: str = "", dry_run: bool = False) -> Report:
    """Take back the last operation of ours in this checkout, or all a session did since it started."""
    found = [one for one in listing(app, vault=vault, session=session) if one.operation]
    if not session:
        found = [one for one in found if one.workspace == vault.place.workspace]
    if not found:
        raise UserError("There is nothing to undo here.", "See what can be restored: handoff snapshots")
    chosen = found[0]
    if session:
        chosen = next((one for one in found if one.operation == "start"), chosen)
    want = Want(exact=True, staged=True, refs=True)
    return restore(
        app, vault=home_of(app, vault=vault, chosen=chosen), chosen=chosen, want=want, dry_run=dry_run, operation=UNDO
    )


def home_of(app: App, *, vault: Vault, chosen: Snapshot) -> Vault:
    """The vault of the checkout a snapshot was taken from; an error where it is gone."""
    if chosen.workspace == vault.place.workspace or chosen.top == vault.place.source.top:
        return vault
    if not os.path.lexists(os.path.join(chosen.top, ".git")):
        raise UserError(
            f"The checkout {chosen.top} is gone.",
            f"Restore it somewhere else: handoff restore {chosen.short} --into DIR",
        )
    place = Place(open_source(chosen.top), vault.place.project, chosen.workspace)
    return Vault(place, Store(place.store, app.settings.environment))


def compare(app: App, *, vault: Vault, old: str, new: str, paths: Sequence[str] = (), form: str = "") -> str:
    """The difference of two snapshots as git prints it."""
    del app
    words = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", *((form,) if form else ())]
    return vault.store.ask(*words, old, new, "--", *paths)


def _must_exist(vault: Vault, tree: str, paths: Sequence[str]) -> None:
    if not vault.store.ask("ls-tree", "-r", "-z", "--name-only", tree, "--", *paths):
        raise UserError(f"The snapshot has no {', '.join(paths)}.", "Paths are relative to the top of the checkout.")


def _shown(differing: Sequence[restoring.Change], want: Want, other: Mapping[str, int]) -> tuple[restoring.Change, ...]:
    """The changes a person is told of: files, then paths of which only the permission bits are others."""
    if not want.files:
        return ()
    written = {change.path for change in differing}
    bits = [restoring.Change("mode", path, f"{mode:04o}", "") for path, mode in other.items() if path not in written]
    return (*(change for change in differing if want.exact or change.kind != "delete"), *bits)


def _ignore_files(app: App, vault: Vault) -> list[str]:
    """The person's own lists of ignored files; git's settings are read as text, nothing is run."""
    home = app.settings.get("HOME")
    config_home = app.settings.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    found = [os.path.join(vault.place.source.common, "info", "exclude")]
    default = os.path.join(config_home, "git", "ignore")
    configs = [app.settings.get("GIT_CONFIG_GLOBAL")] if app.settings.get("GIT_CONFIG_GLOBAL") else [
        os.path.join(config_home, "git", "config"), os.path.join(home, ".gitconfig"),
    ]  # fmt: skip
    for path in configs:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        for line in lines:
            key, equals, value = line.strip().partition("=")
            if equals and key.strip().lower() == "excludesfile":
                default = os.path.expanduser(value.strip().strip('"'))
    return [*found, default]


def verify(app: App, *, vault: Vault) -> list[str]:
    """What is wrong with the store; nothing when every snapshot can be read in full."""
    del app
    return faults(vault.store) if vault.store.exists else []
