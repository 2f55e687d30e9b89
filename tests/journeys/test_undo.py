"""Each operation is taken back alone: what came later stays, or is named and nothing is done."""

from __future__ import annotations

import os
import re

import pytest

from sandbox import Repo
from scripts import handoff, write_script


def same_words(dry, real):
    """What a dry run says of the changes, and what the run itself said."""
    told = [line for line in real.splitlines() if not line.startswith("Take it back")]
    return [
        line.replace("Would restore", "Restored").replace("Would move", "Moved") for line in dry.splitlines()
    ] == told


@pytest.fixture
def restored(repo, cli):
    """A restore of a.txt and of a lost branch, and what a person did in the hour after it."""
    repo.write("a.txt", "first\n")
    repo.commit("a")
    repo.git("branch", "topic")
    cli("snapshot", "-m", "good")
    repo.git("branch", "-q", "-D", "topic")
    repo.write("a.txt", "second\n")
    said = cli("snapshot", "restore", "--refs")
    assert "handoff undo" in said.out
    repo.write("later.txt", "an hour of work\n")
    repo.git("add", "later.txt")
    repo.write("README.md", "# later\n")
    return repo


def test_undo_takes_back_the_restore_and_nothing_that_came_later(restored, cli):
    restored.write("mine.txt", "m\n")
    restored.git("add", "mine.txt")
    restored.git("commit", "-q", "-m", "by plain git")
    head = restored.head()
    dry = cli("undo", "--dry-run").out
    assert "topic" in dry
    real = cli("undo").out
    assert same_words(dry, real), (dry, real)
    assert restored.read("a.txt") == "second\n"
    assert (restored.read("later.txt"), restored.read("README.md")) == ("an hour of work\n", "# later\n")
    assert restored.head() == head
    assert restored.git("branch", "--list", "topic") == ""
    assert "by plain git" in restored.git("log", "-1", "--format=%s")
    cli("undo")  # the undo is an operation like any other
    assert restored.read("a.txt") == "first\n"
    assert "topic" in restored.git("branch", "--list", "topic")
    assert "handoff undo" in restored.git("reflog", "show", "topic", "-1", "--format=%gs")


def test_a_later_edit_or_commit_in_the_way_is_named_and_nothing_is_changed(restored, cli):
    restored.git("checkout", "-q", "topic")
    restored.write("a.txt", "edited once more\n")
    restored.git("commit", "-q", "-m", "on topic", "a.txt")
    for words in (("undo", "--dry-run"), ("undo",)):
        said = cli(*words, code=3).err
        assert "a.txt was changed since" in said
        assert "refs/heads/topic has moved on" in said
    assert restored.read("a.txt") == "edited once more\n"
    assert restored.git("log", "-1", "--format=%s") == "on topic\n"


def test_undo_takes_back_the_safe_commit_just_made_and_again(restored, cli):
    restored.write("b.txt", "b\n")
    before = restored.head()
    said = cli("safe-commit", "-m", "b", "--", "b.txt")
    assert "Committed" in said.out
    commit = restored.head()
    dry = cli("undo", "--dry-run").out
    assert restored.head() == commit
    assert same_words(dry, cli("undo").out)
    assert restored.head() == before
    assert restored.read("b.txt") == "b\n"
    assert restored.read("a.txt") == "first\n"
    assert restored.git("status", "--porcelain", "b.txt") == "?? b.txt\n"
    assert "handoff undo" in restored.git("reflog", "-1", "--format=%gs")
    cli("undo")
    assert restored.head() == commit
    assert restored.git("status", "--porcelain", "b.txt") == ""
    restored.write("c.txt", "c\n")
    restored.git("add", "c.txt")
    restored.git("commit", "-q", "-m", "on top", "c.txt")
    assert "on top" in cli("undo", code=3).err
    restore = next(one for one in cli("undo", "--list", "--json").json["operations"] if one["kind"] == "restore")
    cli("undo", restore["id"][:10])  # an older one, alone
    assert restored.read("a.txt") == "second\n"
    assert restored.git("log", "-1", "--format=%s") == "on top\n"


