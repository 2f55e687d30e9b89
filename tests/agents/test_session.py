"""The handshake: a session is live only after its start hook, or its MCP client, has called in with its token."""

from __future__ import annotations

import itertools
import json
import os

import pytest

from handoff.agents import folder as folders
from handoff.agents.contract import RESULT, TOOL, USAGE, Abilities, Adapter, AgentEvent, Launch, SessionLimits
from handoff.agents.session import AgentSession, SupervisionRules, supervise
from handoff.base.clock import SystemClock


def _read(line: str):
    told = {"tool": AgentEvent(TOOL, "write"), "turn": AgentEvent(USAGE, turns=1), "good": AgentEvent(RESULT, ok=True)}
    return (told[line.strip()],) if line.strip() in told else ()


ADAPTER = Adapter("odd", "Odd", ("sh",), lambda _: Abilities(), lambda _: Launch(()), _read)


@pytest.fixture
def outcome_of(tmp_path):
    """How a client that runs this line comes out, if it is one with hooks or one without."""
    numbers = itertools.count()

    def go(line: str, *, hooks: bool, mcp: bool = False, limits: SessionLimits = SessionLimits()):  # noqa: B008 - a constant
        name = f"session-{os.getpid()}-{next(numbers)}"
        path, _ = folders.make(str(tmp_path), "", name)
        folders.put(path, folders.TOKEN, "right")
        folders.put(path, "launch.json", json.dumps({"argv": ["/bin/sh", "-c", line], "cwd": path}))
        session = AgentSession(
            path, name, ADAPTER, Abilities(start_context=hooks, mcp=mcp), SupervisionRules(limits), SystemClock()
        )
        session.start({**os.environ, "HANDOFF_SESSION": name})
        return supervise(session, look=lambda: None)

    return go


def test_a_tool_before_the_start_hook_ends_the_session(outcome_of):
    outcome = outcome_of("echo tool; sleep 600", hooks=True)
    assert outcome.kind == "client"
    assert "before the start hook called in" in outcome.reason


def test_a_wrong_token_does_not_count_as_calling_in(outcome_of):
    outcome = outcome_of("echo wrong > hello; echo tool; sleep 600", hooks=True)
    assert "before the start hook called in" in outcome.reason


def test_a_session_that_called_in_may_use_its_tools(outcome_of):
    assert outcome_of("echo right > hello; echo tool; echo good", hooks=True).kind == "ok"


def test_a_good_end_without_ever_calling_in_is_none(outcome_of):
    outcome = outcome_of("echo good", hooks=True)
    assert outcome.kind == "client"
    assert "hooks are not active" in outcome.reason


def test_a_client_without_hooks_need_not_call_in(outcome_of):
    assert outcome_of("echo tool; echo good", hooks=False).kind == "ok"


def test_where_there_are_no_hooks_the_first_word_over_mcp_is_the_handshake(outcome_of):
    assert outcome_of("echo right > hello-mcp; echo tool; echo good", hooks=False, mcp=True).kind == "ok"
    outcome = outcome_of("echo wrong > hello-mcp; echo tool; sleep 600", hooks=False, mcp=True)
    assert outcome.kind == "client"
    assert "MCP servers are not active" in outcome.reason


def test_tools_over_mcp_do_not_stand_in_for_hooks_that_are_silent(outcome_of):
    outcome = outcome_of("echo right > hello-mcp; echo tool; sleep 600", hooks=True, mcp=True)
    assert "hooks are not active" in outcome.reason


def test_turns_are_counted_by_us_where_the_client_does_not(outcome_of):
    outcome = outcome_of("for i in 1 2 3 4; do echo tool; done; sleep 600", hooks=False, limits=SessionLimits(turns=3))
    assert "limit of 3 turns" in outcome.reason


def test_a_client_whose_provider_never_answered_until_we_ended_it_did_not_fail(outcome_of):
    short = SessionLimits(minutes=0.01)
    unanswered = outcome_of("echo right > hello; echo turn; sleep 600", hooks=True, limits=short)
    assert unanswered.kind == "down"
    assert unanswered.reason == "the limit of 0.01 minutes is reached; its provider never answered"
    assert outcome_of("echo right > hello; echo tool; sleep 600", hooks=True, limits=short).kind == "failed"
    assert outcome_of("sleep 600", hooks=False, limits=short).kind == "failed", "nobody can know"
