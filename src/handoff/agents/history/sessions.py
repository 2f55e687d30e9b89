"""The sessions of a folder over all clients: where they are, whether one is at work on them, and how they began."""

from __future__ import annotations

import os

from handoff.agents.history import entries as form
from handoff.agents.history.facts import clean
from handoff.agents.history.stores.table import (
    ALIVE,
    COPY,
    ENDED,
    OPEN,
    STORES,
    StoredSession,
    read_entries,
    reader_of,
    refusal,
    store_root,
    stores_here,
)
from handoff.base.errors import HandoffError
from handoff.base.light_json import loads
from handoff.base.process import is_running, start_of
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PROGRAMS = {"cursor": ("cursor-agent",)}
_ROWS = 400
_FRESH = 120.0
_FIRST_WORDS = 120


def stored_sessions(folder: str, environment: Mapping[str, str], *, clients: Sequence[str] = ()) -> list[StoredSession]:
    """What every client has written of sessions in this folder, newest first; nothing is read beyond the first rows."""
    real = os.path.realpath(folder)
    found: list[StoredSession] = []
    for client in clients or stores_here(real, environment):
        root = store_root(client, environment) if STORES[client].folder else real
        more = {"moved": environment.get("OPENCODE_DB", "")} if client == "opencode" else {}
        try:
            found += [
                session._replace(trouble=session.trouble or refusal(session.path, session.root))
                for session in reader_of(client).find(root, real, **more)
            ]
        except PermissionError:
            continue  # another user's store
    return sorted(found, key=lambda one: (one.state != COPY, one.at), reverse=True)


def looked_at(sessions: Sequence[StoredSession], *, now: float, words: bool = True) -> list[StoredSession]:
    """The same sessions with their states, and with the person's first words."""
    told: list[StoredSession] = []
    busy: set[str] = set()
    for session in sessions:
        if session.trouble:
            told.append(session)
            continue
        state = session.state
        if state != COPY:
            alive = is_alive(session, now=now, newest=session.client not in busy)
            state = ALIVE if alive else OPEN if _is_open(session) else ENDED
        busy.add(session.client)
        told.append(session._replace(state=state, words=_first_words(session) if words else ""))
    return told


def _is_open(session: StoredSession) -> bool:
    try:
        return bool(reader_of(session.client).is_open(session))
    except OSError:
        return False


def _first_words(session: StoredSession) -> str:
    try:
        for number, entry in enumerate(read_entries(session)):
            if entry.role == form.PERSON and entry.kind in (form.SAY, form.STEER):
                return clean(" ".join(entry.text.split()), _FIRST_WORDS)
            if number > _ROWS:
                break
    except HandoffError:
        pass
    return ""


def is_alive(session: StoredSession, *, now: float, newest: bool = True) -> bool:
    """Whether a client works on a session at this moment, by the sign that each leaves; nothing is locked or asked."""
    if session.client == "claude":
        return any(_is_claude(session, path) for path in _files(os.path.join(session.root, "sessions"), ".json"))
    if session.client == "codex":
        return _is_locked(os.path.join(session.root, "thread-writer-locks", f"{session.id}.lock"))
    if session.client == "copilot":
        names = [os.path.basename(path).split(".") for path in _files(os.path.dirname(session.path), ".lock")]
        return any(name[0] == "inuse" and name[1].isdigit() and is_running(int(name[1])) for name in names)
    if not newest:  # such a client cannot be told to have the older one of two
        return False
    if not os.path.isdir("/proc/self"):
        return now - session.at < _FRESH
    return any(_works_here(session.folder, _PROGRAMS.get(session.client, (session.client,))))


def _files(folder: str, ending: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(ending)]
    except OSError:
        return []


def _is_claude(session: StoredSession, path: str) -> bool:
    """A note of a process that may be long gone: its number and its start must fit."""
    try:
        with open(path, encoding="utf-8") as file:
            note = loads(file.read(1 << 16))
        pid = int(note.get("pid") or os.path.basename(path)[: -len(".json")])
        start = str(note.get("procStart") or "")
        return (
            note.get("sessionId") == session.id and is_running(pid) and start in ("", _start_field(pid), start_of(pid))
        )
    except (OSError, ValueError, TypeError, AttributeError):
        return False


def _start_field(pid: int) -> str:
    """When a process began, as field 22 of its stat says it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _is_locked(path: str) -> bool:
    """Whether a process holds a lock on the file; the kernel's table says it without taking one."""
    try:
        inode = os.stat(path).st_ino
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            return any(line.split()[5].rpartition(":")[2] == str(inode) for line in file if len(line.split()) > 5)  # noqa: PLR2004 - the sixth word is the file
    except OSError:
        return False


def _works_here(folder: str, programs: Sequence[str]) -> Iterator[bool]:
    """Processes under one of these names with the folder as their working folder."""
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        try:
            if os.readlink(f"/proc/{pid}/cwd") != folder:
                continue
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read(4096).decode("utf-8", "replace").split("\0")[:3]
        except OSError:
            continue
        yield any(os.path.splitext(os.path.basename(word))[0] in programs for word in words)
