"""Metrics: what a batch took, counted once, and the factor for the next estimate."""

from __future__ import annotations

import pytest

from handoff.board.sessions import leases
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import batches, outcomes, tasks
from handoff.board.tasks.batches import SubTask


def run_batch(database, number, *, estimate, minutes, beside=True):
    """Two sub-tasks of so many minutes each, side by side or one after the other."""
    batch = batches.open_batch(
        database, project="shop", id=f"split-{number}", fan_in=SubTask(f"join-{number}", "x"), estimated_speedup=2.0,
        sub_tasks=[SubTask(name, "x", estimate_minutes=estimate) for name in ("api", "ui")],
    )  # fmt: skip
    *subs, fan_in = tasks.of_batch(database, batch=batch.key)
    claims = []
    for sub in subs:
        claims.append(leases.claim(database, key=sub.key, who=SessionIdentity(f"{number}-{sub.id}"), lease_seconds=1e6))
        if not beside:
            database.shift += minutes * 60
            outcomes.finish(database, key=sub.key, fence=1)
    if beside:
        database.shift += minutes * 60
        for claim in claims:
            outcomes.finish(database, key=claim.task.key, fence=1)
    outcomes.finish(database, key=fan_in.key, summary="joined")
    return batch


def test_a_batch_side_by_side_is_twice_as_fast_and_has_no_serial_share(database):
    batch = run_batch(database, 1, estimate=20, minutes=30)
    (measure,) = batches.list_measures(database)
    assert measure.batch == batch.key
    assert (measure.sub_tasks, measure.estimated_minutes, measure.summary) == (2, 40, "joined")
    assert measure.session_minutes == pytest.approx(60, abs=0.5)
    assert measure.wall_minutes == pytest.approx(30, abs=0.5)
    assert measure.speedup == pytest.approx(2, abs=0.05)
    assert measure.serial_share == pytest.approx(0, abs=0.05)


def test_a_batch_one_after_the_other_is_all_serial(database):
    batch = run_batch(database, 1, estimate=20, minutes=30, beside=False)
    (measure,) = batches.list_measures(database)
    assert measure.batch == batch.key
    assert measure.speedup == pytest.approx(1, abs=0.05)
    assert measure.serial_share == pytest.approx(1, abs=0.1)


def test_a_repeated_end_is_measured_once(database):
    batch = run_batch(database, 1, estimate=20, minutes=30)
    for _ in range(2):
        outcomes.finish(database, key=batches.get(database, key=batch.key).fan_in)
    assert len(batches.list_measures(database)) == 1


def test_the_factor_is_the_median_of_the_latest_twenty_with_its_spread(database):
    assert batches.calibration(database, project="shop") == (1.0, 1.0, 1.0, 0)
    for number in range(22):
        run_batch(database, number, estimate=10, minutes=1000 if number < 2 else number)
    found = batches.calibration(database, project="shop")
    assert found.samples == 20
    assert found.factor == pytest.approx(1.15, abs=0.02)
    assert found.low == pytest.approx(0.675, abs=0.02)
    assert found.high == pytest.approx(1.625, abs=0.02)


def test_a_batch_without_estimates_does_not_skew_the_factor(database):
    run_batch(database, 1, estimate=0, minutes=30)
    assert batches.calibration(database).samples == 0


@pytest.mark.parametrize(
    ("speedup", "workers", "share"), [(4, 4, 0.0), (1, 4, 1.0), (1.6, 4, 0.5), (9, 4, 0.0), (0, 4, None), (1, 1, None)]
)
def test_the_serial_share_follows_amdahl(speedup, workers, share):
    assert batches.serial_share(speedup, workers) == (None if share is None else pytest.approx(share))
