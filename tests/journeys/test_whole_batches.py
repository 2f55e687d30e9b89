"""A batch is done when every part has landed or a person has agreed to go without it, whatever was blocked and tried again."""

from __future__ import annotations

import json
import os
import sys

import pytest

from handoff.board.tasks import cards
from handoff.engine.outcome.whole_check import suite_command
from relay import app, manifest
from scripts import handoff, write_script

DONE = {"run": handoff("task", "done", "--summary", "made")}


class Batch:
    """A batch of two parts on the command line, its parts done in clones by the scripted agent."""

    def __init__(self, cli, repo, folder):
        self.cli, self.repo, self.folder = cli, repo, folder

    def states(self):
        tasks = self.cli("task", "list", "--all", "--json").json["tasks"]
        return {task["task"].rpartition("/")[2]: task["state"] for task in tasks}

    def words(self):
        """Each part as the board and as the batch's own verdict call it."""
        shown = {card.id: card.outcome or card.state for card in cards.listing(app().database, since=0.0)}
        told = self.cli("batch", "report", "login", "--markdown").out.splitlines()
        rows = [line.split(" | ") for line in told if line.startswith("| ")]
        return {name: (shown[name], word) for name, word, *_ in ((one[0][2:], *one[1:]) for one in rows[1:-1])}

    def claim(self, task):
        claimed = self.cli("task", "claim", task, "--session", f"s-{task.rpartition('/')[2]}", "--json").json
        return ("--session", f"s-{task.rpartition('/')[2]}", "--fence", str(claimed["fence"]))

    def block(self, task, reason="no key"):
        self.cli("task", "block", "--task", task, *self.claim(task), reason)

    def work(self, task, *acts, code=0):
        """One session of the scripted agent on a task, started as a person starts it."""
        script = write_script(str(self.folder / "script.toml"), *acts)
        return self.cli("session", "start", task, "--agent", "scripted", "--with", script, code=code)

    def make(self, part):
        return self.work(part, {"write": f"src/{part}/made.txt", "text": f"by {part}"}, DONE)


@pytest.fixture
def batch(cli, repo, tmp_path):
    """Two parts and their fan-in, opened."""
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    return Batch(cli, repo, tmp_path)


def test_a_fan_in_that_is_tried_again_waits_for_parts_that_are_tried_again(batch):
    for task in ("form", "api"):
        batch.block(task)
    batch.cli("answer", "login-join", "no", "wait")
    for task in ("form", "api", "login-join"):
        batch.cli("retry", task)
    assert batch.states() == {"form": "ready", "api": "ready", "login-join": "waiting"}


def test_half_a_batch_waits_for_a_persons_word_before_anything_lands(batch):
    batch.make("form")
    batch.block("api", "the key is missing")
    assert batch.states()["login-join"] == "gated"
    (gate,) = batch.cli("gate", "list", "--json").json
    assert "1 of 2 parts of batch 'login' is missing: api (the key is missing)" in gate["question"]
    assert batch.repo.git("log", "--format=%s").count("\n") == 1, "nothing has landed"
    batch.cli("answer", "login-join", "yes")
    assert batch.states()["login-join"] == "ready"


def test_parts_that_are_missing_for_one_reason_are_told_together_with_the_command_that_tries_them_all(batch):
    for task in ("form", "api"):
        batch.block(task)
    (gate,) = batch.cli("gate", "list", "--json").json
    assert "2 of 2 parts of batch 'login' are missing: form, api (no key)." in gate["question"]
    words = gate["question"].rpartition("handoff ")[2].split()
    batch.cli(*words)
    assert batch.states() == {"form": "ready", "api": "ready", "login-join": "waiting"}


