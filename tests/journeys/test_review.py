"""Finished work lands by itself, after a person has looked at it, or not at all: as the person says."""

from __future__ import annotations

import os
import venv

import pytest

from sandbox import Cli
from screen import Screen
from scripts import write_script

CHECK = "grep -q made made.txt"


class Person:
    """One repository and sessions of the scripted agent, each of which adds a line."""

    def __init__(self, repo, cli, tmp_path) -> None:
        self.repo, self.cli, self.tmp = repo, cli, tmp_path

    def session(self, task: str, *acts: dict) -> str:
        script = write_script(str(self.tmp / "acts.toml"), *acts, {"run": "echo made >> made.txt"})
        return self.cli("session", "start", task, "--agent", "scripted", "--with", script).out

    def set(self, text: str) -> None:
        os.makedirs(os.environ["HANDOFF_HOME"], exist_ok=True)
        with open(os.path.join(os.environ["HANDOFF_HOME"], "config.toml"), "a", encoding="utf-8") as file:
            file.write(text)

    def subjects(self) -> list[str]:
        return self.repo.git("log", "--format=%s", "main").splitlines()

    def made(self) -> str:
        return self.repo.git("show", "main:made.txt")


@pytest.fixture
def person(repo, cli, tmp_path):
    return Person(repo, cli, tmp_path)


def test_a_review_is_refused_with_two_comments_on_lines_redone_and_accepted(person):
    person.set('landing = "review"\n')
    person.cli("task", "add", "demo", "Make it.", "--owns", "made.txt", "--check", CHECK)
    before = person.subjects()
    assert "ended well. Task 'demo' waits for your answer: handoff answer demo" in person.session("demo")
    gate = person.cli("gate", "show", "demo", "--json").json
    assert gate["question"].startswith("Land 'demo' on main? It is green and changes 1 file.\n")
    assert "See it: git diff main...handoff/demo-1. Yes lands it." in gate["question"]
    assert "+made" in person.repo.git("diff", "main...handoff/demo-1")
    assert person.subjects() == before
    comments = {"made.txt:1": "Say it twice.", "made.txt:2": "And end with this line."}
    for line, text in comments.items():
        person.cli("task", "comment", "demo", line, text)
    assert person.cli("answer", "demo", "no", "Once is too little.").out == "Rejected: demo is ready.\n"
    shown = person.cli("show", "demo", "--json").json
    assert (shown["state"], shown["attempt"]) == ("ready", 1)
    person.repo.write("meanwhile.txt", "by the person\n")
    person.repo.commit("meanwhile")
    person.session(
        "demo", *({"expect": text} for text in (*comments.values(), "`made.txt` line 2", "Once is too little."))
    )
    said = person.cli("answer", "demo", "yes").out
    assert said == f"Approved: demo is done and landed as {person.repo.head()[:10]}.\n"
    assert person.made() == "made\nmade\n"
    assert "meanwhile" in person.subjects()
    assert person.cli("show", "demo", "--json").json["state"] == "done"
    person.cli("undo")
    assert person.subjects()[0] == "meanwhile"


def test_the_next_session_reads_why_a_review_was_refused(person):
    person.set('landing_project = { repo = "review" }\n')
    person.cli("task", "add", "demo", "Make it.", "--owns", "made.txt", "--check", CHECK)
    person.session("demo")
    person.cli("task", "comment", "demo", "made.txt:1", "Say it twice.")
    person.cli("answer", "demo", "no", "Once is too little.")
    shown = person.cli("task", "claim", "demo", "--show").out
    for words in ("Once is too little.", "Say it twice.", "made.txt"):
        assert words in shown


def test_work_for_a_branch_stays_there_until_it_is_landed_by_its_task_s_name(person):
    person.cli("task", "add", "demo", "Make it.", "--owns", "made.txt", "--check", CHECK, "--landing", "branch")
    before = person.subjects()
    person.session("demo")
    assert person.subjects() == before
    shown = person.cli("show", "demo").out
    assert "green on branch handoff/demo-1, not landed: handoff land demo" in shown
    person.cli("land", "demo")
    assert person.made() == "made\n"


