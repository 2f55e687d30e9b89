"""Change a JSON or TOML file without touching the rest of it: members, elements and tables are cut out of or set into the text."""

from __future__ import annotations

import json
import re
import tomllib

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SPACE = " \t\r\n"
_DECODER = json.JSONDecoder()
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')
_SIGN = re.compile(r"[^\r\n]")


class JsonMember(Record):
    """One member of an object or element of an array: where it begins (its key, if it has one), its value and its end."""

    key: str
    begin: int
    value: Any
    value_begin: int
    end: int


def parts(text: str, at: int) -> list[JsonMember]:
    """The parts of the object or array that begins at `at`; ValueError where the text is not JSON."""
    text = plain(text)
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
    at = _skip(plain(text), 0)
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
    end = existing[-1].end if existing else container + 1
    close = _skip(plain(text), end)
    last_comma = "," if "," in without_comments(text)[end:close] else ""
    comma = "," if existing and not last_comma else ""
    comments = text[end:close].rstrip()
    space = text[end + len(comments) : close] if existing else f"\n{unit * depth}"
    return f"{text[:end]}{comma}{comments}\n{margin}{new}{last_comma}{space}{text[close:]}"


def cut(text: str, container: int, wanted: Callable[[JsonMember], bool]) -> str:
    """The text without the parts that are `wanted` gone; comments beside them stay."""
    for index in range(len(parts(text, container)) - 1, -1, -1):
        found = parts(text, container)
        if wanted(found[index]):
            previous = found[index - 1].end if index else container + 1
            text = _without(text, previous, found[index], is_first=index == 0)
    return text


def _without(text: str, previous: int, part: JsonMember, *, is_first: bool) -> str:
    bare = without_comments(text)
    after = _skip(bare, part.end)
    if bare[after] == ",":
        if bare[_skip(bare, after + 1)] in "}]":  # the comma before it is the last one then
            return text[: part.begin].rstrip() + text[part.end : after] + text[after + 1 :]
        return text[: part.begin] + text[after + 1 :].lstrip()
    comma = part.begin if is_first else bare.index(",", previous)
    gap, tail = text[previous:comma] + text[comma + 1 : part.begin], text[part.end : after]
    if is_first and not gap.strip() and not tail.strip():
        gap = tail = ""
    elif not gap.strip() or "\n" in tail:
        gap = gap.rstrip()
    return text[:previous] + gap + tail + text[after:]


def plain(text: str) -> str:
    """The text with spaces instead of comments and of commas that nothing follows, so that every place in it is the same."""
    return _LAST_COMMA.sub(lambda found: found[1] or " ", without_comments(text))


def without_comments(text: str) -> str:
    """The text with spaces instead of comments."""
    return _COMMENT.sub(lambda found: found[1] or _SIGN.sub(" ", found[0]), text)


def top(text: str) -> int:
    """Where the object of a document begins."""
    return plain(text).index("{")


def indent_of(text: str) -> str:
    """The document's own step of indentation; two spaces where it has none."""
    for line in plain(text).split("\n")[1:]:
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


# --- one table of a TOML file, found by its key, wherever others moved it --------------------------------------------

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class TomlPart(Record):
    """One header or one key with its value: where it stands in the text, and the path of its key."""

    path: tuple[str, ...]
    header: bool
    begin: int
    end: int


def table_parts(text: str) -> list[TomlPart]:
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


def add_table(text: str, path: tuple[str, ...], value: dict[str, Any]) -> str:
    """The text with one more table, below everything."""
    gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}[{'.'.join(map(_key, path))}]\n{_lines(value)}"


def change_table(text: str, path: tuple[str, ...], value: dict[str, Any]) -> str:
    """The text with these keys of a table set; the same text where the table has no header of its own."""
    if not any(part.header and part.path == path for part in table_parts(text)):
        return text
    for key in value:
        text = cut_table(text, (*path, key))
    end = next(part.end for part in table_parts(text) if part.header and part.path == path)
    return f"{text[:end]}{_lines(value)}{text[end:]}"


def cut_table(text: str, path: tuple[str, ...]) -> str:
    """The text without a key or table and the tables below it; comments behind its last key stay."""
    spans: list[tuple[int, int]] = []
    inside = False
    for part in table_parts(text):
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
