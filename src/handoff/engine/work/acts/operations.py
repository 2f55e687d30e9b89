"""What can be taken back here, newest first, and taking one of it back: a restore, a commit, a landing, a removal, moved features."""

from __future__ import annotations

import os

from handoff.agents import folder as folders
from handoff.base.errors import Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import sessions
from handoff.board.tasks import outcomes, tasks
from handoff.engine.features import lifecycle
from handoff.engine.features.lifecycle import FeatureMove
from handoff.engine.place.landing import UNDONE, landings, undo_landing
from handoff.engine.place.task_clones import name_of
from handoff.engine.place.workspaces import BY_HAND, revive_workspace
from handoff.engine.safety import snapshots as restores
from handoff.engine.safety.incidents import has_board, ours
from handoff.engine.safety.snapshots import RESTORE, UNDO, RestoreReport, SnapshotStore, listing
from handoff.git.commits import undo as commits
from handoff.git.commits.merge import BranchMove
from handoff.git.landing.target import Landing
from handoff.git.ownership.ownership import Ownership
from handoff.git.plumbing.repository import Repository
from handoff.git.workspaces.workspaces import read_workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.engine.app import App
    from handoff.git.snapshots.take import Snapshot

COMMIT, LAND, REMOVE, FEATURES = "commit", "land", "remove", "features"
_SHORTEST_ID = 4
_ID_LETTERS = 10


class Operation(Record):
    """One thing handoff did here that can be taken back."""

    kind: str
    id: str
    time: float
    what: str
    subject: Snapshot | Landing | BranchMove | FeatureMove

    @property
    def short(self) -> str:
        return self.id if self.id.startswith("undo-") else self.id[:_ID_LETTERS]


class TakenBack(Record):
    """What an undo did or would do: in words, and for a restore with every path."""

    operation: Operation
    lines: tuple[str, ...] = ()
    report: RestoreReport | None = None


def operations(app: App, *, snapshot_store: SnapshotStore) -> list[Operation]:
    """Everything that can be taken back in this checkout, newest first; an undo is one of them."""
    place = snapshot_store.place
    found = []
    for one in listing(app, snapshot_store=snapshot_store):
        if one.operation in (RESTORE, UNDO) and one.workspace == place.workspace:
            found.append(Operation(one.operation, one.sha, one.time, one.reason.removeprefix("before "), one))
        elif one.operation == REMOVE and one.reason.startswith(f"before the {BY_HAND} of "):
            found.append(Operation(REMOVE, one.sha, one.time, one.reason.removeprefix("before the "), one))
    repo = Repository(place.source.top, app.git_environment)
    for move in commits.moves(repo):
        back = commits.is_back(move)
        words = f"undo of safe commit {move.old[:10]}" if back else f"safe commit {move.new[:10]}"
        branch = move.ref.removeprefix("refs/heads/") or "a detached HEAD"
        name = f"undo-{move.old[:_ID_LETTERS]}" if back else move.new
        found.append(Operation(COMMIT, name, move.time, f"{words} on {branch}", move))
    for landing in landings(app, snapshot_store=snapshot_store):
        words = f"landing of {', '.join(landing.members)} on {landing.target.removeprefix('refs/heads/')}"
        found.append(Operation(LAND, landing.new, landing.time, words, landing))
    found += [Operation(FEATURES, move.id, move.time, move.what, move) for move in lifecycle.made(app)]
    return sorted(found, key=lambda one: one.time, reverse=True)


def choose_operation(app: App, *, snapshot_store: SnapshotStore, name: str = "") -> Operation:
    """The newest operation, or the one an id means; a task means its latest landing."""

    def brought(members: Sequence[str]) -> bool:
        keys = _keys_of(app, snapshot_store, list(members))
        return any(tasks.get(app.database, key=key).label == name for key in keys)

    found = operations(app, snapshot_store=snapshot_store)
    if not found:
        raise UserError("There is nothing to undo here.", "See what can be restored: handoff snapshot list")
    if not name:
        return found[0]
    matching = [one for one in found if len(name) >= _SHORTEST_ID and one.id.startswith(name)]
    if not matching and has_board(app):
        matching = [one for one in found if isinstance(one.subject, Landing) and brought(one.subject.members)][:1]
    if len({one.id for one in matching}) != 1:  # the same once more is meant as it was done last
        many = "more than one operation" if matching else "no operation that can be taken back here"
        raise UserError(f"'{name}' means {many}.", "See the ids with: handoff undo --list")
    return matching[0]


def undo(app: App, *, snapshot_store: SnapshotStore, operation: Operation, dry_run: bool = False) -> TakenBack:
    """Take back one operation and nothing else. What was built on it since is named (exit 3), and nothing is changed."""
    with ours(app, folder=snapshot_store.place.source.top):
        return _undo(app, snapshot_store, operation, dry_run=dry_run)


