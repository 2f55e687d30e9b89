"""Cursor's command-line agent, as far as it can be read: its transcripts, which hold no times, results or tokens.

Its second store (`chats/*/store.db`) and the editor's own database are not read."""

from __future__ import annotations

import os

from handoff.agents.history import entries as form
from handoff.agents.history.entries import HistoryEntry
from handoff.agents.history.stores import claude
from handoff.agents.history.stores.rows import heard, read_log, spoken, table_in, text_in
from handoff.agents.history.stores.table import StoredSession
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_HOW = {"Write": form.CHANGED, "StrReplace": form.CHANGED, "MultiStrReplace": form.CHANGED, "Delete": form.DELETED}


def find(root: str, folder: str) -> Iterator[StoredSession]:
    """The transcripts of a folder; the name of the place has no leading mark."""
    for name in {claude.slug(folder), claude.slug(folder).lstrip("-")}:
        place = os.path.join(root, "projects", name, "agent-transcripts")
        for one in sorted(os.listdir(place)) if os.path.isdir(place) else ():
            path = os.path.join(place, one, f"{one}.jsonl")
            if os.path.lexists(path):
                yield StoredSession(
                    client="cursor", id=one, path=path, root=root, folder=folder, at=os.lstat(path).st_mtime
                )


def entries(session: StoredSession) -> Iterator[HistoryEntry]:
    yield from read_log(session.path, CursorRows(), skip=lambda _: False, kind=lambda row: text_in(row["role"]))


def is_open(session: StoredSession) -> bool:
    del session
    return False


class CursorRows:
    """Rows of a transcript: what was called stands there, what came of it does not."""

    def row(self, row: dict[str, Any]) -> Iterator[HistoryEntry]:
        role = text_in(row["role"])
        content = table_in(row["message"])["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text":
                yield from (heard if role == "user" else spoken)(text_in(block["text"]), 0.0)
            elif block["type"] == "tool_use":
                asked, name = table_in(block["input"]), text_in(block["name"])
                if name == "Shell":
                    yield HistoryEntry(kind=form.SHELL, command=text_in(asked["command"]))
                elif name in _HOW:
                    yield HistoryEntry(kind=form.FILE, path=text_in(asked["path"]), how=_HOW[name])

    def rest(self) -> Iterator[HistoryEntry]:
        yield from ()
