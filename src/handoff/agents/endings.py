"""Why a session ended, decided here for every client from the facts and the table of known endings; and what it used and cost.

What nobody recognises is `unknown`: it is told with the client's own words and charged to nobody.

Tokens are as the client tells them, money as the client, a setting or a list says. A client tells its tokens with each answer, once at its
end, or only in the record that it keeps of the conversation. A session that is killed never comes to its end, so the record is followed
as well. What is told twice counts once."""

from __future__ import annotations

import os
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
    TOTAL,
    UNKNOWN,
    AgentEvent,
    AgentOutcome,
    Usage,
)
from handoff.base.errors import ConfigError
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from typing import Any

    from handoff.agents.contract import Ending

# The known endings: what clients and providers print when something is not the agent's fault; the first row that fits counts. Each was seen
# on the real program or stands in the provider's documentation; tests/agents has the recordings.


CLIENTS = ("claude", "codex", "gemini", "copilot", "opencode", "cursor", "aider", "acp")
ANY, COMMAND = "*", "command"
"""Rows for every client, and for every other program, which says by its exit code alone that it failed."""


class KnownEnding(Record):
    """One row: which client, how it is recognised (all that is given must fit), what it is."""

    client: str
    kind: str
    words: str = ""
    statuses: Container[int] = ()
    codes: Container[int] = ()


def _gemini(*statuses: int) -> tuple[int, ...]:
    """Gemini CLI ends with the HTTP status modulo 256."""
    return tuple(status % 256 for status in statuses)


_CREDIT = (
    r"credit balance is too low|insufficient[ _](?:credit|quota|balance|funds)|billing_error|billing[ _]hard[ _]limit"
    r"|payment required|out of credits|no credits (?:left|remaining)"
)
_LOG_IN = (
    r"\b(?:invalid|incorrect|missing|no|wrong) (?:x-)?api[ -]key|api key (?:not valid|is invalid)|please run /login|please log ?in"
    r"|not (?:logged|signed) in|login required|not authenticated|authentication_(?:error|failed)|authentication failed"
    r"|failed to authenticate|not able to authenticate|authenticationerror|providerautherror|permission_error|oauth token has expired|token has been revoked"
)
_LIMIT = r"rate[ _]?limit|usage limit|session limit|weekly limit|hit your limit|quota (?:exceeded|reached|will reset)|exceeded your (?:current )?quota|too many requests|resource[ _]exhausted"
_DOWN = (
    r"internal_?server_?error|service_?unavailable|api_?connection_?error|overloaded|servers are down|server_error"
    r"|high demand|unable to connect to api|connection (?:error|to the api was lost)|request timed out|apitimeouterror"
    r"|stream disconnected|connection (?:was )?(?:closed|reset|lost)|socket hang up|fetch failed|network error"
    r"|enotfound|econnrefused|econnreset|etimedout|eai_again|error sending request"
)
_NO_ANSWER = (
    r"html page|<!doctype html|<html|malformed response|incomplete json|is not valid json|invalid json|unexpected token '?<"
    r"|unable to get json response|empty (?:response|stream)|ended without sending any chunks|(?:api|internal) error: terminated"
    r"|error decoding response body|end of file before"
)

