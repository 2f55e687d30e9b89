"""Pieces of ours in people's files, and the record of them in `$HANDOFF_HOME/setup.json`: a setup that died is finished or taken back."""

from __future__ import annotations

import json
import os
import re
import tomllib
from hashlib import sha256

from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.setup import settings_files, text_edit
from handoff.engine.setup.settings_files import USER
from handoff.engine.setup.text_edit import add_table, change_table, cut_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from handoff.engine.app import App

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


def put_piece(piece: Piece, text: str, known: Piece | None = None) -> Edited:
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


def take_piece(piece: Piece, text: str) -> Edited:
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
    there, wanted = _tool_entry(piece, _read(piece, text)), json.loads(piece.detail)
    if there is None:
        return Edited(_with_entry(piece, text, {}, wanted))
    merged = _merged(json.loads(known.detail), there, wanted) if known else there
    text = text if merged == there else _with_entry(piece, text, there, merged)
    return Edited(text, "" if _runs(merged) == _runs(wanted) else f"'{_NAME}' is registered there in another way")


def _take_tools(piece: Piece, text: str) -> Edited:
    text = _without_old_marks(piece, text)
    there = _tool_entry(piece, _read(piece, text)) if text.strip() else None
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


def _tool_entry(piece: Piece, settings: dict[str, Any]) -> Any:
    container = settings.get(piece.key, {})
    if not isinstance(container, dict):
        raise UserError(f"{piece.path}: '{piece.key}' is not a table.", "Fix the file; nothing was changed.")
    return container.get(_NAME)


def _with_entry(piece: Piece, text: str, there: dict[str, Any], wanted: dict[str, Any]) -> str:
    place = (piece.key, _NAME)
    if piece.path.endswith(".toml"):
        if there:
            changed = {key: value for key, value in wanted.items() if there.get(key) != value}
            return _checked(piece, text, change_table(text, place, changed), wanted)
        return _checked(piece, text, add_table(text, place, wanted), wanted)
    after = _without_entry(piece, text) if there else text if text.strip() else "{}\n"
    if text_edit.find(after, piece.key) is None:
        after = text_edit.add(after, text_edit.top(after), {}, key=piece.key)
    held = text_edit.find(after, piece.key)
    assert held is not None  # noqa: S101 - it has just been put there
    return _checked(piece, text, text_edit.add(after, held.value_begin, wanted, key=_NAME, depth=1), wanted)


def _without_entry(piece: Piece, text: str) -> str:
    if piece.path.endswith(".toml"):
        return _checked(piece, text, cut_table(text, (piece.key, _NAME)), None)
    held = text_edit.find(text, piece.key)
    assert held is not None  # noqa: S101 - the caller has seen the entry in it
    after = text_edit.cut(text, held.value_begin, lambda one: one.key == _NAME)
    held = text_edit.find(after, piece.key)
    if held is not None and not held.value:
        after = text_edit.cut(after, text_edit.top(after), lambda one: one.key == piece.key)
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


# --- what setup put in: written before each file, so that a setup that died is finished or taken back ----------------

_FILE, _FORMAT, _OLD_FORMAT = "setup.json", 2, 1
_BACKUPS = "backups"  # in $HANDOFF_HOME: files as they were before setup changed them
_EMPTY = (b"", b"{}", b'{"version":1}')
_MARK = b"\xef\xbb\xbf"  # a byte-order mark stays where it is


class LedgerEntry(Record):
    """One file we changed: whether we made it, the folders we made for it, our pieces in it, and the file as it was."""

    path: str
    made: bool
    folders: tuple[str, ...]
    pieces: tuple[Piece, ...]
    backup: str = ""
    """A copy of the file as it was before setup."""
    after: str = ""
    """Digest of the file as we left it, while nobody else has written into it since it was copied."""


class Ledger(Record):
    """Everything setup put in on this machine, and what was chosen."""

    choices: dict[str, Any]
    entries: dict[str, LedgerEntry]
    acts: dict[str, list[str]]
    """What is no edit of a file, by name: the places it was done in."""


