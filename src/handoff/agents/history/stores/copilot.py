"""Copilot CLI: a folder a session with its events; the to-do list is a table beside them."""

from __future__ import annotations

import os
import re

from handoff.agents.history import entries as form
from handoff.agents.history.entries import HistoryEntry
from handoff.agents.history.stores.rows import (
    OUTPUT,
    heard,
    lines_of,
    moment,
    open_at_end,
    read_log,
    spoken,
    table_in,
    text_in,
    todo_list,
    unread,
)
from handoff.agents.history.stores.table import StoredSession, refusal
from handoff.base.errors import UserError
from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING
from handoff.store.foreign import read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_HOW = {"create": form.ADDED, "edit": form.CHANGED, "delete": form.DELETED, "rename": form.MOVED}
_END = r"\n?<shellId: \S+ completed with exit code -?\d+>\s*$"
_DENIED = ("denied", "rejected", "not allowed by the user")


def find(root: str, folder: str) -> Iterator[StoredSession]:
    """The sessions whose first event names this folder."""
    place = os.path.join(root, "session-state")
    for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
        path = os.path.join(place, name, "events.jsonl")
        if os.path.lexists(path) and _folder(path) == folder:
            yield StoredSession(
                client="copilot", id=name, path=path, root=root, folder=folder, at=os.lstat(path).st_mtime
            )


def _folder(path: str) -> str:
    try:
        for line, _ in lines_of(path):
            row = loads(line.decode("utf-8", "replace"))
            return str(row["data"]["context"]["cwd"])
    except (OSError, ValueError, TypeError, KeyError):
        pass
    return ""


def says_nothing(head: bytes) -> bool:
    return b'"type":"system.message"' in head or b'"type":"model.messages_snapshot"' in head


def entries(session: StoredSession) -> Iterator[HistoryEntry]:
    """Its events, then its to-do list as it stands."""
    yield from read_log(session.path, CopilotRows(), skip=says_nothing, kind=lambda row: text_in(row["type"]))
    base = os.path.join(os.path.dirname(session.path), "session.db")
    if os.path.exists(base) and not refusal(base, session.root):
        try:
            rows = list(read_rows(base, "SELECT title, status FROM todos ORDER BY rowid LIMIT 200"))
        except UserError:
            yield unread("the to-do list")
        else:
            yield todo_list([{"title": str(title), "status": status} for title, status in rows], "title")


def is_open(session: StoredSession) -> bool:
    return open_at_end(session.path, CopilotRows(), skip=says_nothing)


class CopilotRows:
    """Events of one session, which may have been resumed."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, dict[str, Any]]] = {}
        self._running = False

    def row(self, row: dict[str, Any]) -> Iterator[HistoryEntry]:
        kind, data, at = text_in(row["type"]), table_in(row["data"]), moment(row.get("timestamp"))
        if kind in ("session.start", "session.resume"):
            self._running = True
            context = table_in(data.get("context") or {})
            yield HistoryEntry(kind=form.META, model=text_in(data.get("selectedModel") or ""), branch=text_in(context.get("branch") or ""),
                               commit=text_in(context.get("headCommit") or ""), at=at)  # fmt: skip
        elif kind == "session.shutdown":
            self._running = False
        elif kind == "user.message":
            yield from heard(
                text_in(data["content"]), at, form.SAY if data.get("delivery") in (None, "idle") else form.STEER
            )
        elif kind == "assistant.message":
            yield from spoken(text_in(data.get("content") or ""), at)
        elif kind == "tool.execution_start":
            self._calls[text_in(data["toolCallId"])] = text_in(data["toolName"]), table_in(data.get("arguments") or {})
        elif kind == "tool.execution_complete":
            yield from self._result(data, at)
        elif kind == "session.usage_record":
            usage = table_in(data["usage"])
            yield HistoryEntry(
                kind=form.USAGE,
                tokens=int(usage["inputTokens"]) + int(usage["outputTokens"]),
                cost=float(usage.get("cost") or 0),
            )
        elif kind == "session.compaction_complete":
            yield HistoryEntry(kind=form.COMPACTION, text=text_in(data.get("summaryContent") or ""), at=at)
        elif kind == "session.error":
            yield HistoryEntry(kind=form.ERROR, text=text_in(data.get("message") or ""), at=at)
        elif kind == "abort":
            yield HistoryEntry(kind=form.STOP, text="The person interrupted it.", at=at)
        elif kind == "subagent.started":
            yield HistoryEntry(kind=form.AGENT, text=str(data.get("agentName") or ""), at=at)

    def _result(self, data: dict[str, Any], at: float) -> Iterator[HistoryEntry]:
        name, asked = self._calls.pop(text_in(data["toolCallId"]), ("", {}))
        good = data["success"] is True
        shown = table_in(data.get("result") or {})
        text = text_in(shown.get("content") or table_in(data.get("error") or {}).get("message") or "")
        command, path = text_in(asked.get("command") or ""), text_in(asked.get("path") or "")
        if not good and any(word in text.lower() for word in _DENIED):
            yield HistoryEntry(kind=form.REFUSED, text=name, command=command, path=path, at=at)
        elif name in ("bash", "shell", "powershell"):
            ran = data.get("shellExecution")  # without it the command still runs, whatever `success` says
            code = int(table_in(ran)["exitCode"]) if ran else None if good else 1
            yield HistoryEntry(
                kind=form.SHELL, command=command, exit=code, text=re.sub(_END, "", text)[-OUTPUT:], at=at
            )
        elif name in ("edit", "create", "str_replace_editor", "apply_patch") and not good:
            yield HistoryEntry(kind=form.FILE, path=path, ok=False, text=text[:OUTPUT], at=at)
        for edit in data.get("fileEdits") or ():
            yield HistoryEntry(kind=form.FILE, path=text_in(edit["path"]), how=_HOW.get(edit.get("kind"), form.CHANGED), at=at,
                               old=text_in(asked.get("old_str") or ""), new=text_in(asked.get("new_str") or ""))  # fmt: skip

    def rest(self) -> Iterator[HistoryEntry]:
        for name, asked in self._calls.values():
            yield HistoryEntry(
                kind=form.OPEN, text=name, command=str(asked.get("command") or ""), path=str(asked.get("path") or "")
            )
        if self._running and not self._calls:
            yield HistoryEntry(kind=form.OPEN, text="the session was not shut down")