def test_the_first_commit_of_all_and_an_amended_one_are_taken_back(tmp_path, cli):
    path = str(tmp_path / "new")
    os.mkdir(path)
    new = Repo(path)
    new.git("init", "-q", "-b", "main")
    new.write("a.txt", "a\n")
    cli("safe-commit", "-m", "a", "--", "a.txt", cwd=path)
    first = new.head()
    new.write("a.txt", "b\n")
    cli("safe-commit", "--amend", "-m", "a better", "--", "a.txt", cwd=path)
    cli("undo", cwd=path)
    assert new.head() == first
    listed = cli("undo", "--list", "--json", cwd=path).json["operations"]
    assert [one["what"].rpartition(" on ")[0][:19] for one in listed] == [
        "undo of safe commit",
        *["safe commit " + one["id"][:7] for one in listed[1:]],
    ]
    new.git("checkout", "-q", "--detach")
    said = cli("undo", cwd=path, code=3).err
    assert "git checkout main" in said, "the newest was made elsewhere"
    assert new.head() == first


def test_a_landing_and_a_removal_are_taken_back_and_said_before(repo, cli):
    cli("workspace", "add", "one")
    tree = os.path.join(os.environ["HANDOFF_HOME"], "repo", "workspaces", "one", "tree")
    with open(os.path.join(tree, "landed.txt"), "w", encoding="utf-8") as file:
        file.write("landed\n")
    before = repo.head()
    cli("land", "one")
    landed = repo.head()
    cli("workspace", "remove", "one")
    assert "Would make the workspace one" in cli("undo", "--dry-run").out
    assert not os.path.exists(tree)
    cli("undo")
    assert os.path.exists(os.path.join(tree, "landed.txt"))
    assert "again" in cli("undo", code=3).err
    repo.write("landed.txt", "edited\n")
    assert "landed.txt" in cli("undo", landed[:10], "--dry-run", code=3).err
    repo.git("checkout", "-q", "landed.txt")
    assert same_words(cli("undo", landed[:10], "--dry-run").out, cli("undo", landed[:10]).out)
    assert repo.head() == before
    cli("undo")
    assert repo.head() == landed
    assert repo.read("landed.txt") == "landed\n"


def test_a_kept_branch_that_a_person_lands_has_landed_everywhere_and_is_taken_back_like_others(repo, cli, tmp_path):
    before = repo.head()
    cli("task", "add", "mail", "Write mail.txt.", "--check", "test -s mail.txt", "--landing", "branch")
    script = write_script(str(tmp_path / "agent.toml"), {"write": "mail.txt", "text": "one"})
    cli("session", "start", "mail", "--agent", "scripted", "--with", script)
    assert "not landed: handoff land mail" in cli("show", "mail").out
    cli("land", "mail", "--dry-run")
    assert "not landed: handoff land mail" in cli("show", "mail").out
    cli("land", "mail")
    assert cli("show", "mail").out.startswith("mail of project repo: landed\n")
    assert "not landed" not in cli("show", "mail").out
    assert "✓ mail\n" in cli().out
    assert cli("task", "list", "--all", "--json").json["tasks"][0]["look"] == "landed"
    assert re.search(r"  landed +mail  commit [0-9a-f]{40}$", cli("log", "mail").out, re.MULTILINE)
    assert "mail is not on main any more" in cli("undo", "mail").out
    assert repo.head() == before
    assert cli("show", "mail").out.startswith("mail of project repo: done, and its landing was taken back\n")
    cli("land", "mail")
    assert cli("show", "mail").out.startswith("mail of project repo: landed\n")


