"""Batches: a task split into sub-tasks, a counter, and one fan-in; what one took, and the factor for the next estimate."""

from __future__ import annotations

from handoff.base.errors import Conflict, UserError
from handoff.base.ids import check_id
from handoff.base.markdown import one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.board.tasks import questions, races, requirements, states, tasks
from handoff.board.tasks.tasks import ENTRANT, FAN_IN, SUB_TASK, Task
from handoff.store.database import fetch_all, fetch_one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from handoff.store.database import Row, Store, Transaction

OPEN, DONE, CANCELLED = "open", "done", "cancelled"
LAND_ALL, LAND_IN_ORDER = "all", "in-order"
"""When parts land: nothing until all of them are green, or each as soon as it is green. `tasks.REVIEW` and `BRANCH` are all, too."""
HOURS = 3.0
LIMIT = 1000
_HOUR = 3600.0


class Batch(Record):
    """A batch as it was at one moment. `remaining` sub-tasks are to be counted out before the fan-in opens."""

    key: int
    project: str
    id: str
    workspace: str
    state: str
    total: int
    remaining: int
    fan_in: int | None
    next_task: str
    rationale: str
    estimated_speedup: float
    serial_minutes: float
    manifest: str
    created_at: float
    due_at: float | None
    overdue_at: float | None
    joined_at: float | None
    ended_at: float | None


class SubTask(Record):
    """One part of a batch to be opened."""

    id: str
    brief: str
    title: str = ""
    owns: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    estimate_minutes: float = 0.0
    role: str = ""
    agent: str = ""
    check_command: str = ""
    workspace: str = ""
    priority: int = 0
    max_attempts: int = tasks.MAX_ATTEMPTS
    labels: tuple[str, ...] = ()
    race: tuple[str, ...] = ()
    """The agents that run for it, empty names for any; nobody: it is done by one session."""


def open_batch(
    store: Store,
    *,
    project: str,
    id: str,
    sub_tasks: Sequence[SubTask],
    fan_in: SubTask,
    workspace: str = "",
    next_task: str = "",
    rationale: str = "",
    estimated_speedup: float = 0.0,
    serial_minutes: float = 0.0,
    timeout_hours: float = HOURS,
    manifest: str = "{}",
    baseline: Mapping[str, Any] | None = None,
) -> Batch:
    """Write the batch, its sub-tasks, their order and the waiting fan-in: all or nothing."""
    check_parts(project=project, id=id, sub_tasks=sub_tasks, fan_in=fan_in)
    with store.transaction() as transaction:
        now = transaction.now()
        used_before = _refuse_live_batch(transaction, project=project, id=id)
        tasks.refuse_live(transaction, project=project, id=fan_in.id)
        (row,) = transaction.query(
            "add_batch",
            project=project,
            id=id,
            workspace=workspace,
            total=len(sub_tasks),
            next_task=next_task,
            rationale=rationale,
            estimated_speedup=estimated_speedup,
            serial_minutes=serial_minutes,
            manifest=manifest,
            now=now,
            due_at=now + timeout_hours * _HOUR,
        )
        key = int(row["key"])
        common = {"project": project, "batch": key, "baseline": baseline, "not_before": 0.0, "now": now}
        _add_tasks(transaction, id, sub_tasks, fan_in, workspace, common, used_before=used_before)
        _link(transaction, key, sub_tasks)
        parts = (*(one for one, _, _ in _with_entrants(sub_tasks)), fan_in)
        if any(part.labels for part in parts):
            keys = {row["id"]: row["key"] for row in transaction.query("list_batch_keys", batch=key)}
            requirements.add(transaction, {keys[part.id]: requirements.check_labels(part.labels) for part in parts})
        (fan_in_row,) = [row for row in transaction.query("list_batch_keys", batch=key) if not row["scope"]]
        (row,) = transaction.query("set_fan_in", key=key, fan_in=fan_in_row["key"])
        journal.append(transaction, "batch.opened", project=project, batch=key, id=id, total=len(sub_tasks))
        return Batch(**row)