def _undo(app: App, snapshot_store: SnapshotStore, operation: Operation, *, dry_run: bool) -> TakenBack:
    one = operation.subject
    if isinstance(one, Landing):
        back = undo_landing(app, landing=one, snapshot_store=snapshot_store, dry_run=dry_run)
        verb = "Would move" if dry_run else "Moved"
        words = f"{verb} {back.target} back from {back.old[:10]} to {back.new[:10]} ({', '.join(one.members)})."
        return TakenBack(operation, (words, *_tell_tasks(app, snapshot_store, one, dry_run=dry_run)))
    if isinstance(one, FeatureMove):
        return TakenBack(operation, lifecycle.take_back(app, one, dry_run=dry_run))
    if isinstance(one, BranchMove):
        return TakenBack(operation, _undo_commit(app, snapshot_store, one, dry_run=dry_run))
    if operation.kind == REMOVE:
        return TakenBack(operation, _undo_removal(app, snapshot_store, one, dry_run=dry_run))
    report = restores.undo_restore(app, snapshot_store=snapshot_store, chosen=one, dry_run=dry_run)
    return TakenBack(operation, report=report)


def _tell_tasks(app: App, snapshot_store: SnapshotStore, landing: Landing, *, dry_run: bool) -> list[str]:
    """The tasks that landed with it know that their work is gone from the branch, or there again."""
    if not has_board(app):
        return []
    again = all(name.startswith(UNDONE) for name in landing.members)  # an undo is taken back
    keys = _keys_of(app, snapshot_store, [name.removeprefix(UNDONE) for name in landing.members])
    landed = landing.old if again else landing.new
    if dry_run:
        found = outcomes.in_landing(app.database, keys=keys, landed=landed, undone=again)
    else:
        session = app.settings.get("HANDOFF_SESSION")
        found = outcomes.mark_landing(app.database, keys=keys, landed=landed, undone=not again, session=session)
    branch, program = landing.target.removeprefix("refs/heads/"), app.settings.program
    if again:
        return [f"{task.label} is on {branch} again." for task in found]
    return [
        f"{task.label} is not on {branch} any more."
        + (f" To let it be done again: {program} retry {task.label}" if task.kind == tasks.TASK else "")
        for task in found
    ]


def _keys_of(app: App, snapshot_store: SnapshotStore, members: list[str]) -> list[int]:
    """Which of the landed names are tasks of this project: others are workspaces, branches or flows."""
    project, found = os.path.basename(snapshot_store.place.project), []
    for name in (one.removeprefix("handoff/") for one in members):
        number = name.rpartition("-")[2]
        task = tasks.look_up(app.database, key=int(number)) if number.isdecimal() else None
        if task is not None and task.project == project and name_of(task) == name:
            found.append(task.key)
    return found


def undo_session(app: App, *, snapshot_store: SnapshotStore, session: str, dry_run: bool = False) -> RestoreReport:
    """Take back what a session did since it started, in the checkout it worked in: within its task's ownership."""
    patterns: tuple[str, ...] = ()
    if has_board(app):
        known = sessions.get(app.database, id=session)
        path = folders.place(app.settings.home, known.project, session) if known else ""
        key = (known.task if known else 0) or int(folders.get(path, folders.FACTS).get("key") or 0)
        patterns = tasks.get(app.database, key=key).patterns if key else ()
    owned = Ownership.parse(patterns).covers if patterns else None
    with ours(app, folder=snapshot_store.place.source.top):
        return restores.undo_session(app, snapshot_store=snapshot_store, session=session, owned=owned, dry_run=dry_run)


def _undo_commit(app: App, snapshot_store: SnapshotStore, move: BranchMove, *, dry_run: bool) -> tuple[str, ...]:
    repo = Repository(snapshot_store.place.source.top, app.git_environment)
    commits.check(repo, move)
    paths = commits.paths_of(repo, move)
    if not dry_run:
        session = app.settings.get("HANDOFF_SESSION")
        commits.take_back(repo, move, now=app.clock.now(), session=session)
    verb = "Would move" if dry_run else "Moved"
    where = move.ref.removeprefix("refs/heads/") or "HEAD"
    start, end = move.new[:10] or "nothing", move.old[:10] or "nothing"
    words = f"{verb} {where} from {start} to {end}; the files on the disk stay as they are."
    label = "committed  " if commits.is_back(move) else "uncommitted"
    return (*(f"  {label} {path}" for path in paths), words)


def _undo_removal(app: App, snapshot_store: SnapshotStore, kept: Snapshot, *, dry_run: bool) -> tuple[str, ...]:
    name = kept.workspace
    if read_workspace(os.path.join(snapshot_store.place.project, "workspaces", name)) is not None:
        raise Refused(
            f"There is a workspace '{name}' again. Nothing was changed.",
            f"Bring the removed one back beside it: handoff snapshot restore {kept.short} --into DIR",
        )
    if not dry_run:
        revive_workspace(app, name=name, snapshot_store=snapshot_store)
    return (f"{'Would make' if dry_run else 'Made'} the workspace {name} again, as it was.",)
