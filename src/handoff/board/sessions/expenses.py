"""Expenses: what sessions have used and cost, as far as it is known."""

from __future__ import annotations

from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from handoff.store.database import Store

DAY_SECONDS = 86_400.0
SAID = "said"
"""Its client says itself what it cost."""
TOKENS = ("input", "cached", "output", "reasoning")


class Expense(Record):
    """What the sessions of one agent have used and cost together; `unknown` of them cost more than `money` says, by nobody knows how much."""

    agent: str
    sessions: int
    unknown: int
    money: float
    input: int
    cached: int
    output: int
    reasoning: int

    @property
    def tokens(self) -> dict[str, int]:
        """For programs; `input` is what was not read from a cache."""
        return {name: getattr(self, name) for name in TOKENS}

    @property
    def words(self) -> str:
        """Cost and tokens as a person reads them."""
        counted = f"{self.input + self.cached:,} tokens in ({self.cached:,} cached), {self.output:,} out"
        return f"{cost_words((self,))}; {counted}" if self.input + self.cached + self.output else cost_words((self,))


def cost_words(found: Sequence[Expense]) -> str:
    """What several cost together, and whose cost is unknown; empty when nothing was used."""
    known, silent = sum(one.money for one in found), sum(one.unknown for one in found)
    names = ", ".join(one.agent for one in found if one.unknown)
    if not silent:
        return f"{known:.2f} USD" if found else ""
    missing = f"cost unknown ({names}, {number_of(silent, 'session')})"
    return f"{known:.2f} USD, and {missing}" if known else missing


def note(
    store: Store,
    *,
    session: str,
    project: str,
    agent: str,
    money: float,
    basis: str = SAID,
    task: int | None = None,
    models: Iterable[str] = (),
    tokens: Mapping[str, int] | None = None,
) -> None:
    """A session has used and cost so much until now; told again, it counts once."""
    with store.transaction(scopes=()) as transaction:
        transaction.execute(
            "put_expense",
            session=session,
            project=project,
            agent=agent,
            money=float(money),
            basis=basis,
            task=task,
            models=", ".join(models),
            **{**dict.fromkeys(TOKENS, 0), **(tokens or {})},
            now=transaction.now(),
        )


def by_agent(
    store: Store, *, days: float = 0.0, project: str = "", task: int = 0, batch: int = 0
) -> tuple[Expense, ...]:
    """What sessions have used and cost, by agent: of the last days, of a project, of a task with all its attempts, of a batch."""
    with store.transaction(write=False) as transaction:
        since = transaction.now() - days * DAY_SECONDS if days else 0.0
        rows = transaction.query("sum_expenses", since=since, project=project, task=task, batch=batch)
    return tuple(
        Expense(**{name: row[name] if name == "agent" else _number(name, row[name]) for name in Expense._fields})
        for row in rows
    )


def _number(name: str, value: Any) -> Any:
    return float(value) if name == "money" else int(value)  # a server sums whole numbers as decimals


def of_a_day(store: Store) -> float:
    """What was spent in the last 24 hours, in US dollars, as far as it is known."""
    return sum(one.money for one in by_agent(store, days=1.0))


def prune(store: Store, *, before: float) -> int:
    """Forget what was spent long ago."""
    with store.transaction() as transaction:
        return transaction.execute("prune_expenses", before=before)
