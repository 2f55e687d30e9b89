"""Each real client meets each way in which a provider fails, and nothing of it is charged to the agent.

With HANDOFF_TEST_ENDINGS=yes what each client said is kept beside the clients: the recordings of tests/agents are made of it.
"""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

import recorded_endings

RECORD = bool(os.environ.get("HANDOFF_TEST_ENDINGS"))
pytestmark = [pytest.mark.clients, pytest.mark.endings, pytest.mark.slow]
CREDIT = (
    "Your credit balance is too low to access the API. Please go to Plans & Billing to upgrade or purchase credits."
)


def _error(status: int, kind: str, words: str):
    name = {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}.get(status, "INVALID_ARGUMENT")
    fault = {"type": kind, "message": words, "code": status, "status": name}
    return (
        "error",
        status,
        {"type": "error", "error": fault},
    )


FAILURES = {
    "400": (_error(400, "invalid_request_error", CREDIT), "login"),
    "401": (_error(401, "authentication_error", "invalid x-api-key"), "login"),
    "402": (_error(402, "billing_error", "Insufficient credits."), "login"),
    "429": (_error(429, "rate_limit_error", "Too many requests. Please try again in 2 hours."), "limit"),
    "500": (_error(500, "api_error", "Internal server error"), "down"),
    "529": (_error(529, "overloaded_error", "Overloaded"), "down"),
    "html": (("page",), "down"),
    "silence": (("hang",), "down"),
    "cut": (("cut",), "down"),
}


def _agent(stage) -> tuple[str, ...]:
    """Some are driven over the Agent Client Protocol alone."""
    return ("--agent", "acp", "--with=qwen", "--with=--acp") if stage.client == "qwen" else ("--agent", stage.client)


@pytest.mark.parametrize("failure", FAILURES)
def test_what_the_provider_does_is_not_charged_to_the_agent(stage, failure):
    act, kind = FAILURES[failure]
    stage.serve(act)
    end = stage.run("--minutes", "0.5" if failure == "silence" else "3", *_agent(stage))
    if RECORD:
        said = {name: stage.text(end, name) for name in ("events.jsonl", "errors.log", "exit.json")}
        recorded_endings.keep(f"{stage.client}-{failure}", said)
    kind = "down" if (stage.client, failure) == ("qwen", "429") else kind  # it tries for minutes without a word
    assert (end["outcome"], end["state"]) == (kind, "ready"), stage.log(end)
    assert stage.cli("show", "demo", "--json").json["attempt"] == 1
    stage.note("provider fails in nine ways: no attempt used up")


def test_a_client_that_somebody_kills_costs_no_attempt(stage):
    server = stage.serve(("hang",))
    words = [f"--with={word}" for word in stage.words()]
    process = stage.cli.start("session", "start", "demo", "--json", *_agent(stage), *words)
    deadline = time.monotonic() + 300
    while not server.requests and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    (session,) = stage.sessions()
    os.kill(stage.read({"session": session}, "process.json")["pid"], signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    end = json.loads(out)
    assert (end["outcome"], end["state"]) == ("killed", "ready"), err
    assert stage.cli("show", "demo", "--json").json["attempt"] == 1
