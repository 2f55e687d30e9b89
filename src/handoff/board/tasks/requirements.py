"""Demands and offers: which labels a task wants of its host, what the hosts have, and what no host can serve."""

from __future__ import annotations

from handoff.base.errors import Refused
from handoff.base.ids import check_id
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from handoff.store.database import Store, Transaction

AGENT, LABEL, PROJECT, UNTIL = "agent", "label", "project", "until"
_SHOWN = 20


class Unserved(Record):
    """A ready task that no host at work can take, and what it wants."""

    project: str
    task: str
    agent: str
    labels: tuple[str, ...]

    @property
    def words(self) -> str:
        wants = [*([f"agent {self.agent}"] if self.agent else []), *(f"label {name}" for name in self.labels)]
        return " and ".join(wants)


def check_labels(names: Iterable[str]) -> tuple[str, ...]:
    """Labels as they are kept: sorted, each once; a word that cannot be one is refused."""
    return tuple(sorted({check_id(name, "label") for name in names}))


def as_text(labels: Sequence[str]) -> str:
    """A host's labels as the claim's statement compares them."""
    return f",{','.join(labels)},"


def add(transaction: Transaction, wanted: Mapping[int, Sequence[str]]) -> None:
    """Write down which labels tasks demand, by their keys."""
    rows = [{"task": key, "name": name} for key, names in wanted.items() for name in names]
    if rows:
        transaction.execute_many("add_requirement", rows)


def of_tasks(store: Store, *, project: str = "") -> dict[int, tuple[str, ...]]:
    """The labels of live tasks that demand any."""
    found: dict[int, list[str]] = {}
    with store.transaction(write=False) as transaction:
        for row in transaction.query("list_live_requirements", project=project):
            found.setdefault(row["task"], []).append(row["name"])
    return {key: tuple(names) for key, names in found.items()}


def of_task(store: Store, *, key: int) -> tuple[str, ...]:
    """The labels one task demands."""
    with store.transaction(write=False) as transaction:
        return tuple(row["name"] for row in transaction.query("list_requirements", task=key))


def refuse_lacking(transaction: Transaction, *, key: int, name: str, labels: Sequence[str]) -> None:
    """A host takes a task only if it has every label the task demands."""
    missing = [label for label in of_task(transaction, key=key) if label not in labels]
    if missing:
        raise Refused(
            f"'{name}' needs a host with the labels {', '.join(missing)}; this one does not have them.",
            f"If it has them, say so: --labels {','.join(missing)}, or labels in config.toml of the home.",
        )


def lacking(transaction: Transaction, *, project: str, labels: Sequence[str]) -> list[str]:
    """Which labels ready tasks wait for that this host does not have."""
    rows = transaction.query("list_lacking", project=project, labels=as_text(labels), now=transaction.now())
    return [row["name"] for row in rows]


def offer(
    transaction: Transaction,
    *,
    executor: str,
    agents: Sequence[str],
    labels: Sequence[str],
    project: str = "",
    until: str = "",
) -> None:
    """A supervisor says what its host has, which project alone it serves, and with which batch it ends, if with one."""
    rows = [
        {"executor": executor, "kind": kind, "name": name}
        for kind, names in [
            (AGENT, agents),
            (LABEL, labels),
            (PROJECT, [project] if project else []),
            (UNTIL, [until] if until else []),
        ]
        for name in names
    ]
    if rows:
        transaction.execute_many("put_offer", rows)


def offers(store: Store) -> dict[str, dict[str, list[str]]]:
    """What each supervisor offers: agents and labels by its id."""
    found: dict[str, dict[str, list[str]]] = {}
    with store.transaction(write=False) as transaction:
        for row in transaction.query("list_offers"):
            found.setdefault(row["executor"], {AGENT: [], LABEL: [], PROJECT: [], UNTIL: []})[row["kind"]].append(
                row["name"]
            )
    return found


def unserved(store: Store, *, project: str = "", limit: int = _SHOWN) -> list[Unserved]:
    """Ready tasks that nobody at work can take: no supervisor has their agent and all their labels.

    Nothing while no supervisor works at all: then nothing is served, and that is said elsewhere.
    """
    with store.transaction(write=False) as transaction:
        rows = transaction.query(
            "list_unserved", project=project, lease_now=transaction.lease_now(), now=transaction.now(), limit=limit
        )
        return [
            Unserved(
                row["project"],
                f"{row['scope']}/{row['id']}" if row["scope"] else row["id"],
                row["agent"],
                of_task(transaction, key=row["key"]),
            )
            for row in rows
        ]
