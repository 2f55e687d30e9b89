"""Acts by address: each is the command line it shows, and raises our own errors."""

from __future__ import annotations

import shlex

import pytest

from handoff.base.errors import HandoffError, UserError
from handoff.engine import acts
from handoff.engine.acts import Act
from relay import app


@pytest.fixture
def asked(cli, repo, monkeypatch):
    """A task whose session asks a person."""
    monkeypatch.chdir(repo.path)
    cli("task", "add", "demo", "Make a.")
    cli("task", "claim", "demo")
    cli("task", "ask", "May I drop the old table?")
    return cli


def test_a_word_that_begins_with_a_dash_can_be_typed_as_the_line_shows_it():
    assert Act("answer", ("demo", "no"), {"reason": "-- too thin"}, "shop").line("handoff") == (
        "handoff answer demo no '--reason=-- too thin' --project shop"
    )
    line = Act("task comment", ("demo", "a.py:1", "-x is wrong"), {"quote": ""}, "shop").line("handoff")
    assert shlex.split(line)[3:] == ["--project", "shop", "--", "demo", "a.py:1", "-x is wrong"]


def test_who_answers_by_code_cannot_answer_by_a_name(asked):
    own = app()
    with pytest.raises(UserError, match="This code answers no gate"):
        acts.answer_code(own, "demo", "yes")
    code = asked("gate", "show", "demo", "--json").json["code"]
    with pytest.raises(UserError, match="is no answer"):
        acts.answer_code(own, code, "perhaps")
    done = acts.answer_code(own, code, "no", text="keep it")
    assert (done.tasks[0].state, done.tasks[0].reason) == ("blocked", "rejected: keep it")
    assert done.hint.endswith("retry demo")
    own.close()


def test_what_is_done_by_an_act_and_by_its_command_line_is_told_alike(asked):
    own = app()
    for act in (
        Act("pause", ("demo",)),
        Act("resume", ("demo",)),
        Act("cancel", ("task:demo",), {"reason": "no more"}),
        Act("retry", ("nothing",)),
        Act("pause", ("demo",), {"everything": True}),
        Act("incident seen", ("i-0000",)),
        Act("agent retry", ("nobody",)),
    ):
        try:
            told = acts.perform(own, act).text
        except HandoffError as error:
            told = f"Error: {error.message}\nHint: {error.hint}" if error.hint else f"Error: {error.message}"
        if act.verb in ("pause", "resume", "cancel") and not told.startswith("Error"):
            continue  # done: a second time says something else
        done = asked(*shlex.split(act.line("handoff"))[1:], code=None)
        assert (done.out + done.err).strip() == told
    assert asked("show", "demo", "--json").json["state"] == "cancelled"
    own.close()
