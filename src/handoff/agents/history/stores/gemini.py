"""Gemini CLI: a log of patches to a list of messages, which must be replayed: memory grows with the number of messages."""

from __future__ import annotations

import os
import re
from hashlib import sha256

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
)
from handoff.agents.history.stores.table import StoredSession
from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_THANKS = "Got it. Thanks for the additional context!"
_KEPT = 2_000


def find(root: str, folder: str) -> Iterator[StoredSession]:
    """The sessions of a folder. A resume leaves a stub with the same id and a newer name, so that the largest file counts."""
    place = os.path.join(root, "tmp")
    best: dict[str, StoredSession] = {}
    for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
        chats = os.path.join(place, name, "chats")
        for file in sorted(os.listdir(chats)) if os.path.isdir(chats) else ():
            path = os.path.join(chats, file)
            head = _head(path) if file.startswith("session-") and file.endswith(".jsonl") else {}
            if not head or head.get("kind") == "subagent" or not _is_of(os.path.join(place, name), head, folder):
                continue
            facts = os.lstat(path)
            known = best.get(head["sessionId"])
            if known is None or facts.st_size > os.path.getsize(known.path):
                best[head["sessionId"]] = StoredSession(
                    client="gemini",
                    id=head["sessionId"],
                    path=path,
                    root=root,
                    folder=folder,
                    at=max(facts.st_mtime, known.at if known else 0),
                )
    yield from best.values()


def _head(path: str) -> dict[str, Any]:
    try:
        for line, _ in lines_of(path):
            row = table_in(loads(line.decode("utf-8", "replace")))
            text_in(row["sessionId"])
            return row
    except (OSError, ValueError, TypeError, KeyError):
        pass
    return {}


def _is_of(place: str, head: dict[str, Any], folder: str) -> bool:
    """Whether a chat belongs to a folder: the name of its place does not say it."""
    if head.get("projectHash"):
        return bool(head["projectHash"] == sha256(folder.encode()).hexdigest())
    try:
        with open(os.path.join(place, ".project_root"), encoding="utf-8") as file:
            return file.read().strip() == folder
    except (OSError, ValueError):
        return False


def says_nothing(head: bytes) -> bool:
    return head.startswith(b'{"$set":{"lastUpdated"')


def entries(session: StoredSession) -> Iterator[HistoryEntry]:
    """The messages as they stand at the end, with those that a compression has dropped."""
    yield from read_log(session.path, GeminiRows(), skip=says_nothing, kind=_kind)


def _kind(row: dict[str, Any]) -> str:
    if "type" in row:
        return f"message {text_in(row['type'])}"
    return next(
        (name for name in ("$set", "$rewindTo") if name in row),
        "header" if "sessionId" in row else "a row without a kind",
    )


def is_open(session: StoredSession) -> bool:
    return open_at_end(session.path, GeminiRows(), skip=says_nothing)


class GeminiRows:
    """Messages by their id; the one that comes last counts, because its tools have run then."""

    def __init__(self) -> None:
        self._messages: dict[str, tuple[HistoryEntry, ...]] = {}
        self._waits = False

    def row(self, row: dict[str, Any]) -> Iterator[HistoryEntry]:
        if "$rewindTo" in row:
            self._rewind(text_in(row["$rewindTo"]))
        elif "$set" in row:
            self._set(table_in(row["$set"]).get("messages") or [])
        elif "type" in row:
            self._messages[text_in(row["id"])] = tuple(_cut(entry) for entry in self._message(row))
            self._waits = self._is_waiting(row)
        elif "sessionId" not in row:
            raise KeyError
        yield from ()

    def _set(self, messages: list[Any]) -> None:
        """The whole list again, as a resume or a compression writes it; its messages have lost what their tools gave."""
        fresh = [one for one in messages if text_in(one["id"]) not in self._messages]
        texts = [_texts(one) for one in messages]
        if _THANKS in texts and fresh:
            at = texts.index(_THANKS)
            summary = HistoryEntry(kind=form.COMPACTION, text=texts[at - 1], at=moment(messages[at].get("timestamp")))
            fresh = [one for one in fresh if one not in messages[: at + 1]]
            self._messages[text_in(messages[at]["id"])] = (_cut(summary, 6_000),)
        for one in fresh:
            self._messages[one["id"]] = tuple(_cut(entry) for entry in self._message(one))

    def _rewind(self, to: str) -> None:
        """What came behind a message was taken back."""
        names = list(self._messages)
        for name in names[names.index(to) + 1 :] if to in names else ():
            gone = self._messages.pop(name)
            said = [entry.text[:200] for entry in gone if entry.role == form.PERSON and entry.kind == form.SAY]
            self._messages[f"{name} taken back"] = tuple(
                HistoryEntry(kind=form.DEAD, text=f"The person took this turn back: {text}") for text in said
            )

    def _message(self, row: dict[str, Any]) -> Iterator[HistoryEntry]:
        kind, at, text = text_in(row["type"]), moment(row.get("timestamp")), _texts(row)
        if kind == "user":
            yield from heard(text, at)
        elif kind == "error":
            yield HistoryEntry(kind=form.ERROR, text=text, at=at)
        elif kind == "gemini":
            tokens = table_in(row.get("tokens") or {})
            yield HistoryEntry(
                kind=form.USAGE, tokens=int(tokens.get("total") or 0), model=text_in(row.get("model") or "")
            )
            yield from spoken(text, at)
            for call in row.get("toolCalls") or ():
                replies = [
                    table_in(one["functionResponse"]) for one in call.get("result") or () if "functionResponse" in one
                ]
                found = CallResult(name=text_in(call["name"]), asked=table_in(call.get("args") or {}), text="\n".join(map(answer_text, replies)),
                                   status=text_in(call.get("status") or ""), shown=call.get("resultDisplay"), at=at)  # fmt: skip
                yield from call_entries(found)

    def _is_waiting(self, row: dict[str, Any]) -> bool:
        """A call that was cut off is not written at all, only an empty message, or none behind the person's."""
        return not (row["type"] == "gemini" and (_texts(row) or row.get("toolCalls"))) and row["type"] in (
            "user",
            "gemini",
        )

    def rest(self) -> Iterator[HistoryEntry]:
        for entries_of_one in self._messages.values():
            yield from entries_of_one
        if self._waits:
            yield HistoryEntry(kind=form.OPEN, text="the model's answer")


