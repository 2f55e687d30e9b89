"""No flow is done on somebody's word: tests are run or 'not tested' is said, a request needs a plan, an ordered gate is asked."""

from __future__ import annotations

import pytest

from flow_ground import ADD, OLD, TEST_ADD, FlowGround
from handoff.board import gates
from handoff.board.tasks import flows as rows
from handoff.engine.work.flows import admin, flows
from handoff.engine.work.tasks import admin as task_admin
from sandbox import Cli

TICKED = "# Tests\n\n- [x] names itself\n"


def test_a_review_is_not_done_while_a_test_is_broken_and_its_gates_show_what_there_is_to_go_by(ground, app):
    weaker = OLD.replace("        self.assertTrue(NAME.islower())\n", "")
    ground.act("1-implement", {"write": "calc.py", "text": 'NAME = "CALC"\n'})
    ground.act(
        "1-implement",
        {"expect": "broken: unittest:tests/test_old.py::Old::test_name"},
        {"append": "calc.py", "text": "\n\n" + ADD},
        {"write": "tests/test_old.py", "text": weaker},
        attempt=2,
    )
    ground.act(
        "1-review",
        {"expect": "- unittest: green, 1 passed"},
        {"expect": "asserts less: 2 before, 1 now"},
        {"write": ".handoff/review.md", "text": "verdict: approved\n"},
    )
    flow = ground.start(app, "review", request="Add numbers", gates=("implement", "review"))
    step = ground.step(app, flow)
    assert step.concluded.outcome.kind == "failed", "every test is broken"
    step = ground.step(app, flow)
    assert (step.concluded.outcome.kind, step.seen.state) == ("ok", "gated"), step.concluded.outcome.reason
    question = gates.of_task(app.database, key=step.seen.task.key).question
    assert question.splitlines()[0] == step.seen.reason == "implement is done; go on with review?"
    for words in (
        "calc.py",
        "2 files changed",
        "unittest: green, 1 passed",
        "test_name in tests/test_old.py asserts less",
    ):
        assert words in question, question
    shown = Cli(ground.repo.path)("show", "calc/1-review").out
    assert "asserts less" in shown
    task_admin.approve(app, step.seen.task)
    step = ground.step(app, flow)
    assert (step.seen.state, step.seen.reason) == ("gated", "review is done; end the flow?")
    assert Cli(ground.repo.path)("answer", "calc/1-review-answer", "no", "say more").out.endswith(
        "handoff retry calc\n"
    )
    refused = Cli(ground.repo.path)("retry", "calc/1-review-answer", code=3)
    assert "retry calc" in refused.err
    admin.retry(app, flow=rows.get(app.database, key=flow.key))
    ground.act(
        "1-review", {"expect": "say more"}, {"write": ".handoff/review.md", "text": "verdict: approved\n\nMore.\n"}
    )
    step = ground.step(app, flow)
    assert step.seen.state == "gated"
    task_admin.approve(app, step.seen.task)
    assert flows.look_again(app, flow).state == "done"
    told = Cli(ground.repo.path)("show", "calc").out
    assert "done after 1 cycle; unittest: green, 1 passed" in told


def test_without_a_test_suite_nothing_is_called_verified(ground, app):
    ground.repo.git("rm", "-rqf", "tests")
    ground.repo.commit("no tests")
    ground.act("1-implement", {"append": "calc.py", "text": "\n\n" + ADD})
    ground.act("1-review", {"expect": "not tested"}, {"write": ".handoff/review.md", "text": "verdict: approved\n"})
    flow = ground.start(app, "review", request="Add numbers")
    done = Cli(ground.repo.path)("flow", "step", "calc", "--with", ground.word)
    assert "implement: done, not tested (Add numbers)" in done.err
    assert "verified" not in done.err
    assert ground.step(app, flow).seen.state == "done"
    assert "done after 1 cycle; not tested" in Cli(ground.repo.path)("show", "calc").out
    log = Cli(ground.repo.path)("log", "calc").out
    assert "not tested  1-implement" in log


