"""What was verified is told by git alone: `task done` writes it, `log --git` shows it anywhere, `record sync` carries it."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from sandbox import Cli, Repo
from scripts import write_script


def finish(cli, name="login", check="test -f README.md"):
    cli("dump", "--task", name, "--next", "Build it.", "--check", check)
    cli("task", "claim", name, "--agent", "claude")
    return cli("task", "done", "--summary", "built")


def shown(cli, *words):
    return cli("log", "--git", *words, "--json").json


def test_a_green_report_on_a_committed_tree_is_recorded_on_its_commit(cli, repo):
    finish(cli)
    (one,) = shown(cli)
    (record,) = one["records"]
    assert (record["task"], record["agent"], record["next"]) == ("login", "claude", "done")
    assert record["exact"]
    assert record["tree"] == repo.git("rev-parse", "HEAD^{tree}").strip()
    assert [(check["command"], check["verdict"]) for check in record["checks"]] == [("test -f README.md", "green")]
    assert "green: test -f README.md" in cli("log", "--git").out
    raw = repo.git("notes", "--ref=handoff", "show", "HEAD")
    assert json.loads(raw)["schema"] == 1  # one record is one line of plain JSON


@pytest.mark.parametrize("dirt", ["new.txt", "README.md"])
def test_work_that_is_not_committed_says_nothing_about_the_commit(cli, repo, dirt):
    cli("dump", "--task", "login", "--next", "Build it.", "--check", "test -f README.md")
    repo.write(dirt, "changed\n")
    cli("task", "claim", "login")
    cli("task", "done")
    assert shown(cli)[0]["records"] == []


def test_a_check_that_edits_the_tree_is_not_evidence_for_the_commit(cli, repo):
    finish(cli, check="echo more >> README.md")
    assert shown(cli)[0]["records"] == []


def test_the_features_own_documents_do_not_count_as_dirt(cli, repo):
    cli("init", "login")
    finish(cli)
    assert len(shown(cli)[0]["records"]) == 1


def test_a_repository_that_cannot_be_written_keeps_nobody_from_being_done(cli, repo):
    cli("dump", "--task", "login", "--next", "Build it.", "--check", "true")
    cli("task", "claim", "login")
    repo.write(".git/handoff", "a file where a folder should be")
    answer = cli("task", "done")
    assert "could not be written" in answer.err
    assert cli("show", "login", "--json").json["state"] == "done"


def test_the_record_of_work_made_in_a_clone_is_on_the_commit_that_landed(cli, repo, tmp_path):
    cli(
        "dump",
        "--task",
        "guide",
        "--next",
        "# Write the guide\n\nAll of it.",
        "--owns",
        "docs/",
        "--check",
        "test -s docs/a.md",
    )
    script = write_script(str(tmp_path / "script.toml"), {"write": "docs/a.md", "text": "hello"})
    cli("session", "start", "guide", "--agent", "scripted", "--workspace", "clone", "--with", script)
    (one,) = shown(cli, "HEAD~1..HEAD")
    assert one["subject"] == "guide: Write the guide"
    (record,) = one["records"]
    assert (record["task"], record["agent"], record["exact"]) == ("guide", "scripted", True)
    assert "Handoff-Check: test -s docs/a.md (green)" in repo.git("log", "-1", "--format=%B")


def test_a_bare_clone_shows_the_same_and_two_clones_exchange_what_they_have(cli, repo, tmp_path):
    finish(cli)
    hub = str(tmp_path / "hub.git")
    subprocess.run(["git", "clone", "-q", "--bare", repo.path, hub], check=True, env=dict(os.environ))
    repo.git("remote", "add", "origin", hub)
    assert cli("record", "sync").out == "origin: records given.\n"
    bare = Cli(hub)
    assert shown(bare)[0]["records"][0]["task"] == "login"
    other = Repo(str(tmp_path / "other"))
    subprocess.run(["git", "clone", "-q", hub, other.path], check=True, env=dict(os.environ))
    there = Cli(other.path)
    finish(there, "logout")
    assert there("record", "sync", "origin").out == "origin: records taken and given.\n"
    assert cli("record", "sync").out == "origin: records taken.\n"
    assert cli("record", "sync").out == "origin: both sides had the same records.\n"
    for place in (cli, bare, there):
        assert {record["task"] for record in shown(place)[0]["records"]} == {"login", "logout"}


def test_a_rebased_commit_keeps_its_record_and_says_that_the_tree_was_another(cli, repo):
    cli("record", "install")
    repo.git("checkout", "-q", "-b", "topic")
    repo.write("a.txt", "a")
    repo.commit("topic")
    finish(cli)
    repo.git("checkout", "-q", "main")
    repo.write("b.txt", "b")
    repo.commit("main")
    repo.git("rebase", "-q", "main", "topic")
    (one,) = shown(cli, "main..topic")
    assert [(record["task"], record["exact"]) for record in one["records"]] == [("login", False)]
    assert "verified on another tree" in cli("log", "--git", "main..topic").out


def test_without_a_remote_the_exchange_says_what_to_name(cli):
    answer = cli("record", "sync", code=1)
    assert "no remote" in answer.err
    assert "record sync REMOTE" in answer.err


def test_a_range_nobody_knows_is_an_error_that_names_it(cli):
    assert "nowhere..main" in cli("log", "--git", "nowhere..main", code=1).err
    cli("log", "--git", "-f", code=1)


def test_the_guard_sets_records_to_follow_and_takes_it_back(cli, repo):
    before = repo.read(".git/config")
    cli("git-guard", "install")
    assert cli("record", "status", "--json").json["follows"]
    cli("git-guard", "uninstall")
    assert repo.read(".git/config") == before
