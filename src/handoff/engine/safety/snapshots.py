"""Snapshots as journeys: take one, find one, compare, restore, undo, keep house."""

from __future__ import annotations

import os
import time

from handoff.base.clock import parse_stamp
from handoff.base.errors import HandoffError, Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.app.home import find_project, settle
from handoff.git.commits.merge import made_by
from handoff.git.plumbing import Source, find_top, no_checkout, open_source, read_text
from handoff.git.plumbing.objects import Repository
from handoff.git.plumbing.snapshot_repo import MAIN, Location, SnapshotRepo, find_place
from handoff.git.plumbing.untrusted import check_clone, is_clone
from handoff.git.snapshots import parts as rights
from handoff.git.snapshots import plans
from handoff.git.snapshots import restore as restoring
from handoff.git.snapshots.restore import put_index
from handoff.git.snapshots.take import Snapshot, SnapshotRequest, faults, snapshots, take

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from handoff.engine.app import App

RESTORE, UNDO = "restore", "undo"
_SHORTEST_ID = 4


class SnapshotStore(Record):
    """A checkout with the store its snapshots go to."""

    place: Location
    store: SnapshotRepo

    @property
    def source(self) -> Source:
        return self.place.source


class RestoreRequest(Record):
    """What to bring back of a snapshot."""

    paths: tuple[str, ...] = ()
    exact: bool = False
    files: bool = True
    staged: bool = False
    refs: bool = False
    settings: bool = False
    only_refs: tuple[str, ...] = ()
    only_settings: tuple[str, ...] = ()


class RestoreReport(Record):
    """A restore: from where, to where, what would change or did, and the snapshot that undoes it."""

    snapshot: Snapshot
    target: str
    changes: tuple[restoring.TreeChange, ...]
    notes: tuple[str, ...] = ()
    before: Snapshot | None = None


def open_snapshot_store(app: App, *, folder: str = "", project: str = "") -> SnapshotStore:
    """The snapshot store of the checkout that holds `folder`, or of the one the caller stands in."""
    folder = folder or app.settings.here
    top = find_top(folder)
    if top is None:
        raise no_checkout(folder)
    if is_clone(top):
        check_clone(top, app.settings.environment)
    place = find_place(top, home=app.settings.home, project=project or app.settings.get("HANDOFF_PROJECT"))
    return SnapshotStore(place, SnapshotRepo(place.store, app.settings.environment))


def snapshot(app: App, *, snapshot_store: SnapshotStore, request: SnapshotRequest) -> Snapshot:
    """Take a snapshot of the snapshot store's checkout now."""
    if not request.session:
        request = request._replace(session=app.settings.get("HANDOFF_SESSION"))
    store, place = snapshot_store.store, snapshot_store.place
    if not os.path.isdir(place.store):  # the first: a checkout that is moved later is to find it again
        settle(app, find_project(app, workspace=place.source.top))
    ignore_files = _ignore_files(app, place.source)

    def taken() -> Snapshot:
        return take(
            store, place.source, place.workspace, request, now=app.clock.now(), ignore_files=ignore_files, told=app.tell
        )

    if request != SnapshotRequest(reason=request.reason):
        return taken()
    # Only to keep what is there now: one that begins after we asked holds that too, whoever takes it and why.
    kept: Snapshot = app.once(f"{place.store}\0{place.workspace}", taken)
    return kept


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
        raise UserError(f"There is no snapshot {what}.", "See: handoff snapshot list. Take one: handoff snapshot")
    if name and name not in ("last", "latest"):
        matching = [one for one in found if len(name) >= _SHORTEST_ID and one.sha.startswith(name)]
        if len(matching) != 1:
            many = "more than one snapshot" if matching else "no snapshot"
            raise UserError(f"'{name}' means {many}.", "See the ids with: handoff snapshot list")
        return matching[0]
    if not session:
        found = [one for one in found if one.workspace == snapshot_store.place.workspace] or found
    if at:
        moment = parse_moment(at, now=app.clock.now())
        found = [one for one in found if one.time <= moment]
        if not found:
            raise UserError(f"There is no snapshot from before {at}.", "See: handoff snapshot list")
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
    app: App, *, snapshot_store: SnapshotStore, chosen: Snapshot, want: RestoreRequest, dry_run: bool = False
) -> RestoreReport:
    """Bring a snapshot back into its own checkout, after a snapshot of what is there now."""
    store, source = snapshot_store.store, snapshot_store.source
    target, sides = restoring.tree_of(store, chosen.sha), restoring.parts_of(store, chosen.sha)
    modes = plans.modes_of(store, sides) if want.files else None
    kinds = rights.kinds_of(store, target, want.paths) if want.files else {}
    moves = plans.plan_refs(store, source, sides.refs, only=want.only_refs) if want.refs else plans.RestorePlan()
    settings = plans.plan_settings(store, source, sides.refs, only=want.only_settings) if want.settings else ()

    def plan(tree: str, staged: str, closed: Mapping[str, int] | None) -> plans.RestorePlan:
        differing = restoring.changes(store, tree, target, want.paths)
        if want.paths and not differing and not store.ask("ls-tree", "-rz", target, "--", *want.paths):
            missing = ", ".join(want.paths)
            raise UserError(f"The snapshot has no {missing}.", "Paths are relative to the top of the checkout.")
        opened = closed or {}
        other = rights.differing_modes(source.top, kinds, modes, paths=want.paths, opened=opened) if modes else {}
        return moves._replace(
            files=plans.wanted_changes(differing, exact=want.exact) if want.files else (),
            kinds=kinds,
            modes=modes,
            within=want.paths,
            bits=plans.plan_bits(source.top, other, opened),
            staged=sides.staged if want.staged and sides.staged != staged else "",
            settings=settings,
        )

    request = SnapshotRequest(reason=f"before {RESTORE} of {chosen.short}", operation=RESTORE, force=True)
    return carry_out(app, snapshot_store, chosen, request, plan, dry_run=dry_run)


