"""`handoff.pyz`: one file, Python and git alone, no package installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from release.build import pyz

from screen import Screen


class Bare:
    """A machine with Python, git and a shell; the interpreter sees no package that was installed."""

    def __init__(self, repo, tmp_path) -> None:
        self.repo, self.home, self.bin = repo, tmp_path / "home", tmp_path / "bin"
        self.file = str(tmp_path / "down load" / "handoff.pyz")
        shutil.move(pyz(str(tmp_path / "built")), os.makedirs(os.path.dirname(self.file)) or self.file)
        for folder in (self.home, self.bin):
            folder.mkdir()
        for name in ("git", "sh", "env", "bwrap"):
            if found := shutil.which(name):
                (self.bin / name).symlink_to(found)

    def words(self) -> list[str]:
        return [os.path.realpath(sys.executable), "-S", "-I", self.file]  # a venv of the tests is in nobody's sandbox

    def environment(self) -> dict[str, str]:
        return {"PATH": str(self.bin), "HOME": str(self.home), "GIT_CONFIG_GLOBAL": os.environ["GIT_CONFIG_GLOBAL"]}

    def run(self, *words: str, code: int = 0, environment: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            [*self.words(), *words],
            check=False,
            env={**self.environment(), **(environment or {})},
            cwd=self.repo.path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def bare(repo, tmp_path):
    return Bare(repo, tmp_path)


def test_a_feature_a_task_a_commit_and_a_snapshot_need_nothing_else(bare):
    assert bare.run("--version").startswith("handoff ")
    assert f"{bare.file}' run --copy" in bare.run("init", "login")
    feature = os.path.join(bare.repo.path, ".handoff", "current", "FEATURE.md")
    with open(feature, "w", encoding="utf-8") as file:
        file.write("# Feature: login\n\n# Goal\nSign in with a link.\n")
    bare.run("step", "add", "Make the link", "--check", "test -s link.py")
    bare.run("step", "add", "Send it")
    assert "The check is red" in bare.run("step", "done", code=3)
    bare.repo.write("link.py", "LINK = 1\n")
    bare.run("step", "done")
    bare.run("safe-commit", "-m", "Make the link", "--", "link.py")
    assert bare.repo.git("log", "-1", "--format=%s").strip() == "Make the link"
    assert "Sign in with a link." in bare.run("continue", "--raw")
    bare.run("snapshot")
    bare.run("task", "add", "mail", "Send the link.", "--check", "true")
    assert "Send the link." in bare.run("task", "claim", "mail", "--show")
    bare.run("task", "done")
    assert json.loads(bare.run("show", "mail", "--json"))["state"] == "done"
    assert "login" in bare.run("status")


def test_a_conversation_of_a_client_is_taken_over(bare):
    folder = bare.home / ".claude" / "projects" / bare.repo.path.replace("/", "-").replace("_", "-")
    folder.mkdir(parents=True)
    said = {"role": "user", "content": "Use the table of 2024."}
    line = {
        "type": "user",
        "sessionId": "one",
        "cwd": bare.repo.path,
        "timestamp": "2026-11-01T10:00:00Z",
        "message": said,
    }
    (folder / "one.jsonl").write_text(json.dumps(line) + "\n")
    assert "Use the table of 2024." in bare.run("take", "--raw")


def own_agent(bare, tmp_path):
    client = tmp_path / "mine"
    client.write_text("#!/bin/sh\necho made > made.txt\nhandoff task done --summary 'as asked'\n")
    client.chmod(0o755)
    home = bare.home / ".handoff"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(f'landing = "auto"\nagents = {{ mine = ["{client}"] }}\n')


def test_a_supervisor_works_off_the_queue_with_python_and_git_alone(bare, tmp_path):
    own_agent(bare, tmp_path)
    for name in ("first", "second"):
        after = ("--after", "first") if name == "second" else ()
        bare.run("task", "add", name, "Make it.", "--check", "test -s made.txt", *after)
    assert "second: done" in bare.run("work", "--agent", "mine", "--until-done", "--plain")
    assert bare.repo.git("show", "main:made.txt") == "made\n"
    elsewhere = {"HANDOFF_DATABASE_URL": "postgresql://somebody@127.0.0.1:1/rows"}
    said = bare.run("work", "--agent", "mine", code=1, environment=elsewhere)
    assert said.startswith("Error: A supervisor on Postgres needs the package 'dbos'."), "and nothing before it"
    assert said.rstrip().endswith("/bin/pip install '.[postgres]'"), (
        "that brings what it lacks, and no index has to know us"
    )
    assert "Hint: Run, in a clone of handoff: python3 -m venv " in said


def test_a_session_is_started_reports_and_lands(bare, tmp_path):
    own_agent(bare, tmp_path)
    bare.run("task", "add", "demo", "Make it.", "--owns", "made.txt", "--check", "test -s made.txt")
    bare.run("session", "start", "demo", "--agent", "mine")
    assert "as asked" in bare.run("log", "demo")
    assert bare.repo.git("show", "main:made.txt") == "made\n"


@pytest.mark.parametrize(
    ("words", "package"),
    [(("page",), "starlette"), (("mcp",), "mcp")],
)
def test_what_needs_more_says_so_at_once_and_names_the_command(bare, words, package):
    said = bare.run(*words, code=1).splitlines()
    assert said[0].endswith(f"needs the package '{package}'."), "and nothing before it"
    assert said[-1].startswith("Hint: Run, in a clone of handoff: python3 -m venv ")
    assert said[-1].endswith("/bin/pip install .")


def test_the_board_of_the_demo_says_what_it_needs_before_an_agent_begins(bare):
    screen = Screen([*bare.words(), "demo", "--board"], cwd=bare.repo.path, env={**bare.environment(), "TERM": "xterm"})
    said = screen.until("/bin/pip install .")
    assert "The board needs the package 'textual'." in said
    assert "Working for project" not in said
    assert screen.process.wait(timeout=60) == 1


def test_results_in_the_form_of_junit_are_read_with_python_alone(bare, tmp_path):
    own_agent(bare, tmp_path)
    bare.repo.write("run.sh", """#!/bin/sh