KNOWN = (
    # What is the agent's although its client calls it an error.
    KnownEnding("claude", FAILED, words=r"^error_max_(?:turns|budget_usd)"),
    KnownEnding("gemini", FAILED, codes=(53,)),  # the limit on turns
    KnownEnding("opencode", FAILED, words=r"messageoutputlengtherror"),
    KnownEnding("acp", FAILED, words=r"^the agent stopped: (?:max_tokens|max_turn_requests|refusal)"),
    # The client does not get as far as its provider.
    KnownEnding("gemini", LOGIN, codes=(41,)),
    KnownEnding("gemini", CLIENT, codes=(55,)),  # it does not trust the folder
    KnownEnding(ANY, CLIENT, words=r"^(?:bwrap|env): .*no such file or directory|bad interpreter"),
    KnownEnding(ANY, CLIENT, codes=(126, 127)),
    # The provider.
    KnownEnding(ANY, LOGIN, words=_CREDIT),
    KnownEnding(ANY, LIMIT, statuses=(429,)),
    KnownEnding(ANY, LOGIN, statuses=(401, 402, 403)),
    KnownEnding(ANY, DOWN, statuses=(408, *range(500, 600))),
    KnownEnding("gemini", LIMIT, codes=_gemini(429)),
    KnownEnding("gemini", LOGIN, codes=_gemini(401, 402, 403)),
    KnownEnding("gemini", DOWN, codes=_gemini(500, 502, 503, 504, 529)),
    KnownEnding(ANY, LOGIN, words=_LOG_IN),
    KnownEnding(ANY, LIMIT, words=_LIMIT),
    KnownEnding(ANY, DOWN, words=_DOWN),
    KnownEnding(ANY, DOWN, words=_NO_ANSWER),
    # Killed by a signal that its sandbox tells as an exit code.
    KnownEnding(ANY, KILLED, codes=(129, 130, 137, 143)),
    KnownEnding(COMMAND, FAILED, codes=range(1, 126)),
)


# When a provider's limit ends, read from the client's own words.


_SECONDS = {
    0.001: "ms millisecond",
    1: "s sec second",
    60: "m min minute",
    3600: "h hr hour",
    86400: "d day",
    604800: "w week",
}
_UNITS = {word: seconds for seconds, words in _SECONDS.items() for word in words.split()}
_SPAN = r"((?:\d+(?:\.\d+)?\s*(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)\b[\s,]*(?:and\s+)?)+)"
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_LONGEST_SECONDS = 14 * 86400.0
_NOON = 12


def reset_time(text: str, now: float) -> float | None:
    """When the words say that work may go on, as a moment after `now`; None when they do not say."""
    for reader in (_epoch, _iso, _span, _clock_time):
        found = reader(text, now)
        if found is not None and now < found <= now + _LONGEST_SECONDS:
            return found
    return None


def _epoch(text: str, now: float) -> float | None:
    """`limit reached|1763200000`, `"resetsAt": 1763200000`: seconds or milliseconds since 1970."""
    del now
    found = re.search(r"(?:\||reset\w*\W{1,4})(\d{10})(\d{3})?\b", text, re.IGNORECASE)
    return float(f"{found[1]}.{found[2] or 0}") if found else None