def test_a_part_that_failed_with_one_agent_is_tried_again_by_another_with_a_note_and_lands(cli, repo, tmp_path):
    made = "mkdir -p src/api; grep 'Use the other table' \"$0\" > src/api/made.txt"
    agents = {
        "weak": ["/bin/sh", "-c", "echo 'no such table' >&2; exit 3"],
        "strong": ["/bin/sh", "-c", made, "{prompt_file}"],
    }
    os.makedirs(os.environ["HANDOFF_HOME"], exist_ok=True)
    with open(os.path.join(os.environ["HANDOFF_HOME"], "config.toml"), "w", encoding="utf-8") as file:
        file.write(
            "max_attempts = 1\n[agents]\n"
            + "".join(f"{name} = {json.dumps(words)}\n" for name, words in agents.items())
        )
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    batch = Batch(cli, repo, tmp_path)
    batch.make("form")
    cli("task", "edit", "api", "--check", "test -s src/api/made.txt")
    assert "no such table" in batch.cli("session", "start", "api", "--agent", "weak", code=1).out
    assert batch.states() == {"form": "done", "api": "blocked", "login-join": "gated"}
    batch.cli("retry", "login/api", "--agent", "strong", "--note", "Use the other table.")
    batch.cli("session", "start", "api", "--agent", "strong")
    batch.work("login-join", {"run": handoff("task", "done", "--summary", "joined")})
    assert "Use the other table." in batch.repo.git("show", "main:src/api/made.txt")
    assert batch.words()["api"] == ("landed", "landed")


def test_a_part_that_is_tried_again_takes_the_question_back(batch):
    batch.make("form")
    batch.block("api")
    batch.cli("retry", "api")
    assert batch.states() == {"form": "done", "api": "ready", "login-join": "waiting"}
    assert batch.cli("gate", "list", "--json").json == []
    batch.make("api")
    assert batch.states()["login-join"] == "ready"


def test_a_part_that_was_blocked_and_is_finished_after_the_fan_in_reopens_it_and_lands(batch):
    batch.make("form")
    batch.block("api")
    batch.cli("answer", "login-join", "yes")
    batch.work("login-join", {"run": handoff("task", "done", "--summary", "joined")})
    assert batch.repo.git("show", "HEAD:src/form/made.txt") == "by form"
    assert batch.repo.git("log", "-1", "--format=%s").strip() == "form: Build form."
    assert "Handoff-Task: login/form" in batch.repo.git("log", "-1", "--format=%B")
    assert batch.states()["login-join"] == "done"
    batch.cli("retry", "api")
    assert batch.states() == {"form": "done", "api": "ready", "login-join": "waiting"}
    assert batch.words() == {"form": ("landed", "landed"), "api": ("ready", "ready")}
    assert "Bring the parts of" in batch.cli("task", "list").out, "what it said the first time is no longer its state"
    batch.make("api")
    branches = batch.repo.git("branch", "--list", "handoff/*")
    assert "api" in branches, "what was reported done is on a branch until it has landed"
    assert batch.words() == {"form": ("landed", "landed"), "api": ("green", "green")}
    assert batch.states()["login-join"] == "ready"
    batch.work("login-join", DONE)
    assert batch.repo.git("show", "HEAD:src/api/made.txt") == "by api"
    assert batch.repo.git("show", "HEAD:src/form/made.txt") == "by form"


def test_a_part_is_not_tried_again_under_a_fan_in_that_runs(batch):
    batch.make("form")
    batch.block("api")
    batch.cli("answer", "login-join", "yes")
    batch.claim("login-join")
    said = batch.cli("retry", "api", code=4)
    assert "login-join' is running" in said.err
    assert batch.states()["api"] == "blocked"


def test_a_person_who_finishes_the_missing_part_by_hand_answers_the_question(batch):
    batch.make("form")
    batch.block("api")
    batch.repo.write("src/api/made.txt", "by hand")
    batch.cli("task", "done", "api", "--summary", "by hand")
    assert batch.states() == {"form": "done", "api": "done", "login-join": "ready"}


def test_a_cancelled_part_is_agreed_on_and_asks_nothing(batch):
    batch.make("form")
    batch.cli("cancel", "api")
    assert batch.states()["login-join"] == "ready"
    assert batch.cli("gate", "list", "--json").json == []


def test_a_batch_that_went_well_raises_no_incident_about_its_own_clean_up(batch):
    batch.cli("workspace", "add", "beside")  # somebody else is at work, so everything is watched
    for part in ("form", "api"):
        batch.make(part)
        assert batch.cli("incident", "list", "--json").json["incidents"] == []
    batch.work("login-join", DONE)
    assert set(batch.states().values()) == {"done"}
    assert batch.repo.git("branch", "--list", "handoff/*") == "", "nothing is left"
    assert batch.cli("incident", "list", "--json").json["incidents"] == []


