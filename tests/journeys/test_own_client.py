"""With hooks in a person's own client the task claimed in its folder is kept alive, fenced, and never lost unsaid."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys

import pytest

from handoff.agents.catalog import client_in
from handoff.agents.dialects import DIALECTS
from sandbox import Cli, Repo


@pytest.fixture
def tab(cli, repo):
    """A folder in which `mine` is claimed, which owns src/, and a client of the person's own that calls our hooks."""
    cli("dump", "--task", "mine", "--next", "paint", "--owns", "src/")
    cli("task", "claim", "mine")
    return Tab(cli, repo)


class Tab:
    def __init__(self, cli, repo) -> None:
        self.cli, self.repo = cli, repo

    def hook(self, event="PreToolUse", *, dialect="claude", tool="Write", code=0, **given):
        raw = {
            "tool_name": tool,
            "tool_input": given,
            "cwd": self.repo.path,
            "permission_mode": given.pop("mode", "default"),
        }
        return self.cli("hook", dialect, event, "installed", stdin=json.dumps(raw), code=code, cwd="/")

    def verdict(self, path, **more):
        """What the client is told about an edit: a decision and its reason; nothing when it goes through."""
        out = self.hook(file_path=path, **more).out
        said = json.loads(out)["hookSpecificOutput"] if out else {}
        return said.get("permissionDecision", ""), said.get("permissionDecisionReason", "")

    def rows(self, text, *values):
        with sqlite3.connect(os.path.join(os.environ["HANDOFF_HOME"], "handoff.db")) as database:
            return database.execute(text, values).fetchall()

    def silence(self, seconds):
        """Let the session have been silent for so long."""
        self.rows("UPDATE task SET lease_until = lease_until - ?, seen_at = seen_at - ?", seconds, seconds)

    def lose(self):
        """The lease ends and another session takes the task, on another machine."""
        self.silence(3600)
        self.cli("watchdog", "--once")
        self.cli("task", "claim", "mine", "--session", "thief")
        os.unlink(os.path.join(os.environ["HANDOFF_HOME"], "sessions", "thief.session"))


def test_an_edit_outside_is_refused_with_the_reason_then_put_to_the_person_and_one_inside_goes_through(tab, tmp_path):
    assert tab.verdict("src/a.py") == ("", "")
    for path in ("README.md", "src/../NOTES.md"):
        decision, reason = tab.verdict(path)
        assert decision == "deny", path
        assert "outside of what task 'mine' owns (src/). No task owns it" in reason
        assert "try once more" in reason
    assert tab.verdict("README.md")[0] == "ask"
    assert tab.verdict(os.path.join(tab.repo.path, "README.md"))[0] == "ask", "the same file by its whole name"
    assert tab.verdict("README.md", mode="bypassPermissions")[0] == "deny", "nobody is asked in that mode"
    tab.cli("dump", "--task", "other", "--next", "x", "--owns", "other/")
    assert "It belongs to task 'other' (ready)" in tab.verdict("other/x")[1]
    assert tab.verdict(str(tmp_path / "notes.md")) == ("", ""), "a file of no checkout is nobody's"
    assert tab.verdict(".handoff/features/f/STATE.md") == ("", "")
    assert tab.hook(tool="Bash", command="make").out == ""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_client_refuses_and_then_asks_if_it_can_in_its_own_words(tab, dialect):
    name = next(name for name, meaning in DIALECTS[dialect].events.items() if meaning == "edit")
    tool = DIALECTS[dialect].edit_tools[0]
    given = (
        {"command": "*** Begin Patch\n*** Add File: other/x\n+a\n*** End Patch"}
        if tool == "apply_patch"
        else {"path": "other/x"}
    )
    for asks in (False, DIALECTS[dialect].asks):
        said = tab.hook(name, dialect=dialect, tool=tool, code=None, **given)
        assert "outside of what task 'mine' owns" in said.out + said.err
        assert ('"ask"' in said.out) == asks
        assert said.code == (2 if dialect in ("opencode", "acp") else 0)