def entrants(part: SubTask) -> list[SubTask]:
    """Who runs for a raced part; each is asked for the same."""
    named = zip(races.names(part.id, part.race), part.race, strict=True)
    return [part._replace(id=name, agent=agent or part.agent, race=()) for name, agent in named]


def _with_entrants(parts: Sequence[SubTask]) -> list[tuple[SubTask, str, int]]:
    """Every part, and behind a raced one who runs for it: with its kind, and for how many things it waits.

    A raced part waits for one more than it names: only the end of the race meets that, so it is never ready itself.
    """
    found: list[tuple[SubTask, str, int]] = []
    for part in parts:
        needs, racing = len(set(part.depends_on)), entrants(part)
        found.append((part, SUB_TASK, needs + len(racing) + 1 if racing else needs))
        found += [(one, ENTRANT, needs) for one in racing]
    return found


def _add_tasks(
    transaction: Transaction,
    id: str,
    sub_tasks: Sequence[SubTask],
    fan_in: SubTask,
    workspace: str,
    common: dict[str, Any],
    *,
    used_before: bool,
) -> None:
    """The rows of the sub-tasks and of the fan-in, whose one open need is the batch itself: only the counter meets it."""
    project, parts = common["project"], _with_entrants(sub_tasks)
    generations = {
        part.id: tasks.next_generation(transaction, project=project, id=part.id, scope=id)
        for part, _, _ in parts
        if used_before
    }
    values = [
        tasks.new_values(
            **common,
            **_asked(part, workspace),
            scope=id,
            kind=kind,
            open_needs=open_needs,
            state=states.WAITING if open_needs else states.READY,
            generation=generations.get(part.id, 1),
        )
        for part, kind, open_needs in parts
    ]
    values.append(
        tasks.new_values(
            **common,
            **_asked(fan_in, workspace),
            kind=FAN_IN,
            open_needs=1,
            state=states.WAITING,
            generation=tasks.next_generation(transaction, project=project, id=fan_in.id),
        )
    )
    transaction.execute_many("add_tasks", values)


def check_parts(*, project: str, id: str, sub_tasks: Sequence[SubTask], fan_in: SubTask) -> None:
    """Refuse bad names, duplicates, unknown needs and circles before anything is written."""
    check_id(project, "project")
    check_id(id, "batch")
    check_id(fan_in.id, "fan-in task")
    if not sub_tasks:
        raise UserError(f"Batch '{id}' has no sub-tasks.", "Name at least one.")
    known: set[str] = set()
    for part, _, _ in _with_entrants(sub_tasks):
        check_id(part.id, "sub-task")
        if part.id in known:
            raise UserError(f"Batch '{id}' has two sub-tasks named '{part.id}'.", "Give each its own id.")
        known.add(part.id)
        requirements.check_labels(part.labels)
        tasks.check_fields(
            id=part.id,
            brief=part.brief,
            title=part.title,
            max_attempts=part.max_attempts,
            estimate_minutes=part.estimate_minutes,
        )
    if fan_in.id in known:
        raise UserError(f"Batch '{id}': '{fan_in.id}' is both a sub-task and the fan-in.", "Rename one of them.")
    for part in sub_tasks:
        for need in part.depends_on:
            if need not in known:
                raise UserError(f"Sub-task '{part.id}' depends on '{need}', which is not in batch '{id}'.")
    circle = find_circle({part.id: part.depends_on for part in sub_tasks})
    if circle:
        raise UserError(f"Batch '{id}' cannot start: {' needs '.join(circle)}.", "Take one of these dependencies away.")


def find(store: Store, *, project: str, id: str) -> Batch:
    """The batch people mean by `id`: the latest."""
    found = fetch_one(store, Batch, "find_batch", project=project, id=id)
    if found is None:
        raise UserError(f"There is no batch '{id}' in project '{project}'.", "See: handoff batch list --all")
    return found


