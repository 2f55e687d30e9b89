"""Random batches end in a state the report explains, and no byte of them is lost: a few in every run, a hundred in `make chaos`."""

from __future__ import annotations

from chaos.batch import Counter
from chaos.run import chaos


def test_random_batches_lose_nothing_and_land_exactly_what_was_done():
    chaos(batches=3, seed=11)
    assert sum(count for name, count in Counter.seen.items() if name.startswith("batch ")) == 3
