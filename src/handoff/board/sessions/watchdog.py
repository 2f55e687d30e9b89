"""The watchdog: find who is silent and what is due. It costs no tokens, and two at once do no harm."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.gates import Gate
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import batches, states, tasks
from handoff.board.tasks.batches import Batch
from handoff.board.tasks.tasks import Task
from handoff.store.database import beside_others, fetch_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.board.tasks.outcomes import Outcome
    from handoff.store.database import Row, Store, Transaction

FAN_IN_SECONDS = 600.0
SESSION_SECONDS = 86_400.0
LIMIT = 500
_AT_ONCE = 50


class Process(Record):
    """A process of a session, as it was when the session began."""

    host: str
    boot: str
    pid: int
    start: str


if TYPE_CHECKING:
    IsAlive = Callable[[Process], bool]


class WatchdogReport(Record):
    """What one look found and fixed. Empty means: all is well."""

    freed: tuple[Task, ...] = ()
    """Silent or dead sessions' tasks, ready for another attempt."""
    blocked: tuple[Task, ...] = ()
    """The same, with no attempt left."""
    opened_fan_ins: tuple[Task, ...] = ()
    woken: tuple[Task, ...] = ()
    """Waiting tasks that waited for nothing."""
    idle_fan_ins: tuple[Task, ...] = ()
    """Fan-ins that are ready and nobody takes: told each time, changed by nobody."""
    overdue_batches: tuple[Batch, ...] = ()
    overdue_gates: tuple[Gate, ...] = ()
    ended_sessions: tuple[str, ...] = ()
    """Sessions that held nothing and have been silent for long."""
    defaulted_gates: tuple[Gate, ...] = ()
    """Gates nobody answered in time, for which something was agreed on: that counts now."""

    @property
    def quiet(self) -> bool:
        return not any(self)


class _Found(Record):
    expired: list[Task]
    before_boot: set[str]
    """Sessions of them that ran before this host was restarted."""
    held_here: list[Row]
    idle_fan_ins: list[Task]
    idle_sessions: list[str]
    repairs: bool
    overdue: bool
    lost_decisions: bool


def scan(
    store: Store, *, host: str = "", boot: str = "", is_alive: IsAlive | None = None, deep: bool = False
) -> WatchdogReport:
    """Look once. First reads that touch only what is ill, by index; then one short write for each illness.

    `is_alive` tells of a process on this `host`: a dead one frees its task before the lease ends. Only silence is charged: a process
    that is gone, or everything that ran before this `boot` of the host, says nothing of the agent.
    `deep` also recounts the open batches, which takes time in their number.
    """
    found = _look(store, host=host, boot=boot)
    if found.lost_decisions:
        with store.transaction() as transaction:
            transaction.execute("withdraw_lost_decisions", now=transaction.now(), lease_now=transaction.lease_now())
    freed: list[Task] = []
    blocked: list[Task] = []
    fan_ins: list[Task] = []
    gone = [
        (task, f"{host} was restarted", False)
        if task.held_by in found.before_boot
        else (task, f"{journal.SILENT} before the lease ended", True)
        for task in found.expired
    ]
    gone += [(task, f"its process {pid} on {host} is gone", False) for task, pid in _dead(found, host, is_alive)]
    gone.sort(key=lambda one: one[0].key)
    for start in range(0, len(gone), _AT_ONCE):
        for outcome in _hand_back(store, gone[start : start + _AT_ONCE]):
            (blocked if outcome.task.state == states.BLOCKED else freed).append(outcome.task)
            fan_ins += [outcome.fan_in] if outcome.fan_in else []
    woken: list[Task] = []
    if found.repairs or deep:
        opened, woken = _repair(store, deep=deep)
        fan_ins += opened
    late_batches, late_gates, concluded = _tell_overdue(store) if found.overdue else ([], [], [])
    ended = [name for name in found.idle_sessions if sessions.end(store, id=name, ending="silent for long")]
    return WatchdogReport(
        freed=tuple(freed),
        blocked=tuple(blocked),
        opened_fan_ins=tuple(fan_ins),
        woken=tuple(woken),
        idle_fan_ins=tuple(found.idle_fan_ins),
        overdue_batches=tuple(late_batches),
        overdue_gates=tuple(late_gates),
        ended_sessions=tuple(ended),
        defaulted_gates=tuple(concluded),
    )