def latest(store: Store, *, project: str) -> Batch | None:
    """The batch of a project that was opened last."""
    return next(iter(listing(store, project=project, include_ended=True, limit=1)), None)


def is_known(store: Store, *, project: str, id: str) -> bool:
    """Whether a batch of that id was ever opened, live or ended."""
    return fetch_one(store, Batch, "find_batch", project=project, id=id) is not None


def get(store: Store, *, key: int) -> Batch:
    """The batch with that key."""
    found = fetch_one(store, Batch, "get_batch", key=key)
    if found is None:
        raise UserError(f"There is no batch number {key}.")
    return found


def listing(store: Store, *, project: str = "", include_ended: bool = False, limit: int = LIMIT) -> list[Batch]:
    """Batches, newest first; only the live ones unless `include_ended`."""
    return fetch_all(store, Batch, "list_batches", project=project, live=int(not include_ended), limit=limit)


def page(
    store: Store, *, project: str = "", include_ended: bool = False, after: int = 0, limit: int = 100
) -> list[Batch]:
    """Batches by their keys: what comes after one, whatever happened to the rows before it."""
    asked = {"project": project, "ended": int(include_ended), "after": after, "limit": limit}
    return fetch_all(store, Batch, "page_of_batches", **asked)


def counts(store: Store) -> dict[int, dict[str, int]]:
    """How many parts of each open batch are done, and how many are blocked."""
    with store.transaction(write=False) as transaction:
        rows = transaction.query("count_batch_parts")
    return {int(row["batch"]): {"done": int(row["done"]), "blocked": int(row["blocked"])} for row in rows}


def is_moving(store: Store, *, key: int) -> bool:
    """Whether anything of a batch runs or may be started; the parts are not read for it, however many there are."""
    with store.transaction(write=False) as transaction:
        return transaction.one("find_moving", batch=key) is not None


def count_out(transaction: Transaction, task: Task) -> Task | None:
    """A sub-task is closed: one less. Whoever brings the counter to 0 opens the fan-in, which is returned."""
    if task.batch is None or task.kind != SUB_TASK or not transaction.execute("count_out_task", key=task.key):
        return None
    (row,) = transaction.query("count_out", key=task.batch)
    return join(transaction, key=task.batch) if row["remaining"] <= 0 else None


def count_in(transaction: Transaction, task: Task) -> bool:
    """A sub-task that was counted out is to be done after all; its fan-in waits for it again, even one that was done.

    False when it was never counted out, or its batch was cancelled.
    """
    if task.batch is None or task.kind != SUB_TASK or not task.counted:
        return False
    batch = get(transaction, key=task.batch)
    if batch.state == CANCELLED or batch.fan_in is None:
        return False
    if batch.state != OPEN:
        _reopen(transaction, batch, task)
    transaction.query("count_in", key=task.batch)
    return True


def arrive_late(transaction: Transaction, task: Task) -> Task | None:
    """A part that had been counted out as blocked is done after all: the fan-in must see it, even one that was done."""
    if task.batch is None or task.kind != SUB_TASK or not task.counted:
        return None
    if get(transaction, key=task.batch).state == OPEN or not count_in(transaction, task):
        return None
    transaction.query("count_out", key=task.batch)
    return join(transaction, key=task.batch)


