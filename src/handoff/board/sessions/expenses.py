"""Expenses: what sessions have cost, as their clients told it."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from handoff.store.database import Store

DAY_SECONDS = 86_400.0


def note(store: Store, *, session: str, project: str, agent: str, money: float) -> None:
    """A session has cost so much until now."""
    with store.transaction(scopes=()) as transaction:
        transaction.execute(
            "put_expense", session=session, project=project, agent=agent, money=float(money), now=transaction.now()
        )


def of_a_day(store: Store) -> float:
    """What was spent in the last 24 hours, in US dollars."""
    with store.transaction(write=False) as transaction:
        row = transaction.one("sum_expenses", since=transaction.now() - DAY_SECONDS)
    return float(row["money"]) if row else 0.0


def of_batch(store: Store, *, batch: int) -> dict[str, float]:
    """What the sessions of a batch have cost, by agent."""
    with store.transaction(write=False) as transaction:
        return {row["agent"]: float(row["money"]) for row in transaction.query("sum_batch_expenses", batch=batch)}


def prune(store: Store, *, before: float) -> int:
    """Forget what was spent long ago."""
    with store.transaction() as transaction:
        return transaction.execute("prune_expenses", before=before)
