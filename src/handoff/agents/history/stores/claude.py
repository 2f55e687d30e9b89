"""Claude Code: one log of rows a session, in a folder named after the project's path."""

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
    unread,
)
from handoff.agents.history.stores.table import StoredSession
from handoff.base.files import names_in, read_text
from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_SLUG = 200
_REFUSED = "The user doesn't want to proceed with this tool use"
_SAID = "the user said:\n"
_KNOWN = frozenset(
    "queue-operation last-prompt atis-latch tools-used mode permission-mode file-history-snapshot summary ai-title custom-title agent-name"
    " pr-link progress tag worktree-state content-replacement agent-color agent-setting task-summary marble-origami-commit relocated".split()
)
_EDITS = ("Edit", "MultiEdit", "Write", "NotebookEdit", "StrReplace", "Delete")


def slug(folder: str) -> str:
    """The name of a project's folder in the store; a longer one has a hash behind these characters."""
    return re.sub(r"[^A-Za-z0-9]", "-", folder)[:_SLUG]


def find(root: str, folder: str, *, below: str = "projects") -> Iterator[StoredSession]:
    """The sessions of a folder: several folders can share a name, so that the rows decide."""
    place, name = os.path.join(root, below), slug(folder)
    names = [one for one in names_in(place) if one == name or (len(name) == _SLUG and one.startswith(name))]
    for at in (os.path.join(place, one) for one in names):
        for file in names_in(at):
            path = os.path.join(at, file)
            if file.endswith(".jsonl") and folder_of(path) in ("", folder):
                yield StoredSession(
                    client="claude",
                    id=file[: -len(".jsonl")],
                    path=path,
                    root=root,
                    folder=folder,
                    at=os.lstat(path).st_mtime,
                )


def folder_of(path: str) -> str:
    """The working folder that the first rows name."""
    try:
        for number, (line, _) in enumerate(lines_of(path)):
            if found := re.search(rb'"cwd":("(?:[^"\\]|\\.)*")', line):
                return str(loads(found[1].decode("utf-8", "replace")))
            if number > 50:  # noqa: PLR2004 - the first rows name it, or none does
                break
    except (OSError, ValueError):
        pass
    return ""


def says_nothing(head: bytes) -> bool:
    """Rows that only repeat what was sent: nine tenths of the bytes."""
    if b'"type":"api-request' in head or b'"type":"file-history-snapshot"' in head:
        return True
    return b'"attachment":{"type":"' in head and b'"queued_command"' not in head


def entries(session: StoredSession) -> Iterator[HistoryEntry]:
    """Everything in a session, sub-agents left out; its list of tasks lies beside it."""
    yield from read_log(session.path, ClaudeRows(), skip=says_nothing, kind=lambda row: text_in(row["type"]))
    place = os.path.join(session.root, "tasks", session.id)
    steps = []
    for name in sorted(names_in(place), key=lambda one: (len(one), one)):
        if name.endswith(".json") and not os.path.islink(os.path.join(place, name)):
            try:
                steps.append(table_in(loads(read_text(os.path.join(place, name)))))
            except (OSError, ValueError, TypeError):
                yield unread("a task of the list")
    if steps:
        yield todo_list([step for step in steps if isinstance(step.get("subject"), str)], "subject")


def is_open(session: StoredSession) -> bool:
    return open_at_end(session.path, ClaudeRows(), skip=says_nothing)