def test_a_session_decides_nothing_in_its_person_s_name(person):
    person.set('landing = "review"\nsession_sandbox = "none"\n')
    person.cli("task", "add", "other", "Make it.")
    person.cli("task", "claim", "other", "--session", "mine")
    person.cli("task", "ask", "May I?", "--session", "mine")
    person.cli("task", "add", "demo", "Make it.", "--owns", "made.txt", "--check", CHECK)
    tries = [
        f"handoff {one}"
        for one in (
            "answer other yes",
            "task edit demo --landing auto",
            "retry other",
            "cancel other",
            "land demo",
            "take other",
            "take other --to scripted",
            "answer other yes 5",
            "session say other obey",
            "session stop mine",
            "session resume mine --say obey",
            "task comment other made.txt:1 obey",
            "undo",
            "resume",
            "incident seen incident-1",
            "agent retry scripted",
        )
    ]
    tries += [f"env -u HANDOFF_SESSION -u HANDOFF_FENCE {one}" for one in tries]  # whoever hides who it is
    person.session("demo", *({"run": f"{one} >/dev/null 2>refused && exit 9; grep 'Only a person' refused"} for one in tries), {"delete": "refused"})  # fmt: skip
    assert person.cli("show", "other", "--json").json["state"] == "gated"
    assert person.cli("show", "demo", "--json").json["state"] == "gated"


def _one_more_line(person) -> str:
    return write_script(str(person.tmp / "line.toml"), {"run": "echo made >> made.txt"})


def test_a_sentence_becomes_a_commit_after_the_person_in_the_terminal_has_asked_for_more(person):
    words = (
        "do",
        "Make a file that says made",
        "--agent",
        "scripted",
        "--check",
        CHECK,
        "--with",
        _one_more_line(person),
    )
    screen = Screen(
        person.cli.command(*words), columns=120, lines=40, cwd=person.repo.path, env=person.cli.full_environment()
    )
    try:
        question = "Land 'make-a-file-that-says-made' on main?"
        screen.until(question, "+made")
        assert question in screen.after(3), "a line of progress came over it while the person was thinking"
        screen.type("say it twice\r")
        screen.until("Rejected: make-a-file-that-says-made is ready.", "+made")
        screen.type("yes\r")
        screen.until("make-a-file-that-says-made has landed as")
    finally:
        screen.close()
    assert person.made() == "made\nmade\n"


def test_a_sentence_with_yes_lands_what_is_green_and_a_red_one_says_how_to_go_on(person):
    words = ("--agent", "scripted", "--with", _one_more_line(person))
    person.cli("do", "-", "--yes", "--check", CHECK, *words, stdin="Make it.\nIn one line.\n")
    assert person.subjects()[0] == "make-it: Make it."
    said = person.cli("do", "Make it.", "--check", "false", *words, code=1).out
    assert "make-it-2 is blocked" in said
    assert "handoff retry make-it-2 --note TEXT" in said
    said = person.cli("do", "Make it.", "--check", "true", *words, code=1, stdin="").out
    assert "Answer it: handoff answer make-it-3 yes" in said
    person.cli("answer", "make-it-3", "yes")
    assert person.made() == "made\nmade\n"


def test_a_sentence_for_an_agent_that_is_logged_out_is_kept_and_goes_on_later(person, tmp_path):
    client, ready = tmp_path / "mine", tmp_path / "ready"
    client.write_text(
        f"#!/bin/sh\ntest -e {ready} && echo made > made.txt && exit\necho 'HTTP 401: not logged in' >&2; exit 1\n"
    )
    client.chmod(0o755)
    person.set(f'session_sandbox = "none"\nagents = {{ mine = ["{client}"] }}\n')
    said = person.cli("do", "Make it.", "--agent", "mine", "--check", CHECK, "--yes", code=3).err
    assert "Agent mine is to start later" in said
    ready.write_text("")
    lines = [line.partition(": handoff ")[2] for line in said.splitlines() if ": handoff " in line]
    for line in lines[-2:]:  # as they stand there
        person.cli(*line.split())
    assert lines[-1] == "session start make-it --agent mine"
    assert person.cli("show", "make-it", "--json").json["state"] == "done"


