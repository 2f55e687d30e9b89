"""What the text of one test shows."""

from __future__ import annotations

from handoff.base.record import Record


class AssertionFacts(Record):
    """One test as its text shows it. `assertions` counts those that are reached and can fail, with those of its helpers.

    `trivial` ones can never fail, `weak` ones (which are in `assertions`) take nearly every answer; `opaque` says that
    something is called that may assert and cannot be seen; `asks` and `body` tell a test again under another name.
    """

    assertions: int = 0
    skipped: bool = False
    empty: bool = False
    trivial: int = 0
    weak: int = 0
    swallowed: int = 0
    unreachable: int = 0
    opaque: bool = True
    asks: tuple[str, ...] = ()
    body: str = ""
