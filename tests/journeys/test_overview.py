"""`handoff` alone and `status` know what the rows know, with and without a feature."""

from __future__ import annotations

import os
import sqlite3

import pytest

from handoff.board.sessions import executors
from handoff.board.sessions.leases import claim
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import outcomes, tasks
from handoff.surfaces.cli.overview import columns
from handoff.surfaces.vocabulary import bar, cells, tally
from relay import app, manifest
from screen import Screen
from scripts import handoff, write_script
from workspaces import ready


def test_status_and_handoff_alone_tell_what_the_relay_has_under_way(cli, repo, tmp_path):
    fresh = cli("status")
    assert "No feature is active here." in fresh.out
    assert "handoff init NAME" in fresh.out
    assert "Tasks:" not in fresh.out
    assert not os.path.exists(os.environ["HANDOFF_HOME"])  # looking makes nothing

    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    cli("dump", "--task", "alone", "--next", "Work.")
    cli("task", "claim", "login/form", "--session", "one")
    cli("task", "block", "--session", "one", "no key")
    cli("task", "claim", "login/api", "--session", "two")
    cli("task", "block", "--session", "two", "no key")  # now the fan-in asks at a gate
    wanted = (
        "? login-join", "handoff answer login-join yes", "✗ login/form, login/api", "no key  handoff retry login/form",
        "batch login  ××××××××××××××××  2 blocked of 2", "○ alone",
    )  # fmt: skip
    for words in ((), ("status",)):
        said = cli(*words).out
        assert all(line in said for line in wanted), said
    assert cli("heartbeat", "status", "login").out
    found = cli("status", "--json").json
    assert found["relay"] == {"ready": 1, "gated": 1, "blocked": 2, "gates": 1, "batches": 1}
    alone = cli("--json").json
    assert [item["state"] for item in alone["needs_you"]] == ["asks you", "blocked", "blocked"]
    assert [item["address"] for item in alone["coming"]] == ["alone"]

    ready(cli, repo)
    cli("pause", "--project", "repo")
    cli("task", "open", "alone", code=3)
    said = cli("status").out
    assert "Feature: login" in said
    assert all(
        line in said for line in (*wanted[:4], "‖ project repo", "handoff resume --project repo", "‖ alone (paused)")
    )
    assert len(said.splitlines()) < 24  # one screen
    alone = cli().out
    assert "Plan  ✓●○  1 of 3 steps done" in alone
    assert "Now  Write the form  handoff run --copy" in alone
    cli("resume", "--project", "repo")

    os.makedirs(os.path.join(repo.path, "empty"))
    assert "○ alone" in cli("status", cwd=os.path.join(repo.path, "empty")).out
    assert "○ repo/alone" in cli(cwd=str(tmp_path)).out  # outside a repository it tells of every project
    assert "1 gate waits for your answer" in cli("task", "list").out
    _rows_say(1, 2)
    cut = cli("task", "list", "--limit", "2")
    assert "Only the first 2 of 4 are shown. All: handoff task list --limit 4" in cut.out
    assert cli("task", "list", "--limit", "2", "--json").json["in_all"] == 4
    assert "are shown" not in cli("task", "list", "--limit", "4").out
    assert "No live tasks" not in cli("task", "list", "--limit", "0").out


def test_a_supervisor_of_another_project_works_on_nothing_here(cli, repo):
    cli("dump", "--task", "alone", "--next", "Work.")
    board = app()
    place = {"host": "here", "boot": "b", "pid": 1, "process_start": "1"}
    executors.begin(board.database, id="theirs", **place, project="other")
    said = cli().out
    assert "Nobody works on it.  handoff work --agent NAME" in said
    assert "supervisor" not in said
    executors.begin(board.database, id="ours", **place, project="repo")
    board.close()
    said = cli().out
    assert "repo · 1 supervisor\n" in said
    assert "Nobody works on it." not in said


def _rows_say(ready_tasks: int, blocked: int) -> None:
    connection = sqlite3.connect(os.path.join(os.environ["HANDOFF_HOME"], "handoff.db"))
    try:
        found = dict(connection.execute("SELECT state, count(*) FROM task WHERE ended_at IS NULL GROUP BY state"))
    finally:
        connection.close()
    assert (found["ready"], found["blocked"]) == (ready_tasks, blocked)


