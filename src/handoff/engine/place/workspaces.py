"""Workspaces as journeys: make one, list them, remove one without loss, keep house."""

from __future__ import annotations

import os
from contextlib import suppress

from handoff.base.errors import ConfigError, HandoffError, Refused, UserError
from handoff.base.files import remove, remove_tree
from handoff.base.ids import check_id, on_one_line
from handoff.base.markdown import number_of, shell_line
from handoff.base.process import start_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.commands import check_environment
from handoff.engine.app.home import home_config
from handoff.engine.place.proof.evidence import check_bounded
from handoff.engine.place.proof.sandboxes import sandbox_of_workspace
from handoff.engine.safety import incidents
from handoff.engine.safety.snapshots import RestoreRequest, SnapshotStore, keep, open_snapshot_store, restore
from handoff.git.obeyed import INCLUDE, Trust, kept_back
from handoff.git.plumbing import open_source, untrusted
from handoff.git.plumbing.snapshot_repo import MAIN, Location, SnapshotRepo
from handoff.git.plumbing.untrusted import beside, check_clone
from handoff.git.snapshots import restore as restoring
from handoff.git.snapshots import take
from handoff.git.snapshots.take import Snapshot, holds_head, snapshots
from handoff.git.tampering import DIRTY_BASE
from handoff.git.workspaces import (
    CLONE,
    DIRTY,
    GIT_SETTINGS,
    MAKING,
    READY,
    REMOVING,
    REVIVING,
    SHARED,
    TEMP,
    Freshness,
    Workspace,
    WorkspaceRequest,
    all_workspaces,
    freshness,
    get_workspace,
    inner_work,
    read_copy,
    read_workspace,
    reserve,
    resolve,
    write_workspace,
)
from handoff.git.workspaces.dependencies import copy_included
from handoff.git.workspaces.kinds import Cloned, LentHistory, drop_unused, first_copy_bytes, isolation
from handoff.git.workspaces.scratch import drop_slot, idle_slots

if TYPE_CHECKING:
    from collections.abc import Collection

    from handoff.engine.app import App

_LEFTOVER_FILES, _LEFTOVER_BYTES = 5000, 200 * 1024**2
_SLOT_SECONDS = 86400.0
_SETUP_SECONDS = 1800.0
_MEGABYTE, _WORTH_SAYING = 1024**2, 50
_SHOWN = 5
_COMMAND = "command:"
_CARRIES = ("untracked", "tracked")
BY_HAND = "removal"  # what a person asked for, and may want to take back


class NewWorkspace(Record):
    """A new workspace and what was brought into it."""

    workspace: Workspace
    copied: tuple[str, ...]
    setup: str = ""
    alone: bool = False
    """Whether it sees one commit alone, because the rest of the history is not on this machine."""


class Row(Record):
    """One workspace in a list."""

    workspace: Workspace
    fresh: Freshness
    there: bool


class Tidy(Record):
    """What keeping house would remove: snapshots, workspaces nobody finished or needs any more, unused scratch trees."""

    snapshots: tuple[Snapshot, ...]
    workspaces: tuple[Workspace, ...]
    size: int
    scratch: tuple[str, ...] = ()
    stay: tuple[str, ...] = ()
    """Why some workspaces stay though nobody needs them any more."""


