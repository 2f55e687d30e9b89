"""Rows of a store's log, one by one: what is broken or unknown is counted, a form that has changed is an error, nothing is loaded whole."""

from __future__ import annotations

import os
import re
from calendar import timegm

from handoff.agents.history import entries as form
from handoff.agents.history.entries import HistoryEntry, TodoItem
from handoff.base.errors import UserError
from handoff.base.light_json import loads
from handoff.base.markdown import BATON_END, BATON_MARK, without_batons
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Protocol

    class RowReader(Protocol):
        """What one client's rows mean; it may hold calls that wait for their results."""

        def row(self, row: dict[str, Any]) -> Iterable[HistoryEntry]: ...

        def rest(self) -> Iterable[HistoryEntry]: ...


LONGEST = 8 << 20
"""A longer row is counted and passed by: nothing a person or a command says is so long."""
OUTPUT = 4_000
TAIL = 1 << 18
_BROKEN = 3
_STATES = {
    "completed": form.DONE, "done": form.DONE, "in_progress": form.DOING, "pending": form.PENDING, "cancelled": form.DROPPED,
    "deleted": form.DROPPED,
}  # fmt: skip
_CONTEXT = (
    "system-reminder|hook_context|session_context|environment_context|user_instructions|INSTRUCTIONS|current_datetime|task-notification"
    "|turn_aborted|local-command-[a-z]+|ide_[a-z_]+|user-prompt-submit-hook|bash-(?:stdout|stderr)|untrusted_context|skills_instructions"
)
_COMMAND = r"(?s)<command-name>(.*?)</command-name>.*?(?:<command-args>(.*?)</command-args>|$)"
INTERRUPTED = "[Request interrupted"
SUMMARY = "This session is being continued from a previous"
MISUNDERSTOOD = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)


def moment(value: Any) -> float:
    """A client's time in seconds: its ISO text or its milliseconds; 0 where it says none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1000 if value > 1e11 else float(value)  # noqa: PLR2004 - seconds would be the year 5138
    if not isinstance(value, str) or len(value) < len("2026-11-18T04:40:48"):
        return 0.0
    hour = value[:13]
    if hour not in _HOURS:
        _HOURS.clear()  # rows come in order: one is enough
        try:
            _HOURS[hour] = timegm((int(hour[:4]), int(hour[5:7]), int(hour[8:10]), int(hour[11:]), 0, 0))
        except ValueError:
            return 0.0
    try:
        return _HOURS[hour] + int(value[14:16]) * 60 + float(value[17:23].rstrip("Z+-: "))
    except ValueError:
        return 0.0


_HOURS: dict[str, int] = {}


def text_in(value: Any) -> str:
    """A text that must be one."""
    if not isinstance(value, str):
        raise TypeError
    return value


def table_in(value: Any) -> dict[str, Any]:
    """A mapping that must be one."""
    if not isinstance(value, dict):
        raise TypeError
    return value


def flat(content: Any) -> str:
    """The text of a content that is a text, or a list of parts with texts."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, dict):
        content = [content]
    return "\n".join(text_in(part.get("text") or "") for part in content)


def person_words(text: str) -> str:
    """What the person said themselves: without what clients, hooks and handoff put into their mouth."""
    text = without_batons(text)
    if "<" in text:
        if "<command-name>" in text:
            text = re.sub(
                _COMMAND,
                lambda found: f"{found[1].strip()} {found[2].strip()}" if (found[2] or "").strip() else "",
                text,
            )
        text = re.sub(rf"(?s)<({_CONTEXT})\b[^>]*>.*?(?:</\1>|\Z)", "", text)
        text = re.sub(r"</?user_query>", "", text)
    if text.startswith(("# AGENTS.md instructions", "Caveat: The messages below were generated", SUMMARY)):
        return ""
    return text.strip()


def heard(text: str, at: float, kind: str = form.SAY) -> Iterator[HistoryEntry]:
    """The person's words as an entry, or that they interrupted; nothing where they are not theirs."""
    if BATON_MARK in text:
        baton = text.partition(BATON_MARK)[2].partition(BATON_END)[0]
        yield HistoryEntry(kind=form.HANDED, text=baton.strip(), at=at)
    if text.startswith(INTERRUPTED):
        yield HistoryEntry(kind=form.STOP, text="The person interrupted it.", at=at)
    elif words := person_words(text):
        yield HistoryEntry(role=form.PERSON, kind=kind, text=words, at=at)


