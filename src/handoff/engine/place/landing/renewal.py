"""A task that a person lets try again goes on upon what they have now: its clone is made anew there, with its work laid on top.

What is carried over is a commit in the snapshot store before the old clone goes, under a ref that goes last: whoever is killed
in between finds it, and the work is neither lost nor laid on twice.
"""

from __future__ import annotations

import os

from handoff.base.errors import HandoffError
from handoff.base.ids import on_one_line
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.engine.place import brought_home, pulse, workspaces
from handoff.engine.place.landing.members import member_of
from handoff.engine.place.landing.resolvers import resolvers_of
from handoff.git.landing.merge import merge
from handoff.git.plumbing import read_text
from handoff.git.plumbing.refs import head, packed_value
from handoff.git.snapshots.restore import changes, give_objects, put_files, tree_of
from handoff.git.workspaces.workspaces import READY, read_workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.workspaces.workspaces import Workspace

_CARRIED = "refs/handoff/carried/"
_REPLACED = (" (made by the check)", " (came from .worktreeinclude)")
"""What a new clone gets by itself, or does without."""
_SHOWN = 5


class Renewal(Record):
    """What the next clone of a task begins with: where, for which branch, and the commit that holds the work on top of it."""

    start: str
    target: str
    carried: str


def is_wanted(app: App, task: Task, workspace: Workspace) -> bool:
    """Whether a person has let the task try again since the session that the clone was last for took it, and that one is over."""
    if any(one.session == workspace.session for one in pulse.listing(app)):
        return False  # nobody's folder is taken away from under them
    for event in reversed(journal.of_task(app.database, key=task.key)):
        if event.kind == "task.retried":
            return True
        if event.kind == "task.claimed" and event.session == workspace.session:
            return False
    return False


def pending(snapshot_store: SnapshotStore, name: str) -> Renewal | None:
    """The renewal somebody began and did not finish."""
    store = snapshot_store.store
    carried = read_text(os.path.join(store.path, _CARRIED + name)).strip() or packed_value(store.path, _CARRIED + name)
    if not carried:
        return None
    start, _, target = store.ask("log", "-1", "--format=%P%n%s", carried).strip().partition("\n")
    return Renewal(start=start, target=target, carried=carried)


def begin(app: App, snapshot_store: SnapshotStore, task: Task, workspace: Workspace, *, start: str) -> Renewal | None:
    """Lay the clone's work upon `start`, and let the clone go; None where it stays as it is, and why is said."""
    store = snapshot_store.store
    member = member_of(app, snapshot_store=snapshot_store, workspace=workspace)
    held = [line for line in member.left_out if not line.endswith(_REPLACED) and not _is_as_brought(workspace, line)]
    if tree_of(store, start) == tree_of(store, workspace.base):
        return None
    ways = resolvers_of(app, snapshot_store, head(snapshot_store.place.source).commit, rules=bool(task.check_command))
    joined = merge(store, start, [member], moment=0, ways=ways)
    branch = workspace.target.removeprefix("refs/heads/") or "your checkout"
    if held or joined.conflicts:
        met = f"meets {branch} as it is now in {_listed([one.path for one in joined.conflicts])}"
        why = f"has what would stay behind: {_listed(held)}" if held else met
        app.notes.append(f"'{task.label}' goes on where it was, not upon {branch} as it is now: its clone {why}.")
        return None
    carried = store.write_commit(tree_of(store, joined.new), [start], f"{workspace.target}\n", moment=0)
    give_objects(store, snapshot_store.place.source, [start])
    store.point(_CARRIED + workspace.name, carried)
    found = Renewal(start=start, target=workspace.target, carried=carried)
    if not clear(app, snapshot_store, workspace):
        return None
    with app.database.transaction() as transaction:
        paths = sorted(member.paths)
        journal.append(
            transaction, "task.clone_renewed", task=task, session=workspace.session, start=start, files=paths
        )
    work = f", with its work so far ({number_of(len(member.paths), 'file')})" if member.paths else ""
    app.notes.append(f"'{task.label}' goes on upon {branch} as it is now{work}.")
    return found


def clear(app: App, snapshot_store: SnapshotStore, workspace: Workspace) -> bool:
    """Remove the clone whose work is carried over; one that holds what no snapshot holds stays, and nothing is carried."""
    try:
        workspaces.remove_workspace(app, name=workspace.name, snapshot_store=snapshot_store, why="new beginning")
    except HandoffError as error:
        left = read_workspace(workspace.folder)
        if left is None or left.state != READY:
            raise
        app.notes.append(f"{error} So {workspace.name} goes on where it was.")
        _forget(snapshot_store, workspace.name)
        return False
    return True


def finish(snapshot_store: SnapshotStore, workspace: Workspace, renewal: Renewal) -> None:
    """Put the work into the new clone's files; done twice it is the same."""
    store = snapshot_store.store
    put_files(store, workspace.tree, changes(store, renewal.start, renewal.carried))
    _forget(snapshot_store, workspace.name)


def _forget(snapshot_store: SnapshotStore, name: str) -> None:
    snapshot_store.store.ask("update-ref", "-d", _CARRIED + name)


def _listed(words: Sequence[str]) -> str:
    return ", ".join(map(on_one_line, words[:_SHOWN])) + (" …" if len(words) > _SHOWN else "")


def _is_as_brought(workspace: Workspace, line: str) -> bool:
    """Whether a file that is no part of the work is a document as the session was given it."""
    return brought_home.is_as_brought(workspace, line.rpartition(" (")[0])
