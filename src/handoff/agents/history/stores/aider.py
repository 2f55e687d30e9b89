"""aider: one Markdown file in the project for all chats; no ids and no exit codes."""

from __future__ import annotations

import os
import re

from handoff.agents.history import entries as form
from handoff.agents.history.entries import HistoryEntry
from handoff.agents.history.stores.rows import heard, lines_of, moment, spoken
from handoff.agents.history.stores.table import STORES, StoredSession
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = STORES["aider"].below
_BEGIN = b"# aider chat started at "
_RAN = r"(?:/run |/test |!)\s*(\S.*)"
"""A command of the person's; aider keeps neither its output nor how it ended."""
_USED = r"Tokens: ([\d.]+)(k?) sent, ([\d.]+)(k?) received\.(?:.*\$([\d.]+) session)?"


def find(root: str, folder: str) -> Iterator[StoredSession]:
    """The chats of the file in this folder; each is named by when it began."""
    del root
    path, offset = os.path.join(folder, FILE), 0
    if not os.path.exists(path):
        return
    begun: list[tuple[int, str]] = []
    for line, _ in lines_of(path):
        if line.startswith(_BEGIN):
            begun.append((offset, line[len(_BEGIN) :].decode("utf-8", "replace").strip()))
        offset += len(line)
    last = os.lstat(path).st_mtime
    for index, (start, at) in enumerate(begun):
        ended = last if index == len(begun) - 1 else moment(begun[index + 1][1].replace(" ", "T"))
        yield StoredSession(
            client="aider", id=re.sub(r"\D", "", at), path=path, root=folder, folder=folder, at=ended, offset=start
        )


def is_open(session: StoredSession) -> bool:
    del session
    return False


def entries(session: StoredSession) -> Iterator[HistoryEntry]:
    """One chat. A failed block of an edit stands there without marks and reads like the model's words."""
    block: list[str] = []
    mode = ""
    for index, (data, _) in enumerate(lines_of(session.path, start=session.offset)):
        line = data.decode("utf-8", "replace").rstrip()
        if index and data.startswith(_BEGIN):
            break
        now = "####" if line.startswith("#### ") else ">" if line.startswith(">") else "" if line else mode
        if now != mode or now == ">":
            yield from _block(mode, block)
            block = []
        mode = now
        if index:
            block.append(line.removeprefix("#### ").removeprefix("> "))
    yield from _block(mode, block)


def _block(mode: str, lines: list[str]) -> Iterator[HistoryEntry]:
    text = "\n".join(lines).strip()
    if mode == "####" and (ran := re.match(_RAN, text)):
        yield HistoryEntry(kind=form.SHELL, command=ran[1])
    elif mode == "####":
        yield from heard(text, 0.0)
    elif mode == ">":
        yield from _line(text)
    else:
        yield from spoken(text, 0.0)


def _line(text: str) -> Iterator[HistoryEntry]:
    """One line of the tool itself."""
    if text.startswith("Applied edit to "):
        yield HistoryEntry(kind=form.FILE, path=text.removeprefix("Applied edit to "), how=form.CHANGED)
    elif text.startswith(("Main model: ", "Model: ")):
        yield HistoryEntry(kind=form.META, model=text.partition(": ")[2].partition(" with ")[0])
    elif text.startswith("Running "):
        yield HistoryEntry(kind=form.SHELL, command=text.removeprefix("Running "))
    elif found := re.match(_USED, text):
        sent, received = (float(found[at]) * (1000 if found[at + 1] else 1) for at in (1, 3))
        cost = float(found[5].rstrip(".")) if found[5] else 0.0
        yield HistoryEntry(kind=form.USAGE, tokens=int(sent + received))
        yield HistoryEntry(kind=form.USAGE, how=form.TOTAL, cost=cost)
    elif "failed to apply" in text or text.startswith(("Empty response", "litellm.")):
        yield HistoryEntry(kind=form.ERROR, text=text)