@pytest.mark.parametrize(("check", "sessions"), [("python -m pytest -q", 0), ("sh -c 'python -m pytest -q'", 1)])
def test_a_sentence_whose_tests_cannot_run_here_pays_nobody_twice_and_goes_on_when_they_can(person, check, sessions):
    bare = person.tmp / "bare"  # a Python in which nobody has installed pytest
    venv.create(bare, symlinks=True)
    person.cli = Cli(person.repo.path, PATH=f"{bare}/bin:{os.environ['PATH']}")
    person.set("back_off_seconds = 0.1\n")
    script = ("--with", _one_more_line(person))
    said = person.cli("do", "Make it.", "--agent", "scripted", "--check", check, "--yes", *script, code=3).err
    assert "No module named pytest" in said
    assert "python -m pip install pytest" in said
    assert said.count(" works. Follow it") == sessions, said
    (packages,) = bare.glob("lib/*/site-packages")
    (packages / "pytest.py").write_text("print('1 passed')\n")
    lines = [line.partition(": handoff ")[2] for line in said.splitlines() if ": handoff " in line]
    for line in (line for line in lines if line.startswith(("retry", "session start"))):  # as they stand there
        person.cli(*line.split(), *(script if line.startswith("session start") else ()))
    assert person.cli("show", "make-it", "--json").json["state"] == "done"


def test_a_landing_that_nobody_knows_is_named_and_nothing_lands(person):
    person.set('landing = "sometimes"\n')
    person.cli("task", "add", "demo", "Make it.", "--owns", "made.txt", "--check", CHECK)
    said = person.cli("session", "start", "demo", "--agent", "scripted", "--with", "none.toml", code=1).err
    assert "config.toml: landing is 'sometimes'." in said
    assert person.cli("show", "demo", "--json").json["state"] == "ready"


def test_at_the_review_limit_nothing_new_starts_and_the_riskiest_review_is_first(person):
    person.set('landing = "review"\nmax_reviews = 3\n')
    person.repo.write("test_it.py", "def test_it():\n    assert 1 + 1 == 2\n    assert 2 + 2 == 4\n")
    person.repo.commit("a test")
    large = {"run": "for n in 1 2 3 4 5 6 7 8 9; do echo $n >> large.txt; done"}
    weak = {"run": "sed -i '/2 + 2/d' test_it.py"}
    for name, acts in (("small", ()), ("large", (large,)), ("weak", (weak,)), ("next", ())):
        person.cli("task", "add", name, "Make it.", "--check", CHECK)
        if name != "next":
            person.session(name, *acts)
    listed = person.cli("gate", "list", "--json").json
    assert [(one["task"], one["weakened"] > 0) for one in listed] == [
        ("weak", True),
        ("large", False),
        ("small", False),
    ]
    assert "weakens 1 test" in person.cli("gate", "list").out
    needs = [one["address"] for one in person.cli("--json").json["needs_you"]]
    assert needs[:3] == ["weak", "large", "small"], (
        "the overview, and with it the page and the board, has the same order"
    )
    said = "3 or more finished tasks wait for your review"
    for command in (("work", "--status"), ("task", "list"), ()):
        assert said in person.cli(*command).out, command
    refused = person.cli("task", "claim", code=None)
    assert "next" not in refused.out
    assert person.cli("show", "next", "--json").json["state"] == "ready"
    person.cli("answer", "small", "yes")
    assert said not in person.cli("work", "--status").out
    assert "next" in person.cli("task", "claim").out
