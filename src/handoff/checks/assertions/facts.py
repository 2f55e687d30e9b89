"""What the text of one test shows."""

from __future__ import annotations

from handoff.base.record import Record


class AssertionFacts(Record):
    """One test as its text shows it. `trivial` counts assertions that can never fail; they are not in `assertions`."""

    assertions: int = 0
    skipped: bool = False
    empty: bool = False
    trivial: int = 0
