"""Change one table of a TOML file and leave the rest as it is: the table is found by its key, wherever others moved it."""

from __future__ import annotations

import json
import re
import tomllib

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class TomlPart(Record):
    """One header or one key with its value: where it stands in the text, and the path of its key."""

    path: tuple[str, ...]
    header: bool
    begin: int
    end: int


def parts(text: str) -> list[TomlPart]:
    """Every header and every key of a text that is valid TOML; a value may go over several lines."""
    found: list[TomlPart] = []
    table: tuple[str, ...] = ()
    begin = end = 0
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        end += len(line)
        try:
            value = tomllib.loads(text[begin:end])
        except tomllib.TOMLDecodeError:
            continue  # the value goes on in the next line
        header = line.lstrip().startswith("[") and text[begin:end] == line
        if header:
            table = _path(value)
            found.append(TomlPart(table, header, begin, end))
        elif value:
            found.append(TomlPart((*table, next(iter(value))), header, begin, end))
        begin = end
    return found


def add(text: str, path: tuple[str, ...], value: dict[str, Any]) -> str:
    """The text with one more table, below everything."""
    gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}[{'.'.join(map(_key, path))}]\n{_lines(value)}"


def change(text: str, path: tuple[str, ...], value: dict[str, Any]) -> str:
    """The text with these keys of a table set; the same text where the table has no header of its own."""
    if not any(part.header and part.path == path for part in parts(text)):
        return text
    for key in value:
        text = cut(text, (*path, key))
    end = next(part.end for part in parts(text) if part.header and part.path == path)
    return f"{text[:end]}{_lines(value)}{text[end:]}"


def cut(text: str, path: tuple[str, ...]) -> str:
    """The text without a key or table and the tables below it; comments behind its last key stay."""
    spans: list[tuple[int, int]] = []
    inside = False
    for part in parts(text):
        goes_on, inside = inside and not part.header, part.path[: len(path)] == path
        if inside:
            spans.append((spans.pop()[0] if goes_on else part.begin, part.end))
    for begin, end in reversed(spans):
        before, after = text[:begin], text[end:]
        if not before:
            after = after.removeprefix("\n")
        elif before.endswith("\n\n") and (not after or after.startswith("\n")):
            before = before[:-1]  # the empty line between two tables
        text = before + after
    return text


def written(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)} = {written(one)}" for key, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _path(value: Any) -> tuple[str, ...]:
    """The keys of a header that was parsed alone."""
    found: list[str] = []
    while value:
        if isinstance(value, list):
            value = value[0]
            continue
        found.append(next(iter(value)))
        value = value[found[-1]]
    return tuple(found)


def _lines(value: dict[str, Any]) -> str:
    return "".join(f"{_key(key)} = {written(one)}\n" for key, one in value.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else written(name)