def test_the_clone_of_a_cancelled_part_goes_with_gc_after_all_it_held_is_kept_and_a_blocked_ones_stays(batch):
    for part in ("form", "api"):
        batch.work(
            part,
            {"write": f"src/{part}/half.txt", "text": "half done"},
            {"run": handoff("task", "block", "no key")},
            code=1,
        )
    assert "0 workspaces" in batch.cli("project", "tidy").out
    batch.cli("cancel", "form")
    assert "its task was cancelled" in batch.cli("project", "tidy").out
    assert "Removed 0 snapshots and 1 workspace." in batch.cli("project", "tidy", "--execute").out
    (left,) = batch.cli("workspace", "list", "--json").json
    assert "api" in left["name"]
    kept = batch.cli("snapshot", "list", "--json").json["snapshots"]
    snapshot = next(one for one in kept if "clean-up" in one["reason"])
    batch.cli("snapshot", "restore", snapshot["id"][:10], "--into", str(batch.folder / "back"))
    assert (batch.folder / "back" / "src" / "form" / "half.txt").read_text() == "half done"


SUITE = "import unittest\n\n\nclass Made(unittest.TestCase):\n    def test_it(self):\n        {body}\n"
RED_BESIDE = "import os; self.assertFalse(os.path.exists('src/form/bad.txt'))"


@pytest.fixture
def tested(cli, repo, tmp_path):
    """A project with a suite of its own, and a batch whose manifest names no check."""

    def open_(body):
        repo.write(".gitignore", "__pycache__/\n")
        repo.write("tests/__init__.py", "")
        repo.write("tests/test_it.py", SUITE.format(body=body))
        repo.commit("a suite")
        cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
        return Batch(cli, repo, tmp_path)

    return open_


@pytest.mark.slow
def test_the_projects_own_suite_judges_every_fan_in_also_one_that_was_only_opened(tested):
    batch = tested(RED_BESIDE)
    batch.work("form", {"write": "src/form/bad.txt", "text": "x"}, DONE)
    batch.make("api")
    batch.work("login-join", DONE, code=None)
    assert batch.states() == {"form": "ready", "api": "done", "login-join": "waiting"}, (
        "it goes back, and nothing landed"
    )
    batch.work("form", {"delete": "src/form/bad.txt"}, {"write": "src/form/made.txt", "text": "x"}, DONE)
    batch.work("login-join", DONE)
    assert batch.states()["login-join"] == "done"
    assert "checked with the project's own suite: python" in batch.cli("batch", "report", "login").out


def test_a_suite_that_was_red_before_says_nothing_about_a_batch_and_the_report_says_so(tested):
    batch = tested("self.fail('it was so before')")
    for part in ("form", "api"):
        batch.make(part)
    batch.work("login-join", DONE)
    assert batch.states()["login-join"] == "done"
    assert (
        "did not check the merged result: it is red on the branch itself" in batch.cli("batch", "report", "login").out
    )


def test_a_check_of_the_manifest_that_is_narrower_than_the_suite_is_told_as_what_it_is(batch, cli, tmp_path):
    cli("cancel", "login")
    cli("dump", "--open-batch", manifest(tmp_path / "n.json", batch="again", check="test -d src"))
    told = cli("batch", "report", "again", "--json").json["judged_by"]
    assert (
        told
        == "The merged result is checked with what the manifest says, not by the project's own suite: `test -d src`."
    )


@pytest.mark.parametrize("name", ["python", "python3"])
def test_the_suite_that_judges_the_whole_is_run_by_the_python_that_is_there(repo, tmp_path, name):
    repo.write(
        "test_a.py", "import unittest\n\n\nclass Case(unittest.TestCase):\n    def test_a(self):\n        pass\n"
    )
    repo.commit("a suite")
    program = tmp_path / "bin" / name
    program.parent.mkdir()
    program.symlink_to(sys.executable)
    ours = app()
    ours.settings = ours.settings._replace(environment={**ours.settings.environment, "PATH": str(program.parent)})
    assert suite_command(ours, repo.path) == f"{name} -m unittest"
