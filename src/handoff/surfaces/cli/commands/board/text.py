"""Text in columns: cut, wrapped, padded, and with everything that steers a terminal made visible."""

from __future__ import annotations

import os

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


def shorten(name: str, room: int, *, ascii_only: bool) -> str:
    """A name in so many columns: what is left out is its middle, since its end tells it from its neighbours."""
    name = clean(name)
    if cell_len(name) <= room:
        return name
    dots = "..." if ascii_only else "…"
    folder, slash, last = name.rpartition("/")
    if slash and cell_len(last) + len(dots) < room:
        return shorten(folder, room - cell_len(last) - 1, ascii_only=ascii_only) + slash + last
    name = last
    if cell_len(name) <= room:
        return name
    left = max(0, (room - len(dots)) // 3)
    end = name
    while cell_len(end) > max(0, room - len(dots) - left):
        end = end[1:]
    return set_cell_size(name, left) + dots + end


def common_folder(names: list[str]) -> str:
    """What all of several names begin with, up to a slash; it stands once above them."""
    return os.path.commonpath([os.path.dirname(name) for name in (min(names), max(names))]) if len(names) > 1 else ""


def pad(text: str, room: int) -> str:
    """Exactly so many columns."""
    return set_cell_size(text, max(0, room))