@beside_others
def _hand_back(store: Store, gone: list[tuple[Task, str, bool]]) -> list[Outcome]:
    """In the order of their keys: every host has a watchdog, and when a host dies all of them find the same tasks."""
    with store.transaction(scopes=()) as transaction:
        outcomes = [
            leases.hand_back(transaction, task=task, reason=reason, charged=charged) for task, reason, charged in gone
        ]
    return [outcome for outcome in outcomes if outcome is not None]


def _look(store: Store, *, host: str, boot: str) -> _Found:
    with store.transaction(write=False) as look:
        now = look.now()
        expired = fetch_all(look, Task, "list_expired", lease_now=look.lease_now(), limit=LIMIT)
        known = [
            sessions.get(look, id=task.held_by) for task in expired if boot and task.held_host == host and task.held_by
        ]
        return _Found(
            expired=expired,
            before_boot={one.id for one in known if one is not None and one.boot not in ("", boot)},
            held_here=look.query("list_held_on", host=host) if host else [],
            idle_fan_ins=fetch_all(look, Task, "list_idle_fan_ins", before=now - FAN_IN_SECONDS, limit=LIMIT),
            idle_sessions=[
                row["id"] for row in look.query("list_idle_sessions", before=now - SESSION_SECONDS, limit=LIMIT)
            ],
            repairs=bool(look.query("list_joinable_batches", limit=1)) or _count(look, "count_freed") > 0,
            overdue=_count(look, "count_overdue_batches", now) + _count(look, "count_overdue_gates", now) > 0,
            lost_decisions=look.one("lost_decision", lease_now=look.lease_now()) is not None,
        )


def _count(look: Transaction, name: str, now: float | None = None) -> int:
    row = look.one(name) if now is None else look.one(name, now=now)
    return int(row["count"]) if row else 0


def _dead(found: _Found, host: str, is_alive: IsAlive | None) -> list[tuple[Task, int]]:
    if is_alive is None:
        return []
    known = {task.key for task in found.expired}
    dead = []
    for row in found.held_here:
        pid, start, boot = row.pop("pid"), row.pop("process_start"), row.pop("boot")
        if row["key"] not in known and not is_alive(Process(host, boot, pid, start)):
            dead.append((Task(**row), pid))
    return dead


def _repair(store: Store, *, deep: bool) -> tuple[list[Task], list[Task]]:
    """Put right what only a bug or a hand in the database can have left: a due fan-in, a need that is met."""
    with store.transaction() as transaction:
        if deep:
            for row in transaction.query("recount_batches"):
                transaction.execute("set_remaining", key=row["key"], remaining=row["uncounted"])
                journal.append(transaction, "batch.recounted", batch=row["key"], remaining=row["uncounted"])
        opened = [
            batches.join(transaction, key=row["key"]) for row in transaction.query("list_joinable_batches", limit=LIMIT)
        ]
        woken = fetch_all(transaction, Task, "wake_freed", now=transaction.now())
        for task in woken:
            journal.append(transaction, "task.readied", task=task)
    return [task for task in opened if task is not None], woken


def _tell_overdue(store: Store) -> tuple[list[Batch], list[Gate], list[Gate]]:
    """Batches and gates that are late. Nothing is started beside what still runs: a person decides, or has decided."""
    with store.transaction() as transaction:
        now = transaction.now()
        late_batches = fetch_all(transaction, Batch, "mark_overdue_batches", now=now)
        for batch in late_batches:
            journal.append(transaction, "batch.delayed", project=batch.project, batch=batch.key, id=batch.id)
        late_gates: list[Gate] = []
        concluded: list[Gate] = []
        for gate in fetch_all(transaction, Gate, "mark_overdue_gates", now=now):
            task = tasks.look_up(transaction, key=gate.task)
            if gate.fallback and task is not None and task.state == states.GATED:
                gates.apply_fallback(transaction, gate=gate)
                concluded.append(gate)
                continue
            journal.append(transaction, "gate.delayed", task=task, question=gate.question)
            late_gates.append(gate)
    return late_batches, late_gates, concluded