def test_what_failed_before_is_not_charged_to_the_work(ground, app):
    ground.repo.write("tests/test_bad.py", OLD.replace('NAME, "calc"', 'NAME, "else"').replace("Old", "Bad"))
    ground.repo.commit("a failing test")
    ground.act("1-implement", {"append": "calc.py", "text": "\n\n" + ADD})
    flow = ground.start(app, "review", request="Add numbers")
    step = ground.step(app, flow)
    assert step.concluded.outcome.kind == "ok", step.concluded.outcome.reason
    assert step.seen.flow.facts["tested"] == ["unittest: green, 1 passed, 1 failed (1 of them failed before)"]


@pytest.mark.slow
def test_a_request_needs_a_plan_and_an_ordered_gate_is_asked_also_at_the_end(ground, app):
    ground.repo.write("test-list.md", TICKED)
    ground.repo.commit("everything is ticked")
    ground.first_cycle()
    ground.act("1-plan", {"say": "nothing to do"})
    ground.act("1-plan", {"expect": "nothing-planned"}, {"append": "test-list.md", "text": "2. [ ] adds\n"}, attempt=2)
    ground.act(
        "1-plan",
        {"expect": "not-understood"},
        {"append": "test-list.md", "text": "- [ ] adds two numbers\n"},
        attempt=3,
    )
    ground.act("2-plan", {"say": "all is done"})
    flow = ground.start(app, gates=("plan",))
    for _ in range(2):
        assert ground.step(app, flow).concluded.outcome.kind == "failed"
    step = ground.step(app, flow)
    assert (step.concluded.outcome.kind, step.seen.state) == ("ok", "gated"), step.concluded.outcome.reason
    task_admin.approve(app, step.seen.task)
    for _ in range(4):
        step = ground.step(app, flow)
        assert step.concluded.outcome.kind == "ok", step.concluded.outcome.reason
    assert (step.phase, step.seen.state, step.seen.reason) == ("plan", "gated", "plan is done; go on?")
    task_admin.approve(app, step.seen.task)
    assert [one.key for one in rows.idle(app.database)] == [flow.key], "a supervisor finds it"
    assert ground.step(app, flow).seen.state == "done"


@pytest.mark.slow
def test_a_flow_begins_in_an_empty_project_and_the_suite_the_planner_proposes_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ground = FlowGround(str(tmp_path / "Shop 2"), str(tmp_path / "scripts"))
    ground.repo.git("rm", "-rqf", ".")
    ground.repo.write("README.md", "A shop.\n")
    ground.repo.commit("nothing but words")
    listed = "# Tests\n\n- [ ] adds two numbers\n"
    ground.act("1-plan", {"write": "test-list.md", "text": listed})
    ground.act(
        "1-plan",
        {"expect": "no-suite: The project has no test suite yet"},
        {"expect": "write a line `suite: NAME`"},
        {"write": "test-list.md", "text": listed + "\nsuite: cobol\n"},
        attempt=2,
    )
    ground.act(
        "1-plan",
        {"expect": "'cobol' cannot be made here"},
        {"write": "test-list.md", "text": listed + "\nsuite: unittest\n"},
        attempt=3,
    )
    ground.act("1-red", {"write": "tests/test_add.py", "text": TEST_ADD})
    ground.act("1-green", {"write": "calc.py", "text": ADD})
    ground.act("1-refactor", {"say": "nothing to do"})
    ground.act("2-plan", {"say": "all is done"})
    app = ground.app()
    flow = ground.start(app)
    kinds = [ground.step(app, flow).concluded.outcome for _ in range(7)]
    assert [one.kind for one in kinds] == ["failed", "failed", "ok", "ok", "ok", "ok", "ok"], kinds
    assert flows.look_again(app, flow).state == "done"
    assert sorted(ground.repo.git("ls-tree", "-r", "--name-only", "handoff/calc").split()) == [
        ".gitignore", "README.md", "calc.py", "test-list.md", "tests/__init__.py", "tests/test_add.py",
    ]  # fmt: skip
    assert "unittest: green, 1 passed" in Cli(ground.repo.path)("show", "calc").out
    app.close()
