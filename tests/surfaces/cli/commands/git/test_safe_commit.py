"""`handoff safe-commit` as people and agents type it."""

from __future__ import annotations

import os

from sandbox import Cli


def test_the_named_files_land_and_the_answer_says_where(repo, cli):
    repo.write("sub/a.txt", "1")
    repo.write("other", "x")
    repo.git("add", "other")
    answer = cli("safe-commit", "-m", "First", "-m", "Why", "--", "a.txt", cwd=os.path.join(repo.path, "sub"))
    assert f"Committed {repo.head()[:10]} on main: 1 path." in answer.out
    assert answer.err == ""
    assert repo.git("log", "-1", "--format=%B").strip() == "First\n\nWhy"
    assert repo.git("diff", "--cached", "--name-only") == "other\n"


def test_json_is_alone_on_standard_output(repo, cli):
    repo.write("a.txt", "1")
    answer = cli("safe-commit", "--json", "-m", "x", "--", "a.txt").json
    assert answer["commit"] == repo.head()
    assert answer["paths"] == ["a.txt"]
    assert answer["branch"] == "main"


def test_the_exit_codes_are_those_scripts_know(repo, cli):
    repo.write("a.txt", "1")
    head = repo.head()
    cli("safe-commit", "-m", "x", "-F", "y", "--", "a.txt", code=2)
    cli("safe-commit", "--", "a.txt", code=2)
    cli("safe-commit", "-m", "x", code=1)
    cli("safe-commit", "-m", "", "--", "a.txt", code=1)
    cli("safe-commit", "-m", "x", "--", "*.nothing", code=1)
    cli("safe-commit", "-m", "x", "--owns", "src/", "--", "a.txt", code=1)
    assert repo.head() == head
    assert repo.git("status", "--porcelain") == "?? a.txt\n"


def test_the_message_comes_from_a_file_or_standard_input(repo, cli):
    repo.write("a.txt", "1")
    repo.write("message", "From a file\n")
    cli("safe-commit", "-F", "message", "--", "a.txt")
    assert repo.git("log", "-1", "--format=%s") == "From a file\n"
    repo.write("a.txt", "2")
    cli("safe-commit", "-F", "-", "-s", "--trailer", "Task: T-1", "--", "a.txt", stdin="From a pipe\n")
    assert repo.git("log", "-1", "--format=%B").startswith("From a pipe\n\nTask: T-1\nSigned-off-by: Test Person")


def test_a_sub_task_commits_in_its_own_workspace_only(repo, tmp_path):
    repo.write("a.txt", "1")
    refused = Cli(repo.path, HANDOFF_ROLE="sub-task")("safe-commit", "-m", "x", "--", "a.txt", code=99)
    assert "fan-in" in refused.err
    assert repo.git("status", "--porcelain") == "?? a.txt\n"
    mine = str(tmp_path / "mine")
    repo.git("clone", "-q", "--shared", ".", mine)
    with open(os.path.join(mine, "b.txt"), "w", encoding="utf-8") as file:
        file.write("1")
    Cli(mine, HANDOFF_ROLE="sub-task", HANDOFF_WORKSPACE=mine)("safe-commit", "-m", "x", "--", "b.txt")
    Cli(repo.path, HANDOFF_ROLE="sub-task", HANDOFF_WORKSPACE=repo.path)(
        "safe-commit", "-m", "x", "--", "a.txt", code=99
    )


def test_ownership_comes_from_the_session_when_it_is_set(repo, tmp_path):
    repo.write("src/a", "1")
    repo.write("lib/b", "1")
    session = Cli(repo.path, HANDOFF_OWNS="src/\n!src/x")
    assert "Not yours: 'lib/b'" in session("safe-commit", "-m", "x", "--", "lib/b", "src/a", code=1).err
    session("safe-commit", "-m", "x", "--", "src/a")
    patterns = tmp_path / "owns"
    patterns.write_text("lib/\n")
    Cli(repo.path, HANDOFF_OWNS=str(patterns))("safe-commit", "-m", "x", "--", "lib/b")


def test_twins_are_one_file_where_git_says_the_disk_has_none(repo):
    repo.write("SRC/a", "1")
    session = Cli(repo.path, HANDOFF_OWNS="src/")
    session("safe-commit", "-m", "x", "--", "SRC/a", code=1)
    repo.git("config", "core.ignorecase", "true")
    session("safe-commit", "-m", "x", "--", "SRC/a")
    assert repo.git("show", "--format=", "--name-only", "HEAD") == "SRC/a\n"


def test_an_old_lock_folder_or_home_of_another_does_not_matter(repo):
    home = os.path.join(repo.path, "..", "old-home")
    os.makedirs(os.path.join(home, "git-commit.lockdir"))
    repo.write("a.txt", "1")
    Cli(repo.path, HANDOFF_HOME=home)("safe-commit", "-m", "x", "--", "a.txt")


def test_outside_a_repository_the_hint_says_where_to_go(folder):
    answer = Cli(folder)("safe-commit", "-m", "x", "--", "a", code=1)
    assert "not a git repository" in answer.err
