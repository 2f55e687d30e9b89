"""One piece of ours in a file: how it is put in, and how it is taken out of a file that others have changed since."""

from __future__ import annotations

import json
import os
import re
import tomllib
from hashlib import sha256

from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.setup import json_edit, settings_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

HOOKS, TOOLS, BLOCK, LINE, WHOLE = "hooks", "tools", "block", "line", "whole"
_NAME = "handoff"
_COMMENT = {"md": ("<!-- ", " -->"), "#": ("# ", "")}
_CHANGED = "was changed since: what is left is yours to judge"
_RUNS = ("command", "args")
_OLD_MARKS = re.compile(r"^# handoff:(?:begin|end)\n?", re.MULTILINE)
"""Comments that stood around our table once; clients drop one and keep the other."""


class Piece(Record):
    """Something of ours in one file: what it is, the text of it, and the words a person is told."""

    kind: str
    path: str
    scope: str
    what: str
    detail: str = ""
    """The text of it; for hooks the client's name, for tools the value as JSON."""
    key: str = ""
    """For tools the object they stand in, for a block or a whole file the kind of comment, for a line `top` or nothing."""


class Edited(Record):
    """A text after an edit, and why something was left as it is."""

    text: str
    left: str = ""


def put(piece: Piece, text: str, known: Piece | None = None) -> Edited:
    """The text with the piece in it. `known` is the piece as we put it in before, if we did."""
    if piece.kind == HOOKS:
        return Edited(settings_files.with_hooks(piece.path, text, agent=piece.detail, scope=piece.scope))
    if piece.kind == TOOLS:
        return _put_tools(piece, text, known)
    if piece.kind == BLOCK:
        return _put_block(piece, text)
    if piece.kind == LINE:
        return _put_line(piece, text)
    if not text or _is_untouched(piece, text) or (known and text == known.detail):
        mark, close = _COMMENT[piece.key]
        return Edited(f"{piece.detail.rstrip()}\n{mark}handoff:written {_seal(piece.detail)}{close}\n")
    return Edited(text, "a file of that name is there, and it is yours or was changed since")


def take(piece: Piece, text: str) -> Edited:
    """The text without the piece; what we did not write stays and is named."""
    if piece.kind == HOOKS:
        return Edited(settings_files.without_hooks(piece.path, text))
    if piece.kind == TOOLS:
        return _take_tools(piece, text)
    if piece.kind == BLOCK:
        return _take_block(piece, text)
    if piece.kind == LINE:
        lines = text.splitlines(keepends=True)
        ours = next((index for index, line in enumerate(lines) if line.rstrip("\r\n") == piece.detail), -1)
        return Edited("".join(line for index, line in enumerate(lines) if index != ours))
    ours = not text or text == piece.detail or _is_untouched(piece, text)
    return Edited("") if ours else Edited(text, f"it {_CHANGED}")


# --- tools of a client, as an entry of its JSON or a table of its TOML --------------------------------


def _put_tools(piece: Piece, text: str, known: Piece | None) -> Edited:
    """The entry is ours by its key. What its person or client set in it stays, and so does one they wrote themselves."""
    text = _without_old_marks(piece, text)
    there, wanted = _entry(piece, _read(piece, text)), json.loads(piece.detail)
    if there is None:
        return Edited(_with_entry(piece, text, {}, wanted))
    merged = _merged(json.loads(known.detail), there, wanted) if known else there
    text = text if merged == there else _with_entry(piece, text, there, merged)
    return Edited(text, "" if _runs(merged) == _runs(wanted) else f"'{_NAME}' is registered there in another way")


def _take_tools(piece: Piece, text: str) -> Edited:
    text = _without_old_marks(piece, text)
    there = _entry(piece, _read(piece, text)) if text.strip() else None
    if there is None:
        return Edited(text)
    if _runs(there) != _runs(json.loads(piece.detail)):
        return Edited(text, f"the entry '{_NAME}' {_CHANGED}")
    return Edited(_without_entry(piece, text))


def _runs(entry: Any) -> list[Any]:
    return [entry.get(key) for key in _RUNS] if isinstance(entry, dict) else []


