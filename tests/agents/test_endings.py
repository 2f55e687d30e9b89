"""Why a session ended is decided in one place: each client's real words for each failure, and what no client says."""

from __future__ import annotations

import itertools
import os

import pytest

import recorded_endings
from handoff.agents import catalog
from handoff.agents import folder as folders
from handoff.agents.contract import ENDINGS, RESULT, TROUBLE, AgentEvent, Ending
from handoff.agents.endings import ANY, COMMAND, KNOWN, LIMIT_SECONDS, classify
from handoff.agents.monitor import ERRORS, EVENTS, EXIT
from handoff.agents.session import AgentSession, SupervisionRules
from handoff.base.clock import SystemClock

NOW = 1_763_193_600.0
UNHEARD = "the start hook called in"
CLIENTS = ("claude", "codex", "gemini", "copilot", "opencode", "aider", "qwen")
FAILURES = {
    "400": "login",  # it says that no credit is left
    "401": "login",
    "402": "login",
    "429": "limit",
    "500": "down",
    "529": "down",
    "html": "down",
    "silence": "down",
    "cut": "down",
}
QUIET = {("qwen", "429"): "down"}  # it tries for minutes without a word
RECORDED = {(one["client"], one["failure"]): one for one in recorded_endings.read()}


@pytest.fixture
def outcome_of(tmp_path):
    """How a session comes out whose folder holds this, read by the same supervisor that reads a living one."""
    numbers = itertools.count()

    def go(client: str, *, events=(), errors="", told=None, stopped="", attended=False, ago=0.0):
        name = f"session-{os.getpid()}-{next(numbers)}"
        path, _ = folders.make(str(tmp_path), "", name)
        texts = {EVENTS: "".join(f"{line}\n" for line in events), ERRORS: errors, folders.STOPPED: stopped}
        if told is not None:
            texts[EXIT] = recorded_endings.json.dumps(told)
        for file, text in {**texts, folders.TOKEN: "right", folders.HELLO: "right", folders.MCP_HELLO: "right"}.items():
            folders.put(path, file, text)
            os.utime(os.path.join(path, file), (SystemClock().now() - ago,) * 2)
        adapter = catalog.adapter("acp" if client == "qwen" else client, commands={"mine": ["mine"]})
        rules = SupervisionRules(attended=attended)
        session = AgentSession(path, name, adapter, adapter.abilities(""), rules, SystemClock())
        assert not session.step()
        return session.close()

    return go


@pytest.mark.parametrize(("client", "failure"), RECORDED)
def test_each_clients_real_words_for_each_failure_of_its_provider_are_known(outcome_of, client, failure):
    one = RECORDED[client, failure]
    stopped = "the limit of 0.5 minutes is reached" if one["exit"]["stopped"] else ""
    outcome = outcome_of(client, events=one["events"], errors=one["errors"], told=one["exit"], stopped=stopped)
    assert outcome.kind == QUIET.get((client, failure), FAILURES[failure]), outcome


def test_every_client_was_recorded_with_every_failure():
    assert set(RECORDED) == set(itertools.product(CLIENTS, FAILURES))


@pytest.mark.parametrize("client", [*CLIENTS, "mine"])
def test_what_was_killed_is_not_charged_to_the_agent(outcome_of, client):
    for told in ({"code": -9}, {"code": 137}):
        assert outcome_of(client, told=told).kind == "killed", told
    for told in ({"code": -15, "stopped": True}, None):
        assert outcome_of(client, told=told).kind == "lost", told


@pytest.mark.parametrize("client", [*CLIENTS, "mine"])
def test_a_client_that_never_began_is_this_machines_fault(outcome_of, client):
    gone = "/nowhere/client: No such file or directory"
    assert outcome_of(client, told={"code": 127, "error": gone}).kind == "client"
    assert (
        outcome_of(client, told={"code": 1}, errors="bwrap: execvp PATH: No such file or directory\n").kind == "client"
    )


def test_a_limit_is_counted_from_when_it_was_hit_and_not_from_when_somebody_looks(outcome_of):
    one = RECORDED["claude", "429"]  # it says: try again in 2 hours
    outcome = outcome_of("claude", events=one["events"], told=one["exit"], ago=7000.0)
    assert outcome.until == pytest.approx(SystemClock().now() + 200, abs=60)
    outcome = outcome_of("mine", errors="429 Too Many Requests", told={"code": 1}, ago=7000.0)
    assert outcome.until == pytest.approx(SystemClock().now() - 7000 + LIMIT_SECONDS, abs=60)
    said = '{"type": "error", "error": {"name": "APIError", "data": {"message": "slow", "statusCode": 429, "responseHeaders": {"retry-after": "10800"}}}}'
    outcome = outcome_of("opencode", events=[said], told={"code": 1}, ago=7200.0)
    assert (outcome.kind, outcome.until) == ("limit", pytest.approx(SystemClock().now() + 3600, abs=60))


