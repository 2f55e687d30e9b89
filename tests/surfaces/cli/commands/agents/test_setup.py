"""`setup`: everything is shown, put in once, repaired, and taken out byte for byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib

import pytest

from handoff.base.settings import HOME_KEYS
from handoff.engine.setup.settings_files import TAG
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
        ("Which one? [auto]:", "never"),
        ("Which one? [auto]: never\nWhich one? [auto]:", "review"),
        ("Do it?", ""),
    ):
        screen.until(question)
        screen.type(f"{answer}\r")
    screen.until("Next: start your agent")
    screen.close()
    assert TAG in machine.read(".claude/settings.json")
    assert not os.path.exists(os.path.join(machine.home, ".codex"))
    assert not os.path.exists(os.path.join(machine.repo.path, ".git", "hooks", "reference-transaction"))
    assert machine.read(".handoff/config.toml").startswith('landing = "review"\n')
    again = machine.cli("setup", "--dry-run", "--json").json
    assert again["chosen"]["guard"] is False, "what was said once holds"
    machine.cli("setup", "--undo", "--yes")
    assert not os.path.exists(os.path.join(machine.home, ".handoff", "config.toml"))


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


def test_one_file_that_cannot_be_read_is_named_and_does_not_stop_the_others(machine):
    bad = "{ a: 1 // a comment\n}"
    machine.write(".gemini/settings.json", bad)
    machine.write(".codex/config.toml", "model = \n")
    shown = machine.cli("setup", "--dry-run").out
    assert "cannot  ~/.gemini/settings.json" in shown
    answer = machine.cli("setup", "--yes", code=1)
    assert ".gemini/settings.json is not valid JSON" in answer.err
    assert ".codex/config.toml is not valid TOML" in answer.err
    assert TAG in machine.read(".claude/settings.json")
    assert machine.read(".gemini/settings.json") == bad
    assert "Fix the files above" in machine.cli("setup", "--yes", code=1).err
    machine.write(".codex/config.toml", "")
    machine.cli("setup", "--yes", code=1)
    machine.write(".codex/config.toml", machine.read(".codex/config.toml") + "broken = \n")
    answer = machine.cli("setup", "--undo", "--yes", code=1)
    assert ".codex/config.toml is not valid TOML" in answer.err
    assert not os.path.exists(os.path.join(machine.home, ".claude"))
    machine.write(".codex/config.toml", machine.read(".codex/config.toml").replace("broken = \n", ""))
    machine.cli("setup", "--undo", "--yes")
    assert machine.read(".codex/config.toml") == ""


TRUST = '\n[projects."/x/shop"]\ntrust_level = "trusted"\n'


def test_what_codex_writes_into_its_settings_after_setup_stays(machine):
    """Codex puts new tables below the last one, which is ours."""
    machine.write(".codex/config.toml", 'model = "m"\n')
    codex = ("setup", "--yes", "--agent", "codex")
    machine.cli(*codex)
    machine.write(".codex/config.toml", machine.read(".codex/config.toml") + TRUST)
    assert "Nothing to do" in machine.cli(*codex).out
    machine.cli(*codex)
    assert machine.read(".codex/config.toml").endswith(TRUST)
    machine.cli("setup", "--undo", "--yes")
    assert tomllib.loads(machine.read(".codex/config.toml")) == {"model": "m", **tomllib.loads(TRUST)}
    machine.cli(*codex)
    assert TRUST in machine.read(".codex/config.toml")
    machine.cli("setup", "--undo", "--yes")
    assert machine.read(".codex/config.toml") == f'model = "m"\n{TRUST}'


@pytest.mark.parametrize("at_once", [True, False])
def test_settings_that_codex_wrote_anew_are_set_up_and_taken_out_as_before(machine, at_once):
    """`codex mcp add` drops comments, splits `env` into a table of its own and adds its own tables."""
    codex = ("setup", "--yes", "--agent", "codex")
    machine.cli(*codex)
    entry = tomllib.loads(machine.read(".codex/config.toml"))["mcp_servers"]["handoff"]
    ours = f"[mcp_servers.handoff]\ncommand = {json.dumps(entry['command'])}\nargs = {json.dumps(entry['args'])}\n\n"
    ours += f"[mcp_servers.handoff.env]\nHANDOFF_HOME = {json.dumps(entry['env']['HANDOFF_HOME'])}\n\n"
    theirs = '[mcp_servers.mine]\ncommand = "echo"\nargs = ["hi"]\n'
    machine.write(".codex/config.toml", f"{ours}{theirs}# handoff:end\n{TRUST}")
    if not at_once:
        machine.cli(*codex)
        assert tomllib.loads(machine.read(".codex/config.toml"))["mcp_servers"]["handoff"] == entry
    machine.cli("setup", "--undo", "--yes")
    assert machine.read(".codex/config.toml") == theirs + TRUST


def test_a_record_of_an_older_setup_is_understood(machine):
    """Versions before wrote Codex' table between two comments and kept no copies."""
    codex = ("setup", "--yes", "--agent", "codex")
    machine.cli(*codex)
    record = json.loads(machine.read(".handoff/setup.json"))
    for entry in record["entries"]:
        entry.update(kept="", before="", after="0")
        del entry["backup"]
        if entry["path"].endswith(".codex/config.toml"):
            text = machine.read(".codex/config.toml")
            entry["pieces"] = [{**entry["pieces"][0], "kind": "block", "key": "#", "detail": text.strip()}]
            machine.write(".codex/config.toml", f"# handoff:begin\n{text}{TRUST}# handoff:end\n")
    machine.write(".handoff/setup.json", json.dumps({**record, "format": 1}))
    machine.cli(*codex)
    assert TRUST in machine.read(".codex/config.toml")
    machine.cli("setup", "--undo", "--yes")
    assert machine.read(".codex/config.toml").strip() == TRUST.strip()


