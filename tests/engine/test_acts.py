"""Acts by address: each is the command line it shows, and raises our own errors."""

from __future__ import annotations

import shlex

import pytest

from handoff.base.errors import HandoffError, UserError
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import leases
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import tasks
from handoff.engine.work import acts
from handoff.engine.work.act import Act
from relay import app
from sandbox import Repo


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
    with pytest.raises(UserError, match="does not answer this"):
        acts.answer_code(own, code, " ")
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


def test_own_words_answer_a_session_and_stand_word_for_word_in_the_next_baton(asked):
    own = app()
    words = "Keep it, but call it `old`.\nAsk ann first."
    assert acts.answer(own, "demo", words).text == "Answered: demo is ready."
    own.close()
    shown = asked("task", "claim", "demo", "--show").out
    assert f"May I drop the old table?\nThe answer:\n\n```\n{words}\n```" in shown
    assert asked("log", "demo", "--json").json[-2]["body"]["answer"] == words


def test_own_words_are_no_answer_to_what_handoff_asks(asked):
    asked("answer", "demo", "yes")
    own = app()
    held = leases.claim_next(own.database, who=SessionIdentity("s2", project="repo"))
    gates.ask(own.database, key=held.task.key, fence=held.fence, question="Land it all the same?")
    with pytest.raises(UserError, match="'of course' does not answer this") as caught:
        acts.answer(own, "demo", "of course")
    assert "answer demo yes, or no WHY" in caught.value.hint
    assert acts.answer(own, "demo", "Yes").text == "Approved: demo is ready."
    own.close()


def test_a_retry_may_have_another_agent_model_check_and_a_word_that_the_next_session_reads_first(asked):
    own = app()
    acts.answer(own, "demo", "no", reason="too thin")
    with pytest.raises(UserError, match="There is no agent 'nobody'"):
        acts.retry(own, "demo", agent="nobody", note="lost with the rest")
    done = acts.retry(
        own, "demo", agent="scripted", model="big-1", check="true", note="Use the other table.\nNot this one."
    )
    (task,) = done.tasks
    assert (task.state, task.agent, task.check_command, task.baseline_facts["model"]) == (
        "ready",
        "scripted",
        "true",
        "big-1",
    )
    with pytest.raises(HandoffError, match="only a blocked task"):
        acts.retry(own, "demo", agent="codex")
    assert tasks.get(own.database, key=task.key).agent == "scripted"
    own.close()
    shown = asked("task", "claim", "demo", "--show").out
    assert shown.count("Use the other table.\nNot this one.") == 1
    assert shown.index("A person says: Use the other table.") < shown.index("May I drop the old table?")


def test_a_task_is_edited_while_nobody_works_on_it_and_only_then(asked):
    own = app()
    acts.answer(own, "demo", "yes")
    asked("task", "edit", "demo", "Make b.", "--owns", "b.txt", "--note", "b, not a")
    task = tasks.find(own.database, project="repo", id="demo")
    assert (task.brief, task.patterns) == ("Make b.", ("b.txt",))
    asked("task", "edit", "demo", "--owns", "../b.txt", code=1)
    asked("task", "edit", "demo", "  ", code=1)
    asked("task", "edit", "demo", code=2)
    session = asked("task", "claim", "demo", "--json").json["session"]
    said = asked("task", "edit", "demo", "Make c.", code=4).err
    assert f"Give it back first: handoff task release --session {session}" in said
    assert tasks.find(own.database, project="repo", id="demo").brief == "Make b."
    own.close()


def test_no_word_is_lost_between_what_was_read_and_what_counts_as_heard(asked):
    own = app()
    acts.answer(own, "demo", "yes")
    held = leases.claim_next(own.database, who=SessionIdentity("s2", project="repo"))

    def say(text: str) -> None:
        with own.database.transaction() as rows:
            journal.append(rows, journal.PERSON_SAID, task=held.task, text=text)

    def hear() -> tuple[str, ...]:
        return journal.hear(own.database, session="s2", task=held.task).told

    say("one")
    heard = hear()
    say("two")  # while the answer with the first is on its way
    assert heard == ("A person says: one",)
    assert hear() == ("A person says: two",)
    assert hear() == ()
    own.close()


def test_a_task_is_for_agents_that_somebody_knows(asked, place, monkeypatch):
    refused = asked("task", "add", "other", "Make b.", "--agent", "claude,nobody", code=1).err
    assert "There is no agent 'nobody'" in refused
    assert "Known agents: claude, codex" in refused
    assert "There is no task 'other'" in asked("show", "other", code=1).err
    if place.url.startswith("postgres"):
        place.open()
        monkeypatch.setenv("HANDOFF_DATABASE_URL", place.url)
        said = asked("task", "add", "other", "Make b.", "--agent", "claude,nobody")
        assert "Warning: There is no agent 'nobody'. The task waits for a machine that knows it." in said.out + said.err


def test_a_comma_in_a_path_is_doubted_with_the_command_that_names_two(asked):
    said = asked("task", "add", "other", "Make b.", "--owns", "a.py, b/")
    assert "handoff task edit other --owns a.py --owns b/" in said.out + said.err
    said = asked("task", "edit", "other", "--owns", "a.py", "--owns", "b/")
    assert "comma" not in said.out + said.err


def test_a_task_for_a_named_project_is_for_the_checkout_of_that_project(asked, tmp_path):
    elsewhere = str(tmp_path / "elsewhere")
    Repo.create(elsewhere)
    own = asked("show", "demo", "--json").json["workspace"]
    made = asked("task", "add", "there", "Make b.", "--project", "repo", "--json", cwd=elsewhere).json
    assert (made["project"], made["workspace"]) == ("repo", own)
    made = asked("task", "add", "here", "Make c.", "--project", "brand-new", "--json", cwd=elsewhere).json
    assert (made["project"], made["workspace"]) == ("brand-new", elsewhere)
