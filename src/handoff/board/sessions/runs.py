"""Runs: how far each phase got on this machine, where the database is a file. On a server dbos keeps them."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.store.database import fetch_all

if TYPE_CHECKING:
    from handoff.store.database import Store

DONE, FAILED = "done", "failed"


class RunRow(Record):
    """One run: who has it, and as JSON what it was given and what each of its steps gave."""

    id: str
    queue: str
    version: str
    name: str
    inputs: str
    outputs: str
    state: str
    executor: str
    ended_at: float | None


def ask(store: Store, *, id: str, queue: str, version: str, name: str, inputs: str) -> None:
    """A run is wanted; who asks again changes nothing."""
    with store.transaction() as transaction:
        transaction.execute("ask_run", id=id, queue=queue, version=version, name=name, inputs=inputs)


def take(store: Store, *, queue: str, version: str, executor: str) -> list[RunRow]:
    """What waits in a queue is this executor's from now on; all that it has. Who only looks makes no writer wait."""
    mine = {"queue": queue, "version": version, "executor": executor}
    with store.transaction(write=False) as look:
        if look.one("find_waiting_run", queue=queue, version=version) is None:
            return fetch_all(look, RunRow, "list_runs", executor=executor, live=1)
    with store.transaction() as transaction:
        return fetch_all(transaction, RunRow, "take_runs", **mine)


def keep_step(store: Store, *, id: str, executor: str, outputs: str) -> bool:
    """A step is done; False means that the run is in other hands."""
    with store.transaction() as transaction:
        return bool(transaction.execute("keep_step", id=id, executor=executor, outputs=outputs))


def end(store: Store, *, id: str, executor: str, state: str) -> bool:
    """The run is over, unless it is in other hands."""
    with store.transaction() as transaction:
        return bool(transaction.execute("end_run", id=id, executor=executor, state=state, now=transaction.now()))


def free(store: Store, *, executor: str) -> int:
    """What a lost executor had waits for another; how many."""
    with store.transaction() as transaction:
        return transaction.execute("free_runs", executor=executor)


def listing(store: Store, *, executor: str = "", live: bool = True) -> list[RunRow]:
    """Runs that are not over, at will those of one executor; or all that are not forgotten."""
    with store.transaction(write=False) as look:
        return fetch_all(look, RunRow, "list_runs", executor=executor, live=int(live))


def prune(store: Store, *, before: float) -> int:
    """Forget what ended before a moment."""
    with store.transaction() as transaction:
        return transaction.execute("prune_runs", before=before)
