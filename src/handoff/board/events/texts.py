"""Texts of columns: JSON, and words no database can keep."""

from __future__ import annotations

from handoff.base.errors import UserError
from handoff.base.light_json import dumps, loads
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def write(value: Any) -> str:
    """A value as JSON."""
    return dumps(value)


def read(text: str, empty: Any) -> Any:
    """The value a column's JSON means."""
    return empty if text in ("", "[]", "{}") else loads(text)


def check(text: str, what: str) -> str:
    """Return `text` if both databases can keep it."""
    if "\0" in text:
        raise UserError(f"The {what} holds a NUL character.", "Take it out.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(f"The {what} is not UTF-8 (near character {error.start + 1}).", "Save it as UTF-8.") from error
    return text