def add_workspace(
    app: App,
    *,
    order: WorkspaceRequest,
    snapshot_store: SnapshotStore | None = None,
    setup: str = "",
) -> NewWorkspace:
    """Make a workspace from a branch, a commit or the person's dirty tree; their index and stash stay as they are."""
    snapshot_store = snapshot_store or open_snapshot_store(app)
    if snapshot_store.place.workspace != MAIN and read_workspace(os.path.dirname(snapshot_store.place.source.top)):
        raise UserError(
            "This folder is a workspace itself.",
            "Make workspaces from your own checkout: handoff -C YOUR_CHECKOUT workspace add …",
        )
    place, store = snapshot_store
    commit, name = ("", DIRTY) if order.base == DIRTY else _resolve_first(snapshot_store, order.base)
    if order.kind == CLONE:
        store.create(place.source.common)
        app.tell("Copying the history for clones, once", 0, 0)
        Cloned(app.git_environment).warm(place, store)
    now = None
    if order.base == DIRTY or order.kind == SHARED or not holds_head(store, place.workspace, commit):
        # Then the store owns all objects. Else it has them, and the look at the end keeps how everything is.
        now = keep(app, snapshot_store, f"before the workspace {order.name}")
    base = _dirty_base(app, snapshot_store, now, order.name) if now and order.base == DIRTY else commit
    workspace = reserve(app.settings.home, place, order, base=(base, name), now=app.clock.now())
    try:
        app.tell(f"Making the workspace {order.name}", 0, 0)
        tree = isolation(workspace.kind, app.git_environment).make(place, store, workspace)
        copied = () if order.kind == SHARED else tuple(copy_included(place, store, workspace.tree))
        if order.kind != SHARED:
            own, session = snapshot_store_of(app, workspace=workspace), order.session or order.name
            keep(app, own, "start", session=session, operation="start", checked_out="" if copied else tree)
        workspace = workspace._replace(state=READY, included=copied)
        write_workspace(workspace)
    except BaseException:  # also a person's Ctrl-C: nobody has worked there yet
        _discard(app, snapshot_store, workspace)
        raise
    if order.kind != SHARED:
        incidents.look(app)  # from now on somebody is at work here: how everything is before they begin
        if INCLUDE in Trust(place.project).differing(place.source.top):
            app.notes.append(
                f"A session changed {INCLUDE}: your own version of it counts. If you want theirs, commit a change to it yourself."
            )
    said = _set_up(app, workspace, setup) if setup else ""
    cut = order.kind == CLONE and os.path.exists(os.path.join(workspace.tree, ".git", "shallow"))
    return NewWorkspace(
        workspace, copied, said, cut and not os.path.exists(os.path.join(place.source.common, "shallow"))
    )


def session_of_command(app: App) -> str:
    """Whose a workspace is that a command makes for itself: it is needed as long as this process lives."""
    return f"{_COMMAND}{os.getpid()}:{start_of(os.getpid())}:{app.settings.host}"


def abandoned_workspaces(app: App, project: str) -> list[str]:
    """Workspaces of commands that were killed before they could remove them; of another machine nobody here can say that."""
    found = []
    for one in all_workspaces(project):
        pid, _, rest = one.session.removeprefix(_COMMAND).partition(":")
        start, _, host = rest.partition(":")
        mine = one.session.startswith(_COMMAND) and host == app.settings.host and pid.isdigit()
        if mine and start_of(int(pid)) != start:
            found.append(one.name)
    return found


def revive_workspace(app: App, *, name: str, snapshot_store: SnapshotStore | None = None) -> Workspace:
    """Make a workspace that vanished from the disk again, as its last snapshot has it: files, index, branches."""
    snapshot_store = snapshot_store or open_snapshot_store(app)
    workspace = read_workspace(os.path.join(snapshot_store.place.project, "workspaces", check_id(name, "workspace")))
    workspace = workspace or read_copy(snapshot_store.place.project, name)
    if workspace is None or workspace.kind == SHARED:
        raise UserError(f"Nothing is known of a workspace '{name}'.", "See: handoff snapshot list")
    if os.path.lexists(workspace.tree):
        raise UserError(f"{workspace.tree} is there.", "Move it away first if it is not what it should be.")
    found = snapshots(snapshot_store.store, name)
    if not found:
        raise UserError(f"There is no snapshot of '{name}'.", f"Make it anew: handoff workspace add {name}")
    workspace = workspace._replace(state=REVIVING)
    write_workspace(workspace)
    isolation(workspace.kind, app.git_environment).make(snapshot_store.place, snapshot_store.store, workspace)
    # A worktree's branch lives in the person's repository: it did not vanish.
    want = RestoreRequest(exact=True, staged=True, refs=workspace.kind == CLONE)
    restore(app, snapshot_store=snapshot_store_of(app, workspace=workspace), chosen=found[0], want=want)
    workspace = workspace._replace(state=READY)
    write_workspace(workspace)
    return workspace


def _resolve_first(snapshot_store: SnapshotStore, base: str) -> tuple[str, str]:
    snapshot_store.store.create(snapshot_store.place.source.common)
    return resolve(snapshot_store.place, snapshot_store.store, base)


def commit_of_now(app: App, *, snapshot_store: SnapshotStore, name: str, dirty: bool) -> str:
    """The person's checkout as it is now as a commit of the store: HEAD, or their dirty tree on top of it."""
    commit, _ = _resolve_first(snapshot_store, "")
    Cloned(app.git_environment).warm(*snapshot_store)
    now = keep(app, snapshot_store, f"before the workspace {name}")  # the store owns all objects now
    return _dirty_base(app, snapshot_store, now, name) if dirty else commit


