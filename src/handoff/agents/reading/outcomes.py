"""How a session came out, read from its last result, its words and its exit code, in that order; never from one alone."""

from __future__ import annotations

from handoff.agents.contract import FAILED, KILLED, LIMIT, LOST, OK, SERVICE, AgentOutcome
from handoff.agents.reading.refusals import CANNOT_RUN, is_refusal
from handoff.agents.reading.waiting import is_limit, reset_time
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from handoff.agents.contract import Ending

UNKNOWN_WAIT_SECONDS = 900.0
_SHOWN = 400


def judge(ending: Ending, now: float) -> AgentOutcome:
    """The rule for every client: a bad result, a limit or a refusal in its words outweighs a good exit code."""
    words = _last_words(ending)
    refused = None if _went_well(ending) else _by_provider(ending, words, now)
    if refused is not None:
        return refused
    if ending.result is not None and ending.result.ok is False:
        return AgentOutcome(FAILED, words or "the client reported a failure")
    if ending.code is None:
        return AgentOutcome(LOST, "the process is gone and nobody saw how it ended")
    if ending.code < 0:
        return AgentOutcome(KILLED, f"the process was ended by signal {-ending.code}")
    if ending.code:
        last = f"; its last words: {words}" if words else ""
        return AgentOutcome(FAILED, f"it ended with exit code {ending.code}{last}")
    if ending.trouble and ending.result is None:
        return AgentOutcome(FAILED, ending.trouble)
    return AgentOutcome(OK, ending.result.text[:_SHOWN] if ending.result else "")


def _by_provider(ending: Ending, words: str, now: float) -> AgentOutcome | None:
    """What says nothing of the work: the provider's limit, its refusal, or a client that was not started at all."""
    if ending.wait_until > now:
        return AgentOutcome(LIMIT, words or "the provider's limit is reached", ending.wait_until)
    if is_limit(words):
        return AgentOutcome(LIMIT, words, reset_time(words, now) or now + UNKNOWN_WAIT_SECONDS)
    if is_refusal(words):
        return AgentOutcome(SERVICE, words)
    if ending.code in CANNOT_RUN and ending.result is None:
        return AgentOutcome(SERVICE, f"it cannot be started: {words or f'exit {ending.code}'}")
    return None


def _went_well(ending: Ending) -> bool:
    if ending.result is not None:
        return ending.result.ok is not False
    return ending.code == 0 and not ending.trouble


def _last_words(ending: Ending) -> str:
    said = ending.result.text if ending.result is not None and ending.result.ok is False else ""
    return (said or ending.trouble or ending.tail).strip()[-_SHOWN:]
