"""What a person meets at the edges: closed streams, odd homes, unknown names, characters that steer a terminal."""

from __future__ import annotations

import os
import stat
import subprocess

import pytest

from handoff.surfaces.cli.catalog import CATALOG, HIDDEN, SHOWN
from relay import manifest
from sandbox import Cli, Repo

EVIL = "red \x1b[31m title \x1b]0;gone\x07 back\r bidi \u202eabc c1 \u009b2J"


def test_control_characters_are_shown_and_only_our_own_colours_are_sent(cli, repo):
    repo.write("od\x1bd.txt", "x\n")
    cli("dump", "--task", "first", "--next", EVIL)
    cli("task", "claim", "first")
    cli("task", "block", EVIL)
    for words in (("task", "list"), ("show", "first"), ("log",), ("status",), ("show", "first", "--json")):
        said = Cli(repo.path, FORCE_COLOR="1", NO_COLOR="")(*words)
        for character in "\x07\r\u202e\u009b":
            assert character not in said.out, words
        assert "\x1b[31m title" not in said.out, words
    assert "red \\x1b[31m title \\x1b]0;gone\\x07 back\\x0d bidi \\u202eabc" in cli("show", "first").out
    assert "\x1b[" in Cli(repo.path, FORCE_COLOR="1", NO_COLOR="")("task", "list").out
    assert "\x1b[" not in Cli(repo.path, FORCE_COLOR="1", NO_COLOR="1")("task", "list").out
    assert "\x1b[" not in Cli(repo.path, FORCE_COLOR="0", NO_COLOR="")("task", "list").out
    assert cli("show", "first", "--json").json["brief"] == EVIL


def test_an_answer_that_cannot_be_written_is_said_and_the_work_is_done(cli):
    for turn, (words, why) in enumerate(
        ((">/dev/full", "No space left on device"), (">&-", "standard output is closed"))
    ):
        line = f'"$@" {words}'
        for command in (
            ("dump", "--task", f"task-{turn}", "--next", "x"),
            ("task", "list"),
            ("task", "list", "--json"),
            ("status",),
        ):
            done = subprocess.run(["sh", "-c", line, "sh", *cli.command(*command)], cwd=cli.folder, capture_output=True,
                                  text=True, check=False, env=cli.full_environment())  # fmt: skip
            assert done.returncode == 1, (words, command, done)
            assert f"could not be written: {why}" in done.stderr
            assert "Traceback" not in done.stderr
        done = subprocess.run(
            ["sh", "-c", line, "sh", *cli.command("--version")], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (1, "")
    assert [task["task"] for task in cli("task", "list", "--json").json["tasks"]] == ["task-0", "task-1"]


def test_the_home_is_the_persons_alone_and_what_it_cannot_be_is_said(repo, tmp_path):
    home = tmp_path / "old"
    home.mkdir(mode=0o755)
    cli = Cli(repo.path, HANDOFF_HOME=str(home))
    said = cli("dump", "--task", "first", "--next", "x")
    assert "now only you can" in said.err
    assert "now only you can" not in cli("task", "list").err
    assert stat.S_IMODE(os.stat(home).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(home / "handoff.db").st_mode) == 0o600
    fresh = tmp_path / "fresh"
    Cli(repo.path, HANDOFF_HOME=str(fresh))("task", "list")
    assert stat.S_IMODE(os.stat(fresh).st_mode) == 0o700
    for number, words in enumerate((("workspace", "add", "first"), ("land", "none"), ("undo",), ("snapshot", "take"))):
        fresh = tmp_path / f"fresh-{number}"
        assert "now only you can" not in Cli(repo.path, HANDOFF_HOME=str(fresh))(*words, code=None).err
        assert stat.S_IMODE(os.stat(fresh).st_mode) == 0o700, words
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chmod(shared, 0o2775)
    Cli(repo.path, HANDOFF_HOME=str(shared))("task", "list")
    assert stat.S_IMODE(os.stat(shared).st_mode) & 0o777 == 0o770

    (tmp_path / "file").write_text("not a folder")
    said = Cli(repo.path, HANDOFF_HOME=str(tmp_path / "file"))("task", "list", code=1)
    assert "is not a folder" in said.err
    assert "set HANDOFF_HOME" in said.err
    nowhere = tmp_path / "nowhere"
    said = Cli(repo.path, HANDOFF_HOME="", HOME=str(nowhere))("task", "list", code=1)
    assert f"Your home folder {nowhere} is not there." in said.err
    assert not nowhere.exists()


def test_unknown_names_are_errors_that_lead_on(cli, repo, tmp_path):
    assert "Run: handoff init\n" in cli("--feature", "nope", "status", code=1).err
    cli("init", "login")
    assert "There is no task 'nope'" in cli("pause", "nope", code=1).err
    for words in (("archive", "nope"), ("--feature", "nope", "status")):
        said = cli(*words, code=1).err
        assert "Feature 'nope' not found." in said
        assert "init" not in said
        assert "Hint: See: handoff list" in said
    assert "Run: handoff init nope" in cli("switch", "nope", code=1).err
    repo.git("clone", "-q", "--bare", repo.path, str(tmp_path / "bare.git"))
    for place in (tmp_path / "bare.git", tmp_path / "bare.git" / "refs"):
        assert "without files of its own" in cli("init", "login", cwd=str(place), code=1).err
    assert not (tmp_path / "bare.git" / ".handoff").exists()


@pytest.mark.parametrize(("branch", "name"), [("main", "shop"), ("feature/Sign_in", "feature-sign-in")])
def test_a_feature_without_a_name_is_called_after_its_branch_or_folder(tmp_path, branch, name):
    repo = Repo.create(str(tmp_path / "shop"))
    repo.git("checkout", "-q", "-B", branch)
    assert f"Initialized feature: {name}" in Cli(repo.path)("init").out


def test_small_things_are_said_well_and_the_manual_is_there(cli, tmp_path):
    cli("dump", "--task", "first", "--next", "x")
    assert "looked at 1 project: 0 silent sessions" in cli("watchdog").out
    launched = os.path.join(os.environ["HANDOFF_HOME"], "repo", "launched", "gone.marker")
    os.makedirs(os.path.dirname(launched))
    with open(launched, "w", encoding="utf-8"):
        pass
    cli("dump", "--cleanup-orphan", "--apply")
    assert not os.path.exists(launched)
    cli("dump", "--open-batch", manifest(tmp_path / "m.json", batch="one"))
    cli("dump", "--open-batch", manifest(tmp_path / "n.json", batch="two"), code=4)
    pages = cli("help", "docs").out
    assert "handoff help docs/howto/workflows.md\n" in pages
    assert cli("help", "docs/howto/workflows.md").out.startswith("# ")
    assert "There is no page" in cli("help", "docs/../pyproject.toml", code=1).err


def test_the_first_page_of_help_can_be_held_in_the_head_and_leads_to_the_rest(cli):
    first = cli("--help").out
    assert cli("help").out == first
    lines = first.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    named = [line.split()[0] for line in lines if line.startswith("  ")][1:]
    assert 15 < len(named) <= 20
    every = cli("help", "--all").out
    assert all(f"\n  {name} " in every for name in (*named, *SHOWN))
    assert not any(f"\n  {name} " in every for name, entry in CATALOG.items() if entry.section == HIDDEN)
    assert (
        f"{len(named)} of {len({name.partition(' ')[0] for name in SHOWN})} commands. All: handoff help --all" in first
    )
    assert cli("help", "landing").out.startswith("# ")
    assert cli("help", "board").out.startswith("usage: handoff board")
    assert "Did you mean: gate" in cli("help", "gatess", code=2).err