def test_a_call_renews_the_lease_and_moves_what_was_last_seen(tab):
    tab.silence(600)
    (before,) = tab.rows("SELECT lease_until, seen_at FROM task")
    tab.hook(tool="Bash", command="make")
    (after,) = tab.rows("SELECT lease_until, seen_at FROM task")
    assert after[0] > before[0] + 500
    assert after[1] > before[1] + 500
    tab.hook(tool="Bash", command="make")
    assert tab.rows("SELECT lease_until, seen_at FROM task") == [after], "a second call at once writes nothing"
    tab.silence(600)
    before = tab.rows("SELECT lease_until FROM task")
    tab.hook("SessionEnd")
    assert tab.rows("SELECT lease_until FROM task") == before, "a client that ends shows no life"


def test_the_list_of_sessions_shows_who_works_here_and_when_they_were_last_seen(tab, tmp_path):
    other = Repo.create(str(tmp_path / "elsewhere"))
    away = Cli(other.path)
    away("dump", "--task", "theirs", "--next", "x")
    away("task", "claim", "theirs")
    tab.rows("UPDATE session SET seen_at = seen_at - 600, started_at = started_at - 600")
    tab.silence(600)
    tab.hook(tool="Bash", command="make")
    (row,) = tab.cli("session", "list", "--json").json
    assert (row["label"], row["seen_at"] > row["started_at"] + 500) == ("mine", True)
    assert "works on 'mine' in repo" in tab.cli("session", "list").out
    everywhere = tab.cli("session", "list", "--all-projects", "--json").json
    assert sorted(one["label"] for one in everywhere) == ["mine", "theirs"]
    tab.cli("task", "done")
    assert "No session runs in project repo" in tab.cli("session", "list").out


def test_a_client_thought_dead_has_its_task_again_if_nobody_took_it(tab):
    tab.silence(3600)
    tab.cli("watchdog", "--once")
    assert tab.verdict("src/a.py") == ("", "")
    assert tab.cli("show", "mine", "--json").json["state"] == "running"


def test_a_client_that_lost_its_task_is_told_at_its_next_call_and_held_off_the_others_files(tab):
    tab.lose()
    said = json.loads(tab.hook(tool="Bash", command="make").out)["hookSpecificOutput"]
    assert said["permissionDecision"] == "deny"
    assert "'mine' is not yours: session thief" in said["permissionDecisionReason"]
    assert tab.hook(tool="Bash", command="make").out == "", "once is enough"
    decision, reason = tab.verdict("src/a.py")
    assert (decision, "belongs to another session now" in reason) == ("deny", True)
    assert tab.verdict("README.md") == ("", ""), "what nobody holds is the person's own again"
    assert "thief" in tab.cli("task", "done", code=4).err
    tab.cli("task", "done", "--session", "thief", "--fence", "2")
    assert tab.verdict("src/a.py") == ("", "")


