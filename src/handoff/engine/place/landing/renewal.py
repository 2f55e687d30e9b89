"""Work that begins anew on the branch as it is now: the task a person lets try again, and the part whose conflict is too large for a
fan-in session.

A clone that is made anew has its work laid on top. What is carried over is a commit in the snapshot store before the old clone goes, under a
ref that goes last: whoever is killed in between finds it, and the work is neither lost nor laid on twice.
"""

from __future__ import annotations

import os
from contextlib import suppress

from handoff.base import files
from handoff.base.errors import HandoffError, Refused
from handoff.base.files import make_folder, remove, write_atomic
from handoff.base.ids import on_one_line
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.board.tasks import races
from handoff.engine.place import brought_home, pulse, workspaces
from handoff.engine.place.landing.conflict import FOLDER, put
from handoff.engine.place.landing.members import member_of
from handoff.engine.place.landing.resolvers import resolvers_of
from handoff.git.landing.merge import THE_TARGET, merge
from handoff.git.plumbing import read_text
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.refs import head, packed_value
from handoff.git.snapshots.restore import changes, give_objects, put_files, tree_of
from handoff.git.workspaces import READY, read_workspace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.landing.conflicts import LaidOut
    from handoff.git.workspaces import Workspace

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


def _listed(words: Sequence[str], limit: int = _SHOWN) -> str:
    return ", ".join(map(on_one_line, words[:limit])) + (" …" if len(words) > limit else "")


def _is_as_brought(workspace: Workspace, line: str) -> bool:
    """Whether a file that is no part of the work is a document as the session was given it."""
    return brought_home.is_as_brought(workspace, line.rpartition(" (")[0])


# --- a part made again by a session of its own ----------------------------------------------------------------------------


BEFORE = f"{FOLDER}/before.diff"
_TIMES = 2
"""So often a part is made again for this; then a person is asked."""
_OUTGROWN = "Too much of it meets what came on the branch meanwhile"
_PATHS_SHOWN = 10


class MadeAgain(Refused):
    """A fan-in cannot begin: these parts, by their keys, are to be made again first, and are told why."""

    def __init__(self, task: Task, told: dict[int, str]) -> None:
        super().__init__(
            f"'{task.label}' waits: what meets the branch in too many lines is made again on the branch as it is now.",
            "It goes on by itself when that is done; nothing is lost.",
        )
        self.told = told


def refuse_outgrown(app: App, task: Task, parts: Mapping[str, Task], laid: LaidOut) -> None:
    """Say which parts are to be made again, if that would help."""
    later = [parts[name] for name in dict.fromkeys(one.second for one in laid.files) if name in parts]
    if any(one.first != THE_TARGET for one in laid.files) or any(races.facts_of(part) for part in later):
        return  # two parts in each other's way, or a race that is decided
    if not later or any(_times(app, part) >= _TIMES for part in later):
        return  # the branch moves again and again
    names = {part.key: name for name, part in parts.items()}
    raise MadeAgain(task, {part.key: _words(laid, names[part.key]) for part in later})


def _words(laid: LaidOut, name: str) -> str:
    mine = [one for one in laid.files if one.second == name]
    paths = _listed([one.path for one in mine], _PATHS_SHOWN)
    size = f"{number_of(sum(one.lines for one in mine), 'line')} in {number_of(len(mine), 'file')}"
    return (
        f"{_OUTGROWN}: {size} ({paths}). Do it again on the branch as it is now: this clone is new, and what was made before is"
        f" in {BEFORE}."
    )


def _times(app: App, part: Task) -> int:
    events = journal.of_task(app.database, key=part.key)
    return sum(one.kind == "task.sent_back" and str(one.body.get("reason", "")).startswith(_OUTGROWN) for one in events)


def note_before(snapshot_store: SnapshotStore, name: str, commit: str) -> None:
    """Remember which work the next clone of this name is to be shown."""
    path = _place(snapshot_store, name)
    make_folder(os.path.dirname(path), mode=0o700)
    write_atomic(path, commit + "\n")


def put_before(snapshot_store: SnapshotStore, workspace: Workspace) -> None:
    """What the part was before, beside its new clone's files, once."""
    path = _place(snapshot_store, workspace.name)
    commit = files.read_text(path).strip() if os.path.exists(path) else ""
    if commit:
        words = ("diff", "--no-color", "--no-ext-diff", f"{commit}^", commit)
        with suppress(OSError), Beneath(workspace.tree) as inside:
            put(inside, BEFORE, snapshot_store.store.ask_bytes(*words))
        remove(path)


def _place(snapshot_store: SnapshotStore, name: str) -> str:
    return os.path.join(snapshot_store.place.project, "settled", f"{name}.again")
