"""Conversations with `handoff flow`: a calculator built by itself, and one phase at a time by a person."""

from __future__ import annotations

import os
import re
import signal

import pytest

from handoff.base.clock import SystemClock
from handoff.surfaces.cli.commands.tool.demo import CALCULATOR, SCRIPTS, write_files
from sandbox import Cli, Repo

TDD = os.path.join(SCRIPTS, "tdd")
WORD = os.path.join(TDD, "{task}-{attempt}.toml")
SUBJECTS = [
    "plan: adds two numbers comes next (3 open, 0 done)", "test: adds two numbers", "feat: adds two numbers",
    "test: subtracts the second number from the first", "feat: subtracts the second number from the first",
    "refactor: tidy up after: subtracts the second number from the first",
    "plan: refuses to divide by zero comes next (2 open, 2 done)", "test: refuses to divide by zero",
    "feat: refuses to divide by zero", "test: divides two numbers", "feat: divides two numbers",
    "refactor: tidy up after: divides two numbers",
]  # fmt: skip


@pytest.fixture
def calculator(tmp_path):
    """The demo's project, with the packaged scripts for it."""
    repo = Repo.create(str(tmp_path / "calculator"), commit=False)
    write_files(repo.path, CALCULATOR)
    repo.commit("first")
    cli = Cli(repo.path)
    models = ("--model", "planner=strong", "--model", "cheap")
    cli("flow", "start", "tdd", "--id", "calculator", "--agent", "scripted", *models, "--request", "A calculator.")
    return repo, cli


def subjects(repo: Repo) -> list[str]:
    return repo.git("log", "--reverse", "--format=%s", "main..handoff/calculator").splitlines()


@pytest.mark.slow
def test_a_supervisor_builds_a_calculator_in_four_cycles_though_it_is_killed_again_and_again(calculator):
    repo, cli = calculator
    clock, lives = SystemClock(), 0
    seen: set[str] = set()
    while True:
        worker = cli.start("work", "--agent", "scripted", "--", WORD)
        lives += 1
        try:
            while worker.poll() is None:
                state = cli("show", "calculator", "--json").json
                place = f"{state['cycle']}-{state['phase']}"
                if state["state"] != "running" or (lives < 5 and place not in seen and len(seen) % 3 == 2):
                    seen.add(place)
                    break
                seen.add(place)
                clock.sleep(0.1)
        finally:
            worker.send_signal(signal.SIGKILL)
            worker.communicate()
        if state["state"] != "running":
            break
    assert (state["state"], state["cycle"]) == ("done", 5), cli("log", "calculator").out
    assert lives >= 3
    assert subjects(repo) == SUBJECTS
    log = cli("log", "calculator", "--json").json
    verified = [
        f"{event['body']['cycle']}-{event['body']['phase']}" for event in log if event["kind"] == "flow.verified"
    ]
    assert len(verified) == len(set(verified)) == 19
    assert repo.git("status", "--porcelain") == ""
    assert "Take it in: " in cli("show", "calculator").out
    assert "5 passed" in cli("log", "--git", "handoff/calculator").out
    cli("land", "handoff/calculator")
    assert "def divide" in repo.read("calculator.py")


