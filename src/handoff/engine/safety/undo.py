"""Take back one restore, one undo or one session's changes: that alone, and only where nothing was built on it since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handoff.base.errors import Refused, UserError
from handoff.engine.safety.snapshots import UNDO, RestoreReport, SnapshotStore, carry_out, home_of, keep, listing
from handoff.git.commits.merge import made_by
from handoff.git.plumbing.repository import Repository
from handoff.git.snapshots import plans
from handoff.git.snapshots import restore as restoring
from handoff.git.snapshots.location import MAIN
from handoff.git.snapshots.take import Snapshot, SnapshotRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handoff.engine.app import App

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
