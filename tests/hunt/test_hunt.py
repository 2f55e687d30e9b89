"""Random journeys over the real verbs breach none of the invariants: a little in every run, hours of it in `make hunt`."""

from __future__ import annotations

import pytest

from databases import empty
from hunt.run import hunt


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_no_journey_loses_work_or_calls_it_done_wrongly(number):
    assert hunt(steps=1000, number=number, shrink=False).steps >= 1000


@pytest.mark.slow
def test_nor_does_one_on_postgres(postgres_server):
    assert hunt(steps=250, number=3, url=postgres_server.url, shrink=False).steps >= 250
    empty(postgres_server.url)