def test_one_phase_at_a_time_is_said_and_can_be_skipped(calculator, tmp_path):
    _, cli = calculator
    assert "agent: scripted, model strong" in cli("show", "calculator/1-plan").out
    answer = cli("flow", "step", "--with", WORD)
    assert "agent: scripted, model cheap" in cli("show", "calculator/1-red").out
    assert "plan: verified (adds two numbers comes next (3 open, 0 done))" in answer.err
    assert "calculator: running in red, cycle 1, attempt 1 of 3" in answer.out
    assert "cannot be skipped" in cli("flow", "step", "--skip", "no time", code=3).err
    cli("flow", "step", "--with", WORD)
    refused = cli("flow", "step", "--with", os.path.join(TDD, "1-refactor-1.toml"), code=1)
    assert "green: refused" in refused.err
    assert "nothing-changed: The session ended without having changed anything." in refused.err
    words = tmp_path / "words.md"
    words.write_text("Add them, and nothing else.\n")
    script = tmp_path / "green.toml"
    script.write_text(
        '[[act]]\nexpect = "Add them, and nothing else."\n[[act]]\nexpect = "nothing-changed"\n[[act]]\nappend = "calculator.py"\n'
        'text = "\\n\\ndef add(first, second):\\n    return first + second\\n"\n'
    )
    assert "refactor" in cli("flow", "step", "--prompt", str(words), "--with", str(script)).out
    shown, told = cli("show", "calculator").out, cli("log", "calculator").out
    said = re.compile(r"questions: unittest:\S+: \d+ of \d+ questions, \d+ forks, seed \w+")
    assert said.search(shown), shown
    assert said.search(told), told
    assert "running in plan, cycle 2" in cli("flow", "step", "--skip", "it is fine").out
    log = cli("log", "calculator").out
    assert "skipped     1-refactor" in log
    assert "refused     1-green      attempt 1: nothing-changed" in log
    rows = cli("flow", "list", "--json").json
    assert [(row["flow"], row["phase"], row["cycle"]) for row in rows] == [("calculator", "plan", 2)]


def test_words_that_are_wrong_are_said_before_anything_is_made(cli, repo):
    assert "Say what is to be done" in cli("flow", "start", "review", code=1).err
    assert "There is no workflow 'nine'" in cli("flow", "start", "nine", "--request", "x", code=1).err
    assert "not both" in cli("flow", "start", "review", "--request", "x", "--from", "y", code=2).err
    wrong = ("flow", "start", "review", "--request", "x", "--model")
    assert "has no role 'nobody'" in cli(*wrong, "nobody=strong", code=1).err
    assert "'=strong' is no model" in cli(*wrong, "=strong", code=2).err
    assert "No flow is under way" in cli("flow", "list").out
    assert "No flow is under way" in cli("flow", "step", code=1).err
    assert "No test suite was found" in cli("flow", "start", "tdd-strict", "--request", "x", code=1).err
    cli("flow", "start", "review", "--request", "x", "--id", "one")
    assert "No agent was chosen for the role 'implementer'" in cli("flow", "step", code=1).err
    assert "is a phase of a flow" in cli("task", "claim", "one/1-implement", code=3).err
    assert "is a phase of a flow" in cli("task", "open", "one/1-implement", code=1).err
    assert "Nothing to take" in cli("task", "claim", code=1).err
    assert "  document:" not in cli("show", "one/1-implement").out
    assert "is a phase of a flow" in cli("task", "done", "--task", "one/1-implement", code=3).err
    assert "cancelled" in cli("cancel", "one").out
    assert not os.path.exists(os.path.join(repo.path, "review.md"))


ONE_PHASE = """name = "guide"
title = "a page"
[[phase]]
name = "write"
role = "author"
prompt = '''
Write docs/guide.md: {{request}}
'''
told = ["request"]
may_write = ["docs/"]
check = "command"
command = "test -s docs/guide.md"
commit = "docs"
retries = 2
when_used_up = "gate"
next = "done"
"""


def test_a_role_with_several_agents_goes_on_with_the_next_one_before_a_person_is_asked(cli, repo):
    repo.write(".handoff/workflows/guide.toml", ONE_PHASE)
    repo.commit("a workflow")
    os.makedirs(os.environ["HANDOFF_HOME"], exist_ok=True)
    with open(os.path.join(os.environ["HANDOFF_HOME"], "config.toml"), "w", encoding="utf-8") as file:
        file.write("""session_sandbox = "none"
[agents]
idle = ["sh", "-c", "true"]
right = ["sh", "-c", "mkdir -p docs && echo page > docs/guide.md"]
""")
    start = ("flow", "start", "guide", "--id", "first", "--request", "Say how to sign in.")
    assert "There is no agent 'nobody'" in cli(*start, "--agent", "author=idle,nobody", code=1).err
    cli(*start, "--agent", "author=idle,right")
    for _ in range(2):
        assert "write: refused" in cli("flow", "step", "first", code=1).err
    assert cli("show", "first", "--json").json["state"] == "running", "nobody is asked yet"
    assert "done after 1 cycle" in cli("flow", "step", "first").out
    assert repo.git("show", "handoff/first:docs/guide.md") == "page\n"
