"""One golden copy of each kind of baton, made by a real journey: read it as the session would before you accept a change."""

from __future__ import annotations

import contextlib
import os
import pathlib

import pytest

import golden
from flow_ground import LIST, FlowGround
from handoff.base.markdown import BATON_END, BATON_MARK
from handoff.base.settings import from_environment
from handoff.board.tasks import flows as rows
from handoff.engine.app import App
from handoff.engine.app.home import find_project
from handoff.engine.work.tasks.manifests import example
from handoff.engine.work.tasks.splitting import planner
from relay import manifest
from scripts import handoff, write_script
from workspaces import put, ready

RULES = "# For agents\n\n## Rules\n\n- Never change the public interface.\n- Rule: no new dependency.\n"
WRONG = "def lastly(items):\n    return items[0]\n"
TEST = "import unittest\n\nfrom lastly import lastly\n\n\nclass Last(unittest.TestCase):\n    def test_lastly(self):\n        self.assertEqual(lastly([1, 2]), 2)\n"
CHECK = "python3 -B -m unittest -q test_lastly"
DONE = {"run": handoff("task", "done", "--summary", "'made'")}


class Desk:
    """A repository and the scripted agent; each session leaves its baton."""

    def __init__(self, cli, repo, tmp_path) -> None:
        self.cli, self.repo, self.tmp = cli, repo, tmp_path
        self.found: list[str] = []

    def work(self, task: str, *acts: dict, code: int | None = 0) -> str:
        """Let a session do the acts; the baton it had."""
        script = write_script(str(self.tmp / "acts.toml"), *acts)
        self.cli("session", "start", task, "--agent", "scripted", "--with", script, "--json", code=code)
        return self.newest()

    def newest(self) -> str:
        found = pathlib.Path(os.environ["HANDOFF_HOME"]).rglob("sessions/*/baton.md")
        return max(found, key=lambda path: path.stat().st_mtime_ns).read_text("utf-8")

    def plain(self, text: str) -> str:
        return golden.plain(text, home=os.environ["HANDOFF_HOME"], repo=self.repo.path, tmp=str(self.tmp))

    def same(self, name: str, text: str) -> None:
        assert text.startswith(BATON_MARK)
        assert text.endswith(f"{BATON_END}\n")
        self.found.append(golden.difference(name, self.plain(text), str(self.tmp / "golden")))

    def compare(self) -> None:
        """Say what reads otherwise than its golden copy."""
        found = [one for one in self.found if one]
        assert not found, (
            "Batons read otherwise than their golden copies. Read each as the session would; if they are right, accept them:\n"
            f"  cp {self.tmp}/golden/*.md tests/journeys/golden/\n" + "\n".join(found)
        )


@pytest.fixture
def desk(cli, repo, tmp_path):
    repo.write("AGENTS.md", RULES)
    repo.write("lastly.py", "")
    repo.write("test_lastly.py", TEST)
    repo.commit("A test for lastly")
    found = Desk(cli, repo, tmp_path)
    yield found
    found.compare()


def test_a_task_and_what_its_later_sessions_are_told_of_the_earlier_ones(desk):
    desk.cli("note", "--rule", "Answer in short sentences.")
    desk.cli(
        "task", "add", "lastly", "Write lastly(): it gives the last item.", "--owns", "lastly.py", "--check", CHECK
    )
    first = desk.work(
        "lastly",
        {"say": "I chose items[0] because it is short."},
        {"write": "lastly.py", "text": WRONG},
        {"run": handoff("task", "note", "'Dead end: items.pop() changes the list.'")},
        {"run": CHECK, "may_fail": True},
        {"say": "I believe that lastly is right."},
        {"say": "Next: look at the empty list."},
        code=1,
    )
    desk.same("task", first)
    desk.same("retry", desk.work("lastly", {"crash": True}, code=1))
    desk.same(
        "killed", desk.work("lastly", {"run": handoff("task", "block", "'the brief and the test disagree'")}, code=1)
    )
    desk.cli("retry", "lastly")
    last = desk.work("lastly", {"replace": "lastly.py", "old": "items[0]", "new": "items[-1]"}, DONE)
    desk.same("blocked-and-retried", last)
    assert desk.cli("show", "lastly", "--json").json["state"] == "done"


def test_a_session_after_the_last_attempt_is_not_told_that_another_one_gave_up(desk):
    desk.cli("task", "add", "lastly", "Write lastly().", "--owns", "lastly.py", "--check", CHECK)
    for _ in range(3):
        desk.work("lastly", {"write": "lastly.py", "text": WRONG}, code=1)
    desk.cli("retry", "lastly", "--note", "Take the last one.")
    told = desk.plain(desk.work("lastly", DONE, code=1))
    assert f"`{CHECK}` is red (exit 1); no attempt was left.\n" in told
    assert "blocked the task" not in told
    assert f"Find out why `{CHECK}` is red before you write" in told
    assert "See first whether" not in told, told


