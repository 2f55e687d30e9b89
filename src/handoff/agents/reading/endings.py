"""Why a session ended, decided here for every client from the facts and the table of known endings.

What nobody recognises is `unknown`: it is told with the client's own words and charged to nobody.
"""

from __future__ import annotations

import re

from handoff.agents.contract import (
    CLIENT,
    DOWN,
    FAILED,
    KILLED,
    LIMIT,
    LOGIN,
    LOST,
    OK,
    STOPPED,
    UNKNOWN,
    AgentOutcome,
)
from handoff.agents.reading.known_endings import ANY, CLIENTS, COMMAND, KNOWN
from handoff.agents.reading.waiting import reset_time
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from handoff.agents.contract import Ending
    from handoff.agents.reading.known_endings import KnownEnding

LIMIT_SECONDS = 900.0
"""How long a limit is waited for that does not say when it ends."""
NEVER_ANSWERED = "its provider never answered"
_SHOWN = 400
_PROVIDERS = (LIMIT, DOWN, LOGIN)
_STATUS = re.compile(
    r"(?:\bhttp(?:/\d(?:\.\d)?)?|\bstatus(?:[ _]?code)?|\bapi[ _]error|\berror(?:[ _]code)?|\bresponse|\bcode|\brejected)"
    r"\W{0,4}(?P<told>[45]\d\d)\b"
    r"|\b(?P<named>[45]\d\d)\W{1,3}(?:unauthori[sz]ed|payment required|forbidden|too many requests|internal server error|bad gateway"
    r"|service unavailable|gateway time-?out|overloaded)",
    re.IGNORECASE,
)


def classify(client: str, ending: Ending) -> AgentOutcome:
    """What came of a session of `client`."""
    return _kind(client, ending)._replace(at=ending.at)


def _kind(client: str, ending: Ending) -> AgentOutcome:
    if ending.asked:
        return AgentOutcome(STOPPED, ending.asked)
    if ending.stopped:
        return _cut_off(client, ending)
    if _went_well(ending):
        return _well(ending)
    words = _words(ending).strip()
    if ending.wait_until > ending.at:
        return _outcome(LIMIT, words, ending)
    row = _known(client, ending, words)
    if ending.attended and (row is None or row.kind in (FAILED, KILLED)):
        return AgentOutcome(STOPPED, "its person ended it")
    if row is not None and row.kind != FAILED:
        return _outcome(row.kind, words, ending)
    if ending.code is None or ending.terminated or ending.code < 0:
        return _from_outside(ending)
    if not ending.began:
        return AgentOutcome(CLIENT, f"it ended before its first word: {words or _code_words(ending)}")
    # Of a program that is no client nobody knows errors of a provider: one that complains and ends by itself has not finished.
    is_known = row is not None or (ending.code == 0 and client not in CLIENTS)
    return _outcome(FAILED if is_known else UNKNOWN, words, ending)


def _well(ending: Ending) -> AgentOutcome:
    """It says that all is well; one whose hooks or whose model were never heard has done nothing."""
    if ending.unheard:
        return AgentOutcome(CLIENT, f"it ended before {ending.unheard}")
    if not ending.answered and ending.result is None and not ending.attended:  # in a terminal nobody reads its answers
        return AgentOutcome(DOWN, f"it ended though {NEVER_ANSWERED}")
    return AgentOutcome(OK, ending.result.text[:_SHOWN] if ending.result else "")


def _cut_off(client: str, ending: Ending) -> AgentOutcome:
    """We ended it. What it complained of last is the likely reason why it took so long, and perhaps its provider's fault."""
    if ending.unheard and ending.unheard in ending.stopped:
        return AgentOutcome(CLIENT, ending.stopped)
    trouble = _short(ending.trouble.text) if ending.trouble else ""
    last = (
        f"; its last error: {trouble}"
        if trouble
        else f"; its last words: {said}"
        if (said := _short(ending.tail))
        else ""
    )
    row = _known(client, ending._replace(code=0), trouble) if trouble else None
    if row is not None and row.kind in _PROVIDERS:
        return _outcome(row.kind, f"{ending.stopped}{last}", ending)
    if ending.began and not ending.answered:
        return AgentOutcome(DOWN, f"{ending.stopped}; {NEVER_ANSWERED}{last if trouble else ''}")
    if ending.silent and not ending.in_tool:
        return AgentOutcome(UNKNOWN, f"{ending.stopped}{last}")
    return AgentOutcome(FAILED, f"{ending.stopped}{last}")


def _known(client: str, ending: Ending, words: str) -> KnownEnding | None:
    """The first row that fits; one with several signs needs all of them."""
    told = ending.result if ending.result is not None and ending.result.ok is False else ending.trouble
    status = (told.status if told else 0) or _status_in(words)
    names = (ANY, client if client in CLIENTS else COMMAND)
    for row in KNOWN:
        if (
            row.client in names
            and (not row.words or re.search(row.words, words, re.IGNORECASE | re.MULTILINE))
            and (not row.statuses or status in row.statuses)
            and (not row.codes or ending.code in row.codes)
        ):
            return row
    return None


def _status_in(words: str) -> int:
    found = _STATUS.search(words)
    return int(found["told"] or found["named"]) if found else 0


def _outcome(kind: str, words: str, ending: Ending) -> AgentOutcome:
    shown = words[:_SHOWN]
    if kind == LIMIT:
        until = ending.wait_until if ending.wait_until > ending.at else reset_time(words, ending.at)
        return AgentOutcome(LIMIT, shown or "it did not say until when", until or ending.at + LIMIT_SECONDS)
    if kind == KILLED:
        return _from_outside(ending)
    if ending.result is not None or (kind in _PROVIDERS and shown):
        return AgentOutcome(kind, shown or "it said that it failed, and not why")
    return AgentOutcome(kind, f"{_code_words(ending)}; its last words: {shown}" if shown else _code_words(ending))


def _from_outside(ending: Ending) -> AgentOutcome:
    if ending.code is None or ending.terminated:
        if ending.adopted:
            return AgentOutcome(LOST, "nobody saw how it came out: perhaps the power was cut or the machine restarted")
        unseen = "its monitor was ended and nobody saw how it came out"
        return AgentOutcome(KILLED, "it was told to end" if ending.terminated else unseen)
    number = -ending.code if ending.code < 0 else ending.code - 128
    return AgentOutcome(KILLED, f"the process was ended by signal {number}")


def _code_words(ending: Ending) -> str:
    return f"it ended with exit code {ending.code}"


def _went_well(ending: Ending) -> bool:
    if ending.code != 0 or ending.terminated:
        return False
    return ending.result.ok is not False if ending.result is not None else ending.trouble is None


def _words(ending: Ending) -> str:
    said = ending.result.text if ending.result is not None and ending.result.ok is False else ""
    return said or (ending.trouble.text if ending.trouble else "") or ending.tail[-_SHOWN:]


def _short(text: str) -> str:
    return " ".join(text.split())[-_SHOWN:]