def _dirty_base(app: App, snapshot_store: SnapshotStore, now: Snapshot, name: str) -> str:
    """The person's working tree as a commit on top of HEAD, in the store alone."""
    config = home_config(app)
    carry = config.text("carry")
    if carry not in _CARRIES:
        raise ConfigError(
            f"{config.path}: carry must be {' or '.join(_CARRIES)}, not '{carry}'.", 'For example: carry = "tracked"'
        )
    tree = restoring.tree_of(snapshot_store.store, now.sha)
    place, store = snapshot_store
    back = kept_back(store, place.source, Trust(place.project), tracked=carry == _CARRIES[1])
    left_out = (*now.reserved, *back)
    if left_out:  # git would refuse to lay them out, or they are not for sessions
        gone = dict.fromkeys(os.fsencode(name) for name in left_out)
        tree = snapshot_store.store.graft(snapshot_store.store.load(tree, gone), gone)
    parents = [now.head] if now.head else []
    message = f"{DIRTY_BASE}{name} began\n"
    return snapshot_store.store.write_commit(tree, parents, message, moment=int(now.time))


def _set_up(app: App, workspace: Workspace, command: str) -> str:
    """Run the person's command in a new workspace, behind the sandbox: what it reads there (`npm ci`, `make setup`) sessions may have written."""
    sandbox = sandbox_of_workspace(app, workspace=workspace, caches=home_config(app).texts("session_caches"))
    environment = {**check_environment(app.settings.environment), **workspace.environment()}
    done = check_bounded(
        app, command, folder=workspace.tree, environment=environment, timeout=_SETUP_SECONDS, wrap=sandbox.wrap
    )
    if not done.green:
        raise UserError(
            f"The setup command is {done.word} in {workspace.tree}:\n{done.tail}",
            f"The workspace is there. Fix the command, or: {app.settings.program} workspace remove {workspace.name}. It runs inside"
            " the sandbox: `session_caches`, `session_files` and `session_variables` in config.toml of the home say what it may use there.",
        )
    return done.tail


def list_workspaces(app: App, *, snapshot_store: SnapshotStore | None = None) -> list[Row]:
    """Every workspace of the project with how old its base is."""
    snapshot_store = snapshot_store or open_snapshot_store(app)
    return [
        Row(one, freshness(snapshot_store.place, snapshot_store.store, one), os.path.isdir(one.tree))
        for one in all_workspaces(snapshot_store.place.project)
    ]


def snapshot_store_of(app: App, *, workspace: Workspace) -> SnapshotStore:
    """The snapshot store of a workspace's own checkout."""
    name = MAIN if workspace.kind == SHARED else workspace.name
    if workspace.kind == CLONE:
        check_clone(workspace.tree, app.settings.environment)
    place = Location(open_source(workspace.tree), workspace.project, name)
    return SnapshotStore(place, SnapshotRepo(place.store, app.settings.environment))


def remove_workspace(
    app: App,
    *,
    name: str,
    snapshot_store: SnapshotStore | None = None,
    force: bool = False,
    why: str = "clean-up",
    accept: bool = True,
) -> Workspace:
    """Remove a workspace; everything in it is in a snapshot first, or it stays. Without `accept` the caller says that it was us."""
    snapshot_store = snapshot_store or open_snapshot_store(app)
    workspace = get_workspace(snapshot_store.place.project, name)
    if workspace.kind != SHARED and os.path.isdir(workspace.tree) and workspace.state != MAKING:
        kept = _last_snapshot(app, workspace, force=force, why=why)
        workspace = workspace._replace(snapshot=kept.sha if kept else "")
    write_workspace(workspace._replace(state=REMOVING))
    _discard(app, snapshot_store, workspace)
    if accept:
        incidents.accept(app, folder=snapshot_store.place.source.top)
    return workspace


def _last_snapshot(app: App, workspace: Workspace, *, force: bool, why: str) -> Snapshot | None:
    why, who = f"before the {why} of {workspace.name}", workspace.session or workspace.name
    try:
        own = snapshot_store_of(app, workspace=workspace)
        kept = keep(app, own, why, session=who, operation="remove", ignored=_few_leftovers(own))
    except HandoffError:
        if force:
            return None
        raise
    inner = inner_work(own.store, workspace, kept.sha)
    if force and (lost := [*kept.unread, *(one.words for one in inner)]):
        app.notes.append(f"Not kept, and gone with it: {', '.join(map(on_one_line, lost[:_SHOWN]))}")
    if kept.unread and not force:
        raise Refused(
            f"{number_of(len(kept.unread), 'file')} of {workspace.tree} could not be kept: {', '.join(map(on_one_line, kept.unread[:_SHOWN]))}",
            f"Look at them; then: handoff workspace remove {workspace.name} --force",
        )
    if inner and not force:
        fetch = on_one_line(shell_line(["git", "fetch", os.path.join(workspace.tree, inner[0].path), "HEAD"]))
        raise Refused(
            f"A repository inside {workspace.name} holds work that no snapshot holds: {', '.join(on_one_line(one.words) for one in inner[:_SHOWN])}",
            f"Commit it there, then fetch it ({fetch}) or push it. Or let it go:"
            f" handoff workspace remove {workspace.name} --force",
        )
    return kept


