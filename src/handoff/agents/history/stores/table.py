"""Where each client keeps its sessions, what moves that place, and how a session of it is shown."""

from __future__ import annotations

import os
from importlib import import_module

from handoff.base.errors import Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from handoff.agents.history.entries import HistoryEntry

ALIVE, OPEN, ENDED, COPY = "alive", "open", "ended", "copy"
"""A client works on it now; it stopped in the middle of something; it came to an end; another client's session, imported."""


class StorePlace(Record):
    """One row of the table."""

    variable: str
    below: str
    """Below what the variable names; the file itself where it lies in the folder of the work."""
    folder: str
    """Below the home, where no variable is set."""


STORES = {
    "claude": StorePlace("CLAUDE_CONFIG_DIR", "", ".claude"),
    "codex": StorePlace("CODEX_HOME", "", ".codex"),
    "gemini": StorePlace("GEMINI_CLI_HOME", ".gemini", ".gemini"),
    "copilot": StorePlace("COPILOT_HOME", "", ".copilot"),
    "opencode": StorePlace("XDG_DATA_HOME", "opencode", ".local/share/opencode"),
    "qwen": StorePlace("QWEN_HOME", "", ".qwen"),
    "aider": StorePlace("", ".aider.chat.history.md", ""),
    "cursor": StorePlace("CURSOR_CONFIG_DIR", "", ".cursor"),
}


class StoredSession(Record):
    """One session in a client's own store."""

    client: str
    id: str
    path: str
    root: str
    """The client's folder; what leads out of it is not read."""
    folder: str
    """The real path of the folder it worked in."""
    at: float
    """When it was last written."""
    state: str = ENDED
    words: str = ""
    """How the person began it."""
    trouble: str = ""
    """Why it cannot be read."""
    offset: int = 0
    """Where it begins in a file of several."""


def store_root(client: str, environment: Mapping[str, str]) -> str:
    """The folder in which a client keeps what it writes."""
    place = STORES[client]
    moved = environment.get(place.variable) if place.variable else ""
    if moved:
        return os.path.join(os.path.expanduser(moved), place.below)
    return os.path.join(environment.get("HOME") or os.path.expanduser("~"), place.folder)


def stores_here(folder: str, environment: Mapping[str, str]) -> list[str]:
    """The clients that have kept anything at all, for this user or in this folder."""
    return [
        client
        for client, place in STORES.items()
        if os.path.exists(store_root(client, environment) if place.folder else os.path.join(folder, place.below))
    ]


def reader_of(client: str) -> Any:
    """The module that reads a client's store: `find`, `entries`, `is_open`."""
    return import_module(f"handoff.agents.history.stores.{client}")


def refusal(path: str, root: str) -> str:
    """Why a file of a store is not read: it is another user's, leads out of the store, or is no file; empty if it may be."""
    try:
        facts = os.stat(path)
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    if facts.st_uid != os.getuid():
        return f"{path} belongs to another user"
    real = os.path.realpath(path)
    if os.path.commonpath([real, os.path.realpath(root)]) != os.path.realpath(root):
        return f"{path} is a link to {real}, outside of {root}"
    return "" if os.path.isfile(real) else f"{path} is not a file"


def refuse_unfit(session: StoredSession) -> None:
    """Raise where a session must not or cannot be read."""
    why = session.trouble or refusal(session.path, session.root)
    if why:
        raise Refused(
            f"The {session.client} session {session.id} is not read: {why}.",
            "Name another one: handoff session list --clients",
        )


def read_entries(session: StoredSession) -> Iterator[HistoryEntry]:
    """Everything that a session's store says, in the order in which it happened."""
    refuse_unfit(session)
    found: Iterator[HistoryEntry] = reader_of(session.client).entries(session)
    try:
        yield from found
    except OSError as error:
        raise UserError(
            f"{session.path} cannot be read: {error.strerror}.", "Look at its rights, then try again."
        ) from error
