"""What setup put in, in `$HANDOFF_HOME/setup.json`: written before each file, so that a setup that died is finished or taken back."""

from __future__ import annotations

import json
import os
import tomllib
from hashlib import sha256

from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.setup import pieces as parts
from handoff.engine.setup.pieces import Piece
from handoff.engine.setup.settings_files import USER

if TYPE_CHECKING:
    from typing import Any

    from handoff.engine.app import App

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
    if piece.kind != parts.BLOCK or not piece.path.endswith(".toml"):
        return piece
    key, servers = next(iter(tomllib.loads(piece.detail).items()))
    return piece._replace(kind=parts.TOOLS, key=key, detail=json.dumps(next(iter(servers.values()))))


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
        edited = parts.take(piece, text)
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