def test_a_task_in_a_persons_own_client_and_the_document_of_the_queue(desk):
    desk.cli("task", "add", "lastly", "Write lastly().", "--owns", "lastly.py", "--check", CHECK)
    desk.cli("task", "claim", "lastly", "--session", "tab-one")
    desk.cli("task", "release", "lastly", "--session", "tab-one", "--reason", "the loop is done, the empty list is not")
    with open(os.path.join(os.environ["HANDOFF_HOME"], "repo", "queue", "lastly.md"), encoding="utf-8") as file:
        desk.same("queue", file.read())
    shown = desk.cli("task", "claim", "lastly", "--session", "tab-two", "--show").out
    desk.same("tab", shown[shown.index(BATON_MARK) :])


def test_a_part_knows_its_batch_and_a_fan_in_what_it_joins(desk):
    words = {
        "goal": "A shop that can be paid in.",
        "split_rationale": "the two do not share a file",
        "check": "test -d src",
    }
    desk.cli("dump", "--open-batch", manifest(desk.tmp / "m.json", **words))
    desk.same("part", desk.work("form", {"write": "src/form/made.txt", "text": "made"}, DONE))
    desk.work("api", {"write": "src/api/made.txt", "text": "made"}, DONE)
    desk.same("fan-in", desk.work("login-join", DONE))


@pytest.mark.slow
def test_a_fan_in_that_must_settle_a_conflict_is_told_both_sides(desk):
    base = "def total(items):\n    return sum(items)\n"
    desk.repo.write("src/form/shop.py", base)
    desk.repo.commit("shop")
    desk.cli("dump", "--open-batch", manifest(desk.tmp / "m.json"))
    desk.work("form", {"write": "src/form/shop.py", "text": base.replace("sum(items)", "round(sum(items), 2)")}, DONE)
    desk.work("api", {"write": "src/api/made.txt", "text": "made"}, DONE)
    desk.repo.write("src/form/shop.py", base.replace("sum(items)", "sum(items) * 0.9"))
    desk.repo.commit("A discount")
    desk.same("conflict", desk.work("login-join", DONE, code=1))


def test_the_planner_of_a_split(desk, monkeypatch):
    monkeypatch.chdir(desk.repo.path)
    with contextlib.closing(App(from_environment("handoff"))) as app:
        task = planner.write_down(app, find_project(app), "Make a shop that can be paid in.", parts=2)
    text = desk.work(task.id, {"say": "I cannot."}, code=1)
    assert example().strip() in text
    desk.same("planner", text.replace(example().strip(), "(the example of a manifest)"))


def test_a_continued_feature_in_a_client_and_in_a_chat_window(desk):
    base = ready(desk.cli, desk.repo)
    put(desk.repo.path, f"{base}/FEATURE.md", "# Goal\nPeople can log in.\n\n## Constraints\n- No new dependency.\n")
    desk.cli("note", "Next: write the label")
    desk.cli("note", "--rule", "Never store a password.")
    desk.cli("decide", "Use sessions", "--because", "tokens cannot be taken back")
    desk.repo.write("form.txt", "one\n")
    desk.cli("step", "done", "--check", "echo 'FAILED test_form.py::test_label - no label'; false", code=3)
    desk.same("continue", desk.cli("continue", "--raw").out)
    desk.same("continue-chat", desk.cli("continue", "--raw", "--chat", "--no-record").out)
    desk.cli("task", "add", "--from-step")
    with open(os.path.join(os.environ["HANDOFF_HOME"], "repo", "queue", "login-step-2.md"), encoding="utf-8") as file:
        desk.same("step", file.read())


@pytest.mark.slow
def test_the_phases_of_a_flow(tmp_path):
    ground = FlowGround(str(tmp_path / "calc"), str(tmp_path / "scripts"))
    ground.repo.write("AGENTS.md", RULES)
    ground.repo.commit("rules")
    ground.act("1-plan", {"write": "test-list.md", "text": LIST})
    ground.act("1-red", {"write": "calc.py", "text": "broken\n"})
    ground.act("1-red", {"say": "I cannot."}, attempt=2)
    app = ground.app()
    flow = ground.start(app, request="A calculator: calc.add(a, b) gives the sum.")
    desk = Desk(None, ground.repo, tmp_path)
    for name in ("flow-plan", "flow-red", "flow-red-refused"):
        ground.step(app, rows.get(app.database, key=flow.key))
        desk.same(name, desk.newest())
    app.close()
    desk.compare()
