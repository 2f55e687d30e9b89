"""On which line of a JSON or TOML file a value stands. Only errors ask."""

from __future__ import annotations

import json
import re

from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder()


def line_in_json(text: str, place: tuple[str | int, ...]) -> int:
    """The line of the value at `place`, or of the innermost part of it that exists."""
    at = _skip(text, 0)
    for step in place:
        found = next((where for name, where in _members(text, at) if name == step), None)
        if found is None:
            break
        at = found
    return text.count("\n", 0, at) + 1


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _members(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """The members of the object or the list that begins at `at`, by key or by number, each with where its value begins."""
    kind, number = text[at : at + 1], 0
    at = _skip(text, at + 1)
    while kind in ("{", "[") and text[at : at + 1] not in ("}", "]"):
        name: str | int = number
        if kind == "{":
            name, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        yield name, at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ",":
            return
        at, number = _skip(text, at + 1), number + 1


def line_in_toml(text: str, place: tuple[str | int, ...]) -> int:
    """The line of the table or key at `place`, as near as plain reading of the lines finds it."""
    lines = text.splitlines()
    at = 0
    header: list[str] = []
    for position, step in enumerate(place):
        if isinstance(step, int):
            found = _nth_header(lines, at, ".".join(header), step)
        else:
            header.append(step)
            if position + 1 < len(place) and isinstance(place[position + 1], int):
                continue
            found = _key(lines, at, step)
        if found is None:
            break
        at = found
    return at + 1


def _nth_header(lines: list[str], at: int, name: str, index: int) -> int | None:
    """The index-th `[[name]]` from line `at` on, as far as a header of a level above does not end the search."""
    seen = -1
    for number in range(at, len(lines)):
        head = lines[number].strip().replace(" ", "")
        if head.startswith(f"[[{name}]]"):
            seen += 1
            if seen == index:
                return number
        elif head.startswith("[[") and number > at and not head.startswith(f"[[{name.partition('.')[0]}"):
            return None
    return None


def _key(lines: list[str], at: int, name: str) -> int | None:
    start = at + 1 if lines and at < len(lines) and lines[at].strip().startswith("[") else at
    for number in range(start, len(lines)):
        line = lines[number].strip()
        if line.startswith("["):
            if line.strip("[] ").split(".")[-1] == name:
                return number
            return None if start > at else _header_of(lines, number, name)
        if line.partition("=")[0].strip().strip("\"'") == name:
            return number
    return None


def _header_of(lines: list[str], at: int, name: str) -> int | None:
    for number in range(at, len(lines)):
        if lines[number].strip().strip("[] ") == name:
            return number
    return None