def _iso(text: str, now: float) -> float | None:
    del now
    found = re.search(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?\s?(?:Z|UTC|[+-]\d\d:?\d\d)?", text)
    if found is None:
        return None
    from datetime import UTC, datetime

    words = found[0].strip().replace(" UTC", "Z").replace("UTC", "Z").replace(" ", "T")
    try:
        moment = datetime.fromisoformat(words)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _span(text: str, now: float) -> float | None:
    """`try again in 5h 30m`, `retry after 30 seconds`, `reset after 12h34m56s`, `retry-after: 42`."""
    tight = re.sub(r"(\d)(ms|[smhdw])(?=\d)", r"\1\2 ", text)
    found = re.search(r"(?:\bin|after|within|wait)\W{1,3}" + _SPAN, tight, re.IGNORECASE)
    if found is not None:
        parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", found[1].lower())
        return now + sum(float(n) * _UNITS.get(unit.rstrip("s") or "s", 0.0) for n, unit in parts)
    bare = re.search(r"retry[-_ ]?after\W{1,4}(\d+(?:\.\d+)?)\b", text, re.IGNORECASE)
    return now + float(bare[1]) if bare else None


def _clock_time(text: str, now: float) -> float | None:
    """`resets 3pm (UTC)`, `try again at 3:45 PM`, `resets Nov 17, 8am`."""
    found = re.search(
        r"(?:resets?|again|until|at)\s+(?:at\s+|on\s+)?(?:([a-z]{3})[a-z]*\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(?:at\s+)?)?"
        r"(\d{1,2})(?::(\d\d))?\s*([ap]m)?\b(?:\s*\(?(utc|gmt)\b)?",
        text,
        re.IGNORECASE,
    )
    if found is None or (found[4] is None and found[5] is None):
        return None
    hour, minute = int(found[3]), int(found[4] or 0)
    if found[5]:
        if hour > _NOON:
            return None
        hour = hour % _NOON + (_NOON if found[5].lower() == "pm" else 0)
    return _moment(now, (found[1] or "").lower(), int(found[2] or 0), hour, minute, universal=bool(found[6]))


def _moment(now: float, month: str, day: int, hour: int, minute: int, *, universal: bool) -> float | None:
    from datetime import UTC, datetime, timedelta

    zone = UTC if universal else None
    today = datetime.fromtimestamp(now, UTC) if universal else datetime.fromtimestamp(now).astimezone(zone)
    try:
        wanted = today.replace(hour=hour, minute=minute, second=0, microsecond=0)
        if month in _MONTHS and day:
            wanted = wanted.replace(month=_MONTHS.index(month) + 1, day=day)
            return (wanted if wanted > today else wanted.replace(year=wanted.year + 1)).timestamp()
    except ValueError:
        return None
    return (wanted if wanted > today else wanted + timedelta(days=1)).timestamp()


LIMIT_SECONDS = 900.0
"""How long a limit is waited for that does not say when it ends."""
NEVER_ANSWERED = "its provider never answered"
_TRUST = "If it asked whether you trust the folder: it works only where you say yes. No attempt was used up."
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
        return _by_person(ending)
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
        left = ending.attended and not ending.answered
        return _by_person(ending) if left else AgentOutcome(CLIENT, f"it ended before {ending.unheard}")
    if not ending.answered and ending.result is None and not ending.attended:  # in a terminal nobody reads its answers
        return AgentOutcome(DOWN, f"it ended though {NEVER_ANSWERED}")
    return AgentOutcome(OK, ending.result.text[:_SHOWN] if ending.result else "")


def _by_person(ending: Ending) -> AgentOutcome:
    """Whoever sits before it ended it. Its hooks and its model are heard only after they said that they trust the folder."""
    if ending.unheard and not ending.answered:
        return AgentOutcome(STOPPED, "its person ended it before it began", fix=_TRUST)
    return AgentOutcome(STOPPED, "its person ended it")


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
            return AgentOutcome(LOST, "nobody saw how it ended: perhaps the power was cut or the machine restarted")
        unseen = "its monitor was ended and nobody saw how it ended"
        return AgentOutcome(KILLED, "it got a signal to end" if ending.terminated else unseen)
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


# --- what it used and what that costs ----------------------------------------------------------------------------

SAID, LISTED, UNKNOWN_COST = "said", "listed", "unknown"
"""Whence a cost is known: from the client itself; from the setting `price` or the list; or not, or not for all of it."""
_MILLION = 1_000_000
_WRITTEN = 1.25  # what goes into a cache costs a quarter more, where a provider charges for it at all
_BOUNDS = "-@:["
_NAMES = ("input", "cached", "output")


class Bill(Record):
    """What a session has used until now, and what that costs as far as it is known."""

    models: tuple[str, ...] = ()
    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0
    money: float = 0.0
    basis: str = UNKNOWN_COST


class Book:
    """What one session used: what its answers said, what it told of itself as a whole, and what its own record says."""

    def __init__(self) -> None:
        self._answers: dict[str, Usage] = {}
        self._totals: dict[str, Usage] = {}
        self._recorded: dict[str, Usage] = {}
        self._model = ""

    def hear(self, event: AgentEvent) -> None:
        """Something that the client printed."""
        if event.use is not None:
            self._put(self._totals if event.kind == TOTAL else self._answers, event.use)

    def copy(self, uses: Iterable[Usage]) -> None:
        """Something that the client wrote into its own record."""
        for use in uses:
            self._put(self._recorded, use)

    def _put(self, page: dict[str, Usage], use: Usage) -> None:
        self._model = use.model or self._model
        if use.tokens or use.money is not None:
            page[use.key or f"#{len(page)}"] = use._replace(model=use.model or self._model)

    def uses(self) -> list[Usage]:
        """What counts, one line for each model.

        The client's own total is the whole of it, unless the session went on after that; its record has more than what it printed.
        """
        page = max((self._totals, self._recorded), key=_tokens)
        found: dict[str, Usage] = {}
        for use in (page or self._answers).values():
            before = found.get(use.model)
            found[use.model] = _sum(before, use) if before is not None else use
        return list(found.values())

    def bill(self, prices: Prices, *, agent: str) -> Bill | None:
        """All of it with its price; None when nothing was told."""
        uses = self.uses()
        if not uses:
            return None
        costs = [prices.cost(use, agent=agent) for use in uses]
        said = all(use.money is not None for use in uses)
        return Bill(
            models=tuple(use.model for use in uses if use.model),
            input=sum(use.input for use in uses),
            cached=sum(use.cached for use in uses),
            output=sum(use.output for use in uses),
            reasoning=sum(use.reasoning for use in uses),
            money=sum(cost or 0.0 for cost in costs),
            basis=UNKNOWN_COST if None in costs else SAID if said else LISTED,
        )


def _tokens(page: dict[str, Usage]) -> int:
    return sum(use.tokens for use in page.values())


def _sum(one: Usage, other: Usage) -> Usage:
    money = None if one.money is None or other.money is None else one.money + other.money
    counts = {name: getattr(one, name) + getattr(other, name) for name in (*_NAMES, "reasoning", "written")}
    return one._replace(money=money, **counts)


class Prices:
    """What tokens cost: the person's own prices by model or agent, then the list that comes with handoff."""

    def __init__(self, own: Mapping[str, Any] | None = None, *, where: str = "config.toml") -> None:
        self._own = {name: _checked(name, value, where) for name, value in (own or {}).items()}
        self._list: dict[str, tuple[float, ...]] | None = None

    def cost(self, use: Usage, *, agent: str) -> float | None:
        """What a use costs in US dollars: as the client says, else by its price; None when nobody knows."""
        if use.money is not None:
            return use.money
        price = self.of(use.model, agent=agent)
        if price is None:
            return None
        of_input, of_cached, of_output = price
        paid = (use.input + use.written * (_WRITTEN - 1)) * of_input + use.cached * of_cached + use.output * of_output
        return paid / _MILLION

    def of(self, model: str, *, agent: str) -> tuple[float, ...] | None:
        """Input, cached input and output of a model, per million tokens."""
        found = _longest(self._own, model) or self._own.get(agent)
        if found is None and model:
            if self._list is None:
                self._list = _listed()
            found = _longest(self._list, model)
        return found


def _longest(prices: Mapping[str, tuple[float, ...]], model: str) -> tuple[float, ...] | None:
    """The price of the longest name that the model begins with; a provider before a slash is no part of its name."""
    names = {model, model.rpartition("/")[2]} - {""}
    fits = [name for name in prices for one in names if one.startswith(name) and one[len(name) :][:1] in ("", *_BOUNDS)]
    return prices[max(fits, key=len)] if fits else None


def _checked(name: str, value: Any, where: str) -> tuple[float, ...]:
    amounts: list[Any] = [value.get(key) for key in _NAMES] if isinstance(value, dict) else [None]
    if isinstance(value, dict) and "cached" not in value:
        amounts[1] = value.get("input")
    good = all(isinstance(one, int | float) and not isinstance(one, bool) and one >= 0 for one in amounts)
    if not good or set(value) - set(_NAMES):
        raise ConfigError(
            f"{where}: price.{name} must say what a million tokens cost in US dollars.",
            f'For example: price = {{ "{name}" = {{ input = 1.25, cached = 0.125, output = 10 }} }}',
        )
    return tuple(float(one) for one in amounts)


def _listed() -> dict[str, tuple[float, ...]]:
    from tomllib import load

    with open(os.path.join(os.path.dirname(__file__), "prices.toml"), "rb") as file:
        return {name: tuple(map(float, amounts)) for name, amounts in load(file)["prices"].items()}
