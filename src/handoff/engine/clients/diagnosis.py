"""What the doctor says of one thing."""

from __future__ import annotations

from handoff.base.record import Record

OK, WARNING, FAULT = "ok", "warning", "fault"


class Diagnosis(Record):
    """One thing that was looked at: ok, a warning or a fault, and what fixes it."""

    name: str
    state: str
    words: str
    fix: str = ""