printf '<testsuite name="s"><testcase name="adds" classname="cart" time="0.1"/></testsuite>' > "$1"
""")  # fmt: skip
    bare.repo.write(
        ".handoff/config.toml",
        '[checks.shell]\ncommand = "sh run.sh {results}"\nresults = "junit"\ntests = ["tests/"]\n',
    )
    bare.repo.commit("a suite")
    bare.run("flow", "start", "tdd", "--id", "cart", "--agent", "mine", "--request", "Build a cart.")
    assert "1-baseline   tests: 1 passing" in bare.run("log", "cart")


def test_the_doctor_finds_no_fault_in_what_one_file_goes_without(bare):
    assert (
        "✓ packages    the one file runs without tools for clients and board (to have them, in a clone of handoff: "
        in bare.run("doctor")
    )


def test_hooks_call_the_file_wherever_it_lies_and_what_it_unpacked_where_it_is_gone(bare):
    bare.run("--version")
    (program,) = (bare.home / ".local" / "share" / "handoff").glob("*/bin/handoff")
    asked = [str(program), "--version"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout.startswith("handoff ")
    elsewhere = str(bare.home / "handoff.pyz")
    os.rename(bare.file, elsewhere)
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout.startswith("handoff ")
    bare.file = elsewhere
    bare.run("--version")
    assert f"'{elsewhere}'" in program.read_text()


def test_a_home_that_cannot_be_written_is_no_obstacle(bare, tmp_path):
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    assert bare.run("--version", environment={"XDG_DATA_HOME": str(nowhere)}).startswith("handoff ")
    assert "login" in bare.run("init", "login", environment={"XDG_DATA_HOME": str(nowhere)})
    assert not (bare.home / ".local").exists()
