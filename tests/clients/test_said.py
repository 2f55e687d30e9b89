"""A person's words to a running session, with the real clients: they stand in the very next request of the same turn."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from client_stage import ASK, wait_for

pytestmark = [pytest.mark.clients, pytest.mark.slow]
FOR = ("claude", "codex", "gemini", "copilot", "opencode")
WORDS = "use the other table, please"
DONE = ("shell", f"{sys.executable} -m handoff.surfaces.cli.main task done --summary 'made a'")


def _waiting(folder):
    """A tool call that waits until it is let go, the sign that it began, and what lets it go."""
    begun, go = (os.path.join(folder, name) for name in ("begun", "go"))
    return ("shell", f"mkdir -p {folder}; echo x > {begun}; until [ -e {go} ]; do sleep 0.1; done"), begun, go


def _let(go):
    with open(go, "w", encoding="utf-8"):
        pass


def test_words_said_while_a_tool_runs_stand_in_the_next_request_and_are_seen(stage):
    wait, begun, go = _waiting(os.path.join(stage.tree, "owned"))
    server = stage.serve(wait, ("shell", "echo two"), stage.write("owned/a.txt"), DONE, ("say", "finished"))
    process = stage.start()
    wait_for(lambda: os.path.exists(begun), "the tool call began")
    said = stage.cli("session", "say", "demo", WORDS, "--json").json
    assert said["state"] == "queued"
    _let(go)
    out, err = process.communicate(timeout=600)
    words = out.decode() + err.decode() + server.all_texts()[-6000:]
    assert len(server.requests) > 1, words
    assert WORDS not in server.texts(0), words
    assert WORDS in server.texts(1), words
    assert "the person you work for says" in server.texts(1), words
    (message,) = stage.cli("show", "demo", "--json").json["messages"]
    assert (message["state"], message["session"]) == ("seen", said["session"]), words
    stage.note("words of a person while it works stand in its next request")


@pytest.mark.clients("claude", "codex", "gemini", "copilot", "qwen")
def test_a_session_that_handoff_did_not_start_hears_its_person_by_the_hooks_in_its_settings(stage):
    stage.cli("setup", "hooks", "install", "--agent", stage.client, "--user")
    wait, begun, go = _waiting(os.path.join(stage.repo.path, "owned"))
    server = stage.serve(wait, ("shell", "echo two"), ("say", "finished"))
    ended = {one["id"] for one in stage.cli("session", "list", "--clients", "--json").json}

    def say():  # a client may write its session down after its first tool call has begun
        fresh = [
            one["id"] for one in stage.cli("session", "list", "--clients", "--json").json if one["id"] not in ended
        ]
        answer = stage.cli("session", "say", fresh[0], WORDS, code=None) if fresh else None
        return answer.out if answer is not None and answer.code == 0 else ""

    words = [word.replace("{}", "Look around.") for word in ASK[stage.client]]
    process = subprocess.Popen(
        [stage.client, *words, *stage.words()], cwd=stage.repo.path, env=stage.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, executable=f"{stage.root}/bin/{stage.client}",
    )  # fmt: skip
    wait_for(lambda: os.path.exists(begun) or process.poll() is not None, "the tool call began")
    assert "after its next tool call" in wait_for(say, "its session is there and runs")
    _let(go)
    out, _ = process.communicate(timeout=600)
    out += server.all_texts()[-6000:]
    assert len(server.requests) > 1, out
    assert WORDS not in server.texts(0), out
    assert WORDS in server.texts(1), out
    assert "(seen by" in stage.cli("session", "list", "--clients").out, out
    stage.note("words of a person stand in the next request of a session that handoff did not start")