def _texts(row: dict[str, Any]) -> str:
    content = row.get("content") or ""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "\n".join(
        part if isinstance(part, str) else text_in(part["text"])
        for part in parts
        if isinstance(part, str) or "text" in part
    )


def _cut(entry: HistoryEntry, limit: int = _KEPT) -> HistoryEntry:
    """An entry that may wait: its output short, of an edit only what tells it from another."""
    text = entry.text if entry.role == form.PERSON else entry.text[-limit:]
    if entry.old or entry.new:
        return entry._replace(text=text, old=str(hash(entry.old)), new=str(hash(entry.new)))
    return entry._replace(text=text)


# --- calls of tools -----------------------------------------------------------------------------------------

# Calls of tools as Gemini and Qwen write them: what ran, which file changed, what the list of steps is.

_FILES = ("write_file", "replace", "edit")
_FRAME = r"(?m)^(?:<untrusted_context>|</untrusted_context>|Output: (?=.)|Process Group PGID: .*|Exit Code: .*|Signal: .*|Error: \(none\)|Command: .*|Directory: .*)\n?"


class CallResult(Record):
    """A call and what came of it."""

    name: str
    asked: dict[str, Any]
    text: str
    status: str
    shown: Any = None
    at: float = 0.0


def answer_text(reply: dict[str, Any]) -> str:
    """The text of an answer to a call."""
    response = table_in(reply.get("response") or {})
    return text_in(response.get("output") or response.get("error") or "")


def call_entries(call: CallResult) -> Iterator[HistoryEntry]:
    """What a finished call means. `success` is not green: the code stands in the text."""
    good = call.status not in ("error", "cancelled")
    path = text_in(call.asked.get("file_path") or call.asked.get("absolute_path") or "")
    shown = call.shown if isinstance(call.shown, dict) else {}
    if call.status == "cancelled":
        command = text_in(call.asked.get("command") or "")
        yield HistoryEntry(kind=form.REFUSED, text=call.name, command=command, path=path, at=call.at)
    elif call.name == "run_shell_command":
        code = re.search(r"^Exit Code: (-?\d+)", call.text, re.MULTILINE)
        moved = "moved to background" in call.text or call.asked.get("is_background") is True
        done = None if moved else int(code[1]) if code else 0 if good else 1
        yield HistoryEntry(
            kind=form.SHELL,
            command=text_in(call.asked["command"]),
            exit=done,
            text=re.sub(_FRAME, "", call.text)[-OUTPUT:],
            at=call.at,
        )
    elif call.name in _FILES:
        new = shown.get("isNewFile") or "wrote to new file" in call.text[:200]
        yield HistoryEntry(kind=form.FILE, path=path, how=form.ADDED if new else form.CHANGED, ok=good, text="" if good else call.text[:OUTPUT],
                           old=text_in(call.asked.get("old_string") or ""), new=text_in(call.asked.get("new_string") or ""), at=call.at)  # fmt: skip
    elif call.name in ("write_todos", "todo_write"):
        steps = call.asked["todos"]
        yield todo_list(steps, "description" if any("description" in step for step in steps) else "content", call.at)
    elif call.name in ("task", "agent"):
        yield HistoryEntry(kind=form.AGENT, text=str(call.asked.get("description") or ""), at=call.at)
