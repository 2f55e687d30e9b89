"""A person talks to real clients: answers, tries again with another one, refuses a review, gives money; each time it ends on the branch."""

from __future__ import annotations

import json
import os
import sys

import pytest

from real_clients import package, unpack

pytestmark = [pytest.mark.clients, pytest.mark.slow]
FOR = ("claude", "codex")
PAIRS = (("claude", "codex"), ("codex", "claude"))
HANDOFF = f"{sys.executable} -m handoff.surfaces.cli.main"
DONE = ("shell", f"{HANDOFF} task done --summary 'made a'")
PACKAGE, BROKEN = ("inflection", "0.5.1"), "inflection/__init__.py"
SENTENCE = "Mend underscore(): it must give lower case."
GIVES_UP = [("say", "I cannot find the table.")] * 5  # its stop is refused three times, then it may go


def _landed(stage, name="a.txt", by=""):
    """What the person has in the file now, committed by this client's session."""
    agent = stage.repo.git("log", "-1", "--format=%(trailers:key=Handoff-Agent,valueonly)", "--", f"owned/{name}")
    assert agent.strip() == (by or stage.client)
    assert stage.repo.git("status", "--short", "--", "owned") == ""
    return stage.repo.git("show", f"main:owned/{name}")


def _give_words(stage):
    """What Codex needs to speak to its model, for sessions that a supervisor starts."""
    if stage.client == "codex":
        stage.set(agents=f"{{ codex = {{ arguments = {json.dumps(stage.words())} }} }}")


def _add(stage, *words):
    owned = ("--owns", "owned/", "--check", "test -f owned/a.txt")
    stage.cli("task", "add", "demo", "Write owned/a.txt.", *owned, *words)


def _logs(stage):
    return "\n".join(stage.log({"session": name}) for name in stage.sessions())


def test_a_question_with_three_choices_is_answered_and_the_next_session_begins_with_the_answer(stage):
    choices = ("Postgres in the cellar", "Redis", "plain files")
    words = " ".join(f"--choice '{one}'" for one in choices)
    stage.serve(("shell", f"{HANDOFF} task ask 'Which store shall I use?' {words}"), ("say", "I wait for you."))
    end = stage.run()
    assert end["state"] == "gated", stage.log(end)
    asked = stage.cli("gate", "show", "demo", "--json").json
    assert asked["question"].startswith("Which store shall I use?")
    assert tuple(asked["choices"]) == choices
    stage.cli("answer", "demo", choices[0])
    server = stage.serve(stage.write("owned/a.txt"), DONE, ("say", "finished"))
    end = stage.run()
    for said in ("Which store shall I use?", choices[0]):
        assert said in server.texts(0), stage.log(end)
    assert end["state"] == "done", stage.log(end)
    assert "hello" in _landed(stage)
    assert stage.cli("show", "demo", "--json").json["attempt"] == 1
    stage.note("asks a person, and its next session begins with the answer")


def test_what_failed_with_one_agent_is_tried_again_with_the_other_and_a_note(pair):
    stage, first, second = pair
    stage.set(max_attempts="1")
    _add(stage)
    stage.serve(("shell", "mkdir -p owned; echo half > owned/half.txt"), *GIVES_UP)
    end = stage.run()
    assert (end["outcome"], end["state"]) == ("failed", "blocked"), stage.log(end)
    stage.cli("retry", "demo", "--agent", second, "--note", "Use the table of the orders.")
    stage.client = second
    server = stage.serve(stage.write("owned/a.txt"), DONE, ("say", "finished"))
    end = stage.run()
    for said in ("Use the table of the orders.", "I cannot find the table.", "owned/half.txt", first):
        assert said in server.texts(0), (said, stage.log(end))
    assert end["state"] == "done", stage.log(end)
    assert "hello" in _landed(stage)
    assert _landed(stage, "half.txt") == "half\n"
    stage.note("goes on where another agent failed, with a note of its person")


def test_a_list_of_agents_falls_over_to_the_next_one_by_itself(pair):
    stage, first, second = pair
    stage.set(max_attempts="1")
    _add(stage, "--agent", f"{first},{second}")
    stage.serve(("shell", "mkdir -p owned; echo half > owned/half.txt"), *GIVES_UP)
    _give_words(stage)
    stage.client = second
    server = stage.serve(stage.write("owned/a.txt"), DONE, ("say", "finished"))
    _give_words(stage)
    done = stage.cli("work", "--agent", first, "--agent", second, "--until-done", "--plain", code=None)
    told = done.out + done.err + _logs(stage)
    assert done.code == 0, told
    for said in (f"({first}, ", "`test -f owned/a.txt` is red", "I cannot find the table.", "owned/half.txt"):
        assert said in server.texts(0), (said, told)
    assert "hello" in _landed(stage)
    assert _landed(stage, "half.txt") == "half\n"
    stage.note("goes on by itself where the agent before it in the list failed")


