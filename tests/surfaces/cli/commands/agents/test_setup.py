"""`setup`: everything is shown, put in once, repaired, and taken out byte for byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from handoff.engine.clients.settings_files import TAG
from sandbox import Cli, Repo
from screen import Screen

# Dies by SIGKILL at the n-th rename: every write of ours ends with one.
DYING = """
import os, signal, sys
left = [int(sys.argv[1])]
def heard(event, arguments):
    if event == "os.rename":
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(heard)
sys.argv = ["handoff", *sys.argv[2:]]
from handoff.surfaces.cli.main import main
sys.exit(main())
"""


@pytest.fixture
def machine(repo, tmp_path, monkeypatch):
    """A machine with Claude Code, Codex and Gemini CLI on the PATH, none of which is ever started."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("claude", "codex", "gemini"):
        (programs / name).write_text("#!/bin/sh\nexit 9\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("SHELL", "/bin/bash")
    return Machine(repo)


class Machine:
    """Two places that setup writes to: the person's home and the repository."""

    def __init__(self, repo: Repo) -> None:
        self.repo, self.home = repo, os.environ["HOME"]
        self.cli = Cli(repo.path)

    def files(self) -> dict[str, bytes]:
        """Everything outside handoff's own home and git's objects, and the rights of each file."""
        found = {}
        for base in (self.home, self.repo.path):
            for at, folders, names in os.walk(base):
                folders[:] = [name for name in folders if name not in (".handoff", "objects", "logs")]
                for name in names:
                    path = os.path.join(at, name)
                    with open(path, "rb") as file:
                        found[path] = file.read() + oct(os.stat(path).st_mode).encode()
                found[at] = b"folder"
        # Which project it is stays known, because its snapshots are kept.
        found.pop(os.path.join(self.repo.path, ".git", "handoff-project"), None)
        return found

    def write(self, name: str, text: str) -> str:
        path = os.path.join(self.home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def read(self, name: str) -> str:
        with open(os.path.join(self.home, name), encoding="utf-8") as file:
            return file.read()

    def dying(self, at: int, *words: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", DYING, str(at), *words], cwd=self.repo.path, env=dict(os.environ),
            stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=100,
        )  # fmt: skip
        return done.returncode


def test_everything_is_put_in_once_and_taken_out_byte_for_byte(machine):
    machine.repo.write("CLAUDE.md", "# Mine\n")
    machine.repo.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 0\n")
    machine.write(".claude.json", '{"numStartups": 3, "mcpServers": {"mine": {"command": "x"}}}')
    machine.write(".gemini/settings.json", '{\n    "theme": "dark"\n}\n')
    machine.write(".codex/config.toml", 'model = "m"\n')
    before = machine.files()
    said = machine.cli("setup", "--yes").out
    assert "agents    claude, codex, gemini" in said
    assert json.loads(machine.read(".claude.json"))["mcpServers"].keys() == {"mine", "handoff"}
    assert TAG in machine.read(".claude/settings.json")
    assert "[mcp_servers.handoff]" in machine.read(".codex/config.toml")
    assert {"hooks", "mcpServers", "theme"} == json.loads(machine.read(".gemini/settings.json")).keys()
    assert "@AGENTS.md" in machine.repo.read("CLAUDE.md")
    assert machine.repo.read(".claude/skills/handoff/SKILL.md").startswith("---\nname: handoff\n")
    assert "complete " in machine.read(".local/share/bash-completion/completions/handoff")
    after = machine.files()
    assert "Nothing to do" in machine.cli("setup", "--yes").out
    assert machine.files() == after
    machine.cli("setup", "--undo", "--yes")
    assert machine.files() == before
    assert "Nothing to take out" in machine.cli("setup", "--undo").out


def test_every_file_that_changes_was_shown_first(machine):
    plan = machine.cli("setup", "--dry-run", "--json").json
    assert plan["done"] is False
    before = machine.files()
    machine.cli("setup", "--yes")
    after = machine.files()
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    shown = {step["path"] for step in plan["steps"]}
    assert {path for path in changed if after.get(path) != b"folder"} <= shown


def test_without_a_terminal_and_without_a_yes_it_only_shows(machine):
    before = machine.files()
    answer = machine.cli("setup", code=2)
    assert "~/.claude/settings.json" in answer.out
    assert "setup --yes" in answer.err
    assert machine.files() == before
    assert machine.cli("setup", "--json", code=2).json["exit_code"] == 2


def test_a_person_is_asked_and_may_leave_things_out(machine):
    screen = Screen(machine.cli.command("setup"), cwd=machine.repo.path, env=dict(os.environ))
    for question, answer in (
        ("which agents?", "claude"),
        ("in all your projects?", ""),
        ("git guard", "n"),
        ("background?", ""),
        ("Open a tab", ""),
        ("Do it?", ""),
    ):
        screen.until(question)
        screen.type(f"{answer}\r")
    screen.until("Next: start your agent")
    screen.close()
    assert TAG in machine.read(".claude/settings.json")
    assert not os.path.exists(os.path.join(machine.home, ".codex"))
    assert not os.path.exists(os.path.join(machine.repo.path, ".git", "hooks", "reference-transaction"))
    again = machine.cli("setup", "--dry-run", "--json").json
    assert again["chosen"]["guard"] is False, "what was said once holds"


@pytest.mark.slow
def test_a_setup_killed_at_any_write_is_finished_by_the_next_run(machine):
    machine.repo.write("CLAUDE.md", "# Mine\n")
    machine.write(".gemini/settings.json", '{ "theme": "dark" }')
    before = machine.files()
    machine.cli("setup", "--yes")
    whole = machine.files()
    for at in range(1, 60):
        code = machine.dying(at, "setup", "--undo", "--yes")
        if code == 0:
            break
        assert code == -9
    assert machine.files() == before
    for at in range(1, 60):
        code = machine.dying(at, "setup", "--yes")
        if code == 0:
            break
        assert code == -9
    assert at > 5
    assert machine.files() == whole
    machine.cli("setup", "--undo", "--yes")
    assert machine.files() == before


def test_of_a_file_that_was_changed_since_only_our_part_goes(machine):
    machine.write(".claude.json", "{}\n")
    machine.cli("setup", "--yes", "--agent", "claude")
    kept = json.loads(machine.read(".claude.json"))
    machine.write(".claude.json", json.dumps({**kept, "numStartups": 9}))
    machine.repo.write("AGENTS.md", "Above.\n\n" + machine.repo.read("AGENTS.md") + "\nBelow.\n")
    skill = ".claude/skills/handoff/SKILL.md"
    machine.repo.write(skill, machine.repo.read(skill) + "My own words.\n")
    said = machine.cli("setup", "--undo", "--yes").out
    assert json.loads(machine.read(".claude.json")) == {"numStartups": 9}
    assert machine.repo.read("AGENTS.md") == "Above.\n\n\nBelow.\n"
    assert "My own words." in machine.repo.read(skill)
    assert f"leave   {skill}" in said
    assert "changed since" in said


def test_running_it_again_repairs_what_was_lost(machine):
    machine.cli("setup", "--yes")
    whole = machine.files()
    os.unlink(os.path.join(machine.home, ".claude", "settings.json"))
    os.unlink(os.path.join(machine.repo.path, ".git", "hooks", "reference-transaction"))
    machine.write(".codex/config.toml", "")
    plan = machine.cli("setup", "--yes", "--json").json
    assert len([step for step in plan["steps"] if step["act"] != "leave"]) == 4
    assert machine.files() == whole


def test_a_file_that_cannot_be_read_is_named_before_anything_is_written(machine):
    machine.write(".gemini/settings.json", "{ // a comment\n}")
    before = machine.files()
    answer = machine.cli("setup", "--yes", code=1)
    assert ".gemini/settings.json is not valid JSON" in answer.err
    assert machine.files() == before
    machine.cli("setup", "--yes", "--agent", "claude")


def test_an_entry_of_the_persons_own_is_left_and_named(machine):
    machine.write(".claude.json", '{"mcpServers": {"handoff": {"command": "elsewhere", "args": ["mcp"]}}}')
    said = machine.cli("setup", "--yes", "--agent", "claude").out
    assert "registered there in another way" in said
    assert json.loads(machine.read(".claude.json"))["mcpServers"]["handoff"]["command"] == "elsewhere"


def test_the_persons_own_settings_stay_while_another_repository_is_set_up(machine, tmp_path):
    other = Repo.create(str(tmp_path / "other"))
    machine.cli("setup", "--yes", "--agent", "claude")
    machine.cli("setup", "--yes", "--agent", "claude", cwd=other.path)
    said = machine.cli("setup", "--undo", "--yes").out
    assert f"handoff -C {other.path} setup --undo" in said
    assert not os.path.exists(os.path.join(machine.repo.path, "AGENTS.md"))
    assert TAG in machine.read(".claude/settings.json")
    machine.cli("setup", "--undo", "--yes", cwd=other.path)
    assert not os.path.exists(os.path.join(machine.home, ".claude"))
    assert not os.path.exists(os.path.join(other.path, "AGENTS.md"))


def test_hooks_and_tools_can_go_into_the_repository_instead(machine):
    machine.cli("setup", "--yes", "--agent", "claude", "--project")
    assert json.loads(machine.repo.read(".mcp.json"))["mcpServers"]["handoff"]["command"] == "handoff"
    assert "command -v handoff" in machine.repo.read(".claude/settings.json")
    assert not os.path.exists(os.path.join(machine.home, ".claude.json"))


def test_outside_a_repository_only_the_persons_own_settings_are_set_up(machine, tmp_path):
    plan = machine.cli("setup", "--yes", "--json", cwd=str(tmp_path)).json
    assert {step["scope"] for step in plan["steps"]} == {"user"}
    machine.cli("setup", "--undo", "--yes", cwd=str(tmp_path))
    assert not os.path.exists(os.path.join(machine.home, ".claude"))


def test_an_agent_nobody_knows_is_an_error_that_names_those_there_are(machine):
    answer = machine.cli("setup", "--yes", "--agent", "clade", code=1)
    assert "claude" in answer.err


def test_tabs_open_by_themselves_if_that_is_asked_for(machine):
    machine.write(".handoff/config.toml", "max_running = 3\n")
    machine.cli("setup", "--yes", "--auto-open")
    text = machine.read(".handoff/config.toml")
    assert text.startswith("auto_open = ")
    machine.cli("setup", "--undo", "--yes")
    assert machine.read(".handoff/config.toml") == "max_running = 3\n"
