"""Needs: what becomes ready when a task is done, and what is stuck when it is not."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal
from handoff.board.tasks import states
from handoff.board.tasks.tasks import ENTRANT, PARTS, Task
from handoff.store.database import fetch_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.store.database import Transaction


def meet(transaction: Transaction, task: Task) -> list[Task]:
    """`task` is done: count it off for everybody who waits for it, and wake those who wait for nothing else."""
    if not transaction.query("lock_dependents", needs=task.key):
        return []
    transaction.execute("lower_open_needs", needs=task.key)
    transaction.execute("meet_needs", needs=task.key)
    woken = fetch_all(transaction, Task, "wake_dependents", needs=task.key, now=transaction.now())
    for other in woken:
        journal.append(transaction, "task.readied", task=other, needed=task.label)
    return woken


def strand(transaction: Transaction, task: Task) -> list[Task]:
    """`task` will not be done: block what waits for it, and what waits for that.

    Outside a batch only a cancelled task strands others: a blocked one is expected back. Inside a batch the
    fan-in has to be reached, so the sub-tasks that cannot start are blocked with the one they need. Who runs in a race
    strands nobody: the end of the race says what becomes of its part.
    """
    reason = f"it needs '{task.label}', which is {task.state}"
    victims: list[Task] = []
    edge = [task.key] if task.kind != ENTRANT else []
    while edge:
        for dependent in transaction.query("list_dependents", needs=edge.pop()):
            if dependent["state"] != states.WAITING:
                continue
            candidate = transaction.one("get_task", key=dependent["key"])
            if candidate is None or (task.state == states.BLOCKED and candidate["kind"] not in PARTS):
                continue
            row = transaction.one(
                "block_victim", key=candidate["key"], reason=reason, blocked_by=task.key, now=transaction.now()
            )
            if row is not None:
                victims.append(Task(**row))
                if victims[-1].kind != ENTRANT:
                    edge.append(victims[-1].key)
                journal.append(transaction, "task.blocked", task=victims[-1], reason=reason)
    return victims


def stranded_by(transaction: Transaction, task: Task) -> list[Task]:
    """What was blocked because `task` was."""
    return fetch_all(transaction, Task, "list_victims", blocked_by=task.key)


def waive_cancelled(transaction: Transaction, task: Task) -> None:
    """A person says: go on without the needs that were cancelled."""
    for need in transaction.query("list_needs", task=task.key):
        if need["state"] == states.CANCELLED and not need["met"]:
            transaction.execute("waive_need", task=task.key, needs=need["key"])
            transaction.execute("lower_one_need", key=task.key)


def find_circle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """A way through the needs that comes back to where it began, or nothing. Takes one pass, in any size."""
    visited: set[str] = set()
    for start in needs:
        if start in visited:
            continue
        path: list[str] = []
        on_path: set[str] = set()
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                path.pop()
                on_path.discard(name)
                visited.add(name)
            elif name in on_path:
                return [*path[path.index(name) :], name]
            elif name not in visited:
                path.append(name)
                on_path.add(name)
                stack.append((name, True))
                stack.extend((need, False) for need in needs[name])
    return []