def _reopen(transaction: Transaction, batch: Batch, task: Task) -> None:
    """Take back that the batch was whole: what its fan-in joined, or was about to join, lacks a part."""
    newer = transaction.one("find_batch", project=batch.project, id=batch.id)
    if newer is not None and newer["key"] != batch.key:
        raise Conflict(
            f"Batch '{batch.id}' is over, and a newer one has its name: '{task.label}' cannot join it any more.",
            f"Write it down as a task of its own: handoff dump --task {task.id}-again",
        )
    fan_in = tasks.get(transaction, key=batch.fan_in or 0)
    if fan_in.ended:
        tasks.refuse_live(transaction, project=fan_in.project, id=fan_in.id, scope=fan_in.scope)
    if transaction.one("close_fan_in", key=fan_in.key, now=transaction.now()) is None:
        raise Conflict(
            f"The fan-in '{fan_in.label}' is {fan_in.state}: it would not see what '{task.label}' makes now.",
            f"Wait until it ends, or take it back first: handoff cancel {fan_in.label}",
        )
    transaction.execute("withdraw_gate", task=fan_in.key, now=transaction.now())
    journal.append(transaction, "batch.reopened", project=batch.project, batch=batch.key, id=batch.id, part=task.label)


def join(transaction: Transaction, *, key: int) -> Task | None:
    """Open the fan-in of a whole batch, once."""
    row = transaction.one("join_batch", key=key, now=transaction.now())
    if row is None:
        return None
    opened = transaction.one("open_fan_in", key=row["fan_in"], now=transaction.now())
    journal.append(transaction, "batch.joined", project=row["project"], batch=key, id=row["id"])
    if opened is None or opened["state"] != states.READY:  # a person has closed or blocked the fan-in by hand
        return None
    task = ask_about_missing(transaction, Task(**opened))
    if task.state == states.READY:
        journal.append(transaction, "task.readied", task=task)
    return task


def ask_about_missing(transaction: Transaction, fan_in: Task) -> Task:
    """Half a batch lands only when a person says so: a fan-in that is ready without all its parts waits at a gate."""
    missing = transaction.query("list_missing", batch=fan_in.batch) if fan_in.state == states.READY else []
    if not missing:
        return fan_in
    gated = Task(**transaction.query("gate_fan_in", key=fan_in.key, now=transaction.now())[0])
    batch = get(transaction, key=fan_in.batch or 0)
    questions.put(transaction, gated, question=_question(batch.id, batch.total, missing))
    return gated


def _question(id: str, total: int, missing: Sequence[Row]) -> str:
    alike: dict[str, list[str]] = {}
    for part in missing:
        alike.setdefault(one_line(part["reason"]) or "no reason given", []).append(part["id"])
    told = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in alike.items())
    are, again = ("is", f"{id}/{missing[0]['id']}") if len(missing) == 1 else ("are", id)
    return (
        f"{len(missing)} of {total} parts of batch '{id}' {are} missing: {told}. Bring the others together without them?"
        f" To wait for them instead: handoff retry {again}"
    )


def end(transaction: Transaction, *, key: int, state: str) -> Batch | None:
    """The batch is over, once."""
    row = transaction.one("end_batch", key=key, state=state, now=transaction.now())
    if row is None:
        return None
    journal.append(
        transaction, f"batch.{'finished' if state == DONE else state}", project=row["project"], batch=key, id=row["id"]
    )
    return Batch(**row)


def _asked(part: SubTask, workspace: str) -> dict[str, Any]:
    asked = part._asdict()
    del asked["depends_on"], asked["labels"], asked["race"]
    asked["workspace"] = part.workspace or workspace
    return asked


def _link(transaction: Transaction, key: int, sub_tasks: Sequence[SubTask]) -> None:
    parts = [part for part, _, _ in _with_entrants(sub_tasks)]
    if not any(part.depends_on or part.race for part in parts):
        return
    keys = {row["id"]: row["key"] for row in transaction.query("list_batch_keys", batch=key) if row["scope"]}
    edges = [
        {"task": keys[part.id], "needs": keys[need], "met": 0}
        for part in parts
        for need in dict.fromkeys((*part.depends_on, *(one.id for one in entrants(part))))
    ]
    transaction.execute_many("add_need", edges)


def _refuse_live_batch(transaction: Transaction, *, project: str, id: str) -> bool:
    row = transaction.one("find_batch", project=project, id=id)
    if row is not None and row["ended_at"] is None:
        raise Conflict(
            f"Batch '{id}' of project '{project}' is still {row['state']}.",
            f"Use another id, or end it: handoff cancel {id}",
        )
    return row is not None


