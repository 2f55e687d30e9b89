"""Text in columns: cut, wrapped, padded, and with everything that steers a terminal made visible."""

from __future__ import annotations

import os
import textwrap

from rich.cells import cell_len, chop_cells, set_cell_size

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
    return os.path.commonpath([os.path.dirname(name) for name in names]) if len(names) > 1 else ""


def wrap(text: str, room: int) -> list[str]:
    """A line in as many as it needs, none of them lost; what goes on is indented as its beginning."""
    if cell_len(text) <= room:
        return [text]
    if not text.isascii():
        return chop_cells(text, room)
    indent = " " * min(len(text) - len(text.lstrip()), room // 2)
    return textwrap.wrap(text, room, subsequent_indent=indent, drop_whitespace=False, break_on_hyphens=False) or [""]


def pad(text: str, room: int) -> str:
    """Exactly so many columns."""
    return set_cell_size(text, max(0, room))
