"""Whether a client failed because its provider would not serve it: not logged in, not allowed, not there."""

from __future__ import annotations

import re

CANNOT_RUN = (126, 127)
"""Exit codes of a program that was not started at all."""
NEVER_ANSWERED = "its provider never answered"
_STATUS = r"(?P<{name}>40[13]|5[0-3]\d)"
_NUMBERED = re.compile(
    r"(?:\bhttp(?:/\d(?:\.\d)?)?|\bstatus(?:[ _]?code)?|\bapi[ _]error|\berror(?:[ _]code)?|\bresponse)\W{0,4}"
    + _STATUS.format(name="told")
    + r"\b|\b"
    + _STATUS.format(name="named")
    + r"\W{1,3}(?:unauthori[sz]ed|forbidden|internal server error|bad gateway|service unavailable|gateway time-?out)",
    re.IGNORECASE,
)
_LOG_IN = """invalid api key|invalid x-api-key|incorrect api key|missing api key|no api key|api key not valid|api key is invalid
please run /login|please log in|please login|not logged in|not signed in|login required|not authenticated|authentication_error
authentication failed|failed to authenticate|authenticationerror|providerautherror|permission_error|oauth token has expired
token has been revoked""".replace("\n", "|").split("|")
_AWAY = f"""{NEVER_ANSWERED}|request timed out|internalservererror|internal_server_error|serviceunavailableerror|service_unavailable|apiconnectionerror|api_connection_error
servers are down|unable to connect to api|server_error|stream disconnected before completion
enotfound|econnrefused|econnreset|etimedout|eai_again""".replace("\n", "|").split("|")


def is_refusal(text: str) -> bool:
    """Whether the words speak of a service that refuses or does not answer, rather than of the work."""
    return _has(text, _LOG_IN) or _has(text, _AWAY) or _NUMBERED.search(text) is not None


def is_away(text: str) -> bool:
    """Whether it is the service that fails or cannot be reached: then a log-in mends nothing."""
    found = _NUMBERED.search(text)
    fails = (found["told"] or found["named"]).startswith("5") if found else _has(text, _AWAY)
    return fails and not _has(text, _LOG_IN)


def _has(text: str, signs: list[str]) -> bool:
    lower = text.lower()
    return any(sign in lower for sign in signs)
