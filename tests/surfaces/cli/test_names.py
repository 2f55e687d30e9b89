"""Nouns with verbs, addresses of any kind, and what becomes of a spelling of before."""

from __future__ import annotations

import re

import pytest

from handoff.surfaces.cli.catalog import CATALOG, NOUNS, SHOWN
from handoff.surfaces.cli.manual import MEANT, RENAMED
from relay import manifest


@pytest.fixture
def shop(cli, tmp_path):
    """A batch, and beside it a task of its own."""
    cli("batch", "open", manifest(tmp_path / "split.json", batch="shop"))
    cli("task", "add", "login", "Build the login.")
    return cli


@pytest.mark.parametrize("old", RENAMED)
def test_a_spelling_of_before_is_refused_with_the_one_of_today(cli, old):
    said = cli(*old.split(), "x", code=2).err
    assert f"handoff {old} is now handoff {RENAMED[old]}." in said
    words = RENAMED[old].replace(",", "").split()
    assert words[0] in CATALOG or " ".join(words[:2]) in CATALOG
    assert old not in CATALOG


@pytest.mark.parametrize("tried", MEANT)
def test_a_word_of_another_tool_is_met_with_the_command_that_does_it_here(cli, tried):
    said = cli(*tried.split(), code=2).err
    assert f"There is no 'handoff {tried}'." in said
    assert f"Do you mean: handoff {MEANT[tried]}\n" in said


def test_an_id_of_one_letter_is_refused_with_the_reason_and_one_that_would_do(cli):
    said = cli("task", "add", "a", "Do it.", code=1).err
    assert "2 to 60 characters" in said
    assert "one letter says too little. For example: task-a\n" in said


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_alone_does_something_and_its_help_names_its_verbs(cli, noun):
    cli(noun)
    text = cli(noun, "--help").out
    for name in CATALOG:
        if name.startswith(f"{noun} "):
            assert f" {name.partition(' ')[2]} " in text
    assert cli("help", noun).out == text
    assert "frobnicate" in cli(noun, "frobnicate", code=2).err


def test_the_list_of_commands_is_short_and_completion_still_knows_the_verbs_that_are_not_in_it(cli):
    said = cli("help", "--all").out
    listed = {
        name
        for name, entry in CATALOG.items()
        if re.search(rf"^  {name} +{re.escape(entry.help)}$", said, re.MULTILINE)
    }
    assert listed == set(SHOWN)
    assert len(listed) <= 75
    script = cli("completion", "bash").out
    assert "withdraw" in script
    assert "instructions" not in script


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("work", "--agents", "claude"), "Do you mean --agent? See: handoff work --help"),
        (("task", "add", "login", "x", "--ownz=src/"), "Do you mean --owns? See: handoff task add --help"),
        (("task", "list", "--frobnicate"), "Hint: See: handoff task list --help"),
        (("batch", "run", "m.toml", "--land", "sometimes"), "Hint: See: handoff batch run --help"),
        (("completion", "tcsh"), "(choose from 'bash', 'zsh', 'fish', 'powershell', 'power-shell', 'elvish')"),
    ],
)
def test_an_option_that_is_almost_right_is_met_with_the_right_one(cli, words, hint):
    assert hint in cli(*words, code=2).err


def test_options_may_stand_before_the_noun_and_before_the_verb(cli, repo, folder):
    assert cli("--json", "task", "list").json["project"] == "repo"
    assert cli("-C", repo.path, "task", "--json", cwd=folder).json["project"] == "repo"
    assert cli("task", "-C", repo.path, "list", "--json", cwd=folder).json["project"] == "repo"
    assert cli("snapshot", "take", "-m", "why", "--json").json["reason"] == "why"
    assert cli("snapshot", "-m", "why not", "--json").json["reason"] == "why not"


def test_a_batch_is_shown_logged_paused_tried_again_and_taken_back_by_its_name(shop):
    assert shop("show", "shop", "--json").json["missing"] == ["form", "api"]
    assert shop("batch", "--json").json == [
        {"batch": "shop", "project": "repo", "state": "open", "parts": {"ready": 2}}
    ]
    shop("pause", "shop", "--reason", "lunch")
    assert "Go on with: handoff resume shop" in shop("task").out
    assert "lunch" in shop("task", "open", "shop/form", code=3).err
    shop("resume", "shop")
    shop("task", "claim", "shop/form")
    shop("task", "block", "no key")
    assert "shop/form is ready again" in shop("retry", "shop").out
    assert "No part of batch 'shop' is blocked" in shop("retry", "shop", code=1).err
    kinds = [event["kind"] for event in shop("log", "shop", "--json").json]
    assert kinds[0] == "batch.opened"
    assert "task.retried" in kinds
    shop("cancel", "shop")
    assert shop("batch", "list").out.startswith("No batch is open")
    assert shop("batch", "list", "--all", "--json").json[0]["state"] == "cancelled"


def test_two_things_of_one_name_are_told_apart_by_their_kind(shop):
    shop("task", "add", "shop", "A task of the same name.")
    said = shop("show", "shop", code=1).err
    assert "'shop' names a task and a batch" in said
    assert "task:shop or batch:shop" in said
    assert shop("show", "task:shop", "--json").json["brief"] == "A task of the same name."
    shop("cancel", "task:shop")
    assert shop("show", "shop", "--json").json["batch"] == "shop", "what has ended is in nobody's way"
    assert "There is no task 'nobody'" in shop("cancel", "nobody", code=1).err


def test_what_is_for_flows_is_refused_for_others(shop):
    assert "--phase is for flows" in shop("retry", "login", "--phase", "red", code=2).err
    assert "--max-cycles is for flows" in shop("resume", "login", "--max-cycles", "2", code=2).err
    assert "Choose one" in shop("pause", "login", "--everything", code=2).err


def test_an_answer_shows_the_gate_first_and_takes_its_reason_as_a_word(shop):
    shop("task", "claim", "login")
    shop("task", "ask", "Ship it?")
    assert "Ship it?" in shop("answer", "login").out
    assert "REASON" in shop("answer", "login", "no", code=2).err
    assert "no code of a gate either" in shop("answer", "nobody", "yes", code=1).err
    assert "login is ready" in shop("answer", "login", "yes", "on a Friday").out
    with open(shop("task", "claim", "login", "--json").json["document"], encoding="utf-8") as file:
        assert "yes, on a Friday" in file.read()
