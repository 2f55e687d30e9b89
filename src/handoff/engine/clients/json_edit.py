"""Change a JSON file without touching the rest of it: members and elements are cut out of or set into the text."""

from __future__ import annotations

import json

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SPACE = " \t\r\n"
_DECODER = json.JSONDecoder()


class JsonMember(Record):
    """One member of an object or element of an array: where it begins (its key, if it has one), its value and its end."""

    key: str
    begin: int
    value: Any
    value_begin: int
    end: int


def parts(text: str, at: int) -> list[JsonMember]:
    """The parts of the object or array that begins at `at`; ValueError where the text is not JSON."""
    closing = {"{": "}", "[": "]"}[text[at]]
    found: list[JsonMember] = []
    at = _skip(text, at + 1)
    while text[at : at + 1] != closing:
        begin, key = at, ""
        if closing == "}":
            key, at = _DECODER.raw_decode(text, at)
            at = _expect(text, _skip(text, at), ":")
        value_begin = _skip(text, at)
        value, at = _DECODER.raw_decode(text, value_begin)
        found.append(JsonMember(key, begin, value, value_begin, at))
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
    return found


def find(text: str, *keys: str) -> JsonMember | None:
    """The member that a path of keys leads to, from the top of the document."""
    at = _skip(text, 0)
    found = None
    for key in keys:
        if text[at : at + 1] != "{":
            return None
        found = next((part for part in parts(text, at) if part.key == key), None)
        if found is None:
            return None
        at = found.value_begin
    return found


def add(text: str, container: int, value: Any, *, key: str = "", depth: int = 0) -> str:
    """The text with one more part at the end of the container that begins at `container`."""
    unit = indent_of(text)
    existing = parts(text, container)
    margin = unit * (depth + 1)
    body = json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", "\n" + margin)
    new = f"{json.dumps(key, ensure_ascii=False)}: {body}" if key else body
    if existing:
        end = existing[-1].end
        return f"{text[:end]},\n{margin}{new}{text[end:]}"
    close = _skip(text, container + 1)
    return f"{text[: container + 1]}\n{margin}{new}\n{unit * depth}{text[close:]}"


def cut(text: str, container: int, wanted: Callable[[JsonMember], bool]) -> str:
    """The text without the parts that are `wanted` gone."""
    found = parts(text, container)
    for index in range(len(found) - 1, -1, -1):
        if not wanted(found[index]):
            continue
        if index:
            text = text[: found[index - 1].end] + text[found[index].end :]
        elif len(found) > 1:
            text = text[: found[0].begin] + text[found[1].begin :]
        else:
            close = _skip(text, found[0].end)
            text = text[: container + 1] + text[close:]
        del found[index]
        found = parts(text, container)
    return text


def indent_of(text: str) -> str:
    """The document's own step of indentation; two spaces where it has none."""
    for line in text.split("\n")[1:]:
        bare = line.lstrip(" \t")
        if bare and bare != line and not bare.startswith("}"):
            return line[: len(line) - len(bare)]
    return "  "


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _expect(text: str, at: int, sign: str) -> int:
    if text[at : at + 1] != sign:
        raise ValueError(f"expected {sign!r} at character {at}")
    return at + 1
