"""Codex: one log of rows a thread; a fork or a revert copies nothing and points at the bytes it came from."""

from __future__ import annotations

import os
import re

from handoff.agents.history import entries as form
from handoff.agents.history.entries import HistoryEntry
from handoff.agents.history.stores.rows import (
    OUTPUT,
    flat,
    heard,
    lines_of,
    moment,
    open_at_end,
    read_log,
    spoken,
    table_in,
    text_in,
    todo_list,
)
from handoff.agents.history.stores.table import COPY, ENDED, StoredSession
from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_NAME = r"rollout-[\dT-]{19}-(.+?)(_[^_]+)?\.jsonl$"
_LOOKED_AT = 2_000
_CHAIN = 20
_IMPORTED = b"<EXTERNAL SESSION IMPORTED>"
_HOW = {"add": form.ADDED, "update": form.CHANGED, "delete": form.DELETED, "move": form.MOVED}
_PASSED = rb'"type":"(?:world_state|token_usage_record|response_item","payload":\{"type":"(?:message|reasoning))"'


def _logs(root: str) -> Iterator[str]:
    """The logs, newest first."""
    place, count = os.path.join(root, "sessions"), 0
    for at, folders, names in os.walk(place):
        folders.sort(reverse=True)
        for name in sorted(names, reverse=True):
            if re.match(_NAME, name):
                yield os.path.join(at, name)
                count += 1
                if count == _LOOKED_AT:
                    return


def _id_of(path: str) -> str:
    found = re.match(_NAME, os.path.basename(path))
    return found[1] if found else ""


def _meta(path: str) -> dict[str, Any]:
    """What the first row says of the thread."""
    for line, _ in lines_of(path):
        try:
            return table_in(table_in(loads(line.decode("utf-8", "replace")))["payload"])
        except (ValueError, TypeError, KeyError):
            break
    return {}


def find(root: str, folder: str) -> Iterator[StoredSession]:
    """The threads of a folder; of one that was reverted the newest segment, and no sub-agents."""
    seen = set()
    for path in _logs(root):
        if _id_of(path) in seen:
            continue
        try:
            meta, at = _head(path, folder), os.lstat(path).st_mtime
            state = COPY if meta and _IMPORTED in _end(path) else ENDED
        except OSError:
            continue
        if meta.get("cwd") == folder and not meta.get("parent_thread_id"):
            seen.add(_id_of(path))
            yield StoredSession(
                client="codex", id=_id_of(path), path=path, root=root, folder=folder, at=at, state=state
            )


def _head(path: str, folder: str) -> dict[str, Any]:
    """The first row of a log that may be of this folder: most are not, and their rows are long."""
    with open(path, "rb") as file:
        head = file.read(4096)
    return _meta(path) if folder.encode() in head or b"\\" in head[:1024] else {}


def _end(path: str) -> bytes:
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - 4096))
        return file.read()


def says_nothing(head: bytes) -> bool:
    return re.search(_PASSED, head) is not None


def entries(session: StoredSession) -> Iterator[HistoryEntry]:
    """The whole thread: first what it came from, as far as it took that over."""
    parts: list[tuple[str, int, bool]] = [(session.path, 0, False)]
    while len(parts) < _CHAIN:
        path = parts[0][0]
        base = _meta(path).get("history_base")
        if not isinstance(base, dict):
            break
        thread, end = str(base.get("thread_id")), base.get("end_byte_offset")
        older = sorted(
            one for one in _logs(session.root) if _id_of(one) == thread and one not in [part[0] for part in parts]
        )
        older = [one for one in older if thread != _id_of(path) or one < path] or older
        if not older or not isinstance(end, int):
            break
        parts.insert(0, (older[-1], end, thread == _id_of(path)))
    for path, end, reverted in parts:
        yield from read_log(path, CodexRows(), skip=says_nothing, kind=_kind, end=end)
        for text in _taken_back(path, end) if reverted else ():
            yield HistoryEntry(kind=form.DEAD, text=f"The person took this turn back: {text}")


def _taken_back(path: str, start: int) -> Iterator[str]:
    rows = CodexRows()
    for line, _ in lines_of(path, start=start):
        if b'"UserMessage"' in line or b'"user_message"' in line:
            try:
                yield from (
                    entry.text[:200]
                    for entry in rows.row(loads(line.decode("utf-8", "replace")))
                    if entry.role == form.PERSON
                )
            except (ValueError, TypeError, KeyError):
                continue


def _kind(row: dict[str, Any]) -> str:
    payload = table_in(row["payload"])
    item = payload.get("item")
    name = f"{text_in(row['type'])} {payload.get('type') or ''}".strip()
    return f"{name} {item.get('type')}" if isinstance(item, dict) else name


def is_open(session: StoredSession) -> bool:
    return open_at_end(session.path, CodexRows(), skip=says_nothing)


