"""The packaged workflows `feature` and `review`: documents, steps with their checks, an independent reviewer."""

from __future__ import annotations

import pytest

from handoff.engine.work.flows import admin, flows
from sandbox import Cli

STATE = """# State

# Current Step
The greeting

# Execution Plan
- [ ] The greeting says a name (check: grep -q 'def greet' greet.py)
- [ ] It is loud (check: grep -q upper greet.py)
"""
FOLDER = ".handoff/features/greet"


@pytest.fixture
def app(ground):
    Cli(ground.repo.path)("init", "greet")
    Cli(ground.repo.path)("ignore")
    ground.repo.write(f"{FOLDER}/FEATURE.md", "# Feature: greet\n\n## Goal\nGreet people by name, loudly.\n")
    app = ground.app()
    yield app
    app.close()


def good(ground) -> None:
    ground.act(
        "1-spec", {"expect": "Greet people by name"}, {"write": f"{FOLDER}/SPEC.md", "text": "# Spec\n\nIt greets.\n"}
    )
    ground.act(
        "1-design", {"expect": "It greets."}, {"write": f"{FOLDER}/DESIGN.md", "text": "# Design\n\nOne file.\n"}
    )
    ground.act("1-plan", {"expect": "One file."}, {"write": f"{FOLDER}/STATE.md", "text": STATE})
    ground.act(
        "1-step", {"expect": "The greeting says a name"}, {"write": "greet.py", "text": "def greet(n):\n    return n\n"}
    )
    ground.act(
        "2-step", {"expect": "It is loud"}, {"write": "greet.py", "text": "def greet(n):\n    return n.upper()\n"}
    )
    ground.act(
        "2-review", {"expect": "n.upper()"}, {"write": ".handoff/review.md", "text": "verdict: approved\n\nFine.\n"}
    )


@pytest.mark.slow
def test_a_feature_goes_from_its_goal_to_its_review_over_its_documents(ground, app):
    good(ground)
    ground.act("1-step", {"write": "greet.py", "text": "def hello(n):\n    return n\n"})
    ground.act("1-step", {"expect": "red: "}, {"write": "greet.py", "text": "def greet(n):\n    return n\n"}, attempt=2)
    ground.act(
        "2-review",
        {"write": "greet.py", "text": "# mine\n"},
        {"write": ".handoff/review.md", "text": "verdict: approved\n"},
    )
    ground.act("2-review", {"say": "looks fine to me"}, attempt=2)
    ground.act(
        "2-review",
        {"expect": "no-verdict"},
        {"write": ".handoff/review.md", "text": "**Verdict: changes**\n\nSay hello.\n"},
        attempt=3,
    )
    more = (
        STATE.replace("- [ ] The", "- [x] The").replace("- [ ] It", "- [x] It")
        + "- [ ] It says hello (check: grep -q Hello greet.py)\n"
    )
    ground.act("2-replan", {"expect": "Say hello."}, {"write": f"{FOLDER}/STATE.md", "text": more})
    ground.act("3-step", {"write": "greet.py", "text": 'def greet(n):\n    return "Hello " + n.upper()\n'})
    ground.act("3-review", {"write": ".handoff/review.md", "text": "verdict: approved\n\nGood.\n"})
    flow = ground.start(app, "feature", feature="greet", gates=("spec",))
    assert flow.phase == "spec"
    step = ground.step(app, flow)
    assert (step.concluded.outcome.kind, step.seen.state) == ("ok", "gated"), step.concluded.outcome.reason
    assert ground.repo.read(f"{FOLDER}/SPEC.md") == "# Spec\n\nIt greets.\n"
    from handoff.engine.work.tasks import admin as task_admin

    task_admin.approve(app, step.seen.task, answer="# Spec\n\nIt greets. Loudly!\n")
    ground.act(
        "1-design",
        {"expect": "It greets. Loudly!"},
        {"write": f"{FOLDER}/DESIGN.md", "text": "# Design\n\nOne file.\n"},
    )
    outcomes = []
    for _ in range(11):
        step = ground.step(app, flow)
        outcomes.append((step.phase, step.concluded.outcome.kind))
        if step.seen.state != "running":
            break
    assert outcomes == [
        ("design", "ok"), ("plan", "ok"), ("step", "failed"), ("step", "ok"), ("step", "ok"), ("review", "failed"),
        ("review", "failed"), ("review", "ok"), ("replan", "ok"), ("step", "ok"), ("review", "ok"),
    ], (outcomes, step.concluded.outcome.reason)  # fmt: skip
    assert step.seen.state == "done"
    assert ground.repo.read(f"{FOLDER}/SPEC.md") == "# Spec\n\nIt greets. Loudly!\n"
    assert ground.repo.read(f"{FOLDER}/STATE.md").count("- [x]") == 3
    assert ground.commits() == [
        "feat: The greeting says a name", "feat: It is loud", "feat: It says hello",
    ]  # fmt: skip
    assert ".handoff/review.md" not in ground.repo.git("ls-tree", "-r", "--name-only", "handoff/calc")
    assert ground.repo.git("status", "--porcelain") == ""