def _merged(known: Any, there: Any, wanted: Any) -> Any:
    """What we want now, where nobody changed what we wrote before."""
    if not (isinstance(known, dict) and isinstance(there, dict) and isinstance(wanted, dict)):
        return wanted if there == known else there
    keys = dict.fromkeys((*there, *wanted))
    found = {key: _merged(known.get(key), there.get(key), wanted.get(key)) for key in keys}
    return {key: value for key, value in found.items() if value is not None}


def _read(piece: Piece, text: str) -> dict[str, Any]:
    """The settings of a file; an error that names it where they are none."""
    if not piece.path.endswith(".toml"):
        return settings_files.json_object(piece.path, text if text.strip() else "{}")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{piece.path} is not valid TOML: {error}.", "Fix the file; nothing was changed.") from error


def _entry(piece: Piece, settings: dict[str, Any]) -> Any:
    container = settings.get(piece.key, {})
    if not isinstance(container, dict):
        raise UserError(f"{piece.path}: '{piece.key}' is not a table.", "Fix the file; nothing was changed.")
    return container.get(_NAME)


def _with_entry(piece: Piece, text: str, there: dict[str, Any], wanted: dict[str, Any]) -> str:
    place = (piece.key, _NAME)
    if piece.path.endswith(".toml"):
        if there:
            changed = {key: value for key, value in wanted.items() if there.get(key) != value}
            return _checked(piece, text, change(text, place, changed), wanted)
        return _checked(piece, text, add(text, place, wanted), wanted)
    after = _without_entry(piece, text) if there else text if text.strip() else "{}\n"
    if json_edit.find(after, piece.key) is None:
        after = json_edit.add(after, json_edit.top(after), {}, key=piece.key)
    held = json_edit.find(after, piece.key)
    assert held is not None  # noqa: S101 - it has just been put there
    return _checked(piece, text, json_edit.add(after, held.value_begin, wanted, key=_NAME, depth=1), wanted)


def _without_entry(piece: Piece, text: str) -> str:
    if piece.path.endswith(".toml"):
        return _checked(piece, text, cut(text, (piece.key, _NAME)), None)
    held = json_edit.find(text, piece.key)
    assert held is not None  # noqa: S101 - the caller has seen the entry in it
    after = json_edit.cut(text, held.value_begin, lambda one: one.key == _NAME)
    held = json_edit.find(after, piece.key)
    if held is not None and not held.value:
        after = json_edit.cut(after, json_edit.top(after), lambda one: one.key == piece.key)
    return _checked(piece, text, after, None)


def _checked(piece: Piece, before: str, after: str, wanted: Any) -> str:
    """The new text, if it says the same as the old one in everything but our entry."""
    old = _read(piece, before)
    old[piece.key] = {name: value for name, value in old.get(piece.key, {}).items() if name != _NAME}
    if wanted is not None:
        old[piece.key][_NAME] = wanted
    try:
        new = _read(piece, after)
    except UserError:
        new = {}
    if {**new, piece.key: new.get(piece.key, {})} != old:
        raise UserError(
            f"{piece.path}: '{piece.key}' is written in a way that setup cannot change.",
            f"Nothing was changed. Write it as a table of its own, [{piece.key}.{_NAME}], or take it out by hand.",
        )
    return after


def _without_old_marks(piece: Piece, text: str) -> str:
    return _OLD_MARKS.sub("", text) if piece.path.endswith(".toml") else text


# --- a block between marks, a line, a whole file --------------------------------------------------


def _put_block(piece: Piece, text: str) -> Edited:
    mark, close = _COMMENT[piece.key]
    detail = piece.detail.strip()
    whole = f"{mark}handoff:begin {_seal(detail)}{close}\n{detail}\n{mark}handoff:end{close}"
    found = _find_block(piece, text)
    if found is None:
        gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        return Edited(f"{text}{gap}{whole}\n")
    if not _is_ours(found):
        return Edited(text, "you changed the text between the marks of handoff: move your lines out of it")
    return Edited(text[: found.start()] + whole + text[found.end() :])


