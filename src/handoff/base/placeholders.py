"""Strict placeholders: `{{name}}` in a text is filled in, and a name nobody knows is an error with its line."""

from __future__ import annotations

import re

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELD = r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\}"


def fill(text: str, values: Mapping[str, str], *, where: str) -> str:
    """Fill the placeholders; a name we do not know is an error with its line, never an empty spot."""

    def one(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in values:
            from difflib import get_close_matches

            line = text.count("\n", 0, match.start()) + 1
            close = get_close_matches(name, values, n=1)
            known = ", ".join(sorted(values))
            raise UserError(
                f"{where}:{line}: unknown placeholder '{{{{{name}}}}}'.",
                (f"Did you mean '{{{{{close[0]}}}}}'? " if close else "") + f"Known: {known}.",
            )
        return values[name]

    return re.sub(_FIELD, one, text)


def names(text: str) -> dict[str, int]:
    """The names a text asks for, each with the line it first stands on."""
    found: dict[str, int] = {}
    for match in re.finditer(_FIELD, text):
        found.setdefault(match.group(1), text.count("\n", 0, match.start()) + 1)
    return found
