"""Cards: what a list or a board shows of a task or a batch, without briefs, evidence and all that is long."""

from __future__ import annotations

from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks import tasks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from handoff.board.tasks.tasks import Task
    from handoff.store.database import Row, Store, Transaction

LIMIT = 20_000
_NEVER = 1e18
_EVERY = {"first": 0, "last": 2**62}
LANDED, GREEN, DONE, UNDONE = "landed", "green", "done", "undone"
"""What a done task is besides: its work is on the target branch, is checked and waits on a branch of its own, is a phase of a flow that was
verified, or its landing was taken back."""
_REOPENED = "reopened"
"""Its batch has landed and was opened again: the commits say which parts were in it."""


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
    with store.transaction(write=False) as transaction:
        rows = transaction.query("list_cards", project=project, since=since, state=state, limit=limit, **_EVERY)
        return [_card(transaction, row) for row in rows]


def of_keys(store: Store, keys: Iterable[int]) -> list[Card]:
    """The cards of some tasks; those that were pruned are left out."""
    with store.transaction(write=False) as transaction:
        return [
            _card(transaction, row)
            for key in keys
            for row in transaction.query("list_cards", project="", since=0.0, state="", limit=1, first=key, last=key)
        ]


def _card(transaction: Transaction, row: Row) -> Card:
    card = Card(**row)
    if card.outcome != _REOPENED:
        return card
    part = tasks.get(transaction, key=card.key)
    batch = transaction.one("get_batch", key=card.batch)
    joiner = tasks.get(transaction, key=batch["fan_in"]) if batch is not None else part
    kept = GREEN if loads(part.evidence or "{}").get("commit") else DONE
    return card._replace(outcome=LANDED if has_landed(part, joiner) else kept)


def has_landed(part: Task, joiner: Task) -> bool:
    """Whether a part's work, as it is now, is in what a fan-in has landed, also one that was opened again since."""
    if not part.evidence or not joiner.evidence:
        return False
    landed = loads(joiner.evidence)
    return bool(landed.get("landed")) and loads(part.evidence).get("commit") in landed.get("parts", ())


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
