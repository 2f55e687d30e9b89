"""A person's answer as the command line and an MCP client give it, and what the next session reads of it."""

from __future__ import annotations

import pytest


@pytest.fixture
def asked(cli, repo):
    """A task that waits at a gate with a text to change."""

    def ask(*words: str) -> str:
        cli("dump", "--task", "login", "--next", "Build the login.")
        cli("task", "claim", "login")
        cli("task", "ask", "Is this the spec?", "--from", "-", *words, stdin="The old spec.\n")
        return cli("gate", "show", "login", "--json").json["code"]

    return ask


def baton(cli) -> str:
    path = cli("task", "claim", "login", "--json").json["document"]
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_an_edited_text_reaches_the_next_session(cli, asked):
    asked()
    for answer in (cli("gate", "list", "--json").json[0], cli("gate", "show", "login", "--json").json):
        assert (answer["task"], answer["project"]) == ("login", "repo")
    shown = cli("gate", "show", "login").out
    assert "Is this the spec?" in shown
    assert "The old spec." in shown
    cli("answer", "login", "yes", "--from", "-", "--reason", "with a password", stdin="The new spec.\n")
    text = baton(cli)
    assert "answered the question: Is this the spec?" in text
    assert "The answer: yes, with a password" in text
    assert "The new spec." in text


def test_the_editor_of_the_person_changes_the_text(cli, asked):
    asked()
    cli.environment["EDITOR"] = "sed -i s/old/better/"
    assert "Approved with your text" in cli("answer", "login", "yes", "--edit").out
    assert "The better spec." in baton(cli)


def test_an_editor_that_fails_answers_nothing(cli, asked):
    asked()
    cli.environment["EDITOR"] = "false"
    assert "nothing was changed" in cli("answer", "login", "yes", "--edit", code=1).err
    assert len(cli("gate", "list", "--json").json) == 1


def test_a_code_answers_from_any_folder_and_only_once(cli, asked, folder):
    code = asked()
    cli("answer", code.upper(), "edit", "A spec from a chat.", "--by", "ann", cwd=folder)
    assert "was used" in cli("answer", code, "yes", cwd=folder, code=4).err
    text = baton(cli)
    assert "ann answered the question" in text
    assert "A spec from a chat." in text


def test_a_no_by_code_blocks_and_a_code_is_in_no_list_and_no_log(cli, asked):
    code = asked()
    for words in (("gate", "list", "--json"), ("log", "--json"), ("show", "login", "--json")):
        assert code not in cli(*words).out
    cli("answer", code, "no", "not like this")
    assert cli("show", "login", "--json").json["reason"] == "rejected: not like this"


def test_the_watchdog_lets_the_default_count_and_says_so(cli, asked):
    asked("--within", "1s", "--default", "no")
    assert "else no" in cli("gate", "list").out
    while not (said := cli("watchdog", "--json").json["defaulted_gates"]):
        assert len(cli("gate", "list", "--json").json) == 1
    assert said == ["Is this the spec?"]
    assert cli("gate", "list").out.startswith("Nothing waits")


@pytest.mark.parametrize("words", [("--within", "soon"), ("--default", "yes"), ("--within", "-2h")])
def test_a_limit_that_makes_no_sense_changes_nothing(cli, words):
    cli("dump", "--task", "login", "--next", "Build the login.")
    cli("task", "claim", "login")
    assert cli("task", "ask", "Ship it?", *words, code=None).code in (1, 2)
    assert cli("gate", "list").out.startswith("Nothing waits")


def test_a_comment_is_kept_for_the_next_session_and_only_for_one(cli):
    cli("task", "add", "cart", "Fill the cart.")
    assert "next session of cart" in cli("task", "comment", "cart", "src/cart.py:12", "mind the empty cart").out
    with open(cli("show", "cart", "--json").json["document"], encoding="utf-8") as file:
        assert "- `src/cart.py` line 12: mind the empty cart" in file.read()
    assert "names no line" in cli("task", "comment", "cart", "cart.py", "what", code=2).err
    assert "is empty" in cli("task", "comment", "cart", "cart.py:1", " ", code=2).err
    cli("cancel", "cart")
    assert "no session will read it" in cli("task", "comment", "cart", "cart.py:1", "late", code=1).err
