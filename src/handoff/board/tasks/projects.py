"""Projects as the rows know them: where their checkouts are, and what changes when one is moved or renamed."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal
from handoff.board.tasks.tasks import Task
from handoff.store.database import fetch_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.store.database import Store

_RENAMES = (
    "rename_project_in_task",
    "rename_project_in_batch",
    "rename_project_in_session",
    "rename_project_in_pause",
    "rename_project_in_inbox",
    "rename_project_in_measure",
    "rename_project_in_flow",
    "rename_project_in_decision",
    "rename_project_in_incident",
    "rename_project_in_expense",
    "rename_project_in_token",
    "rename_project_in_transcript",
)


def workspaces(store: Store, *, project: str) -> list[str]:
    """The folders that tasks of a project were written in."""
    with store.transaction(write=False) as transaction:
        return [row["workspace"] for row in transaction.query("list_workspaces", project=project) if row["workspace"]]


def move(store: Store, *, project: str, old: Sequence[str], new: str) -> int:
    """Live tasks, batches and flows of a project whose checkout was at `old` are at `new` now; how many rows changed."""
    count = 0
    with store.transaction() as transaction:
        for place in old:
            values = {"project": project, "old": place, "new": new}
            for task in fetch_all(transaction, Task, "move_tasks_of_project", **values):
                journal.append(transaction, "task.moved", task=task, workspace=new)
                count += 1
            count += transaction.execute("move_batches_of_project", **values)
            count += transaction.execute("move_flows_of_project", **values)
        if count:
            journal.append(transaction, "project.moved", project=project, old=list(old), new=new)
    return count


def rename(store: Store, *, old: str, new: str) -> None:
    """Every row of a project goes by another name; what the journal said before stays as it was said."""
    with store.transaction() as transaction:
        for query in _RENAMES:
            transaction.execute(query, old=old, new=new)
        journal.append(transaction, "project.renamed", project=new, old=old)