def test_a_plan_cannot_tick_what_no_check_has_shown(ground, app):
    good(ground)
    ground.act("1-plan", {"write": f"{FOLDER}/STATE.md", "text": STATE.replace("- [ ] The", "- [x] The")})
    ground.act(
        "1-plan",
        {"expect": "ticked-unproven"},
        {"write": f"{FOLDER}/STATE.md", "text": "# State\n\n# Execution Plan\n- [?] what\n"},
        attempt=2,
    )
    ground.act("1-plan", {"expect": "STATE.md:4"}, {"write": f"{FOLDER}/STATE.md", "text": STATE}, attempt=3)
    flow = ground.start(app, "feature", feature="greet")
    kinds = [ground.step(app, flow).concluded.outcome.kind for _ in range(5)]
    assert kinds == ["ok", "ok", "failed", "failed", "ok"]


@pytest.mark.slow
def test_a_step_is_not_ticked_by_a_check_that_cannot_fail_and_one_that_was_green_before_is_told(ground, app):
    good(ground)
    hollow = STATE.replace("grep -q 'def greet' greet.py", "true")
    ground.act("1-plan", {"write": f"{FOLDER}/STATE.md", "text": hollow})
    own = STATE.replace("grep -q 'def greet' greet.py", "python3 check.py").replace("grep -q upper", "test -f")
    ground.act("1-plan", {"expect": "check-proves-nothing"}, {"write": f"{FOLDER}/STATE.md", "text": own}, attempt=2)
    greet = {"write": "greet.py", "text": "def greet(n):\n    return n\n"}
    ground.act("1-step", greet, {"write": "check.py", "text": "assert True\n"})
    right = "import greet\nassert greet.greet('x') == 'x'\n"
    ground.act("1-step", {"expect": "asserts nothing"}, greet, {"write": "check.py", "text": right}, attempt=2)
    ground.act("2-step", {"say": "it is there"})
    ground.act("2-step", {"expect": "was green before"}, {"append": "greet.py", "text": "LOUD = True\n"}, attempt=2)
    flow = ground.start(app, "feature", feature="greet")
    kinds = [ground.step(app, flow).concluded.outcome.kind for _ in range(8)]
    assert kinds == ["ok", "ok", "failed", "ok", "failed", "ok", "failed", "ok"]
    assert "(its check was green before the work too)" in ground.repo.read(f"{FOLDER}/STATE.md")
    assert "`test -f greet.py` was green before the work too" in Cli(ground.repo.path)("log", "calc").out


@pytest.mark.slow
def test_a_review_asks_for_changes_at_most_so_many_times(ground, app):
    ground.act("1-implement", {"say": "done"})
    ground.act("1-implement", {"expect": "nothing-changed"}, {"write": "a.txt", "text": "a\n"}, attempt=2)
    ground.act(
        "1-review", {"expect": "+a"}, {"write": ".handoff/review.md", "text": "verdict: changes\n\na.txt:1: say more\n"}
    )
    ground.act("1-fix", {"expect": "say more"}, {"write": "a.txt", "text": "a b\n"})
    ground.act("2-review", {"write": ".handoff/review.md", "text": "verdict: changes\n\nstill more\n"})
    ground.act("2-fix", {"expect": "still more"}, {"write": "a.txt", "text": "a b c\n"})
    flow = ground.start(app, "review", request="Write a.txt", max_cycles=2)
    seen = [(step.phase, step.concluded.outcome.kind) for _ in range(6) if (step := ground.step(app, flow))]
    assert seen == [
        ("implement", "failed"),
        ("implement", "ok"),
        ("review", "ok"),
        ("fix", "ok"),
        ("review", "ok"),
        ("fix", "ok"),
    ]
    end = flows.look_again(app, flow)
    assert (end.state, end.reason) == ("blocked", "the limit of 2 cycles is reached")
    ground.act("3-review", {"write": ".handoff/review.md", "text": "verdict: approved\n"})
    admin.retry(app, flow=end.flow, max_cycles=3)
    assert ground.step(app, flow).seen.state == "done"
    assert ground.commits() == ["feat: Write a.txt", "fix: Write a.txt", "fix: Write a.txt"]


def test_a_document_that_a_session_made_a_link_is_not_read_and_nothing_is_written_through_one(ground, app, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "key").write_text("# Spec\n\nPRIVATE words of the person.\n")
    good(ground)
    ground.act("1-spec", {"run": f"ln -sfn {outside}/key {FOLDER}/SPEC.md"})
    ground.act("1-spec", {"run": f"rm -r {FOLDER} && ln -s {outside} {FOLDER}"}, attempt=2)
    ground.act("1-spec", {"write": f"{FOLDER}/SPEC.md", "text": "# Spec\n\nIt greets.\n"}, attempt=3)
    flow = ground.start(app, "feature", feature="greet")
    outcomes = [ground.step(app, flow).concluded.outcome.kind for _ in range(3)]
    assert outcomes == ["failed", "failed", "ok"]
    assert sorted(entry.name for entry in outside.iterdir()) == ["key"]
    assert ground.repo.read(f"{FOLDER}/SPEC.md") == "# Spec\n\nIt greets.\n"


@pytest.mark.parametrize("words", ["", "# Spec\n\n## Goal\n"])
def test_a_document_that_was_emptied_is_not_written_and_the_persons_own_stays(words, ground, app):
    good(ground)
    ground.act("1-spec", {"write": f"{FOLDER}/SPEC.md", "text": words})
    before = ground.repo.read(f"{FOLDER}/SPEC.md")
    step = ground.step(app, ground.start(app, "feature", feature="greet"))
    assert step.concluded.outcome.kind == "failed"
    assert "SPEC.md still says nothing of its own" in step.concluded.outcome.reason
    assert ground.repo.read(f"{FOLDER}/SPEC.md") == before
