"""Tabs that open by themselves: which ready tasks have none yet, and who opens one. Never two for one task."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.board.sessions import pauses
from handoff.board.tasks.tasks import Task
from handoff.store.database import fetch_all

if TYPE_CHECKING:
    from handoff.store.database import Store


def without_tab(store: Store, *, host: str, most: int) -> list[Task]:
    """Ready tasks that nobody has paused and that had no tab since they became ready; as many as there is room for.

    Tasks of a project that a supervisor of this host serves are left to it.
    """
    with store.transaction(write=False) as transaction:
        row = transaction.one("count_tabs", host=host) or {"count": 0}
        room = max(0, most - int(row["count"]))
        if not room:
            return []
        moments = {"now": transaction.now(), "lease_now": transaction.lease_now()}
        found = fetch_all(transaction, Task, "list_without_tab", host=host, limit=room, **moments)
        return [task for task in found if pauses.pause_of(transaction, task) is None]


def take(store: Store, task: Task, *, host: str) -> bool:
    """Whether it is ours to open a tab for this task now; whoever else asks gets a no."""
    with store.transaction() as transaction:
        transaction.execute("prune_tabs")
        return bool(transaction.execute("add_tab", task=task.key, fence=task.fence, host=host, now=transaction.now()))
