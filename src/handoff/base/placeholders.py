"""Strict placeholders: `{{name}}` in a text is filled in, and a name nobody knows is an error with its line."""

from __future__ import annotations

import re

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FIELD = r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\}"


def fill(text: str, values: Mapping[str, str], *, where: str, warn: Callable[[str], None] | None = None) -> str:
    """Fill the placeholders. A name we do not know is an error with its line; with `warn` it is told and stays as it is."""

    def one(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in values:
            from difflib import get_close_matches

            line = text.count("\n", 0, match.start()) + 1
            close = get_close_matches(name, values, n=1)
            meant = f"Did you mean '{{{{{close[0]}}}}}'? " if close else ""
            fault = f"{where}:{line}: unknown placeholder '{{{{{name}}}}}'."
            if warn is not None:
                warn(f"{fault} {meant}It stays as it is.")
                return match.group(0)
            raise UserError(fault, f"{meant}Known: {', '.join(sorted(values))}.")
        return values[name]

    return re.sub(_FIELD, one, text)


def names(text: str) -> dict[str, int]:
    """The names a text asks for, each with the line it first stands on."""
    found: dict[str, int] = {}
    for match in re.finditer(_FIELD, text):
        found.setdefault(match.group(1), text.count("\n", 0, match.start()) + 1)
    return found