def test_a_relay_that_does_not_answer_is_in_nobodys_way_and_the_claim_is_kept(tab):
    tab.cli.environment["HANDOFF_DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/none"
    said = tab.hook(file_path="README.md")
    assert (said.out, "could not answer" in said.err) == ("", True)
    del tab.cli.environment["HANDOFF_DATABASE_URL"]
    assert tab.verdict("README.md")[0] == "deny"


def test_a_task_that_was_cancelled_is_told_once_and_forgotten(tab):
    tab.cli("cancel", "mine")
    assert "cancelled" in tab.verdict("src/a.py")[1]
    assert tab.verdict("README.md") == ("", "")
    assert not [name for name in os.listdir(os.path.join(os.environ["HANDOFF_HOME"], "sessions")) if "session" in name]


CLIENT = """
import json, subprocess, sys
handoff = [sys.executable, "-m", "handoff.surfaces.cli.main"]
subprocess.run([*handoff, "task", "claim", sys.argv[1]], check=True, capture_output=True)
print("ready", flush=True)
for path in sys.stdin:
    raw = {"tool_name": "Write", "tool_input": {"file_path": path.strip()}, "cwd": "."}
    done = subprocess.run([*handoff, "hook", "claude", "PreToolUse"], input=json.dumps(raw), capture_output=True, text=True)
    print(done.stdout.strip() or "through", flush=True)
"""


def test_two_clients_in_one_folder_are_each_held_to_their_own_task(cli, repo):
    clients = {}
    for name in ("one", "two"):
        cli("dump", "--task", name, "--next", name, "--owns", f"{name}/")
    for name in ("one", "two"):
        clients[name] = subprocess.Popen(
            [sys.executable, "-c", CLIENT, name],
            cwd=repo.path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert clients[name].stdout.readline() == "ready\n"
    for name, other in (("one", "two"), ("two", "one")):
        out, _ = clients[name].communicate(f"{name}/a\n{other}/a\n", timeout=60)
        inside, outside = out.splitlines()
        assert inside == "through"
        assert f"outside of what task '{name}' owns" in outside


def test_a_session_of_ours_does_not_run_the_persons_set_of_hooks_too(tab):
    tab.cli.environment.update(HANDOFF_HOOKS="own", HANDOFF_SESSION="session-x", HANDOFF_PROJECT="repo")
    assert tab.hook("SessionStart").out == ""
    assert tab.hook(file_path="README.md").out == ""


def _inside(client, folder, cli, *words):
    """A command of ours that a client of this name runs."""
    script = folder / client
    script.write_text('#!/bin/sh\n"$@"\n')
    script.chmod(0o755)
    line = [str(script), *cli.command(*words)]
    return subprocess.run(line, cwd=cli.folder, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.parametrize("client", ["claude", "gemini.js"])
def test_what_only_a_person_may_accept_is_refused_inside_a_client_and_names_what_they_type(tab, tmp_path, client):
    assert (
        "in a terminal of their own, with handoff task done mine --accept-outside REASON" in tab.verdict("README.md")[1]
    )
    tab.repo.write("README.md", "changed\n")
    inside = _inside(client, tmp_path, tab.cli, "task", "done", "--accept-outside", "my person said so")
    assert inside.returncode == 3
    assert f"runs inside {client.removesuffix('.js')}" in inside.stderr
    assert f"cd {tab.repo.path} && handoff task done mine --accept-outside 'my person said so'" in inside.stderr
    assert tab.cli("show", "mine", "--json").json["state"] == "running"


def test_a_command_of_a_client_that_detached_itself_is_known_by_the_clients_mark(tab):
    tab.repo.write("README.md", "changed\n")
    line = ["setsid", "--fork", "--wait", *tab.cli.command("task", "done", "--accept-outside", "my person said so")]
    environment = os.environ | {"CLAUDECODE": "1"}
    alone = subprocess.run(
        line, cwd=tab.cli.folder, env=environment, capture_output=True, text=True, check=False, timeout=100
    )
    assert alone.returncode == 3
    assert "runs inside claude" in alone.stderr
    assert tab.cli("show", "mine", "--json").json["state"] == "running"


def test_a_pause_holds_for_a_client_and_not_for_the_person_who_names_a_task(repo, cli, tmp_path):
    cli("dump", "--task", "mine", "--next", "Do it.")
    cli("pause", "--reason", "lunch")
    inside = _inside("claude", tmp_path, cli, "task", "claim", "mine")
    assert inside.returncode == 3
    assert "Project 'repo' is stopped: lunch." in inside.stderr
    assert "lunch" in cli("session", "start", "mine", "--agent", "scripted", "--with", "none.toml", code=3).err
    assert "You hold mine" in cli("task", "claim", "mine").out


@pytest.mark.parametrize(
    ("line", "client"),
    [
        (["/usr/bin/node", "--no-warnings", "/usr/lib/node_modules/.bin/gemini", "-p", "x"], "gemini"),
        (["claude --resume "], "claude"),
        (["/usr/local/bin/codex", "exec", "x"], "codex"),
        (["python3.12", "/usr/bin/aider"], "aider"),
        (["vim", "claude"], ""),
        (["bash"], ""),
        (["tmux", "new", "-s", "codex"], ""),
        ([], ""),
    ],
)
def test_a_client_is_known_by_its_program_not_by_a_word_of_another(line, client):
    assert client_in([line], {}) == client