def test_a_review_is_refused_with_two_comments_on_lines_redone_accepted_and_lands(stage):
    stage.set(landing='"review"')
    before = stage.repo.head()
    stage.serve(("shell", "mkdir -p owned; printf 'one\\ntwo\\n' > owned/a.txt"), DONE, ("say", "finished"))
    end = stage.run()
    assert end["state"] == "gated", stage.log(end)
    assert stage.repo.head() == before, "nothing lands before the person has looked"
    stage.cli("task", "comment", "demo", "owned/a.txt:1", "Begin with a capital.")
    stage.cli("task", "comment", "demo", "owned/a.txt:2", "Count in English, please.")
    stage.cli("answer", "demo", "no", "Nearly.")
    server = stage.serve(("shell", "printf 'One\\nTwo\\n' > owned/a.txt"), DONE, ("say", "finished"))
    end = stage.run()
    for said in (
        "Nearly.",
        "`owned/a.txt` line 1: Begin with a capital.",
        "`owned/a.txt` line 2: Count in English, please.",
    ):
        assert said in server.texts(0), (said, stage.log(end))
    assert end["state"] == "gated", stage.log(end)
    stage.cli("answer", "demo", "yes")
    assert _landed(stage) == "One\nTwo\n"
    stage.note("redoes what a review refused, and lands after a yes")


def test_a_cap_of_money_pauses_its_task_and_an_amount_lets_it_go_on(stage):
    stage.set(max_cost_per_task="0.10", back_off_seconds="0.5")
    stage.serve(("full", ("shell", "mkdir -p owned; echo half > owned/half.txt"), 60_000), *GIVES_UP)
    _give_words(stage)
    work = ("work", "--agent", stage.client, "--until-done", "--plain")
    done = stage.cli(*work, code=1)
    asked = stage.cli("gate", "show", "demo", "--json", code=None)
    assert "and max_cost_per_task is 0.1. Go on with more money?" in asked.out, done.out + done.err + _logs(stage)
    assert len(stage.sessions()) == 1, "none is started above the cap"
    server = stage.serve(stage.write("owned/a.txt"), DONE, ("say", "finished"))
    _give_words(stage)
    assert "Approved: demo is ready" in stage.cli("answer", "demo", "yes", "5").out
    done = stage.cli(*work, code=None)
    assert done.code == 0, done.out + done.err + _logs(stage)
    assert "owned/half.txt" in server.texts(0)
    assert "hello" in _landed(stage)
    (row,) = [one for one in stage.cli("agent", "list", "--json").json if one["used"]]
    assert row["used"]["money"] > 0.1
    stage.note("pauses at a cap of money, and goes on with the amount that a person allows")


def test_a_sentence_mends_a_package_from_the_index_that_has_never_seen_handoff(fresh):
    unpack(package(*PACKAGE), fresh.repo.path)
    path = os.path.join(fresh.repo.path, BROKEN)
    with open(path, encoding="utf-8") as file:
        right = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(right.replace("return word.lower()", "return word"))
    fresh.repo.commit("underscore() forgets to lower")
    fresh.environment["PATH"] = f"{fresh.root}/bin:{os.path.dirname(sys.executable)}:/usr/bin:/bin"
    mend = f'sed -i \'/replace("-", "_")/{{n;s/return word/return word.lower()/}}\' {BROKEN}'
    server = fresh.serve(("say", "I looked."), ("shell", mend), ("say", "Mended."))
    more = [f"--with={word}" for word in fresh.words()]
    done = fresh.cli("do", SENTENCE, "--agent", fresh.client, "--yes", *more, code=None)
    told = done.out + done.err + _logs(fresh)
    assert done.code == 0, told
    assert "has landed as" in done.out, told
    assert SENTENCE in server.texts(0), told
    assert fresh.repo.git("show", f"HEAD:{BROKEN}") == right, told
    assert "Handoff-Agent: " + fresh.client in fresh.repo.git("log", "-1", "--format=%B")
    assert fresh.repo.git("status", "--short") == ""
    assert fresh.cli("check", "--json").json["green"], "the package's own tests have judged it"
    fresh.note("`handoff do` mends a package from the index, judged by its own tests")
