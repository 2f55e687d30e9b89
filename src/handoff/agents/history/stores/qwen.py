"""Qwen Code: Claude's rows with Gemini's parts."""

from __future__ import annotations

import os

from handoff.agents.history import entries as form
from handoff.agents.history.entries import HistoryEntry
from handoff.agents.history.stores import claude
from handoff.agents.history.stores.gemini import CallResult, answer_text, call_entries
from handoff.agents.history.stores.rows import heard, moment, open_at_end, read_log, spoken, table_in, text_in, unread
from handoff.agents.history.stores.table import StoredSession
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def find(root: str, folder: str) -> Iterator[StoredSession]:
    """The chats of a folder; several folders can share a name, so that the rows decide."""
    place = os.path.join(root, "projects", claude.slug(folder), "chats")
    for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
        path = os.path.join(place, name)
        if name.endswith(".jsonl") and claude.folder_of(path) in ("", folder):
            yield StoredSession(
                client="qwen",
                id=name[: -len(".jsonl")],
                path=path,
                root=root,
                folder=folder,
                at=os.lstat(path).st_mtime,
            )


def says_nothing(head: bytes) -> bool:
    return b'"subtype":"ui_telemetry"' in head or b'"subtype":"attribution_snapshot"' in head


def entries(session: StoredSession) -> Iterator[HistoryEntry]:
    yield from read_log(session.path, QwenRows(), skip=says_nothing, kind=lambda row: text_in(row["type"]))


def is_open(session: StoredSession) -> bool:
    return open_at_end(session.path, QwenRows(), skip=says_nothing)


class QwenRows:
    """Rows in file order; `provenance` says whose words they are."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, dict[str, Any]]] = {}

    def row(self, row: dict[str, Any]) -> Iterator[HistoryEntry]:
        kind, at = text_in(row["type"]), moment(row.get("timestamp"))
        if kind == "system":
            if row.get("subtype") == "chat_compression":
                yield HistoryEntry(kind=form.COMPACTION, at=at)
            return
        if kind not in ("user", "assistant", "tool_result"):
            yield unread(kind)
            return
        yield HistoryEntry(
            kind=form.META, branch=text_in(row.get("gitBranch") or ""), model=text_in(row.get("model") or "")
        )
        parts = table_in(row["message"])["parts"]
        if kind == "user" and row.get("provenance", "real_user") == "real_user":
            yield from heard("\n".join(text_in(part["text"]) for part in parts if "text" in part), at)
        elif kind == "assistant":
            usage = table_in(row.get("usageMetadata") or {})
            yield HistoryEntry(kind=form.USAGE, tokens=int(usage.get("totalTokenCount") or 0))
            for part in parts:
                if "functionCall" in part:
                    call = table_in(part["functionCall"])
                    self._calls[text_in(call["id"])] = text_in(call["name"]), table_in(call.get("args") or {})
                elif not part.get("thought"):
                    yield from spoken(text_in(part.get("text") or ""), at)
        elif kind == "tool_result":
            yield from self._results(parts, row.get("toolCallResult"), at)

    def _results(self, parts: Any, shown: Any, at: float) -> Iterator[HistoryEntry]:
        for part in parts:
            reply = table_in(part["functionResponse"])
            name, asked = self._calls.pop(text_in(reply["id"]), ("", {}))
            shown = shown if isinstance(shown, dict) else {}
            found = CallResult(
                name=name,
                asked=asked,
                text=answer_text(reply),
                status=str(shown.get("status") or ""),
                shown=shown.get("resultDisplay"),
                at=at,
            )
            yield from call_entries(found)

    def rest(self) -> Iterator[HistoryEntry]:
        for name, asked in self._calls.values():
            yield HistoryEntry(
                kind=form.OPEN,
                text=name,
                command=str(asked.get("command") or ""),
                path=str(asked.get("file_path") or ""),
            )
