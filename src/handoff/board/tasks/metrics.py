"""Metrics: what a batch took against what was thought, and the factor for the next estimate."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.store.database import fetch_all

if TYPE_CHECKING:
    from handoff.board.tasks.batches import Batch
    from handoff.store.database import Store, Transaction

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


def record(transaction: Transaction, *, batch: Batch, summary: str = "", session_minutes: float | None = None) -> None:
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


def listing(store: Store, *, project: str = "", limit: int = SAMPLES) -> list[Measure]:
    """The latest figures, newest first."""
    return fetch_all(store, Measure, "list_measures", project=project, limit=limit)


def calibration(store: Store, *, project: str = "") -> Calibration:
    """The factor for the next estimate: 1 until a batch has shown both figures."""
    ratios = sorted(
        measure.session_minutes / measure.estimated_minutes
        for measure in listing(store, project=project)
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
