"""Calls of tools as Gemini and Qwen write them: what ran, which file changed, what the list of steps is."""

from __future__ import annotations

import re

from handoff.agents.history import entries as form
from handoff.agents.history.entries import HistoryEntry
from handoff.agents.history.stores.rows import OUTPUT, table_in, text_in, todo_list
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

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
