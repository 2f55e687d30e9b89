"""Executors: the supervisors that run phases, each with a lease; the work of a lost one is taken over once.

Their runs say how far each phase got on this machine, where the database is a file. On a server dbos keeps them."""

from __future__ import annotations

from handoff.base.clock import boot_id
from handoff.base.process import start_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks import requirements
from handoff.store.database import beside_others, fetch_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.store.database import Store

ALIVE, LEFT, DEAD, RECOVERED = "alive", "left", "dead", "recovered"
LEASE_SECONDS = 20.0


class Executor(Record):
    """One supervisor. Its id is never used again; a process is (host, boot, pid, start)."""

    id: str
    host: str
    boot: str
    pid: int
    process_start: str
    state: str
    lease_until: float
    started_at: float
    seen_at: float
    lease_left: float = 0.0


@beside_others
def begin(
    store: Store,
    *,
    id: str,
    host: str,
    boot: str,
    pid: int,
    process_start: str,
    lease_seconds: float = LEASE_SECONDS,
    agents: Sequence[str] = (),
    labels: Sequence[str] = (),
    project: str = "",
    until: str = "",
) -> Executor:
    """A supervisor introduces itself, and says what its host has, which project it serves and with which batch it ends."""
    with store.transaction(scopes=()) as transaction:
        (row,) = transaction.query(
            "put_executor",
            id=id,
            host=host,
            boot=boot,
            pid=pid,
            process_start=process_start,
            lease_seconds=float(lease_seconds),
            lease_now=transaction.lease_now(),
            now=transaction.now(),
        )
        labels = requirements.check_labels(labels)
        requirements.offer(transaction, executor=id, agents=agents, labels=labels, project=project, until=until)
        return Executor(**row)


def renew(store: Store, *, id: str, lease_seconds: float = LEASE_SECONDS) -> bool:
    """A sign of life; False means that others have given this supervisor up and it must stop at once."""
    with store.transaction(scopes=()) as transaction:
        row = transaction.one(
            "renew_executor",
            id=id,
            lease_seconds=float(lease_seconds),
            lease_now=transaction.lease_now(),
            now=transaction.now(),
        )
        return row is not None


def listing(store: Store, *, host: str = "") -> list[Executor]:
    """Supervisors whose work is not yet in other hands, the oldest first."""
    with store.transaction(write=False) as transaction:
        return fetch_all(transaction, Executor, "list_executors", host=host, lease_now=transaction.lease_now())


def lives(one: Executor, *, host: str) -> bool:
    """Whether a supervisor is at work: by its lease, and on our own `host` by its very process, which is known at once."""
    return one.state == ALIVE and one.lease_left > 0 and (one.host != host or is_here(one))


def is_here(one: Executor) -> bool:
    """Whether it is a process of this machine since its last start."""
    return one.boot == boot_id() and bool(one.process_start) and start_of(one.pid) == one.process_start


def to_look_after(store: Store, *, host: str) -> list[Executor]:
    """What a supervisor of this host may have to take over or give up: of a thousand others it reads those alone that are lost."""
    with store.transaction(write=False) as transaction:
        return fetch_all(transaction, Executor, "list_leavings", host=host, lease_now=transaction.lease_now())


def give_up(store: Store, *, id: str) -> bool:
    """It is gone: whoever lives may take over. False when it was known already."""
    return _move(store, id=id, seen=ALIVE, state=DEAD)


def leave(store: Store, *, id: str, idle: bool) -> bool:
    """It ends as it should: what it started goes on, and whoever lives may take it over; an idle one leaves nothing."""
    return _move(store, id=id, seen=ALIVE, state=RECOVERED if idle else LEFT)


def end(store: Store, *, id: str) -> bool:
    """What it ran is in other hands."""
    return any(_move(store, id=id, seen=seen, state=RECOVERED) for seen in (DEAD, LEFT))


@beside_others
def _move(store: Store, *, id: str, seen: str, state: str) -> bool:
    with store.transaction(scopes=()) as transaction:
        return transaction.one("move_executor", id=id, seen=seen, state=state) is not None


def prune(store: Store, *, before: float) -> int:
    """Forget those that were concluded long ago."""
    with store.transaction() as transaction:
        forgotten = transaction.execute("prune_executors", before=before)
        transaction.execute("prune_offers")
        return forgotten


# --- runs --------------------------------------------------------------------------------------------------------

RUN_DONE, RUN_FAILED = "done", "failed"


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


def ask_run(store: Store, *, id: str, queue: str, version: str, name: str, inputs: str) -> None:
    """A run is wanted; who asks again changes nothing."""
    with store.transaction() as transaction:
        transaction.execute("ask_run", id=id, queue=queue, version=version, name=name, inputs=inputs)


def take_runs(store: Store, *, queue: str, version: str, executor: str) -> list[RunRow]:
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


def end_run(store: Store, *, id: str, executor: str, state: str) -> bool:
    """The run is over, unless it is in other hands."""
    with store.transaction() as transaction:
        return bool(transaction.execute("end_run", id=id, executor=executor, state=state, now=transaction.now()))


def free_runs(store: Store, *, executor: str) -> int:
    """What a lost executor had waits for another; how many."""
    with store.transaction() as transaction:
        return transaction.execute("free_runs", executor=executor)


def list_runs(store: Store, *, executor: str = "", live: bool = True) -> list[RunRow]:
    """Runs that are not over, at will those of one executor; or all that are not forgotten."""
    with store.transaction(write=False) as look:
        return fetch_all(look, RunRow, "list_runs", executor=executor, live=int(live))


def prune_runs(store: Store, *, before: float) -> int:
    """Forget what ended before a moment."""
    with store.transaction() as transaction:
        return transaction.execute("prune_runs", before=before)
