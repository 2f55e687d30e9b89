"""Random journeys over the real verbs breach none of the invariants: a little in every run, hours of it in `make hunt`."""

from __future__ import annotations

import pytest

from hunt.run import hunt

SEEDS = (1, 2)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", SEEDS)
def test_no_journey_loses_work_or_calls_it_done_wrongly(number):
    done = hunt(steps=1200, number=number)
    assert done.steps >= 1000
