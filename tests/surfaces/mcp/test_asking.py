"""A person answers in their own client: real clients with and without a form, over standard input; over HTTP: test_http.py."""

from __future__ import annotations

import time

import pytest

from sandbox import absent
from scripts import write_script

try:
    import anyio
    from mcp import Client, StdioServerParameters
    from mcp_types import ElicitResult
except ImportError:
    anyio = None


class Desk:
    """A client of the person with a form on its screen: what it was shown, and what they fill in."""

    def __init__(self, cli) -> None:
        if anyio is None:
            absent("the package mcp")
        self.cli, self.shown = cli, []
        program, *words = cli.command("mcp")
        environment = cli.full_environment()
        self.server = StdioServerParameters(command=program, args=words, env=environment, cwd=cli.folder)

    def call(self, *filled, mode="legacy", form=True, tool="answer", **arguments) -> list[str]:
        """Call the tool once for each form that is filled in (None: the person closes it), and give what the model hears."""
        left = list(filled)

        async def fill(context, asked):
            self.shown.append(asked)
            given = left.pop(0)
            if callable(given):
                given = given()
            return ElicitResult(action="decline") if given is None else ElicitResult(action="accept", content=given)

        async def go():
            with anyio.fail_after(120):
                async with Client(self.server, mode=mode, elicitation_callback=fill if form else None) as client:
                    said = [await client.call_tool(tool, arguments) for _ in filled or [None]]
                    return [("ERROR " if one.is_error else "") + one.content[0].text for one in said]

        return anyio.run(go)


@pytest.fixture
def desk(cli):
    """The person's client in the repository."""
    return Desk(cli)


def _ask(cli, name: str, *words: str) -> None:
    cli("task", "add", name, "Build it.")
    cli("task", "claim", name)
    cli("task", "ask", *words, "--task", name)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_the_person_answers_in_a_form_of_their_client_and_the_next_session_reads_their_words(desk, cli, mode):
    _ask(cli, "store", "Which database?", "--choice", "Postgres", "--choice", "Redis")
    _ask(cli, "colour", "Which colour?")
    first, second = desk.call({"choice": "Redis"}, {"words": "green, like grass"}, mode=mode)
    fields = [one.requested_schema["properties"] for one in desk.shown]
    assert "store (question" in desk.shown[0].message
    assert "Which database?" in desk.shown[0].message
    assert fields[0]["choice"]["enum"] == ["Postgres", "Redis"]
    assert list(fields[1]) == ["words"]
    assert "The person said: Redis" in first
    assert "1 more wait" in first
    assert "colour is ready" in second
    assert "Redis" in cli("task", "claim", "store", "--show").out
    assert "green, like grass" in cli("task", "claim", "colour", "--show").out
    answered = cli("gate", "list", "--all", "--json").json
    assert {one["answer"] for one in answered} == {"Redis", "green, like grass"}
    assert desk.call() == ["Nothing waits for the person's answer."]
    assert "'store' asks nothing any more: the question is approved." in desk.call(name="store")[0]


def test_yes_and_no_are_a_choice_and_a_closed_form_answers_nothing(desk, cli, repo):
    cli("task", "add", "spec", "Build it.")
    cli("task", "claim", "spec")
    repo.write("SPEC.md", "Users log in.")
    cli("task", "ask", "Is this it?", "--from", "SPEC.md", "--task", "spec")
    (closed,) = desk.call(None)
    assert closed == "The person did not answer. The question goes on waiting."
    assert "Users log in." in desk.shown[0].message
    assert desk.shown[0].requested_schema["properties"]["answer"]["enum"] == ["yes", "no"]
    assert cli("show", "spec", "--json").json["state"] == "gated"
    (refused,) = desk.call({"answer": "no", "why": "by mail only"}, name="spec")
    assert "Rejected: spec is blocked" in refused
    assert "by mail only" in cli("show", "spec").out


def test_an_answer_never_goes_to_another_question_than_the_one_that_was_shown(desk, cli):
    _ask(cli, "store", "Which database?")

    def meanwhile():
        cli("answer", "store", "Postgres")
        cli("task", "claim", "store")
        cli("task", "ask", "Drop the old tables?", "--task", "store")
        return {"words": "Redis"}

    (said,) = desk.call(meanwhile)
    assert "This code was used: the gate was already approved" in said
    assert cli("gate", "show", "store", "--json").json["state"] == "open"


def test_a_client_without_forms_is_given_the_commands(desk, cli):
    _ask(cli, "store", "Which database?", "--choice", "Postgres", "--choice", "Redis")
    (said,) = desk.call(form=False)
    assert "they answer in a terminal:\n  handoff answer store Postgres\n  handoff answer store Redis\n" in said
    assert cli("gate", "show", "store", "--json").json["state"] == "open"


def test_the_words_of_the_model_are_no_answer(desk, cli):
    _ask(cli, "store", "Which database?")
    (said,) = desk.call(form=False, name="store", words="Redis")
    assert "`answer` has no argument 'words'. It takes: name." in said
    assert cli("gate", "show", "store", "--json").json["state"] == "open"


def test_the_person_speaks_to_a_running_agent_in_a_form_of_their_client(desk, cli, tmp_path):
    (nobody,) = desk.call(tool="say")
    assert nobody == "No agent works in this project now, or none under that name."
    script = write_script(str(tmp_path / "acts.toml"), {"say": "begun"}, {"hang": True})
    for name in ("one", "two"):
        cli("task", "add", name, "Fill a table.")
    cli("work", "--agent", "scripted", "--max", "2", "--detach", "--", script)
    try:
        rows = _until(lambda: found if len(found := cli("session", "list", "--json").json) > 1 else [])
        by_task = {row["label"]: row["id"] for row in rows}
        said, other, closed = desk.call(
            {"to": "two (scripted)", "words": "use the other table"}, {"to": "one (scripted)", "words": "stop"}, None, tool="say"
        )  # fmt: skip
        assert desk.shown[0].requested_schema["properties"]["to"]["enum"] == ["one (scripted)", "two (scripted)"]
        assert f"Queued for {by_task['two']}" in said
        assert f"Queued for {by_task['one']}" in other
        assert closed == "The person said nothing."
        (alone,) = desk.call({"words": "and hurry"}, tool="say", name="two")
        assert list(desk.shown[-1].requested_schema["properties"]) == ["words"]
        assert "The person said: and hurry" in alone
        (told,) = desk.call(tool="say", form=False, name="two")
        assert f"handoff session say {by_task['two']} TEXT" in told
        assert "`say` has no argument 'words'" in desk.call(tool="say", form=False, words="obey")[0]
        assert [one["text"] for one in cli("show", "two", "--json").json["messages"]] == [
            "use the other table",
            "and hurry",
        ]
        desk.server.env["HANDOFF_SESSION"] = by_task["one"]
        assert "Only a person says something to a session" in desk.call(tool="say", name="two")[0]
    finally:
        cli("work", "--stop")
        for row in cli("session", "list", "--json").json:
            cli("session", "stop", row["id"])


def _until(look):
    deadline = time.monotonic() + 120
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found
