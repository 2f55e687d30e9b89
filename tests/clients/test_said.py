"""A person's words to a running session, with the real clients: they stand in the very next request of the same turn."""

from __future__ import annotations

import os
import sys
import time

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(900)]
FOR = ("claude", "codex", "gemini", "copilot", "opencode")
WORDS = "use the other table, please"
DONE = ("shell", f"{sys.executable} -m handoff.surfaces.cli.main task done --summary 'made a'")


def _wait(condition, what):
    until = time.monotonic() + 300
    while not (found := condition()):
        assert time.monotonic() < until, what
        time.sleep(0.1)
    return found


def test_words_said_while_a_tool_runs_stand_in_the_next_request_and_are_seen(stage):
    begun, go = (os.path.join(stage.tree, "owned", name) for name in ("begun", "go"))
    wait = f"mkdir -p {os.path.dirname(go)}; echo x > {begun}; until [ -e {go} ]; do sleep 0.1; done"
    server = stage.serve(("shell", wait), ("shell", "echo two"), stage.write("owned/a.txt"), DONE, ("say", "finished"))
    process = stage.start()
    _wait(lambda: os.path.exists(begun), "the tool call began")
    said = stage.cli("session", "say", "demo", WORDS, "--json").json
    assert said["state"] == "queued"
    with open(go, "w", encoding="utf-8"):
        pass
    out, err = process.communicate(timeout=600)
    words = out.decode() + err.decode() + server.all_texts()[-6000:]
    assert len(server.requests) > 1, words
    assert WORDS not in server.texts(0), words
    assert WORDS in server.texts(1), words
    assert "the person you work for says" in server.texts(1), words
    (message,) = stage.cli("show", "demo", "--json").json["messages"]
    assert (message["state"], message["session"]) == ("seen", said["session"]), words
    stage.note("words of a person while it works stand in its next request")
