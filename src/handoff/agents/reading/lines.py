"""Read a client's output: one JSON value a line where it speaks JSON, plain words otherwise."""

from __future__ import annotations

from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

_LONGEST = 2000


def parse(line: str) -> dict[str, Any]:
    """The JSON object of a line; an empty one for anything else, because clients print warnings between their events."""
    text = line.strip()
    if not text.startswith("{"):
        return {}
    try:
        value = loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def text_of(value: Any) -> str:
    """A message as one short text, whatever shape a client gives it."""
    if isinstance(value, str):
        return value[:_LONGEST]
    if isinstance(value, dict):
        for key in ("message", "text", "data", "error", "name"):
            if value.get(key):
                return text_of(value[key])
        return ""
    if isinstance(value, list):
        return " ".join(filter(None, (text_of(item) for item in value)))[:_LONGEST]
    return "" if value is None else str(value)[:_LONGEST]


def number(value: Any) -> float:
    """A number, or 0 for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