# --- what it took ------------------------------------------------------------------------------------------------

SAMPLES = 20
_MINUTE = 60.0


class Measure(Record):
    """The figures of one finished batch. One row a batch: a repeated report changes nothing."""

    batch: int
    project: str
    sub_tasks: int
    estimated_minutes: float
    session_minutes: float
    wall_minutes: float
    estimated_speedup: float
    speedup: float
    serial_share: float | None
    summary: str
    at: float


class Calibration(Record):
    """How many minutes an estimated minute takes: the median of the latest batches, and its middle half."""

    factor: float
    low: float
    high: float
    samples: int


def record_measure(
    transaction: Transaction, *, batch: Batch, summary: str = "", session_minutes: float | None = None
) -> None:
    """Write the figures of a batch that has ended. Given minutes win over measured ones."""
    row = transaction.one("sum_batch_work", batch=batch.key) or {}
    work = float(row["busy_seconds"]) / _MINUTE if session_minutes is None else session_minutes
    began = batch.created_at if row["started_at"] is None else row["started_at"]
    finished = batch.joined_at if batch.joined_at is not None else transaction.now()
    wall = max(0.0, finished - began) / _MINUTE
    speed = work / wall if wall > 0 else 0.0
    transaction.execute(
        "add_measure",
        batch=batch.key,
        project=batch.project,
        sub_tasks=int(row["sub_tasks"]),
        estimated_minutes=float(row["estimated_minutes"]),
        session_minutes=work,
        wall_minutes=wall,
        estimated_speedup=batch.estimated_speedup,
        speedup=speed,
        serial_share=serial_share(speed, int(row["sub_tasks"])),
        summary=summary[:200],
        now=transaction.now(),
    )


def take_in(
    store: Store,
    *,
    project: str,
    batch: str,
    sub_tasks: int,
    estimated_minutes: float,
    session_minutes: float,
    estimated_speedup: float,
    speedup: float,
    summary: str,
    at: float,
) -> None:
    """The figures of a batch that another tool has brought to its end, so that the estimates go on."""
    with store.transaction() as transaction:
        (row,) = transaction.query("add_ended_batch", project=project, id=batch, total=sub_tasks, at=at)
        transaction.execute(
            "add_measure",
            batch=row["key"],
            project=project,
            sub_tasks=sub_tasks,
            estimated_minutes=estimated_minutes,
            session_minutes=session_minutes,
            wall_minutes=0.0,
            estimated_speedup=estimated_speedup,
            speedup=speedup,
            serial_share=None,
            summary=summary[:200],
            now=at,
        )


def serial_share(speedup: float, workers: int) -> float | None:
    """The part that did not run side by side, by Amdahl's law: speed-up = 1 / (s + (1 - s) / workers)."""
    if workers < 2 or speedup <= 0:  # noqa: PLR2004 - one worker has nobody beside it
        return None
    share = (workers / speedup - 1) / (workers - 1)
    return min(1.0, max(0.0, share))


def list_measures(store: Store, *, project: str = "", limit: int = SAMPLES) -> list[Measure]:
    """The latest figures, newest first."""
    return fetch_all(store, Measure, "list_measures", project=project, limit=limit)


def calibration(store: Store, *, project: str = "") -> Calibration:
    """The factor for the next estimate: 1 until a batch has shown both figures."""
    ratios = sorted(
        measure.session_minutes / measure.estimated_minutes
        for measure in list_measures(store, project=project)
        if measure.session_minutes > 0 and measure.estimated_minutes > 0
    )
    if not ratios:
        return Calibration(1.0, 1.0, 1.0, 0)
    return Calibration(_quantile(ratios, 0.5), _quantile(ratios, 0.25), _quantile(ratios, 0.75), len(ratios))


def _quantile(ordered: list[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


# --- needs of parts ----------------------------------------------------------------------------------------------


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