def test_a_silence_between_two_answers_is_unknown_and_one_within_a_tool_is_the_agents(outcome_of):
    began = '{"type": "item.started", "item": {"type": "command_execution", "command": "ls"}}'
    ended = began.replace("started", "completed")
    silent = {"told": {"code": -15, "stopped": True}, "stopped": "no sign of life for 900 s"}
    assert outcome_of("codex", events=[began], **silent).kind == "failed"
    assert outcome_of("codex", events=[began, ended], **silent).kind == "unknown"


def test_what_a_client_calls_an_error_and_nobody_knows_is_unknown_with_its_own_words(outcome_of):
    said = {"type": "result", "subtype": "success", "is_error": True, "result": "API Error: 418 I am a teapot"}
    outcome = outcome_of("claude", events=[recorded_endings.json.dumps(said)], told={"code": 1})
    assert (outcome.kind, outcome.reason) == ("unknown", "API Error: 418 I am a teapot")
    assert outcome.why == "ended for an unknown reason: API Error: 418 I am a teapot"
    assert outcome_of("codex", events=['{"type": "turn.failed"}'], told={"code": 1}).kind == "unknown"


def test_what_a_person_ended_before_their_own_terminal_is_theirs(outcome_of):
    for code in (1, 130, -2):
        assert outcome_of("claude", told={"code": code}, errors="Goodbye", attended=True).kind == "stopped"


def _failed(words: str, **more) -> Ending:
    return Ending(1, AgentEvent(RESULT, words, ok=False), at=NOW, **more)


@pytest.mark.parametrize(
    ("client", "ending", "kind"),
    [
        ("mine", Ending(0), "ok"),
        ("scripted", Ending(0, trouble=AgentEvent(TROUBLE, "the task is not done: its check is red")), "failed"),
        ("mine", Ending(3, tail="no such model"), "failed"),
        ("claude", Ending(3, tail="no such model"), "unknown"),
        ("mine", Ending(1, tail="Error: 429 Too Many Requests"), "limit"),
        ("mine", Ending(1, tail="API error 401: please log in"), "login"),
        ("mine", Ending(0, AgentEvent(RESULT, "I fixed the rate limit code", ok=True)), "ok"),
        ("mine", Ending(0, trouble=AgentEvent(TROUBLE, "litellm.InternalServerError: servers are down")), "down"),
        ("mine", Ending(0, unheard=UNHEARD), "client"),
        ("opencode", Ending(0, answered=False), "down"),
        ("claude", Ending(0, answered=False, attended=True), "ok"),
        ("claude", Ending(0, unheard=UNHEARD, answered=False, attended=True), "stopped"),  # Esc when it asks for trust
        ("claude", Ending(1, unheard=UNHEARD, answered=False, attended=True), "stopped"),  # "No, exit"
        ("claude", Ending(0, unheard=UNHEARD, attended=True), "client"),
        ("claude", Ending(1, began=False, tail="node: bad option"), "client"),
        ("claude", _failed("error_max_turns: 7"), "failed"),
        ("gemini", Ending(53), "failed"),
        ("gemini", Ending(429 % 256), "limit"),
        ("gemini", Ending(401 % 256), "login"),
        ("gemini", Ending(500 % 256), "down"),
        ("gemini", Ending(41), "login"),
        ("acp", _failed("the agent stopped: refusal"), "failed"),
        ("codex", _failed("We're currently experiencing high demand, which may cause temporary errors."), "down"),
        ("codex", _failed("insufficient_quota"), "login"),
        ("codex", _failed("exceeded retry limit, last status: 500 Internal Server Error"), "down"),
        ("codex", _failed("unexpected status 403 Forbidden: no such plan"), "login"),
        ("copilot", _failed("getaddrinfo ENOTFOUND api.example.com"), "down"),
        ("mine", Ending(1, tail="tests/test_login.py: 401 lines"), "failed"),
        ("mine", Ending(1, tail="I could not finish the login form"), "failed"),
        ("mine", Ending(1, tail="took 503 s"), "failed"),
        ("mine", Ending(1, tail="KeyError: 'quota'"), "failed"),
        ("mine", Ending(0, asked="enough", stopped="enough"), "stopped"),
        ("mine", Ending(-15, stopped="the limit of 5 minutes is reached"), "failed"),
    ],
)
def test_the_facts_decide(client, ending, kind):
    assert classify(client, ending).kind == kind


def test_a_limit_waits_until_the_moment_the_client_names():
    named = _failed("Rate limit reached. Please try again in 2 hours.")
    assert classify("codex", named).until == NOW + 7200
    assert classify("claude", _failed("limit", wait_until=NOW + 3600)) == classify("claude", named)._replace(
        reason="limit", until=NOW + 3600
    )


def test_every_row_of_the_table_leads_to_a_known_kind_of_a_known_client():
    assert {row.kind for row in KNOWN} <= set(ENDINGS)
    assert {row.client for row in KNOWN} <= {ANY, COMMAND, *catalog.OURS}