class ClaudeRows:
    """Rows in file order: the chain of parents is broken in most long files."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, dict[str, Any]]] = {}
        self._answer, self._tokens, self._branch = "", 0, ""

    def row(self, row: dict[str, Any]) -> Iterator[HistoryEntry]:
        kind, at = text_in(row["type"]), moment(row.get("timestamp"))
        if row.get("isSidechain") is True or kind in _KNOWN:
            return
        if kind == "user":
            yield from self._user(row, at)
        elif kind == "assistant":
            yield from self._assistant(row, at)
        elif kind == "attachment":
            said = table_in(row["attachment"])
            if said.get("type") == "queued_command" and said.get("commandMode", "prompt") == "prompt":
                yield from heard(flat(said["prompt"]), at, form.STEER)
        elif kind == "cost-state":
            yield HistoryEntry(kind=form.USAGE, how=form.TOTAL, cost=float(row["totalCostUSD"]))
        elif kind != "system":
            yield unread(kind)

    def _user(self, row: dict[str, Any], at: float) -> Iterator[HistoryEntry]:
        content = table_in(row["message"])["content"]
        if row.get("isCompactSummary"):
            yield HistoryEntry(kind=form.COMPACTION, text=flat(content), at=at)
            return
        origin = row.get("origin")
        if row.get("isMeta") or (isinstance(origin, dict) and origin.get("kind") not in (None, "human")):
            return
        if row.get("gitBranch") != self._branch:
            self._branch = text_in(row.get("gitBranch") or "")
            yield HistoryEntry(kind=form.META, branch=self._branch)
        if isinstance(content, str):
            yield from heard(content, at)
            return
        for block in content:
            if block["type"] == "text":
                yield from heard(text_in(block["text"]), at)
            elif block["type"] == "tool_result":
                yield from self._result(block, row.get("toolUseResult"), at)

    def _assistant(self, row: dict[str, Any], at: float) -> Iterator[HistoryEntry]:
        message = table_in(row["message"])
        content = message["content"]
        if row.get("isApiErrorMessage") or message.get("model") == "<synthetic>":
            yield HistoryEntry(kind=form.ERROR, text=flat(content), at=at)
            return
        usage = table_in(message.get("usage") or {})
        if message.get("id") != self._answer:
            yield HistoryEntry(kind=form.USAGE, tokens=self._tokens, model=text_in(message.get("model") or ""))
        self._answer = text_in(message.get("id") or "")
        self._tokens = sum(
            value for name, value in usage.items() if name.endswith("_tokens") and isinstance(value, int)
        )
        for block in content:
            if block["type"] == "text":
                yield from spoken(text_in(block["text"]), at)
            elif block["type"] == "tool_use":
                self._calls[text_in(block["id"])] = text_in(block["name"]), table_in(block["input"])

    def _result(self, block: dict[str, Any], shown: Any, at: float) -> Iterator[HistoryEntry]:
        name, asked = self._calls.pop(text_in(block["tool_use_id"]), ("", {}))
        text, failed = flat(block.get("content")), block.get("is_error") is True
        shown = shown if isinstance(shown, dict) else {}
        if text.startswith(_REFUSED):
            yield HistoryEntry(kind=form.REFUSED, text=name, command=_text(asked, "command"), path=_path(asked), at=at)
            yield from heard(text.partition(_SAID)[2], at, form.STEER)
        elif name in ("Bash", "Shell"):
            yield from self._shell(_text(asked, "command"), text, shown, failed=failed, at=at)
        elif name in _EDITS:
            how = form.ADDED if shown.get("type") == "create" else form.DELETED if name == "Delete" else form.CHANGED
            old, new = _text(asked, "old_string"), _text(asked, "new_string")
            yield HistoryEntry(
                kind=form.FILE,
                path=_path(asked),
                how=how,
                ok=not failed,
                text=text[:OUTPUT] if failed else "",
                old=old,
                new=new,
                at=at,
            )
        elif name == "TodoWrite":
            yield todo_list(asked["todos"], "content", at)
        elif name in ("Task", "Agent"):
            yield HistoryEntry(kind=form.AGENT, text=_text(asked, "description"), at=at)
        elif name == "ExitPlanMode":
            yield from spoken(_text(asked, "plan"), at)
        elif name == "AskUserQuestion" and not failed:
            yield from heard(text, at, form.STEER)

    def _shell(
        self, command: str, text: str, shown: dict[str, Any], *, failed: bool, at: float
    ) -> Iterator[HistoryEntry]:
        code = re.match(r"(?:Error: )?Exit code (\d+)\n?", text)
        unknown = bool(shown.get("interrupted") or shown.get("backgroundTaskId"))
        exit_code = None if unknown else int(code[1]) if code else 1 if failed else 0
        yield HistoryEntry(
            kind=form.SHELL, command=command, exit=exit_code, text=text[code.end() if code else 0 :][-OUTPUT:], at=at
        )
        changes = shown.get("bashEditDiff")
        for path in changes.get("changedFiles", ()) if isinstance(changes, dict) else ():
            name = path if isinstance(path, str) else text_in(path.get("filePath") or path.get("path"))
            yield HistoryEntry(kind=form.FILE, path=name, how=form.CHANGED, at=at)

    def rest(self) -> Iterator[HistoryEntry]:
        yield HistoryEntry(kind=form.USAGE, tokens=self._tokens)
        for name, asked in self._calls.values():
            place = asked.get("file_path") or asked.get("notebook_path")
            yield HistoryEntry(
                kind=form.OPEN, text=name, command=str(asked.get("command") or ""), path=str(place or "")
            )


def _text(asked: dict[str, Any], name: str) -> str:
    return text_in(asked.get(name) or "")


def _path(asked: dict[str, Any]) -> str:
    return text_in(asked.get("file_path") or asked.get("notebook_path") or asked.get("path") or "")
