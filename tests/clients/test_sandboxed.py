"""The real clients in a clone inside the sandbox: hooks, tools and reports go through the broker, the home is not written."""

from __future__ import annotations

import os
import sys

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(400)]
FOR = ("claude", "codex", "gemini", "copilot", "opencode")
CLONE = ("--workspace", "clone")
DONE = ("shell", f"{sys.executable} -m handoff.surfaces.cli.main task done --summary 'made a'")


def _tree(stage) -> str:
    return os.path.join(stage.environment["HANDOFF_HOME"], "project", "workspaces", "demo-1", "tree")


def _write(stage, name: str, text: str = "hello"):
    return ("write", os.path.join(_tree(stage), name), text)


def test_behind_the_sandbox_a_client_is_hooked_reports_and_reaches_nothing_else(stage):
    stage.need()
    home, relay = stage.environment["HOME"], stage.environment["HANDOFF_HOME"]
    places = [os.path.join(stage.repo.path, "x.txt"), os.path.join(home, "x.txt"), os.path.join(relay, "x.txt")]
    lines = "; ".join(f"echo x > {place}" for place in places)
    server = stage.serve(
        ("shell", f"{lines}; cat {relay}/handoff.db; true"), _write(stage, "other/b.txt"), _write(stage, "owned/a.txt"),
        ("tool", "finish", {"summary": "by tool"}), ("say", "finished"),
    )  # fmt: skip
    end = stage.run(*CLONE)
    assert "error" not in end, end
    assert end["outcome"] == "ok", stage.log(end)
    assert "Task `demo` of project" in server.texts(0), stage.log(end)
    assert "is not yours to change" in server.all_texts(), stage.log(end)
    assert not [place for place in places if os.path.exists(place)], stage.log(end)
    assert (end["outcome"], end["state"], end["reason"]) == ("ok", "done", "by tool"), stage.log(end)
    assert "hello" in stage.repo.read("owned/a.txt"), "it landed on the person's branch"
    stage.note("works in a clone inside the sandbox")


def test_behind_the_sandbox_a_conversation_can_be_resumed(stage):
    stage.need()
    stage.serve(("say", "the magic word is xyzzy"), *[("say", "still xyzzy")] * 5)
    first = stage.run(*CLONE)
    assert "error" not in first, first
    assert (first["outcome"], first["state"]) == ("failed", "ready"), stage.log(first)
    server = stage.serve(_write(stage, "owned/a.txt"), DONE, ("say", "finished"))
    end = stage.resume(first["session"])
    assert "error" not in end, end
    assert end["state"] == "done", stage.log(end)
    assert "xyzzy" in server.texts(0), stage.log(end)
    stage.note("resumed inside the sandbox")
