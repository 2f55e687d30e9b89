"""Whether a client failed because its provider would not serve it: not logged in, not allowed, not there."""

from __future__ import annotations

import re

CANNOT_RUN = (126, 127)
"""Exit codes of a program that was not started at all."""
_STATUS = r"(?:40[13]|5[0-3]\d)"
_NUMBERED = re.compile(
    rf"(?:\bhttp(?:/\d(?:\.\d)?)?|\bstatus(?:[ _]?code)?|\bapi[ _]error|\berror(?:[ _]code)?|\bresponse)\W{{0,4}}{_STATUS}\b"
    rf"|\b{_STATUS}\W{{1,3}}(?:unauthori[sz]ed|forbidden|internal server error|bad gateway|service unavailable|gateway time-?out)",
    re.IGNORECASE,
)
_SIGNS = """invalid api key|invalid x-api-key|incorrect api key|missing api key|no api key|api key not valid|api key is invalid
please run /login|please log in|please login|not logged in|not signed in|login required|not authenticated|authentication_error
authentication failed|failed to authenticate|authenticationerror|providerautherror|permission_error|oauth token has expired
token has been revoked|internalservererror|internal_server_error|serviceunavailableerror|service_unavailable|apiconnectionerror
api_connection_error|servers are down|unable to connect to api|server_error|stream disconnected before completion
enotfound|econnrefused|econnreset|etimedout|eai_again""".replace("\n", "|").split("|")


def is_refusal(text: str) -> bool:
    """Whether the words speak of a service that refuses or does not answer, rather than of the work."""
    lower = text.lower()
    return any(sign in lower for sign in _SIGNS) or _NUMBERED.search(text) is not None
