"""The output of a session that handoff started, as the neutral entries that every client's own record gives too."""

from __future__ import annotations

import re

from handoff.agents import contract
from handoff.agents.history import entries as form
from handoff.agents.history.entries import HistoryEntry
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from handoff.agents.contract import AgentEvent, Read

_OPEN_CALLS, _OUTPUT, _SHORT = 200, 4000, 3
_ANNOUNCED = re.compile(r"(?:next|to-?do|decision|decided|because|dead end|note|rule)\b", re.IGNORECASE)

_ECHOED = re.compile(r"[$+] (\w\S.*)")
_EXIT = re.compile(r"\W*exit(?:ed)?(?: with)?(?: (?:code|status))?:? (\d{1,3})\W*", re.IGNORECASE)


def entries_of(read: Read, lines: Iterable[str]) -> Iterator[HistoryEntry]:
    """What an output tells, in order; a call stands where its result came, one without a result at the end."""
    waiting: dict[str, HistoryEntry] = {}
    said = ""
    shown: HistoryEntry | None = None  # a command that a program showed as a shell does, with what it printed so far
    for line in lines:
        for event in read(line):
            if event.kind == contract.SAID and event.call == contract.LINE:
                echoed = _ECHOED.match(event.text)
                if shown is not None and not echoed and not is_sentence(event.text):
                    shown = _printed(shown, event.text)
                    continue
                if shown is not None:
                    yield shown
                shown = HistoryEntry(kind=form.SHELL, command=echoed[1]) if echoed else None
            if event.kind == contract.SAID and event.call == contract.PIECE:
                said += event.text
                continue
            if said and event.kind not in (contract.USAGE, contract.TOTAL):
                yield HistoryEntry(role=form.ASSISTANT, kind=form.SAY, text=said)
                said = ""
            yield from _entries(event, waiting)
    if said:
        yield HistoryEntry(role=form.ASSISTANT, kind=form.SAY, text=said)
    if shown is not None:
        yield shown
    for call in waiting.values():
        what = call.command or call.path or call.text
        yield call._replace(kind=form.OPEN, text=what)


def _printed(shown: HistoryEntry, line: str) -> HistoryEntry:
    """One line more of a command's output; the line that says how it ended is no output."""
    ended = _EXIT.fullmatch(line)
    return shown._replace(exit=int(ended[1])) if ended else shown._replace(text=f"{shown.text}{line}\n"[-_OUTPUT:])


def is_sentence(line: str) -> bool:
    """Whether a bare line reads like words, not like what a program printed: a sentence with its end, or a word that announces one."""
    text = line.strip()
    return bool(_ANNOUNCED.match(text) or (text[:1].isalpha() and len(text.split()) > _SHORT and text[-1:] in ".!?"))


def _entries(event: AgentEvent, waiting: dict[str, HistoryEntry]) -> Iterator[HistoryEntry]:
    if event.kind == contract.SAID and (is_sentence(event.text) if event.call == contract.LINE else event.text.strip()):
        yield HistoryEntry(role=form.ASSISTANT, kind=form.SAY, text=event.text)
    elif event.kind == contract.TROUBLE:
        yield HistoryEntry(role=form.CLIENT, kind=form.ERROR, text=event.text)
    elif event.kind == contract.TOOL and event.entry is not None:
        if not event.call:
            yield event.entry
        else:
            waiting[event.call] = event.entry
            while len(waiting) > _OPEN_CALLS:
                del waiting[next(iter(waiting))]
    elif event.kind == contract.OUTPUT and event.call in waiting:
        call = waiting[event.call]
        waiting[event.call] = call._replace(text=f"{call.text}{event.text}\n"[-_OUTPUT:])
    elif event.kind == contract.ANSWERED and event.entry is not None:
        found = waiting.pop(event.call, None)
        if found is not None:
            told = event.entry
            made = found.kind == form.FILE and not found.how and "created" in told.text[:200]
            how = form.ADDED if made else found.how
            yield found._replace(text=told.text or found.text, exit=told.exit, ok=told.ok, how=how)
