"""What clients and providers say when something is not the agent's fault: one row for each, the first that fits counts.

Each row was seen on the real program or stands in the provider's documentation; tests/agents/reading has the recordings.
"""

from __future__ import annotations

from handoff.agents.contract import CLIENT, DOWN, FAILED, KILLED, LIMIT, LOGIN
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Container

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