def test_it_stays_one_screen_says_what_it_cuts_and_knows_what_is_new(cli, repo, tmp_path):
    ready(cli, repo)
    board = app()
    made = [tasks.add(board.database, project="repo", id=f"task-{number:02}", brief="Work.") for number in range(40)]
    for number, task in enumerate(made[:30]):
        claim(board.database, key=task.key, who=SessionIdentity(f"s-{number}", project="repo", agent="scripted"))
        if number < 10:
            outcomes.block(
                board.database, key=task.key, fence=1, reason=f"red: test_{number} of many that all have long names"
            )
        elif number < 20:
            outcomes.finish(board.database, key=task.key, fence=1, summary="done")
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    board.close()
    assert "  held by s-20 on " in cli("show", "task-20").out
    assert "  done by s-19 on " in cli("show", "task-19").out
    cli.environment["COLUMNS"] = "60"
    said = cli().out
    assert len(said.splitlines()) <= 24, said
    assert all(columns(line) <= 60 for line in said.splitlines()), said
    assert "and 7 more: handoff task list" in said
    assert "and 6 more: handoff task list --state running" in said
    assert "✓ task-19" in said
    assert "✓ task-19" in cli().out, "what no person saw is still new"

    screen = Screen(cli.command(), columns=100, env=cli.full_environment(), cwd=repo.path)
    try:
        assert "✓ task-19" in screen.until("More:")
        assert screen.process.wait(timeout=60) == 0
    finally:
        screen.close()
    assert "✓ task-19" not in cli().out
    cli.environment["LC_ALL"] = "C"
    plain = cli()
    assert plain.out.isascii()
    assert "* task-20" in plain.out
    assert "x task-00" in plain.out
    assert "\x1b" not in plain.out
    cli.environment.update(FORCE_COLOR="1", NO_COLOR="")
    assert "\x1b[31mx\x1b[0m task-00" in cli().out
    cli.environment["NO_COLOR"] = "1"
    assert "\x1b" not in cli().out


def test_a_bar_shows_every_kind_and_fills_exactly_its_cells():
    assert cells({"landed": 499, "blocked": 1}, 10) == {"landed": 9, "blocked": 1}
    assert bar({"green": 3, "running": 1, "rest": 4}, 8, ascii_only=False) == "▓▓▓▒····"
    assert (
        bar({"landed": 1, "green": 1, "running": 1, "blocked": 1, "gated": 1, "rest": 1}, 6, ascii_only=True)
        == "#=>x?."
    )
    assert cells({}, 10) == {}
    for red in range(1, 60):
        assert sum(cells({"landed": 60 - red, "blocked": red, "gated": 1, "running": 200}, 13).values()) == 13
    assert tally({"landed": 6, "blocked": 1, "rest": 1}) == "6 landed, 1 blocked, 1 waiting of 8"


@pytest.mark.slow
def test_a_session_that_gave_up_after_a_red_check_failed_by_that_check_and_what_needs_me_is_no_idle_folder(cli, repo):
    report = {"run": handoff("task", "done", "--summary", "made")}
    cli("task", "add", "login", "Build it.", "--check", "test -s login.txt")
    script = write_script(os.path.join(os.environ["HANDOFF_HOME"], "script.toml"), report)
    for _ in range(3):
        cli("session", "start", "login", "--agent", "scripted", "--with", script, code=1)
    assert (
        cli("show", "login", "--json").json["reason"] == "`test -s login.txt` is red (exit 1); that was attempt 3 of 3"
    )
    said = cli().out
    assert "✗ login" in said
    assert "Nothing waits" not in said


@pytest.mark.slow
def test_a_held_agent_says_why_and_when_it_goes_on_and_names_its_command_once(cli, repo, tmp_path):
    client = tmp_path / "bin" / "claude"
    client.parent.mkdir()
    result = '{"type":"result","subtype":"success","is_error":true,"result":"Please run /login"}'
    client.write_text(f"#!/bin/sh\necho '{result}'\nexit 1\n")
    client.chmod(0o755)
    cli.environment["PATH"] = f"{client.parent}:{os.environ['PATH']}"
    cli("task", "add", "login", "Build it.")
    assert cli("session", "start", "login", "--agent", "claude", code=1).out.count("handoff agent retry claude") == 1
    said = cli().out
    assert "Please run /login; tried again in" in said
    assert said.count("handoff agent retry claude") == 1
    assert cli("doctor", code=None).out.count("handoff agent retry claude") == 1
    cli("cancel", "login")
    cli("agent", "retry", "claude")
    cli("flow", "start", "tdd", "--id", "calc", "--agent", "claude", "--request", "A calculator.")
    told = cli("flow", "step", "calc", code=1).err
    assert (
        "plan: a log-in or credit is missing: Please run /login. No attempt is used up. Log in to claude, or pay"
        in told
    )
    assert "refused" not in told
    assert "held       agent claude" in cli("show", "calc").out