def _few_leftovers(snapshot_store: SnapshotStore) -> bool:
    """Whether the ignored files are few and small enough to be kept with the rest."""
    source = snapshot_store.place.source
    listed = snapshot_store.store.look(source, "ls-files", "-z", "-o", "-i", "--exclude-standard").text.split("\0")
    if len(listed) > _LEFTOVER_FILES:
        return False
    total = 0
    for name in listed:
        path = os.path.join(source.top, name)
        if name and os.path.isfile(path) and not os.path.islink(path):
            total += os.path.getsize(path)
    return total <= _LEFTOVER_BYTES


def _discard(app: App, snapshot_store: SnapshotStore, workspace: Workspace) -> None:
    isolation(workspace.kind, app.git_environment).discard(snapshot_store.place, snapshot_store.store, workspace)
    for name in ("workspace.json", GIT_SETTINGS):
        remove(os.path.join(workspace.folder, name))
    if os.path.lexists(temp := os.path.join(workspace.folder, TEMP)):
        remove_tree(temp)
    with suppress(OSError):  # somebody put something there: it stays
        os.rmdir(workspace.folder)


def tidy(
    app: App,
    *,
    rules: take.RetentionRules,
    snapshot_store: SnapshotStore | None = None,
    over: Collection[str] = (),
    apply: bool = False,
) -> Tidy:
    """Find (and on request remove) snapshots past their time and workspaces nobody finished making, or that are `over`.

    All that a workspace holds is in a snapshot before it goes, or it stays.
    """
    snapshot_store = snapshot_store or open_snapshot_store(app)
    found = snapshots(snapshot_store.store)
    going = take.expendable(found, rules, now=app.clock.now())
    old = app.clock.now() - take.HOUR  # a younger one may be in the making right now
    over = {*over, *abandoned_workspaces(app, snapshot_store.place.project)}
    dead = [
        one
        for one in all_workspaces(snapshot_store.place.project)
        if one.name in over or (one.state != READY and one.created < old)
    ]
    unused = idle_slots(os.path.join(snapshot_store.place.project, "checks"), before=app.clock.now() - _SLOT_SECONDS)
    size = take.size_of(snapshot_store.store) if snapshot_store.store.exists else 0
    result = Tidy(tuple(going), tuple(dead), size, tuple(unused))
    if not apply:
        return result
    for one in all_workspaces(snapshot_store.place.project):
        if one.state == READY and one.kind != SHARED and os.path.isdir(one.tree):
            with suppress(HandoffError):  # one that cannot be read now must not stop the rest; its snapshots stay
                keep(app, snapshot_store_of(app, workspace=one), "before keeping house")
    kept = []
    for one in dead:
        try:
            remove_workspace(app, name=one.name, snapshot_store=snapshot_store)
        except Refused as error:
            kept.append(one)
            result = result._replace(stay=(*result.stay, f"{error} {error.hint}"))
    result = result._replace(workspaces=tuple(one for one in dead if one not in kept))
    for folder in unused:
        drop_slot(folder)
    if snapshot_store.store.exists:
        project = snapshot_store.place.project
        borrowed = (untrusted.kept(beside(one.folder)) or {} for one in all_workspaces(project))
        lent = (LentHistory(os.path.dirname(one.get("objects/info/alternates", "").strip())) for one in borrowed)
        used = [place for one in lent for place in one.places]
        drop_unused(project, snapshot_store.store, used, now=app.clock.now())
        take.drop(snapshot_store.store, going)
        too_much = take.size_of(snapshot_store.store) - rules.size
        while too_much > 0 and (rest := take.oldest(snapshots(snapshot_store.store), rules)):
            take.drop(snapshot_store.store, rest)
            going += rest
            too_much = take.size_of(snapshot_store.store) - rules.size
    return result._replace(snapshots=tuple(going))


def words_of_first_copy(app: App) -> str:
    """What a person should know before a long wait: that a large history is copied once."""
    size = first_copy_bytes(open_snapshot_store(app).place) // _MEGABYTE
    return f"Copying the history that clones read (up to {size} MB), this once …" if size >= _WORTH_SAYING else ""


def workspace_of(app: App, *, name: str) -> Workspace:
    """The workspace of that name in this project."""
    return get_workspace(open_snapshot_store(app).place.project, name)