def carry_out(
    app: App,
    snapshot_store: SnapshotStore,
    chosen: Snapshot,
    request: SnapshotRequest,
    plan: Callable[[str, str, Mapping[str, int] | None], plans.RestorePlan],
    *,
    dry_run: bool,
) -> RestoreReport:
    """Do what is planned for the checkout as it is; the plan is written down with a snapshot before the first change.

    `plan` is asked with tree and index as found and the rights that were opened; at first, with None, for the names alone.
    """
    store, source = snapshot_store.store, snapshot_store.source
    look = request._replace(operation="", undone="", force=False)
    now = snapshot(app, snapshot_store=snapshot_store, request=look)
    draft = plan(restoring.tree_of(store, now.sha), restoring.parts_of(store, now.sha).staged, None)
    # Name what is about to be overwritten: also an ignored file, or a folder of them, is in the snapshot then.
    paths = [change.path for change in draft.files]
    named = [path for path in paths if os.path.lexists(os.path.join(source.top, path))]
    if dry_run:
        if named:
            now = snapshot(app, snapshot_store=snapshot_store, request=look._replace(paths=named))
        planned = plan(restoring.tree_of(store, now.sha), restoring.parts_of(store, now.sha).staged, {})
        return RestoreReport(chosen, source.top, planned.shown, planned.words)
    # What its owner cannot read is in no snapshot: let him in before anything is overwritten.
    above = {path[:at] for path in paths for at in range(len(path)) if path[at] == "/"}
    closed, notes = rights.open_up(source.top, {*paths, *above, *draft.kinds}, source.folder)
    found: list[plans.RestorePlan] = []

    def then(tree: str, staged: str) -> str:
        found.append(plan(tree, staged, closed))
        return plans.write_down(store, found[-1], tree, closed, chosen.sha)

    request = request._replace(paths=None if closed else named or None, then=then)
    try:
        before = snapshot(app, snapshot_store=snapshot_store, request=request)
    except HandoffError:
        rights.put_modes(source.top, closed)
        raise
    notes += _apply(
        app, snapshot_store, chosen, found[-1], closed, message=f"handoff {request.operation} of {chosen.short}"
    )
    return RestoreReport(chosen, source.top, found[-1].shown, (*found[-1].words, *notes), before)


def _apply(
    app: App,
    snapshot_store: SnapshotStore,
    chosen: Snapshot,
    plan: plans.RestorePlan,
    closed: Mapping[str, int],
    *,
    message: str,
) -> list[str]:
    store, source = snapshot_store.store, snapshot_store.source
    if plan.refs or plan.logs:
        commit = restoring.parts_of(store, chosen.sha).refs
        restoring.put_refs(store, source, commit, plan.refs, plan.logs, message=message)
    restoring.put_settings(store, source, plan.settings)
    made = rights.missing_folders(source.top, (change.path for change in plan.files))
    notes = restoring.put_files(store, source.top, plan.files, modes=plan.modes, told=app.tell)
    bits = {**closed, **{name: new for name, (_, new) in plan.bits.items()}}
    if plan.modes:
        files = {change.path for change in plan.files}
        kinds = {name: kind for name, kind in plan.kinds.items() if name in made or name in files or name in closed}
        bits |= rights.differing_modes(source.top, kinds, plan.modes, paths=plan.within, made=made, opened=closed)
    notes += rights.put_modes(source.top, bits)
    if plan.staged:
        put_index(store, source, plan.staged)
    return notes


def restore_into(
    app: App, *, snapshot_store: SnapshotStore, chosen: Snapshot, folder: str, paths: Sequence[str] = ()
) -> RestoreReport:
    """Write a snapshot's files into an empty folder, whoever they belonged to."""
    store, target = snapshot_store.store, os.path.abspath(folder)
    if os.path.isdir(target) and os.listdir(target):
        raise UserError(f"{target} is not empty.", "Name a folder that does not exist yet.")
    os.makedirs(target, exist_ok=True)
    differing = restoring.changes(store, store.graft("", {}), chosen.sha, tuple(paths))
    modes = plans.modes_of(store, restoring.parts_of(store, chosen.sha))
    made = rights.missing_folders(target, (change.path for change in differing))
    notes = restoring.put_files(store, target, differing, modes=modes, told=app.tell)
    if modes:
        kinds = rights.kinds_of(store, chosen.sha, tuple(paths))
        rights.put_modes(target, rights.differing_modes(target, kinds, modes, paths=tuple(paths), made=made))
    return RestoreReport(chosen, target, tuple(differing), tuple(notes))