def spoken(text: str, at: float) -> Iterator[HistoryEntry]:
    """The model's words."""
    if text.strip():
        yield HistoryEntry(role=form.ASSISTANT, kind=form.SAY, text=text, at=at)


def todo_list(steps: Any, text: str, at: float = 0.0) -> HistoryEntry:
    """A to-do list; `text` is where a step has its words."""
    items = tuple(
        TodoItem(text_in(step[text]), _STATES.get(str(step.get("status")), str(step.get("status") or form.PENDING)))
        for step in steps
    )
    return HistoryEntry(kind=form.PLAN, todo=items, at=at)


def unread(what: str) -> HistoryEntry:
    """A row that was not understood."""
    return HistoryEntry(kind=form.UNREAD, text=what)


def lines_of(path: str, *, start: int = 0, end: int = 0) -> Iterator[tuple[bytes, bool]]:
    """The lines of a file from here to there, and whether each is whole; what is longer than a row may be is cut."""
    with open(path, "rb") as file:
        file.seek(start)
        while line := file.readline(LONGEST):
            if end and file.tell() > end:
                return
            whole = line.endswith(b"\n")
            if not whole and len(line) >= LONGEST:
                while (rest := file.readline(LONGEST)) and not rest.endswith(b"\n"):
                    pass
            yield line, whole


def read_log(
    path: str,
    reader: RowReader,
    *,
    skip: Callable[[bytes], bool],
    kind: Callable[[dict[str, Any]], str],
    end: int = 0,
) -> Iterator[HistoryEntry]:
    """What a log of JSON rows says. `skip` knows rows that say nothing by their first bytes, `kind` names a row.

    A kind of which more rows are not understood than understood has changed its form.
    """
    good: dict[str, int] = {}
    bad: dict[str, list[int]] = {}
    version = ""
    for number, (line, whole) in enumerate(lines_of(path, end=end), 1):
        if skip(line[:320]) or line == b"\n":
            continue
        name = "a row that is no JSON"
        if len(line) >= LONGEST:
            yield unread("a row that is too long")
            continue
        try:
            row = table_in(loads(line.decode("utf-8", "replace")))
            name = "a row without a kind"
            name = kind(row)
            version = version or _version(row)
            found = list(reader.row(row))
        except MISUNDERSTOOD:
            if whole:  # else it is being written at this moment, or was cut off
                bad.setdefault(name, []).append(number)
                yield unread(name)
            continue
        good[name] = good.get(name, 0) + 1
        yield from found
    yield from reader.rest()
    for name, numbers in bad.items():
        if len(numbers) >= _BROKEN and len(numbers) > good.get(name, 0):
            raise changed_form(path, f"line {numbers[0]} ({name}), and {len(numbers) - 1} more of that kind", version)


def changed_form(path: str, record: str, version: str) -> UserError:
    """The error for a store that is not what it was."""
    return UserError(
        f"{path} has a form that handoff does not know: {record}; written by version {version or 'unknown'}.",
        "Go on in that client itself, and tell handoff's maintainers the version.",
    )


def _version(row: dict[str, Any]) -> str:
    data = row.get("data") if isinstance(row.get("data"), dict) else row.get("payload")
    data = data if isinstance(data, dict) else {}
    return str(row.get("version") or data.get("copilotVersion") or data.get("cli_version") or "")


def open_at_end(path: str, reader: RowReader, *, skip: Callable[[bytes], bool]) -> bool:
    """Whether the last rows of a log leave something open; a quick look from its end."""
    size = os.path.getsize(path)
    last: HistoryEntry | None = None
    for index, (line, _) in enumerate(lines_of(path, start=max(0, size - TAIL))):
        if skip(line[:320]) or (not index and size > TAIL):
            continue
        try:
            for entry in reader.row(table_in(loads(line.decode("utf-8", "replace")))):
                last = entry if entry.kind not in (form.USAGE, form.META) else last
        except MISUNDERSTOOD:
            continue
    return any(entry.kind == form.OPEN for entry in reader.rest()) or (last is not None and last.kind == form.STOP)
