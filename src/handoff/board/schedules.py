"""Schedules: work that recurs, as rows. Whoever moves `next_at` on makes the work, in the same transaction: exactly once."""

from __future__ import annotations

from handoff.base.errors import Conflict, UserError
from handoff.base.ids import check_id
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal, texts
from handoff.store.database import fetch_all, fetch_one

if TYPE_CHECKING:
    from typing import Any

    from handoff.store.database import Store, Transaction

ON, PAUSED = "on", "paused"
SKIP, QUEUE = "skip", "queue"
OVERLAPS = (SKIP, QUEUE)
"""What becomes of a time that comes while the work of the last one goes on: it passes, or the work begins after that."""
KEEP = 20
PREPARING_SECONDS = 30.0
"""How long others leave it to the host that prepares the work; after that two may, and one of them makes it."""
_NAME_CHARS = 40


class Schedule(Record):
    """One row. `body` is the order as JSON; `next_at` is when it is due; `trouble` is why the last time made nothing."""

    key: int
    project: str
    name: str
    cron: str
    timezone: str
    body: str
    overlap: str
    keep: int
    state: str
    next_at: float
    busy_until: float
    trouble: str
    made_by: str
    made_at: float

    @property
    def order(self) -> dict[str, Any]:
        """What is to be made."""
        return dict(texts.read(self.body, {}))


class ScheduleRun(Record):
    """What was made for one moment: `kind` is task, batch or flow, `work` the key of its row."""

    schedule: int
    due: float
    kind: str
    work: int
    id: str
    host: str
    at: float
    ended_at: float | None = None
    state: str = ""
    """Of the work as it is now; empty where it is forgotten."""


def add(
    store: Store,
    *,
    project: str,
    name: str,
    line: str,
    zone: str,
    order: dict[str, Any],
    overlap: str,
    keep: int,
    by: str,
) -> Schedule:
    """Write a schedule down; its first time is the next that comes."""
    check_id(name, "schedule")
    if len(name) > _NAME_CHARS:
        raise UserError(
            f"The name '{name}' is too long.", f"At most {_NAME_CHARS} characters: each time adds its moment."
        )
    if keep < 1:
        raise UserError(f"--keep must be at least 1, not {keep}.")
    with store.transaction() as transaction:
        next_at = _next(line, transaction.now(), zone)
        if fetch_one(transaction, Schedule, "get_schedule", project=project, name=name):
            raise Conflict(
                f"There is a schedule '{name}' already.", f"Take another name, or: handoff schedule remove {name}"
            )
        (row,) = transaction.query(
            "add_schedule", project=project, name=name, cron=line, timezone=zone, body=texts.write(order), overlap=overlap,
            keep=keep, state=ON, next_at=next_at, by=by, now=transaction.now(),
        )  # fmt: skip
        made = Schedule(**row)
        _tell(transaction, made, "schedule.added", cron=line, timezone=zone, by=by)
        return made


def find(store: Store, *, project: str, name: str) -> Schedule:
    """The schedule of that name."""
    found = fetch_one(store, Schedule, "get_schedule", project=project, name=name)
    if found is None:
        raise UserError(f"There is no schedule '{name}' in project '{project}'.", "See: handoff schedule list")
    return found


def listing(store: Store, *, project: str = "") -> list[Schedule]:
    """All of them, by when they are due."""
    return fetch_all(store, Schedule, "list_schedules", project=project)


def runs(store: Store, schedule: Schedule, *, limit: int = 1000) -> list[ScheduleRun]:
    """What came of it, newest first, with how that stands now."""
    return fetch_all(store, ScheduleRun, "list_schedule_runs", schedule=schedule.key, limit=limit)


def switch(store: Store, schedule: Schedule, *, state: str, by: str) -> Schedule:
    """Pause it, or let it go on from the next time that comes: what was missed meanwhile is not caught up."""
    with store.transaction() as transaction:
        next_at = schedule.next_at
        if state == ON and schedule.state != ON:
            next_at = _next(schedule.cron, transaction.now(), schedule.timezone)
        row = transaction.one("switch_schedule", key=schedule.key, state=state, next_at=next_at)
        if row is None:
            raise Conflict(f"The schedule '{schedule.name}' was removed.", "See: handoff schedule list")
        if state != schedule.state:
            _tell(transaction, schedule, "schedule.paused" if state == PAUSED else "schedule.resumed", by=by)
        return Schedule(**row)


