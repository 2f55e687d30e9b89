"""Text in columns: cut, padded, and with everything that steers a terminal made visible."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from handoff.surfaces.cli.output import shown


def clean(text: str) -> str:
    """One line that cannot move a cursor: control characters are shown."""
    return shown(text.replace("\t", "    ").replace("\n", " "))


def cut(text: str, room: int) -> str:
    """At most so many columns; what is cut ends in dots."""
    text = clean(text)
    if cell_len(text) <= room:
        return text
    return set_cell_size(text, max(0, room - 3)).rstrip() + "..."[: max(0, room)]


def pad(text: str, room: int) -> str:
    """Exactly so many columns."""
    return set_cell_size(text, max(0, room))