def home_of(app: App, *, snapshot_store: SnapshotStore, chosen: Snapshot) -> SnapshotStore:
    """The snapshot store of the checkout a snapshot was taken from; an error where it is gone."""
    if chosen.workspace == snapshot_store.place.workspace or chosen.top == snapshot_store.source.top:
        return snapshot_store
    if not os.path.lexists(os.path.join(chosen.top, ".git")):
        raise UserError(
            f"The checkout {chosen.top} is gone.",
            f"Restore it somewhere else: handoff snapshot restore {chosen.short} --into DIR",
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


# Undo of one restore, one undo or one session's changes: that alone, and only where nothing was built on it.


_SHOWN = 5


def undo_restore(app: App, *, snapshot_store: SnapshotStore, chosen: Snapshot, dry_run: bool = False) -> RestoreReport:
    """Take back the restore (or undo) that `chosen` was taken before."""
    sides = restoring.parts_of(snapshot_store.store, chosen.sha)
    if not sides.then:
        raise Refused(
            f"An older handoff made the snapshot {chosen.short} and did not note what it changed next.",
            f"See what differs, then bring back what you want: handoff snapshot restore {chosen.short} --dry-run",
        )
    done = plans.read_done(snapshot_store.store, sides.then)
    return _take_back(app, snapshot_store, chosen, done, dry_run=dry_run)


def undo_session(
    app: App,
    *,
    snapshot_store: SnapshotStore,
    session: str,
    owned: Callable[[str], bool] | None = None,
    dry_run: bool = False,
) -> RestoreReport:
    """Take back what a session changed between its first and its last snapshot, within what it owned."""
    found = listing(app, snapshot_store=snapshot_store, session=session)
    started = next((one for one in found if one.operation == "start"), None)
    if started is None:
        raise UserError(
            f"There is no snapshot from the start of session '{session}'.",
            f"See what there is: handoff snapshot list --session {session}",
        )
    home = home_of(app, snapshot_store=snapshot_store, chosen=started)
    last = next((one for one in found if one.workspace == started.workspace and one.time > started.time), None)
    last = last or keep(app, home, f"the end of {session}")
    store = home.store
    first, end = restoring.parts_of(store, started.sha), restoring.parts_of(store, last.sha)
    tree = restoring.tree_of(store, last.sha)
    moves = plans.steps_between(store, first.refs, end.refs)
    if started.workspace == MAIN:
        _refuse_foreign(app, home, session, moves)
    done = plans.DoneOperation(tree=tree, staged=end.staged if owned is None else "", refs=moves)
    return _take_back(app, home, started, done, owned=owned, dry_run=dry_run)


def _refuse_foreign(
    app: App, snapshot_store: SnapshotStore, session: str, moves: tuple[restoring.GitStep, ...]
) -> None:
    """In a checkout others work in too, a branch goes back over the session's own commits alone."""
    repo = Repository(snapshot_store.source.top, app.git_environment)
    for one in moves:
        listed = repo.git("log", "--format=%H %h %s", f"{one.old}..{one.new}", "--").text.splitlines()
        foreign = [line.partition(" ")[2] for line in listed if made_by(repo, line[: len(one.new)]) != session]
        if foreign or not listed:
            named = "; ".join(foreign[:_SHOWN]) or f"{one.old[:10]} is no longer its past"
            raise Refused(
                f"{one.name} holds what session '{session}' did not commit: {named}. Nothing was changed.",
                "Take back its commits one by one: git revert COMMIT",
            )


def _take_back(
    app: App,
    snapshot_store: SnapshotStore,
    chosen: Snapshot,
    done: plans.DoneOperation,
    *,
    dry_run: bool,
    owned: Callable[[str], bool] | None = None,
) -> RestoreReport:
    store, source = snapshot_store.store, snapshot_store.source
    sides, before = restoring.parts_of(store, chosen.sha), restoring.tree_of(store, chosen.sha)
    if owned is not None:
        before = plans.only_of(store, done.tree, before, owned)

    def plan(tree: str, staged: str, closed: Mapping[str, int] | None) -> plans.RestorePlan:
        found = plans.plan_undo(store, source, sides, before, done, (tree, staged), closed=closed)
        if found.is_empty and closed is not None:
            raise UserError(
                f"Everything is as it was before: nothing is left to take back ({chosen.reason}).",
                "See the others: handoff undo --list",
            )
        return found

    request = SnapshotRequest(reason=f"before {UNDO} of {chosen.short}", operation=UNDO, undone=chosen.sha, force=True)
    return carry_out(app, snapshot_store, chosen, request, plan, dry_run=dry_run)