class CodexRows:
    """One thread's rows; the person's words are told once, as an item or as the older event."""

    def __init__(self) -> None:
        self._turn = self._items = False
        self._patches: dict[str, str] = {}

    def row(self, row: dict[str, Any]) -> Iterator[HistoryEntry]:
        kind, payload, at = text_in(row["type"]), table_in(row["payload"]), moment(row.get("timestamp"))
        if kind == "session_meta":
            git = table_in(payload.get("git") or {})
            yield HistoryEntry(
                kind=form.META,
                branch=text_in(git.get("branch") or ""),
                commit=text_in(git.get("commit_hash") or ""),
                at=at,
            )
        elif kind == "turn_context":
            yield HistoryEntry(kind=form.META, model=text_in(payload.get("model") or ""))
        elif kind == "compacted":
            yield HistoryEntry(kind=form.COMPACTION, text=text_in(payload.get("message") or ""), at=at)
        elif kind == "response_item":
            yield from self._response(payload, at)
        elif kind == "event_msg":
            yield from self._event(text_in(payload["type"]), payload, at)
        else:
            yield HistoryEntry(kind=form.UNREAD, text=kind)

    def _event(self, kind: str, payload: dict[str, Any], at: float) -> Iterator[HistoryEntry]:
        if kind == "item_completed":
            self._items = True
            yield from _item(table_in(payload["item"]), at)
        elif kind == "user_message" and not self._items:
            yield from heard(text_in(payload["message"]), at)
        elif kind == "agent_message" and not self._items:
            yield from spoken(text_in(payload["message"]), at)
        elif kind == "exec_command_end" and not self._items:
            yield from _command(payload, at)
        elif kind == "patch_apply_end" and not self._items:
            yield from _changes(payload, at)
        elif kind == "task_started":
            self._turn = True
        elif kind in ("task_complete", "turn_aborted"):
            self._turn = False
            if kind == "turn_aborted":
                yield HistoryEntry(
                    kind=form.STOP, text=f"The turn was stopped ({payload.get('reason') or 'interrupted'}).", at=at
                )
            elif payload.get("error"):
                yield HistoryEntry(kind=form.ERROR, text=str(payload["error"]), at=at)
        elif kind == "error":
            yield HistoryEntry(kind=form.ERROR, text=text_in(payload["message"]), at=at)
        elif kind == "token_count" and payload.get("info"):
            total = table_in(table_in(payload["info"])["total_token_usage"])
            yield HistoryEntry(kind=form.USAGE, how=form.TOTAL, tokens=int(total["total_tokens"]))

    def _response(self, payload: dict[str, Any], at: float) -> Iterator[HistoryEntry]:
        kind = payload.get("type")
        if kind == "custom_tool_call":
            self._patches[text_in(payload["call_id"])] = text_in(payload.get("input") or "")
        elif kind == "custom_tool_call_output":
            patch, text = self._patches.pop(text_in(payload["call_id"]), ""), flat(payload.get("output"))
            if not text.startswith("Exit code: 0") and "Success" not in text:
                for path in re.findall(r"\*\*\* (?:Add|Update|Delete) File: (.+)", patch):
                    yield HistoryEntry(kind=form.FILE, path=path, ok=False, text=text[:OUTPUT], at=at)
        elif kind == "function_call" and payload.get("name") == "update_plan":
            yield todo_list(table_in(loads(text_in(payload["arguments"])))["plan"], "step", at)
        elif kind == "function_call" and payload.get("name") == "spawn_agent":
            yield HistoryEntry(kind=form.AGENT, text=text_in(payload["arguments"])[:OUTPUT], at=at)

    def rest(self) -> Iterator[HistoryEntry]:
        if self._turn:
            yield HistoryEntry(kind=form.OPEN, text="the turn was not finished")


def _item(item: dict[str, Any], at: float) -> Iterator[HistoryEntry]:
    kind = text_in(item["type"])
    if kind == "UserMessage":
        yield from heard(flat([part for part in item["content"] if part.get("type") == "text"]), at)
    elif kind == "AgentMessage":
        yield from spoken(flat(item["content"]), at)
    elif kind == "CommandExecution":
        yield from _command(item, at)
    elif kind == "FileChange":
        yield from _changes(item, at)


def _command(item: dict[str, Any], at: float) -> Iterator[HistoryEntry]:
    words = item["command"]
    line = words if isinstance(words, str) else words[-1] if words[1:2] in (["-lc"], ["-c"]) else " ".join(words)
    code = item.get("exit_code")
    if code is not None and not isinstance(code, int):
        raise TypeError
    yield HistoryEntry(
        kind=form.SHELL,
        command=text_in(line),
        exit=code,
        text=text_in(item.get("aggregated_output") or "")[-OUTPUT:],
        at=at,
    )


def _changes(item: dict[str, Any], at: float) -> Iterator[HistoryEntry]:
    ok = item.get("status") not in ("failed", "declined") and item.get("success") is not False
    for path, change in table_in(item["changes"]).items():
        diff = text_in(table_in(change).get("unified_diff") or "")
        old, new = ("\n".join(line[1:] for line in diff.splitlines()[1:] if line.startswith(sign)) for sign in "-+")
        yield HistoryEntry(kind=form.FILE, path=path, how=_HOW.get(change.get("type"), form.CHANGED), ok=ok, old=old, new=new, at=at,
                           text="" if ok else text_in(item.get("stderr") or "")[:OUTPUT])  # fmt: skip