def test_a_task_whose_landing_was_taken_back_says_so_and_may_be_done_again(repo, cli, tmp_path):
    before = repo.head()
    cli("dump", "--task", "mail", "--next", "Write mail.txt.", "--owns", "mail.txt", "--check", "test -s mail.txt")
    script = write_script(str(tmp_path / "agent.toml"), {"write": "mail.txt", "text": "one"})
    cli("session", "start", "mail", "--agent", "scripted", "--with", script)
    landed = repo.head()
    assert "✓ mail\n" in cli().out
    refused = cli("retry", "mail", code=4).err
    assert "only a blocked task" in refused
    assert "Take its landing back first: handoff undo mail" in refused
    assert f"'mail' has landed already, as {landed[:10]}." in cli("land", "mail", code=4).err

    told = cli("undo", "mail", "--dry-run").out
    assert told == cli("undo", "--dry-run").out
    assert "mail is not on main any more. To let it be done again: handoff retry mail" in told
    assert "✓ mail\n" in cli().out
    assert same_words(told, cli("undo").out)
    assert "– mail (taken back)" in cli().out
    shown = cli("show", "mail").out
    assert shown.startswith("mail of project repo: done, and its landing was taken back\n")
    assert "To let it be done again: handoff retry mail\n" in shown
    assert "mail is on main again." in cli("undo").out
    assert "✓ mail\n" in cli().out
    assert cli("show", "mail").out.startswith("mail of project repo: landed\n")
    cli("undo")
    assert "landing taken back" in cli("log", "mail").out

    assert "mail is ready again." in cli("retry", "mail").out
    assert repo.head() == before
    baton = cli("task", "claim", "mail", "--show").out
    assert "Its work had landed, and a person took that back." in baton
    assert "files as they lie; do not begin anew" not in baton
    cli("task", "release")
    again = write_script(str(tmp_path / "again.toml"), {"write": "mail.txt", "text": "two"})
    cli("session", "start", "mail", "--agent", "scripted", "--with", again)
    assert repo.read("mail.txt").strip() == "two"
    assert repo.head() not in (before, landed)
    assert repo.git("rev-list", "--count", f"{before}..HEAD") == "1\n"
    assert "✓ mail\n" in cli().out
    assert repo.git("branch", "--list", "handoff/*") == ""


def test_a_landing_that_a_person_reverted_with_git_may_be_done_again(repo, cli, tmp_path):
    cli("task", "add", "mail", "Write mail.txt.", "--check", "test -s mail.txt")
    script = write_script(str(tmp_path / "agent.toml"), {"write": "mail.txt", "text": "one"})
    cli("session", "start", "mail", "--agent", "scripted", "--with", script)
    landed = repo.head()
    repo.write("mine.txt", "mine")
    repo.commit("My own work")
    assert "git revert" in cli("undo", "mail", code=3).err
    repo.git("revert", "--no-edit", landed)
    assert "mail is ready again." in cli("retry", "mail").out
    assert "landing taken back" in cli("log", "mail").out


def test_a_killed_restore_is_taken_back_as_far_as_it_came(repo, cli):
    repo.write("a.txt", "one\n")
    repo.write("b.txt", "one\n")
    cli("snapshot", "-m", "good")
    repo.write("a.txt", "two\n")
    repo.write("b.txt", "two\n")
    cli("snapshot", "restore")
    repo.write("b.txt", "two\n")  # as if it had been killed after a.txt
    said = cli("undo").out
    assert "a.txt" in said
    assert "b.txt" not in said
    assert (repo.read("a.txt"), repo.read("b.txt")) == ("two\n", "two\n")


def test_what_a_session_did_in_the_shared_checkout_is_taken_back_and_nothing_of_anybody_else(repo, cli):
    repo.write("src/kept.txt", "before\n")
    repo.commit("before")
    cli("dump", "--task", "demo", "--next", "write", "--owns", "src/")
    script = write_script(
        os.path.join(os.environ["HOME"], "script.toml"),
        {"write": "src/kept.txt", "text": "by the session"},
        {"write": "src/new.txt", "text": "by the session"},
        {"run": "echo of a person > beside.txt"},  # in the same minutes, by whoever
        {"run": handoff("task", "done", "--summary", "fine")},
    )
    end = cli(
        "session",
        "start",
        "demo",
        "--agent",
        "scripted",
        "--with",
        script,
        "--workspace",
        "shared",
        "--json",
        code=None,
    ).json
    repo.write("later.txt", "later\n")
    dry = cli("undo", "--session", end["session"], "--dry-run").out
    assert same_words(dry, cli("undo", "--session", end["session"]).out)
    assert repo.read("src/kept.txt") == "before\n"
    assert sorted(os.listdir(repo.path)) == [".git", "README.md", "beside.txt", "later.txt", "src"]
    assert os.listdir(os.path.join(repo.path, "src")) == ["kept.txt"]
