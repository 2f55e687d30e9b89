"""What setup put in, in `$HANDOFF_HOME/setup.json`: written before each file, so that a setup that died is finished or taken back."""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from hashlib import sha256

from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.clients import pieces as parts
from handoff.engine.clients.pieces import Piece

if TYPE_CHECKING:
    from typing import Any

    from handoff.engine.app import App

_FILE, _FORMAT = "setup.json", 1
_EMPTY = (b"", b"{}", b'{"version":1}')
_MARK = b"\xef\xbb\xbf"  # a byte-order mark stays where it is


class LedgerEntry(Record):
    """One file we changed: how it was, how we left it, the folders we made for it, and our pieces in it."""

    path: str
    made: bool
    folders: tuple[str, ...]
    before: str
    """Digest of the file as it was; nothing if it was not there."""
    after: str
    kept: str
    """The file as it was, where taking our pieces out does not give it back byte for byte."""
    pieces: tuple[Piece, ...]


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
        if value["format"] != _FORMAT:
            raise UserError(
                f"{path} was written by a newer handoff.", f"Upgrade this one: {app.settings.program} upgrade"
            )
        entries = {
            one["path"]: LedgerEntry(
                **{**one, "folders": tuple(one["folders"]), "pieces": tuple(Piece(**piece) for piece in one["pieces"])}
            )
            for one in value["entries"]
        }
        return Ledger(value["choices"], entries, value["acts"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} cannot be read: {error}.", "Move it away; what setup put in can be found with: handoff doctor"
        ) from error


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
        edited = parts.put(piece, text, known.get(_name(piece)))
        if edited.left:
            left.append(edited.left)
        elif edited.text != text or _name(piece) in known:
            held[_name(piece)] = piece
        text = edited.text
    after = mark + text.encode() if text or before is not None else None
    return FileEdit(path, before, after, tuple(held.values()), tuple(left))


def put(app: App, ledger: Ledger, edit: FileEdit) -> None:
    """Write the record, then the file. Dying between the two is mended by the next run, whichever it is."""
    old = ledger.entries.get(edit.path)
    original, after = _below(edit, old), edit.after or b""
    exact = original is None or _taken(edit.pieces, edit.path, after) == original
    ledger.entries[edit.path] = LedgerEntry(
        path=edit.path,
        made=original is None,
        folders=old.folders if old else _missing_folders(edit.path),
        before=_digest(original),
        after=_digest(after),
        kept="" if exact else b64encode(original or b"").decode(),
        pieces=edit.pieces,
    )
    save(app, ledger)
    _write(edit.path, after, private=any(piece.kind == parts.TOOLS for piece in edit.pieces))


def _below(edit: FileEdit, old: LedgerEntry | None) -> bytes | None:
    """The file as it would be without us; None if it would not be there."""
    if old is None or edit.before is None:
        return edit.before
    if _digest(edit.before) in (old.before, old.after):
        return _original(old, edit.before)
    rest = _taken(old.pieces, edit.path, edit.before)
    return None if old.made and _is_empty(rest) else rest


def plan_take(entry: LedgerEntry) -> FileEdit:
    """The file as it was before us; without our pieces where somebody changed it since."""
    now = _bytes(entry.path)
    if now is None or _digest(now) == entry.before:
        return FileEdit(entry.path, now, now, entry.pieces)
    if _digest(now) == entry.after:
        return FileEdit(entry.path, now, _original(entry, now), entry.pieces)
    mark, text = _text(entry.path, now)
    left = []
    for piece in reversed(entry.pieces):
        edited = parts.take(piece, text)
        text = edited.text
        left += [edited.left] if edited.left else []
    rest = mark + text.encode()
    gone = entry.made and _is_empty(rest)
    return FileEdit(entry.path, now, None if gone else rest, entry.pieces, tuple(left))


def take(app: App, ledger: Ledger, edit: FileEdit) -> None:
    """Change the file back, then forget it."""
    entry = ledger.entries[edit.path]
    files.sweep(os.path.realpath(edit.path))
    if edit.changes and edit.after is None:
        files.remove(edit.path)
    elif edit.changes and edit.after is not None:
        _write(edit.path, edit.after)
    if not os.path.exists(edit.path):
        for folder in entry.folders:  # the innermost first
            if os.path.isdir(folder) and not os.listdir(folder):
                os.rmdir(folder)
    del ledger.entries[edit.path]
    save(app, ledger)


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


def _original(entry: LedgerEntry, now: bytes | None) -> bytes | None:
    if entry.made:
        return None
    if entry.kept:
        return b64decode(entry.kept)
    return now if _digest(now) == entry.before else _taken(entry.pieces, entry.path, now or b"")


def _taken(pieces: tuple[Piece, ...], path: str, data: bytes) -> bytes:
    mark, text = _text(path, data)
    for piece in reversed(pieces):
        text = parts.take(piece, text).text
    return mark + text.encode()


def _is_empty(data: bytes) -> bool:
    return b"".join(data.split()) in _EMPTY


def _name(piece: Piece) -> tuple[str, str]:
    return piece.kind, piece.key if piece.kind == parts.TOOLS else ""


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
