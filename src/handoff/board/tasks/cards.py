"""Cards: what a list or a board shows of a task or a batch, without briefs, evidence and all that is long."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.store.database import fetch_all

if TYPE_CHECKING:
    from collections.abc import Iterable

    from handoff.store.database import Store

LIMIT = 20_000
_NEVER = 1e18
_EVERY = {"first": 0, "last": 2**62}
LANDED, GREEN = "landed", "green"
"""What a done task is besides: its work is on the target branch, or it is checked and waits on a branch of its own."""


class Card(Record):
    """One task, short. `outcome` says of a done one whether its work has landed; `money` is what its last session cost."""

    key: int
    project: str
    scope: str
    id: str
    kind: str
    batch: int | None
    state: str
    title: str
    reason: str
    attempt: int
    max_attempts: int
    priority: int
    not_before: float
    agent: str
    held_by: str | None
    held_agent: str
    lease_seconds: float
    seen_at: float | None
    changed_at: float
    ended_at: float | None
    outcome: str
    money: float

    @property
    def label(self) -> str:
        """How a person names it: a part with its batch."""
        return f"{self.scope}/{self.id}" if self.scope else self.id


def listing(
    store: Store, *, project: str = "", since: float = _NEVER, state: str = "", limit: int = LIMIT
) -> list[Card]:
    """Every live task, of one state or of all, and those that ended since a moment, in the order they were written."""
    return fetch_all(store, Card, "list_cards", project=project, since=since, state=state, limit=limit, **_EVERY)


def of_keys(store: Store, keys: Iterable[int]) -> list[Card]:
    """The cards of some tasks; those that were pruned are left out."""
    with store.transaction(write=False) as transaction:
        return [
            Card(**row)
            for key in keys
            for row in transaction.query("list_cards", project="", since=0.0, state="", limit=1, first=key, last=key)
        ]


def after(store: Store, *, key: int) -> list[str]:
    """What a waiting task still waits for, by name."""
    with store.transaction(write=False) as transaction:
        rows = transaction.query("list_needs", task=key)
    return [f"{row['scope']}/{row['id']}" if row["scope"] else row["id"] for row in rows if not row["met"]]


def of_batches(store: Store, *, project: str = "") -> list[tuple[int, str, str, dict[str, int]]]:
    """Each open batch by key, project and id, with how many of its parts are in which state."""
    with store.transaction(write=False) as transaction:
        rows = transaction.query("count_batch_states", project=project)
    found: dict[int, tuple[int, str, str, dict[str, int]]] = {}
    for row in rows:
        batch = found.setdefault(int(row["batch"]), (int(row["batch"]), row["project"], row["id"], {}))
        batch[3][row["state"]] = int(row["count"])
    return list(found.values())
