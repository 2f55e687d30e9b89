"""Files that git, a hook or handoff obeys are the person's: what a session makes of them lands when they have seen exactly that."""

from __future__ import annotations

import os

import pytest

from handoff.agents.sandbox.sandbox import BUBBLEWRAP, LANDLOCK, layer
from sandbox import absent
from scripts import handoff, write_script


class Desk:
    """A repository with a secret that git ignores, and sessions of the scripted agent."""

    def __init__(self, repo, cli, tmp_path) -> None:
        self.repo, self.cli, self.tmp = repo, cli, tmp_path
        repo.write(".gitignore", ".env\n*.log\n")
        repo.write("a.txt", "a\n")
        repo.commit("more")
        repo.write(".env", "KEY=secret\n")
        repo.write("draft.txt", "mine, not committed\n")

    def run(self, task: str, *lines: str, dump=()) -> str:
        """Let a session run these lines and report; how its task stands then. What the session said is kept."""
        self.cli("dump", "--task", task, "--next", f"Do {task}.", *dump)
        return self.again(task, *lines)

    def again(self, task: str, *lines: str) -> str:
        acts = [{"run": line} for line in (*lines, handoff("task", "done", "--summary", "done"))]
        script = write_script(str(self.tmp / f"{task}.toml"), *acts)
        end = self.cli("session", "start", task, "--agent", "scripted", "--with", script, "--json").json
        self.said = self.cli("session", "log", end["session"], "--raw").out
        return str(end["state"])


@pytest.fixture(params=[BUBBLEWRAP, pytest.param(LANDLOCK, marks=pytest.mark.slow)])
def desk(request, repo, cli, tmp_path, monkeypatch):
    if layer(os.environ, wanted=request.param) != request.param:
        absent(request.param)
    monkeypatch.setenv("HANDOFF_SANDBOX", request.param)
    return Desk(repo, cli, tmp_path)


def test_a_session_that_empties_gitignore_waits_for_a_person_who_sees_exactly_that(desk):
    cli, repo = desk.cli, desk.repo
    assert desk.run("greedy", ": > .gitignore", "echo b > b.txt") == "gated", desk.said
    asked = cli("gate", "show", "greedy").out
    assert "it changes .gitignore, which git, a hook or handoff obeys" in asked
    assert {"-.env", "-*.log"} <= {line.strip() for line in asked.splitlines()}
    assert "b.txt" not in asked
    assert repo.read(".gitignore") == ".env\n*.log\n"
    assert desk.run("next", "ls -A", "echo c > c.txt") == "done", desk.said
    assert ".env" not in desk.said
    assert "draft.txt" in desk.said, "what the person has not committed is still there for sessions"
    assert "is done" in cli("answer", "greedy", "yes").out
    assert (repo.read(".gitignore"), repo.read("b.txt")) == ("", "b\n")


@pytest.mark.slow
def test_a_later_yes_to_another_question_does_not_approve_a_change_that_was_refused(repo, cli, tmp_path):
    desk = Desk(repo, cli, tmp_path)
    assert desk.run("greedy", ": > .gitignore") == "gated", desk.said
    cli("answer", "greedy", "no", "leave .gitignore as it is")
    cli("retry", "greedy")
    repo.write("a.txt", "mine, not committed\n")
    assert desk.again("greedy", "printf '.env\\n*.log\\n' > .gitignore", "echo b > a.txt") == "gated", desk.said
    assert "you had edited it without a commit" in cli("gate", "show", "greedy").out
    repo.git("commit", "-qm", "mine", "a.txt")
    assert "is done" in cli("answer", "greedy", "yes").out
    assert desk.run("same", ": > .gitignore") == "gated", "exactly what was refused"
    assert repo.read(".gitignore") == ".env\n*.log\n"


def test_a_task_that_names_gitignore_lands_it_and_the_persons_own_rules_go_on_to_hold_their_files_back(desk):
    repo = desk.repo
    repo.write("sub/.gitignore", "*.key\n")
    repo.git("add", "sub/.gitignore")
    repo.git("commit", "-qm", "rules of a folder")
    repo.write("sub/own.key", "secret\n")
    owns = ("--owns", ".gitignore", "--owns", "sub/.gitignore")
    assert desk.run("ignore", "echo '*.tmp' > .gitignore", "rm sub/.gitignore", dump=owns) == "done", desk.said
    assert repo.read(".gitignore") == "*.tmp\n"
    assert desk.run("next", "find . -path ./.git -prune -o -type f -print") == "done", desk.said
    assert ".env" not in desk.said
    assert "own.key" not in desk.said
    assert "./draft.txt" in desk.said
    repo.write(".gitignore", "*.tmp\n# mine\n")
    assert desk.run("later", "find . -path ./.git -prune -o -type f -print") == "done", desk.said
    assert "./.env" in desk.said, "what the person writes themselves counts at once"
    assert "own.key" not in desk.said


def test_settings_and_workflows_that_a_session_lands_wait_for_a_person_and_a_persons_own_count_at_once(desk):
    cli, repo = desk.cli, desk.repo
    cli("init", "greeting")
    repo.write(".handoff/config.toml", 'language = "English"\ncheck = "true"\n')
    repo.git("add", "-f", ".handoff/config.toml")
    repo.git("commit", "-qm", "settings")
    plant = "echo 'language = \"Klingon\"' > .handoff/config.toml; mkdir .handoff/workflows; echo x > .handoff/workflows/tdd.toml"
    assert desk.run("settings", plant) == "gated", desk.said
    asked = cli("gate", "show", "settings").out
    assert '+language = "Klingon"' in asked
    assert ".handoff/workflows/tdd.toml" in asked
    assert "Klingon" not in repo.read(".handoff/config.toml")
    assert not os.path.exists(os.path.join(repo.path, ".handoff/workflows"))
    cli("answer", "settings", "no", "not these")
    assert "Klingon" not in repo.read(".handoff/config.toml")
    repo.write(".handoff/config.toml", 'language = "Esperanto"\n')
    assert cli("status", "--json").json["language"] == "Esperanto"