def load(app: App) -> Ledger:
    """The record; an empty one where setup never ran."""
    path = _path(app)
    if not os.path.exists(path):
        return Ledger({}, {}, {})
    try:
        value = json.loads(files.read_text(path))
        if value["format"] not in (_FORMAT, _OLD_FORMAT):
            raise UserError(
                f"{path} was written by a newer handoff.", f"Upgrade this one: {app.settings.program} upgrade"
            )
        entries = {one["path"]: _entry(one, old=value["format"] == _OLD_FORMAT) for one in value["entries"]}
        return Ledger(value["choices"], entries, value["acts"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} cannot be read: {error}.", "Move it away; what setup put in can be found with: handoff doctor"
        ) from error


def _entry(one: dict[str, Any], *, old: bool) -> LedgerEntry:
    found = tuple(_current(Piece(**piece)) for piece in one["pieces"])
    backup, after = ("", "") if old else (one["backup"], one["after"])
    folders = tuple(one["folders"])
    return LedgerEntry(path=one["path"], made=one["made"], folders=folders, pieces=found, backup=backup, after=after)


def _current(piece: Piece) -> Piece:
    """A piece as it is recorded today: a table of TOML was a block between comments once."""
    if piece.kind != BLOCK or not piece.path.endswith(".toml"):
        return piece
    key, servers = next(iter(tomllib.loads(piece.detail).items()))
    return piece._replace(kind=TOOLS, key=key, detail=json.dumps(next(iter(servers.values()))))


def save(app: App, ledger: Ledger) -> None:
    """Write the record; it is the person's own."""
    app.open_home()
    rows = [
        {**entry._asdict(), "pieces": [piece._asdict() for piece in entry.pieces]} for entry in ledger.entries.values()
    ]
    files.sweep(_path(app))
    value = {"format": _FORMAT, "choices": ledger.choices, "entries": rows, "acts": ledger.acts}
    files.write_atomic(_path(app), json.dumps(value, indent=1) + "\n", mode=0o600)


def forget(app: App) -> None:
    """Nothing of setup's is left on this machine."""
    files.remove(_path(app))


def _path(app: App) -> str:
    return os.path.join(app.settings.home, _FILE)


# --- one file ---------------------------------------------------------------------------------------


class FileEdit(Record):
    """What setup will do to one file: its bytes now and then, and what is left alone."""

    path: str
    before: bytes | None
    after: bytes | None
    pieces: tuple[Piece, ...]
    left: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        return self.before != self.after


def plan_put(ledger: Ledger, path: str, wanted: tuple[Piece, ...]) -> FileEdit:
    """The file with these pieces in it; what stood there already and is not in the record is not ours to take out."""
    before = _bytes(path)
    known = {_name(piece): piece for piece in (ledger.entries[path].pieces if path in ledger.entries else ())}
    held = dict(known)
    mark, text = _text(path, before)
    left = []
    for piece in wanted:
        edited = put_piece(piece, text, known.get(_name(piece)))
        if edited.left:
            left.append(edited.left)
        elif edited.text != text or _name(piece) in known:
            held[_name(piece)] = piece
        text = edited.text
    after = mark + text.encode() if text or before is not None else None
    return FileEdit(path, before, after, tuple(held.values()), tuple(left))


def put(app: App, ledger: Ledger, edit: FileEdit) -> None:
    """Copy the file, write the record, then the file. Dying in between is mended by the next run, whichever it is."""
    old, after = ledger.entries.get(edit.path), edit.after or b""
    backup = old.backup if old else _keep(app, edit)
    ours = old is None or edit.before == _original(old) or _digest(edit.before) == old.after
    ledger.entries[edit.path] = LedgerEntry(
        path=edit.path,
        made=edit.before is None or (old is not None and old.made),
        folders=old.folders if old else _missing_folders(edit.path),
        pieces=edit.pieces,
        backup=backup,
        after=_digest(after) if ours else "",
    )
    save(app, ledger)
    _write(edit.path, after, private=any(piece.scope == USER for piece in edit.pieces))


