"""The feature's own log: hand-offs, checks and reviews, one JSON line each, only ever appended."""

from __future__ import annotations

import os

from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.light_json import dumps, loads
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import PROJECT_FOLDER

if TYPE_CHECKING:
    from typing import Any

    from handoff.feature.folder import Feature

    Entry = dict[str, Any]

FILE = "history.jsonl"
IGNORED = "# written by handoff: what only concerns this machine\nhistory.jsonl\n.lock\ntrash/\n"
TAIL_BYTES = 256 * 1024


def append(feature: Feature, entry: Entry) -> None:
    """Add one line; the file is opened for appending and synced."""
    line = (dumps(entry, ascii_only=False) + "\n").encode("utf-8", "replace")
    path = feature.file(FILE)
    with feature.locked():
        _keep_out_of_git(feature)
        try:
            with open(path, "ab", buffering=0) as file:
                file.write(line)
                os.fsync(file.fileno())
        except OSError as error:
            raise UserError(f"Cannot write {path}: {error.strerror}.") from error


def _keep_out_of_git(feature: Feature) -> None:
    """What only concerns this machine (this log, locks, the trash) is not committed with the documents."""
    folder = os.path.dirname(os.path.dirname(feature.path))
    path = os.path.join(folder, ".gitignore")
    if os.path.basename(folder) == PROJECT_FOLDER and not os.path.lexists(path):
        files.create_exclusive(path, IGNORED)


def recent(feature: Feature) -> list[Entry]:
    """The last entries, oldest first. A line cut short by a crash is passed over."""
    try:
        with open(feature.file(FILE), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            data = file.read()
    except OSError:
        return []
    entries: list[Entry] = []
    for line in data.splitlines():
        try:
            entry = loads(line.decode("utf-8"))
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("kind"), str):
            entries.append(entry)
    return entries


def last(entries: list[Entry], *kinds: str) -> Entry | None:
    """The newest entry of these kinds."""
    return next((entry for entry in reversed(entries) if entry["kind"] in kinds), None)


def digest(text: str | None) -> str:
    """A short mark that changes when the text does; for noticing edits, not for security."""
    from zlib import crc32

    data = (text or "").encode("utf-8", "surrogatepass")
    return f"{len(data):x}-{crc32(data):08x}"
