"""Forgetting: what ended long ago leaves the tables, in short steps beside everybody's work."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal
from handoff.board.tasks.tasks import Task
from handoff.store.database import fetch_all

if TYPE_CHECKING:
    from handoff.store.database import Store

_PRUNED = 10_000
_STEP = 200
_SWEEPS = ("prune_batches", "prune_flows", "prune_sessions", "prune_inbox", "prune_incidents", "prune_transcripts")


def prune(store: Store, *, before: float, project: str = "", dry_run: bool = True) -> list[Task]:
    """Ended tasks older than `before`; they are forgotten unless it is a dry run. The journal keeps its lines.

    In short steps, so that whoever works meanwhile waits for none of it.
    """
    if dry_run:
        return fetch_all(store, Task, "list_prunable", before=before, project=project, limit=_PRUNED)
    found: list[Task] = []
    while step := _prune_some(store, before=before, project=project):
        found += step
    for query in _SWEEPS:
        while _sweep(store, query, before=before, project=project) == _STEP:
            continue
    if found:
        with store.transaction() as transaction:
            journal.append(transaction, "tasks.pruned", project=project, count=len(found))
    return found


def _prune_some(store: Store, *, before: float, project: str) -> list[Task]:
    with store.transaction() as transaction:
        found = fetch_all(transaction, Task, "list_prunable", before=before, project=project, limit=_STEP)
        for query in ("prune_needs", "prune_requirements", "prune_gates", "prune_task") if found else ():
            transaction.execute_many(query, [{"key": task.key} for task in found])
    return found


def _sweep(store: Store, query: str, *, before: float, project: str) -> int:
    with store.transaction() as transaction:
        return transaction.execute(query, before=before, project=project, limit=_STEP)