def remove(store: Store, schedule: Schedule, *, by: str) -> None:
    """Forget it; what it made stays."""
    with store.transaction() as transaction:
        transaction.execute("drop_schedule_runs", schedule=schedule.key)
        if transaction.execute("drop_schedule", key=schedule.key):
            _tell(transaction, schedule, "schedule.removed", by=by)


def due(store: Store, *, project: str = "") -> list[Schedule]:
    """Those whose time has come and that nobody prepares."""
    with store.transaction(write=False) as transaction:
        return fetch_all(transaction, Schedule, "list_due_schedules", project=project, now=transaction.now())


def prepare(store: Store, schedule: Schedule, *, seconds: float = PREPARING_SECONDS) -> bool:
    """Whether it is left to us to prepare this time; that is a courtesy, `run` alone decides who makes the work."""
    with store.transaction() as transaction:
        now = transaction.now()
        asked = {"key": schedule.key, "due": schedule.next_at, "now": now, "until": now + seconds}
        return bool(transaction.execute("prepare_schedule", **asked))


def ran(transaction: Transaction, schedule: Schedule, *, kind: str, work: int, id: str, host: str, at: float) -> None:
    """In the transaction that makes the work: this time is done. Refused where it was not ours any more.

    `at` is the moment it stands for: when it was due, or now where a person wants it now, which moves nothing.
    """
    missed = _move_on(transaction, schedule, trouble="") if at == schedule.next_at else 0
    transaction.execute(
        "add_schedule_run", schedule=schedule.key, due=at, kind=kind, work=work, id=id, host=host, now=transaction.now()
    )
    _tell(transaction, schedule, "schedule.ran", kind=kind, id=id, host=host, missed=missed or "")


def pass_over(store: Store, schedule: Schedule, *, reason: str, trouble: bool) -> None:
    """This time makes nothing, and why: the work of the last one goes on, or it cannot be made."""
    with store.transaction() as transaction:
        _move_on(transaction, schedule, trouble=reason if trouble else "")
        _tell(transaction, schedule, "schedule.failed" if trouble else "schedule.skipped", reason=reason)


def forget_runs(store: Store, schedule: Schedule, *, over: list[ScheduleRun]) -> None:
    """Old times are told no more."""
    with store.transaction() as transaction:
        for one in over:
            transaction.execute("drop_schedule_run", schedule=schedule.key, due=one.due)


def _move_on(transaction: Transaction, schedule: Schedule, *, trouble: str) -> int:
    """To the next time that is still to come; how many were missed in between: one run stands for all of them."""
    from handoff.base import cron

    line, now = cron.read(schedule.cron), transaction.now()
    next_at = line.after(max(now, schedule.next_at), schedule.timezone)
    asked = {"key": schedule.key, "due": schedule.next_at, "next_at": next_at, "trouble": trouble}
    if not transaction.execute("move_schedule", **asked):
        raise Conflict(f"Another host was faster with '{schedule.name}'.", "Nothing was changed.")
    return line.missed(schedule.next_at, now, schedule.timezone)


def _next(line: str, now: float, zone: str) -> float:
    from handoff.base import cron  # late: who only looks at the rows needs no calendar

    return cron.read(line).after(now, zone)


def _tell(transaction: Transaction, schedule: Schedule, line: str, /, **body: Any) -> None:
    journal.append(transaction, line, project=schedule.project, schedule=schedule.name, **body)


def name_of(schedule: Schedule, at: float, *, exact: bool) -> str:
    """How the work of a moment is called: the same on every host."""
    from time import gmtime, strftime

    return f"{schedule.name}-{strftime('%Y%m%d-%H%M%S' if exact else '%Y%m%d-%H%M', gmtime(at))}"
