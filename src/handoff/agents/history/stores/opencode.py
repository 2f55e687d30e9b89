"""opencode: one database for all projects; a session belongs to its folder, not to its project's id."""

from __future__ import annotations

import os

from handoff.agents.history import entries as form
from handoff.agents.history.entries import HistoryEntry
from handoff.agents.history.stores.rows import (
    MISUNDERSTOOD,
    OUTPUT,
    changed_form,
    heard,
    moment,
    spoken,
    table_in,
    text_in,
    todo_list,
    unread,
)
from handoff.agents.history.stores.table import StoredSession
from handoff.base.errors import UserError
from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING
from handoff.store.foreign import read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_SESSIONS = "SELECT id, time_updated FROM session WHERE directory = ? AND parent_id IS NULL ORDER BY time_updated DESC LIMIT 200"
_PARTS = """SELECT p.data, p.time_created, CASE WHEN json_valid(m.data) THEN json_extract(m.data, '$.role') END,
    CASE WHEN json_valid(m.data) THEN json_extract(m.data, '$.mode') END, CASE WHEN json_valid(m.data) THEN json_extract(m.data, '$.modelID') END
    FROM part p JOIN message m ON m.id = p.message_id WHERE p.session_id = ? ORDER BY m.time_created, m.id, p.id"""
_DIFFS = """SELECT json_extract(d.value, '$.file'), json_extract(d.value, '$.status')
    FROM message m, json_each(CASE WHEN json_valid(m.data) THEN m.data ELSE '{}' END, '$.summary.diffs') d
    WHERE m.session_id = ? AND d.type = 'object' ORDER BY m.time_created, m.id"""
_HOW = {"added": form.ADDED, "deleted": form.DELETED}
_BROKEN = 3


def base_of(root: str, moved: str = "") -> str:
    """The file of the database."""
    return os.path.join(root, moved or "opencode.db")


def find(root: str, folder: str, moved: str = "") -> Iterator[StoredSession]:
    """The sessions of a folder, newest first."""
    path = base_of(root, moved)
    if not os.path.exists(path):
        return
    home = root if not os.path.isabs(moved) else os.path.dirname(moved)
    try:
        for name, at in read_rows(path, _SESSIONS, (folder,)):
            yield StoredSession(client="opencode", id=str(name), path=path, root=home, folder=folder, at=moment(at))
    except UserError as error:
        yield StoredSession(
            client="opencode",
            id="?",
            path=path,
            root=home,
            folder=folder,
            at=os.lstat(path).st_mtime,
            trouble=error.message.rstrip("."),
        )


def entries(session: StoredSession) -> Iterator[HistoryEntry]:
    """Its parts in order, then which files are new or gone, and its to-do list as it stands."""
    version = next(
        (str(row[0]) for row in read_rows(session.path, "SELECT version FROM session WHERE id = ?", (session.id,))), ""
    )
    bad, good = [], 0
    touched: dict[str, float] = {}
    for number, row in enumerate(read_rows(session.path, _PARTS, (session.id,)), 1):
        try:
            found = list(_part(row))
        except MISUNDERSTOOD:
            bad.append(number)
            yield unread("a part")
            continue
        good += 1
        touched.update((one.path, one.at) for one in found if one.kind == form.FILE)
        yield from found
    if len(bad) >= _BROKEN and len(bad) > good:
        raise changed_form(session.path, f"row {bad[0]} of table part, and {len(bad) - 1} more", version)
    for name, status in read_rows(session.path, _DIFFS, (session.id,)) if touched else ():
        for path, at in touched.items():  # a patch names its files, and only this says what became of each
            if status in _HOW and path.endswith(f"/{name}"):
                yield HistoryEntry(kind=form.FILE, path=path, how=_HOW[status], at=at)
    steps = [
        {"content": str(text), "status": state}
        for text, state in read_rows(
            session.path, "SELECT content, status FROM todo WHERE session_id = ? ORDER BY position", (session.id,)
        )
    ]
    if steps:
        yield todo_list(steps, "content")


def _part(row: tuple[Any, ...]) -> Iterator[HistoryEntry]:
    data, at, role, mode, model = table_in(loads(text_in(row[0]))), moment(row[1]), *row[2:5]
    kind = text_in(data["type"])
    if kind == "text":
        if data.get("synthetic") or data.get("ignored"):
            return
        text = text_in(data["text"])
        if role == "user":
            yield from heard(_unquoted(text), at)
        elif mode == "compaction":
            yield HistoryEntry(kind=form.COMPACTION, text=text, at=at)
        else:
            yield from spoken(text, at)
    elif kind == "tool":
        yield from _tool(text_in(data["tool"]), table_in(data["state"]), at)
    elif kind == "patch":
        for path in data.get("files") or ():
            if "__pycache__" not in text_in(path):
                yield HistoryEntry(kind=form.FILE, path=path, how=form.CHANGED, at=at)
    elif kind == "step-finish":
        tokens = table_in(data.get("tokens") or {})
        total = sum(
            value
            for name, value in tokens.items()
            if name in ("input", "output", "reasoning") and isinstance(value, int)
        )
        yield HistoryEntry(kind=form.USAGE, tokens=total, cost=float(data.get("cost") or 0), model=str(model or ""))


def _unquoted(text: str) -> str:
    """`opencode run` puts quotes about a prompt of several words."""
    quoted = len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1].replace('\\"', "")
    return text[1:-1].replace('\\"', '"') if quoted else text


def _tool(name: str, state: dict[str, Any], at: float) -> Iterator[HistoryEntry]:
    status, asked, about = (
        text_in(state["status"]),
        table_in(state.get("input") or {}),
        table_in(state.get("metadata") or {}),
    )
    path, command = text_in(asked.get("filePath") or ""), text_in(asked.get("command") or "")
    text = text_in(state.get("output") or state.get("error") or "")
    if status in ("running", "pending"):
        yield HistoryEntry(kind=form.OPEN, text=name, command=command, path=path, at=at)
    elif status == "error" and ("rejected" in text or "denied" in text):
        yield HistoryEntry(kind=form.REFUSED, text=name, command=command, path=path, at=at)
    elif name == "bash":
        code = about.get("exit")
        code = int(code) if code is not None else 1 if status == "error" else None
        yield HistoryEntry(kind=form.SHELL, command=command, exit=code, text=text[-OUTPUT:], at=at)
    elif name in ("edit", "write", "multiedit", "patch", "apply_patch") and path:
        how = form.ADDED if name == "write" and about.get("exists") is False else form.CHANGED
        yield HistoryEntry(kind=form.FILE, path=path, how=how, ok=status != "error", text=text[:OUTPUT] if status == "error" else "",
                           old=text_in(asked.get("oldString") or ""), new=text_in(asked.get("newString") or ""), at=at)  # fmt: skip
    elif name == "todowrite":
        yield todo_list(asked["todos"], "content", at)
    elif name == "task":
        yield HistoryEntry(kind=form.AGENT, text=text_in(asked.get("description") or ""), at=at)


def is_open(session: StoredSession) -> bool:
    """A tool that runs, or an answer without an end."""
    sql = (
        "SELECT 1 FROM (SELECT data FROM message WHERE session_id = ? ORDER BY time_created DESC, id DESC LIMIT 1) WHERE json_valid(data)"
        " AND (json_extract(data, '$.role') = 'user' OR json_extract(data, '$.time.completed') IS NULL)"
    )
    try:
        return next(read_rows(session.path, sql, (session.id,)), None) is not None
    except UserError:
        return False
