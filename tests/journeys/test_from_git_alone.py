"""On another machine, from a plain clone and with nothing of ours: what the branch holds is enough to go on, and the rest is named."""

from __future__ import annotations

import pytest

from flow_ground import ADD, LIST, TEST_ADD, FlowGround
from sandbox import Cli, Repo, hermetic_environment
from workspaces import put, ready


def elsewhere(tmp_path, source: str, name: str = "clone") -> tuple[Repo, Cli]:
    """A clone and a home of its own, as on another machine."""
    home = tmp_path / f"home-of-{name}"
    home.mkdir()
    path = str(tmp_path / name)
    Repo(str(tmp_path)).git("clone", "-q", source, path)
    environment = hermetic_environment(str(home))
    return Repo(path), Cli(path, **environment)


@pytest.fixture
def ground(tmp_path):
    return FlowGround(str(tmp_path / "calc"), str(tmp_path / "scripts"))


def played(ground: FlowGround, phases: int):
    """A flow of which so many phases were verified."""
    ground.first_cycle()
    app = ground.app()
    flow = ground.start(app, request="A calculator that adds.\nNever use eval.")
    for _ in range(phases):
        assert ground.step(app, flow).concluded.outcome.kind == "ok"
    app.close()


def test_a_flow_goes_on_in_the_middle_of_a_cycle_with_the_test_that_is_red(ground, tmp_path):
    played(ground, 2)  # plan, red
    repo, cli = elsewhere(tmp_path, ground.repo.path)
    said = cli("flow", "adopt", "origin/handoff/calc", "--agent", "scripted")
    assert "running in green, cycle 1" in said.out
    assert "The branch does not hold:" in said.out
    assert "Attempts that were refused" in said.out
    shown = cli("show", "calc", "--json").json
    assert shown["test"] == "adds two numbers"
    assert shown["request"].startswith("A calculator that adds. Never use eval.")
    assert shown["base"] == ground.repo.git("rev-parse", "main").strip()
    brief = cli("show", shown["task"], "--json").json["brief"]
    assert "tests/test_add.py" in brief  # the new test and how it fails, found out by running it
    ground.act("1-green", {"append": "calc.py", "text": "\n\n" + ADD})
    cli("flow", "step", "calc", "--with", ground.word)
    ground.act("1-refactor", {"say": "nothing to do"})
    cli("flow", "step", "calc", "--with", ground.word)
    assert "running in plan, cycle 2" in cli("flow", "list").out
    assert repo.git("log", "-1", "--format=%s", "handoff/calc").startswith("feat")


@pytest.mark.slow
def test_a_flow_between_two_cycles_begins_the_next_one(ground, tmp_path):
    played(ground, 4)
    _, cli = elsewhere(tmp_path, ground.repo.path)
    shown = cli("flow", "adopt", "calc", "--json").json
    # The phase that found nothing to tidy up made no commit: the last one that git knows of leads there again.
    assert (shown["phase"], shown["cycle"]) == ("refactor", 1)
    assert any("refused" in one for one in shown["unknown"])


def test_a_branch_that_is_no_flow_or_is_done_or_lives_here_is_refused_with_the_way_out(ground, tmp_path):
    played(ground, 1)
    _, cli = elsewhere(tmp_path, ground.repo.path)
    assert "no Handoff-Flow line" in cli("flow", "adopt", "main", code=1).err
    assert "There is no branch 'nowhere' here." in cli("flow", "adopt", "nowhere", code=1).err
    cli("flow", "adopt", "handoff/calc")
    assert "still under way" in cli("flow", "adopt", "handoff/calc", code=4).err


def test_an_older_branch_without_the_new_lines_needs_the_workflow_named(ground, tmp_path):
    ground.repo.git("checkout", "-q", "-b", "handoff/old")
    ground.repo.write("test-list.md", LIST)
    ground.repo.commit("plan: a list\n\nHandoff-Flow: old\nHandoff-Phase: plan\nHandoff-Cycle: 1")
    ground.repo.write("tests/test_add.py", TEST_ADD)
    ground.repo.commit("test: adds\n\nHandoff-Flow: old\nHandoff-Phase: red\nHandoff-Cycle: 1")
    ground.repo.git("checkout", "-q", "main")
    _, cli = elsewhere(tmp_path, ground.repo.path)
    assert "--workflow NAME" in cli("flow", "adopt", "old", code=1).err
    shown = cli("flow", "adopt", "old", "--workflow", "tdd", "--json").json
    assert (shown["phase"], shown["test"]) == ("green", "adds two numbers")
    assert any("The request" in one for one in shown["unknown"])


def test_continue_goes_on_from_the_documents_of_a_clone_and_says_what_was_not_known(cli, repo, tmp_path):
    base = ready(cli, repo)
    put(repo.path, f"{base}/FEATURE.md", "# Goal\nPeople can log in.\n\n# Constraints\n- Never log a password.\n")
    repo.write("form.txt", "one\n")
    cli("decide", "Use sessions", "--because", "tokens cannot be taken back")
    cli("note", "Next: the form's error texts.")
    cli("step", "done", "--check", "test -f form.txt")
    repo.git("add", "-A", "-f")
    repo.git("commit", "-q", "-m", "the form")
    there, other = elsewhere(tmp_path, repo.path)
    prompt = other("continue", "--raw").out
    for words in (
        "People can log in.",
        "Never log a password.",
        "tokens cannot be taken back",
        "the form's error texts",
    ):
        assert words in prompt, words
    assert there.head()[:7] in prompt
