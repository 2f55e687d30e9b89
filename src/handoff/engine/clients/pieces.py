"""One piece of ours in a file: how it is put in, and how it is taken out of a file that others have changed since."""

from __future__ import annotations

import json
import tomllib

from handoff.base.errors import UserError
from handoff.base.record import Record
from handoff.engine.clients import json_edit, settings_files

HOOKS, TOOLS, BLOCK, LINE, WHOLE = "hooks", "tools", "block", "line", "whole"
_NAME = "handoff"
_MARKS = {
    "md": ("<!-- handoff:begin -->", "<!-- handoff:end -->"),
    "#": ("# handoff:begin", "# handoff:end"),
}
_CHANGED = "it was changed since: what is left is yours to judge"


class Piece(Record):
    """Something of ours in one file: what it is, the text of it, and the words a person is told."""

    kind: str
    path: str
    scope: str
    what: str
    detail: str = ""
    """The text of it; for hooks the client's name, for tools the value as JSON."""
    key: str = ""
    """For tools the object they stand in, for a block the kind of comment, for a line `top` or nothing, for a whole file how it begins."""


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
    if text in ("", piece.detail) or text.startswith(piece.key):
        return Edited(piece.detail)
    return Edited(text, "a file of that name is there, and it is not ours")


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
    return Edited("") if text == piece.detail else Edited(text, _CHANGED)


# --- tools of a client, as an entry of its JSON ---------------------------------------------------


def _put_tools(piece: Piece, text: str, known: Piece | None) -> Edited:
    text = text if text.strip() else "{}\n"
    value = settings_files.json_object(piece.path, text)
    container = value.get(piece.key, {})
    if not isinstance(container, dict):
        raise UserError(f"{piece.path}: '{piece.key}' is not a JSON object.", "Fix the file; nothing was changed.")
    wanted, there = json.loads(piece.detail), container.get(_NAME)
    if there == wanted:
        return Edited(text)
    if there is not None:
        if known is None or there != json.loads(known.detail):
            return Edited(text, f"'{_NAME}' is registered there in another way")
        text = _take_tools(known, text).text
    if json_edit.find(text, piece.key) is None:
        text = json_edit.add(text, text.index("{"), {}, key=piece.key)
    held = json_edit.find(text, piece.key)
    assert held is not None  # noqa: S101 - it has just been put there
    return Edited(json_edit.add(text, held.value_begin, wanted, key=_NAME, depth=1))


def _take_tools(piece: Piece, text: str) -> Edited:
    if not text.strip():
        return Edited(text)
    settings_files.json_object(piece.path, text)
    held = json_edit.find(text, piece.key)
    there = json_edit.find(text, piece.key, _NAME)
    if held is None or there is None:
        return Edited(text)
    if there.value != json.loads(piece.detail):
        return Edited(text, f"the entry '{_NAME}' {_CHANGED.removeprefix('it ')}")
    text = json_edit.cut(text, held.value_begin, lambda one: one.key == _NAME)
    held = json_edit.find(text, piece.key)
    if held is not None and not held.value:
        text = json_edit.cut(text, text.index("{"), lambda one: one.key == piece.key)
    return Edited(text)


# --- a block between marks, and one line ----------------------------------------------------------


def _put_block(piece: Piece, text: str) -> Edited:
    begin, end = _MARKS[piece.key]
    whole = f"{begin}\n{piece.detail.strip()}\n{end}"
    first, last = bounds(piece.path, text, begin, end)
    if first >= 0:
        return Edited(text[:first] + whole + text[last:])
    if piece.path.endswith(".toml") and (left := _stands_in_toml(piece, text)):
        return Edited(text, left)
    gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    return Edited(f"{text}{gap}{whole}\n")


def _stands_in_toml(piece: Piece, text: str) -> str:
    try:
        there = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{piece.path} is not valid TOML: {error}.", "Fix the file; nothing was changed.") from error
    return f"'{_NAME}' is registered there in another way" if _NAME in there.get("mcp_servers", {}) else ""


def _take_block(piece: Piece, text: str) -> Edited:
    begin, end = _MARKS[piece.key]
    first, last = bounds(piece.path, text, begin, end)
    if first < 0:
        return Edited(text)
    if text[first + len(begin) : last - len(end)].strip() != piece.detail.strip():
        return Edited(text, f"the block between {begin} and {end} {_CHANGED.removeprefix('it ')}")
    before, after = text[:first], text[last:].removeprefix("\n")
    if not after and before.endswith("\n\n"):
        before = before[:-1]  # the gap we put between
    return Edited(before + after)


def bounds(path: str, text: str, begin: str, end: str) -> tuple[int, int]:
    """Where our block is; a block without its end, or two of them, is for a person to fix."""
    if text.count(begin) > 1 or text.count(begin) != text.count(end) or text.find(end) < text.find(begin):
        raise UserError(
            f"{path}: the marks {begin} and {end} do not stand as one pair.", "Fix them by hand; nothing was changed."
        )
    if begin not in text:
        return -1, -1
    return text.index(begin), text.index(end) + len(end)


def _put_line(piece: Piece, text: str) -> Edited:
    """A line of ours, above everything (settings) or below it (documents); its first word says that it is there already."""
    word = piece.detail.split()[0]
    if any(line.split()[:1] == [word] for line in text.splitlines()):
        return Edited(text)
    if piece.key == "top":
        return Edited(f"{piece.detail}\n{text}")
    gap = "" if not text or text.endswith("\n") else "\n"
    return Edited(f"{text}{gap}{piece.detail}\n")