def _take_block(piece: Piece, text: str) -> Edited:
    found = _find_block(piece, text)
    if found is None:
        return Edited(text)
    if not _is_ours(found):
        return Edited(text, f"the block between the marks of handoff {_CHANGED}")
    before, after = text[: found.start()], text[found.end() :].removeprefix("\n")
    if not after and before.endswith("\n\n"):
        before = before[:-1]  # the gap we put between
    return Edited(before + after)


def _find_block(piece: Piece, text: str) -> re.Match[str] | None:
    """Our block; one without its end, or two of them, is for a person to fix."""
    mark, close = (re.escape(one) for one in _COMMENT[piece.key])
    begin, end = f"{mark}handoff:begin(?: (\\w+))?{close}", f"{mark}handoff:end{close}"
    found = re.search(f"{begin}\n(.*?)\n?{end}", text, re.DOTALL)
    if [len(re.findall(one, text)) for one in (begin, end)] != [int(found is not None)] * 2:
        raise UserError(
            f"{piece.path}: the marks handoff:begin and handoff:end do not stand as one pair.",
            "Fix them by hand; nothing was changed.",
        )
    return found


def _is_ours(found: re.Match[str]) -> bool:
    """Whether the text in the block is as it was written, by any version; those without a seal were not told apart."""
    seal, inside = found.groups()
    return not seal or seal == _seal(inside)


def _put_line(piece: Piece, text: str) -> Edited:
    """A line of ours, above everything (settings) or below it (documents); its first word says that it is there already."""
    word = piece.detail.split()[0]
    if any(line.split()[:1] == [word] for line in text.splitlines()):
        return Edited(text)
    if piece.key == "top":
        return Edited(f"{piece.detail}\n{text}")
    gap = "" if not text or text.endswith("\n") else "\n"
    return Edited(f"{text}{gap}{piece.detail}\n")


def _is_untouched(piece: Piece, text: str) -> bool:
    """Whether a whole file is as some version of ours wrote it: its last line has the seal of what is above."""
    body, _, last = text.rstrip().rpartition("\n")
    mark, close = _COMMENT[piece.key]
    return last == f"{mark}handoff:written {_seal(body)}{close}"


def _seal(text: str) -> str:
    """What tells our text from one that somebody edited; line ends and spaces do not count, because formatters move them."""
    return sha256(" ".join(text.split()).encode()).hexdigest()[:12]


# --- Instruction files: a marked block in AGENTS.md, one line where a client reads another file, skills

SHIM = "@AGENTS.md <!-- handoff -->"
MAIN, SKILL = "AGENTS.md", "skills/handoff/SKILL.md"
_SHIMMED = {"CLAUDE.md": "", "GEMINI.md": "gemini"}
"""Files that are read instead of AGENTS.md, and the client that reads no other."""
_SKILLED = {".agents": "", ".claude": "claude"}
"""Where skills are looked for, and the client that looks nowhere else."""
_PROJECT = "project"


def instruction_pieces(top: str, agents: Sequence[str] = ()) -> list[Piece]:
    """What the clients that work here really read, as pieces of files."""
    found = [_piece(BLOCK, os.path.join(top, MAIN), "what agents read about handoff", _packaged("instructions.md"))]
    for name, client in _SHIMMED.items():
        path = os.path.join(top, name)
        if os.path.exists(path) or (client and (client in agents or os.path.isdir(os.path.join(top, f".{client}")))):
            found.append(_piece(LINE, path, "a line that points to AGENTS.md", SHIM))
    for folder, client in _SKILLED.items():
        if not client or client in agents or os.path.isdir(os.path.join(top, folder)):
            path = os.path.join(top, folder, SKILL)
            found.append(_piece(WHOLE, path, "a skill: which command when", _packaged("skill.md")))
    return found


def _piece(kind: str, path: str, what: str, detail: str) -> Piece:
    return Piece(kind=kind, path=path, scope=_PROJECT, what=what, detail=detail, key="" if kind == LINE else "md")


def _packaged(name: str) -> str:
    return files.read_text(os.path.join(os.path.dirname(__file__), name))


# --- editing TOML -------------------------------------------------------------------------------------------

# Change one table of a TOML file and leave the rest as it is: the table is found by its key, wherever others moved it.

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
