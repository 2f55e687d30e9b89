"""A real client in a tmux window, for a person: started, called in, kept alive, ended, concluded; compacted by hand on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from sandbox import absent

pytestmark = [pytest.mark.clients, pytest.mark.slow]
FOR = ("claude",)
DONE = ("shell", f"{sys.executable} -m handoff.surfaces.cli.main task done --summary 'made a'")


@pytest.fixture
def tmux(stage):
    """A tmux server of the test's own; the client's first-run questions are answered as a person would have, once."""
    if not os.access("/usr/bin/tmux", os.X_OK):
        absent("tmux")
    stage.environment.update(TMUX_TMPDIR=os.path.join(stage.root, "tmp"))
    answers = {
        "hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": [stage.key[-20:]], "rejected": []},
        "projects": {stage.repo.path: {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }  # fmt: skip
    with open(os.path.join(stage.root, "home", ".claude.json"), "w", encoding="utf-8") as file:
        json.dump(answers, file)

    def ask(*words: str) -> str:
        done = subprocess.run(
            ["/usr/bin/tmux", *words], env=stage.environment, capture_output=True, text=True, check=False
        )
        return done.stdout

    yield ask
    ask("kill-server")


def _until(look, screen, seconds: float = 200):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(screen())


def test_a_person_works_with_it_in_a_window_and_compacts_by_hand(stage, tmux):
    stage.set(lease_seconds="3", session_workspace='"shared"')
    server = stage.serve(
        stage.write("owned/a.txt"), ("say", "What next?"),
        ("say", "<summary>I wrote it.</summary>"), DONE, ("say", "It is reported."),
    )  # fmt: skip
    stage.cli("setup", "hooks", "install", "--agent", "claude", "--user")
    stage.cli("session", "start", "demo", "--agent", "claude", "--in", "tmux")

    def screen() -> str:
        return tmux("capture-pane", "-p", "-t", "handoff-project")

    def type_in(text: str) -> None:
        tmux("send-keys", "-t", "handoff-project", "-l", text)
        time.sleep(0.5)  # the client takes a quick Enter for a pasted line
        tmux("send-keys", "-t", "handoff-project", "Enter")

    _until(lambda: "What next?" in screen(), screen)
    assert server.texts(0).count("Task `demo` of project") == 1, "the hooks in the person's settings are silent"
    end = {"session": stage.sessions()[0]}
    held = stage.cli("show", "demo", "--json").json
    assert (held["state"], held["held_by"]) == ("running", end["session"])
    idle = time.monotonic()
    while time.monotonic() < idle + 7:  # two leases in which the person thinks
        stage.cli("watchdog", "--once")
        assert stage.cli("show", "demo", "--json").json["fence"] == held["fence"]
    assert stage.cli("show", "demo", "--json").json["state"] == "running"
    type_in("/compact")
    _until(
        lambda: "PreCompact" in stage.text(end, "calls") and stage.text(end, "calls").count("SessionStart") > 1, screen
    )
    type_in("report it")
    _until(lambda: "It is reported." in screen(), screen)
    assert "Task `demo` of project" in server.texts(3), "the baton is there again"
    kept = stage.cli("snapshot", "list", "--json").json["snapshots"]
    assert end["session"] in [row["session"] for row in kept], (
        "before the turn ended or before this: a tree is kept once"
    )
    assert "no snapshot" not in stage.text(end, "calls")
    assert stage.cli("show", "demo", "--json").json["state"] == "done"
    type_in("/exit")
    _until(lambda: stage.text(end, "outcome.json"), screen)
    assert stage.read(end, "outcome.json")["called_in"]
    assert stage.read(end, "outcome.json")["kind"] == "ok", stage.log(end)
    _until(lambda: "demo" not in tmux("list-windows", "-a", "-F", "#{window_name}"), screen)
    assert stage.text(end, "token").strip() not in stage.text(end, "launch.json")
    stage.note("a person's session in a tmux window", "compacts by hand: snapshot before, baton again after")


@pytest.mark.parametrize("key", ["Escape", "Enter"])  # "No, exit" is chosen when it asks
def test_who_does_not_trust_the_folder_reads_what_to_do_and_uses_up_no_attempt(stage, tmux, key):
    path = os.path.join(stage.root, "home", ".claude.json")
    with open(path, encoding="utf-8") as file:
        answers = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**answers, "projects": {}}, file)
    server = stage.serve(("say", "What next?"))
    words = f"{sys.executable} -m handoff.surfaces.cli.main session start demo --agent claude --in terminal"
    tmux(
        *("new-session", "-d", "-s", "own", "-x", "220", "-y", "50"),
        *("sh", "-c", f"cd {stage.repo.path} && {words}; exec cat"),
    )

    def screen() -> str:
        return tmux("capture-pane", "-p", "-t", "own")

    def refuse() -> bool:
        tmux("send-keys", "-t", "own", key)  # a dialogue that has just opened does not hear the first one
        time.sleep(1)
        return "Session session-" in screen() and "Task 'demo' is ready" in screen()

    _until(lambda: "I trust this folder" in screen(), screen)
    _until(refuse, screen)
    _until(lambda: "To start it again" in screen(), screen)
    assert "stopped by a person (its person ended it before it began)" in screen()
    assert "handoff session start demo --agent claude --in terminal" in screen()
    task = stage.cli("show", "demo", "--json").json
    assert (task["state"], task["attempt"]) == ("ready", 1)
    assert "agent retry" not in stage.cli("status").out, "nothing keeps the client from being started again"
    assert server.requests == []
    stage.note("no attempt used up when its person does not trust the folder")


def test_an_edit_outside_of_a_claimed_task_is_refused_and_the_second_time_put_to_the_person(stage, tmux):
    foreign = os.path.join(stage.repo.path, "foreign.txt")
    server = stage.serve(
        ("write", foreign, "x"), ("say", "It is not mine. Shall I?"), ("write", foreign, "x"), ("say", "It is written."),
    )  # fmt: skip
    stage.cli("setup", "hooks", "install", "--agent", "claude", "--user")
    stage.cli("task", "claim", "demo")
    line = f"cd {stage.repo.path} && exec {stage.root}/bin/claude --permission-mode acceptEdits"
    tmux("new-session", "-d", "-s", "own", "-x", "120", "-y", "50", "sh", "-c", line)

    def screen() -> str:
        return tmux("capture-pane", "-p", "-t", "own")

    def say(text: str) -> None:
        tmux("send-keys", "-t", "own", "-l", text)
        time.sleep(0.5)  # as above
        tmux("send-keys", "-t", "own", "Enter")

    _until(lambda: "accept edits" in screen(), screen)
    say("begin")
    _until(lambda: "Shall I?" in screen(), screen)
    assert "outside of what task 'demo' owns" in server.texts(1)
    assert not os.path.exists(foreign)
    say("do it")
    _until(lambda: "Do you want to create" in screen(), screen)
    assert not os.path.exists(foreign)

    def yes() -> bool:
        tmux("send-keys", "-t", "own", "Enter")  # a dialogue that has just opened does not hear the first one
        return os.path.exists(foreign)

    _until(yes, screen)
    assert stage.cli("show", "demo", "--json").json["state"] == "running"
    stage.note("asks its person about an edit outside of the claimed task")