def plan_take(entry: LedgerEntry) -> FileEdit:
    """The file as it was before us; without our pieces where somebody changed it since."""
    now = _bytes(entry.path)
    if now is None:
        return FileEdit(entry.path, now, now, entry.pieces)
    if _digest(now) == entry.after and (entry.made or os.path.exists(entry.backup)):
        return FileEdit(entry.path, now, _original(entry), entry.pieces)
    mark, text = _text(entry.path, now)
    left = []
    for piece in reversed(entry.pieces):
        edited = take_piece(piece, text)
        text = edited.text
        left += [edited.left] if edited.left else []
    rest = mark + text.encode()
    gone = entry.made and b"".join(rest.split()) in _EMPTY
    return FileEdit(entry.path, now, None if gone else rest, entry.pieces, tuple(left))


def plan_take_pieces(ledger: Ledger, path: str, group: tuple[Piece, ...]) -> FileEdit:
    """The file without these pieces, as they were recorded where they were."""
    entry = ledger.entries.get(path)
    if entry is None:
        return plan_take(LedgerEntry(path=path, made=True, folders=(), pieces=group))
    names = {_name(piece) for piece in group}
    chosen = tuple(piece for piece in entry.pieces if _name(piece) in names) or group
    return plan_take(entry if chosen == entry.pieces else entry._replace(pieces=chosen, after=""))


def take(app: App, ledger: Ledger, edit: FileEdit) -> None:
    """Change the file back, then forget these pieces of it; the copy stays where the file is not as it was."""
    entry = ledger.entries.get(edit.path)
    files.sweep(os.path.realpath(edit.path))
    if edit.changes and edit.after is None:
        files.remove(edit.path)
    elif edit.changes and edit.after is not None:
        _write(edit.path, edit.after)
    if entry is None:
        return
    rest = tuple(piece for piece in entry.pieces if piece not in edit.pieces)
    if rest:
        ledger.entries[edit.path] = entry._replace(pieces=rest, after="")
        save(app, ledger)
        return
    if not os.path.exists(edit.path):
        for folder in entry.folders:  # the innermost first
            if os.path.isdir(folder) and not os.listdir(folder):
                os.rmdir(folder)
    del ledger.entries[edit.path]
    save(app, ledger)
    if entry.backup and edit.after == _original(entry):
        files.remove(entry.backup)


def check_writable(path: str) -> None:
    """Refuse before the first write what could not be written."""
    place = os.path.realpath(path)
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    folder = place if os.path.isdir(place) else os.path.dirname(place)
    if not os.path.isdir(folder) or (os.path.isdir(place) and place == os.path.realpath(path)):
        raise UserError(f"{path} cannot be written: {place} is in the way.", "Move it away; nothing was changed.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"{folder} cannot be written.", "Check who owns it; nothing was changed.")


def _keep(app: App, edit: FileEdit) -> str:
    """Copy a file that is about to be changed for the first time; clients keep keys in some, so the copy is its owner's alone."""
    if edit.before is None:
        return ""
    folder = os.path.join(app.settings.home, _BACKUPS)
    files.make_folder(folder, mode=0o700)
    path = os.path.join(folder, f"{_digest(edit.path.encode())[:12]}-{os.path.basename(edit.path)}")
    files.write_atomic(path, edit.before, mode=0o600)
    return path


def _original(entry: LedgerEntry) -> bytes | None:
    return _bytes(entry.backup) if entry.backup else None


def _name(piece: Piece) -> tuple[str, str]:
    return piece.kind, piece.key if piece.kind == TOOLS else ""


def _bytes(path: str) -> bytes | None:
    return files.read_bytes(path) if os.path.exists(path) else None


def _text(path: str, data: bytes | None) -> tuple[bytes, str]:
    mark = _MARK if (data or b"").startswith(_MARK) else b""
    try:
        return mark, files.decode(data or b"")
    except UnicodeDecodeError:
        return mark, files.read_text(path)  # the error names the line


def _digest(data: bytes | None) -> str:
    return "" if data is None else sha256(data).hexdigest()


def _missing_folders(path: str) -> tuple[str, ...]:
    found, folder = [], os.path.dirname(path)
    while folder and not os.path.isdir(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return tuple(found)


def _write(path: str, data: bytes, *, private: bool = False) -> None:
    """Keep the file's rights; a new one in which clients keep keys too is its owner's alone."""
    target = os.path.realpath(path)  # a settings file that is a link stays one
    files.sweep(target)
    fresh = 0o600 if private else 0o644
    mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else fresh
    files.make_folder(os.path.dirname(target))
    files.write_atomic(target, data, mode=mode)