def test_a_copy_of_each_file_as_it_was_is_kept_for_its_owner_alone(machine):
    machine.write(".claude.json", '{"key": "secret"}')
    machine.cli("setup", "--yes", "--agent", "claude")
    folder = os.path.join(machine.home, ".handoff", "backups")
    (name,) = os.listdir(folder)
    assert machine.read(f".handoff/backups/{name}") == '{"key": "secret"}'
    assert os.stat(os.path.join(folder, name)).st_mode & 0o777 == 0o600
    machine.cli("setup", "--undo", "--yes")
    assert os.listdir(folder) == [], "the file is as it was: the copy has no use"


def test_undo_names_the_files_that_go_and_no_folder_of_the_person(machine):
    os.chmod(machine.repo.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 0\n"), 0o755)
    machine.cli("setup", "--yes", "--agent", "claude")
    steps = machine.cli("setup", "--undo", "--dry-run", "--json").json["steps"]
    removed = {step["path"]: step["what"] for step in steps if step["act"] == "remove"}
    assert all(os.path.isfile(path) for path in removed)
    assert (
        removed[os.path.join(machine.repo.path, ".git/hooks/pre-commit")]
        == "the git guard's hook; your own is put back"
    )


def test_the_settings_one_may_change_are_written_once_as_comments(machine):
    path = ".handoff/config.toml"
    machine.cli("setup", "--yes", "--agent", "claude")
    text = machine.read(path)
    named = [line.split()[1] for line in text.splitlines() if " = " in line]
    assert named == list(HOME_KEYS)
    assert tomllib.loads(text) == {}
    assert set(tomllib.loads("\n".join(line.removeprefix("# ") for line in text.splitlines() if " = " in line))) == set(
        HOME_KEYS
    )
    machine.write(path, text.replace("# max_running = ", "max_running = "))
    assert "Nothing to do" in machine.cli("setup", "--yes", "--agent", "claude").out
    assert "leave   ~/.handoff/config.toml" in machine.cli("setup", "--undo", "--yes").out
    assert tomllib.loads(machine.read(path)) == {"max_running": HOME_KEYS["max_running"].default}
    os.unlink(os.path.join(machine.home, path))
    machine.cli("setup", "--yes", "--agent", "claude", "--auto-open")
    assert machine.read(path).startswith("auto_open = ")
    machine.cli("setup", "--undo", "--yes")
    assert not os.path.exists(os.path.join(machine.home, path))


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
