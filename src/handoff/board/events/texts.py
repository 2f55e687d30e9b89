"""Texts of columns: JSON without the JSON library where the values are plain, and words no database can keep."""

from __future__ import annotations

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def write(value: Any) -> str:
    """A value as JSON. The library, which costs a third of a light command's start, is asked for odd ones only."""
    plain = _plain(value)
    if plain is not None:
        return plain
    import json

    return json.dumps(value)


def read(text: str, empty: Any) -> Any:
    """The value a column's JSON means."""
    if text in ("", "[]", "{}"):
        return empty
    import json

    return json.loads(text)


def check(text: str, what: str) -> str:
    """Return `text` if both databases can keep it."""
    if "\0" in text:
        raise UserError(f"The {what} holds a NUL character.", "Take it out.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(f"The {what} is not UTF-8 (near character {error.start + 1}).", "Save it as UTF-8.") from error
    return text


def _plain(value: Any) -> str | None:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"' if escaped.isprintable() else None
    if isinstance(value, dict):
        parts = [(_plain(str(key)), _plain(item)) for key, item in value.items()]
        return None if any(None in part for part in parts) else "{" + ", ".join(f"{k}: {v}" for k, v in parts) + "}"
    if isinstance(value, list | tuple):
        items = [_plain(item) for item in value]
        return None if None in items else "[" + ", ".join(str(item) for item in items) + "]"
    return None
