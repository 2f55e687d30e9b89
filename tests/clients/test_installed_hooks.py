"""Hooks installed into a client's own settings: a person's plain session starts with the active feature's prompt."""

from __future__ import annotations

import os
import sqlite3

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.slow]
FOR = ("claude", "gemini", "copilot", "codex", "qwen")
STATE = "# State\n\n# Current Step\n\nStep 1: build it\n\n# Execution Plan\n\n- [>] Step 1: build it\n- [ ] Step 2: ship it\n"


def test_a_plain_session_of_a_person_starts_with_the_features_prompt(stage):
    server = stage.serve(("say", "hello"))
    stage.cli("init", "login")
    stage.repo.write(".handoff/features/login/STATE.md", STATE)
    stage.cli("setup", "hooks", "install", "--agent", stage.client, "--user")
    done = stage.ask()
    assert server.requests, done
    assert "Step 1: build it" in server.texts(0), done
    stage.note("a person's own session starts with the feature's prompt")


def test_a_plain_session_with_a_claimed_task_is_fenced_kept_alive_and_told_what_it_lost(stage):
    outside, inside = (os.path.join(stage.repo.path, name) for name in ("foreign.txt", "owned/a.txt"))
    stage.cli("setup", "hooks", "install", "--agent", stage.client, "--user")
    stage.repo.write("owned/there.txt", "")
    stage.cli("task", "claim", "demo")
    rows = stage.environment["HANDOFF_HOME"] + "/handoff.db"
    with sqlite3.connect(rows) as database:
        database.execute("UPDATE task SET lease_until = lease_until - 600")
        (before,) = database.execute("SELECT lease_until FROM task").fetchone()
    server = stage.serve(("write", outside, "x"), ("write", inside, "y"), ("say", "hello"))
    done = stage.ask()
    words = done + server.all_texts()[-3000:]
    assert not os.path.exists(outside), words
    assert "outside of what task 'demo' owns" in server.all_texts(), words
    assert os.path.exists(inside), words
    with sqlite3.connect(rows) as database:
        (after,) = database.execute("SELECT lease_until FROM task").fetchone()
        assert after > before + 500, words
        database.execute("UPDATE task SET held_by = 'thief', fence = fence + 1")
    server = stage.serve(("shell", "echo one"), ("say", "hello"))
    done = stage.ask()
    assert "'demo' is not yours: session thief" in server.all_texts(), done
    stage.note("a person's own session is fenced by the task claimed in its folder")


@pytest.mark.clients("claude", "gemini", "copilot", "codex")
def test_a_session_of_ours_runs_one_set_of_hooks_whatever_is_installed(stage):
    for scope in ("--user", "--project"):
        stage.cli("setup", "hooks", "install", "--agent", stage.client, scope)
    server = stage.serve(stage.write("owned/a.txt"), ("shell", "handoff task done --summary made"), ("say", "hello"))
    end = stage.run()
    assert (end["outcome"], end["state"]) == ("ok", "done"), stage.log(end)
    assert server.texts(0).count("Task `demo` of project") == 1, stage.log(end)
    calls = [line.split()[0].lower() for line in stage.text(end, "calls").splitlines()]
    assert calls.count("sessionstart") == 1, calls
    stage.note("runs one set of hooks")
