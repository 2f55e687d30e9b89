"""Flows through the real thing: real sessions of the scripted agent, real tests run on exact trees, real commits."""

from __future__ import annotations

import os

import pytest

from flow_ground import ADD, LIST, OLD, TEST_ADD, case, module
from handoff.base.errors import Conflict, Refused, UserError
from handoff.board import forgetting
from handoff.board.sessions import watchdog
from handoff.board.tasks import flows as rows
from handoff.board.tasks import tasks
from handoff.engine.place import landing
from handoff.engine.work.flows import admin, flows
from handoff.engine.work.tasks import admin as task_admin
from handoff.workflows import library
from scripts import handoff


def patient(ground, attempts: int) -> None:
    """The packaged workflow with more attempts, so that one flow can see many cheats."""
    text = library.load(ground.repo.path, "tdd").text.replace("back_off_seconds = [0, 5, 30]", "")
    text = text.replace("minutes =", f"retries = {attempts}\nminutes =")
    ground.repo.write(".handoff/workflows/tdd.toml", text)


def codes(step) -> set[str]:
    return {part.partition(":")[0] for part in step.concluded.outcome.reason.split("; ")}


def test_a_cycle_is_verified_phase_by_phase_and_the_persons_checkout_stays(ground, app):
    ground.first_cycle()
    flow = ground.start(app)
    head = ground.repo.head()
    assert (flow.phase, flow.cycle) == ("plan", 1)
    assert flow.facts["baseline"]["passing"] == ["unittest:tests/test_old.py::Old::test_name"]
    for phase in ("plan", "red", "green", "refactor"):
        step = ground.step(app, flow)
        assert (step.phase, step.concluded.outcome.kind) == (phase, "ok"), step.concluded.outcome.reason
    assert ground.commits() == [
        "plan: adds two numbers comes next (2 open, 0 done)", "test: adds two numbers", "feat: adds two numbers",
    ]  # fmt: skip
    trailers = ground.repo.git("log", "-1", "--format=%(trailers)", "handoff/calc").split("\n")
    assert trailers[:5] == [
        "Handoff-Flow: calc", "Handoff-Task: calc/1-green", "Handoff-Phase: green", "Handoff-Cycle: 1", "Handoff-Attempt: 1",
    ]  # fmt: skip
    assert "- [x] adds two numbers" in ground.repo.git("show", "handoff/calc:test-list.md")
    assert ground.repo.head() == head
    assert ground.repo.git("status", "--porcelain") == ""
    note = ground.repo.git("notes", "--ref", "handoff", "show", "handoff/calc")
    assert '"phase": "green"' in note.replace('":"', '": "')
    seen = step.seen
    assert (seen.flow.phase, seen.flow.cycle, seen.state) == ("plan", 2, "running")
    # what was told and what not
    briefs = {task.id: task.brief for task in tasks.listing(app.database, include_ended=True)}
    assert "adds two numbers" in briefs["1-red"]
    assert "subtracts" not in briefs["1-red"] + briefs["1-green"]
    assert "test_adds" in briefs["1-green"]
    assert "test_adds" in briefs["2-plan"] or "test_add.py" in briefs["2-plan"]


@pytest.mark.slow
def test_a_flow_that_goes_on_is_not_landed_and_one_that_was_ended_is(ground, app):
    ground.first_cycle()
    flow = ground.start(app)
    for _ in ("plan", "red"):
        ground.step(app, flow)
    head = ground.repo.head()
    with pytest.raises(Refused, match="it stands in its phase green") as refused:
        landing.land(app, names=["handoff/calc"])
    assert "handoff cancel calc" in refused.value.hint
    assert landing.land(app, names=["handoff/calc"], dry_run=True).merged.steps
    assert ground.repo.head() == head
    admin.cancel(app, flow=flow, reason="enough")
    assert landing.land(app, names=["handoff/calc"]).landing


def test_a_tester_cannot_cheat(ground, app):
    patient(ground, 10)
    ground.first_cycle()
    cheats = {
        "passes-at-once": [{"write": "tests/test_add.py", "text": module("Add", "NAME", case("adds", "self.assertTrue(NAME)"))}],
        "new-test-skipped": [{"write": "tests/test_add.py", "text": TEST_ADD.replace("    def", '    @unittest.skip("x")\n    def')}],
        "new-test-empty": [{"write": "tests/test_add.py", "text": module("Add", "add", case("adds", "pass"))}],
        "wrong-reason": [{"write": "tests/test_add.py", "text": TEST_ADD.replace("self.assertEqual(add(1, 2), 3)", "self.assertEqual(")}],
        "unrelated-broken": [
            {"write": "tests/test_add.py", "text": TEST_ADD},
            {"write": "tests/test_old.py", "text": OLD.replace('NAME, "calc"', 'NAME, "other"')},
        ],
        "not-a-test": [{"write": "tests/test_add.py", "text": TEST_ADD}, {"append": "calc.py", "text": ADD}],
        "nothing-changed": [{"say": "I have written the test."}],
        "several-new": [{"write": "tests/test_add.py", "text": TEST_ADD + case("more", "self.assertEqual(add(2, 2), 4)")}],
    }  # fmt: skip
    for number, acts in enumerate(cheats.values(), 1):
        ground.act("1-red", *acts, attempt=number)
    ground.act(
        "1-red", {"expect": "several-new"}, {"write": "tests/test_add.py", "text": TEST_ADD}, attempt=len(cheats) + 1
    )
    flow = ground.start(app)
    ground.step(app, flow)
    for code in cheats:
        step = ground.step(app, flow)
        assert step.concluded.outcome.kind == "failed", code
        assert code in codes(step), (code, step.concluded.outcome.reason)
        assert not os.path.exists(os.path.join(flow.workspace, "tests", "test_add.py")), "rolled back"
    step = ground.step(app, flow)
    assert step.concluded.outcome.kind == "ok", step.concluded.outcome.reason
    assert ground.commits()[1:] == ["test: adds two numbers"]
    failures = step.seen.flow.facts["failures"]
    assert all(failure["snapshot"] for failure in failures), "the refused work is kept"


@pytest.mark.slow
def test_an_implementer_and_a_refactorer_cannot_cheat(ground, app):
    patient(ground, 9)
    ground.first_cycle()
    easy = {"write": "tests/test_add.py", "text": TEST_ADD.replace("add(1, 2), 3", "add(1, 2), 12")}
    green = {
        "test-changed": [{"append": "calc.py", "text": "\n\ndef add(a, b):\n    return 12\n"}, easy],
        "nothing-changed": [{"run": "handoff task done --summary 'all done'", "may_fail": True}],
        "still-red": [{"append": "calc.py", "text": "\n\ndef add(a, b):\n    return 4\n"}],
        "broken": [{"write": "calc.py", "text": 'NAME = "CALC"\n\n\n' + ADD}],
        "outside": [{"append": "calc.py", "text": "\n\n" + ADD}, {"write": "test-list.md", "text": LIST.replace("[ ]", "[x]")}],
    }  # fmt: skip
    refactor = {
        "fewer-assertions": [{"replace": "tests/test_add.py", "old": "        self.assertEqual(add(0, 0), 0)\n", "new": ""}],
        "test-skipped": [{"replace": "tests/test_old.py", "old": "    def test", "new": '    @unittest.skip("later")\n    def test'}],
        "test-removed": [{"delete": "tests/test_old.py"}],
        "asks-less": [{"replace": "tests/test_add.py", "old": "add(0, 0), 0", "new": "add(0, 0), add(0, 0)"}],
        "broken": [{"write": "calc.py", "text": ADD}],
    }  # fmt: skip
    for phase, cheats in (("1-green", green), ("1-refactor", refactor)):
        for number, acts in enumerate(cheats.values(), 1):
            ground.act(phase, *acts, attempt=number)
    ground.act("1-green", {"append": "calc.py", "text": "\n\n" + ADD}, attempt=len(green) + 1)
    ground.act(
        "1-refactor",
        {"write": "calc.py", "text": '"""Sums."""\n\nNAME = "calc"\n\n\n' + ADD},
        attempt=len(refactor) + 1,
    )
    flow = ground.start(app)
    for phase in ("plan", "red"):
        assert ground.step(app, flow).phase == phase
    for cheats in (green, refactor):
        for code in cheats:
            step = ground.step(app, flow)
            assert code in codes(step), (code, step.concluded.outcome.reason)
        step = ground.step(app, flow)
        assert step.concluded.outcome.kind == "ok", step.concluded.outcome.reason
    assert ground.commits()[2:] == ["feat: adds two numbers", "refactor: tidy up after: adds two numbers"]


@pytest.mark.slow
def test_a_planner_cannot_lose_or_tick_a_test(ground, app):
    patient(ground, 9)
    ground.first_cycle()
    cheats = {
        "test-vanished": [{"replace": "test-list.md", "old": "- [ ] subtracts one number from another\n", "new": ""}],
        "ticked-unproven": [{"replace": "test-list.md", "old": "- [ ] subtracts", "new": "- [x] subtracts"}],
        "unticked": [{"replace": "test-list.md", "old": "- [x] adds", "new": "- [ ] adds"}],
        "test-changed": [{"delete": "tests/test_old.py"}],
        "outside": [{"append": "calc.py", "text": "# me\n"}],
    }  # fmt: skip
    for number, acts in enumerate(cheats.values(), 1):
        ground.act("2-plan", *acts, attempt=number)
    ground.act(
        "2-plan", {"replace": "test-list.md", "old": "- [ ] subtracts one number from another", "new": "- [-] subtracts one number from another (dropped: not needed)"}, attempt=len(cheats) + 1,
    )  # fmt: skip
    flow = ground.start(app)
    for _ in range(4):
        assert ground.step(app, flow).concluded.outcome.kind == "ok"
    for code in cheats:
        step = ground.step(app, flow)
        assert code in codes(step), (code, step.concluded.outcome.reason)
    step = ground.step(app, flow)
    assert (step.concluded.outcome.kind, step.seen.state) == ("ok", "done"), step.concluded.outcome.reason
    assert ground.commits()[-1].startswith("plan: every test of the list is done")


def test_three_strikes_block_the_flow_and_a_person_lets_it_go_on(ground, app):
    ground.first_cycle()
    for attempt in (1, 2, 3):
        ground.act("1-plan", {"say": f"attempt {attempt}"}, attempt=attempt)
    flow = ground.start(app)
    for _ in range(3):
        step = ground.step(app, flow)
        assert codes(step) == {"empty-list"}
    assert step.seen.state == "blocked"
    with pytest.raises(Refused, match="blocked"):
        ground.step(app, flow)
    ground.act("1-plan", {"expect": "mind the sign"}, {"expect": "empty-list"}, {"write": "test-list.md", "text": LIST})
    admin.retry(app, flow=rows.get(app.database, key=flow.key), note="mind the sign")
    step = ground.step(app, flow)
    assert (step.concluded.outcome.kind, step.seen.flow.phase) == ("ok", "red"), step.concluded.outcome.reason
    assert "mind the sign" not in tasks.get(app.database, key=step.seen.flow.task).brief


def test_a_flow_is_paused_resumed_gated_rejected_and_cancelled(ground, app):
    ground.first_cycle()
    flow = ground.start(app, gates=("plan",))
    admin.pause(app, flow=flow)
    with pytest.raises(Refused, match="paused"):
        ground.step(app, flow)
    admin.resume(app, flow=flow)
    step = ground.step(app, flow)
    assert (step.seen.state, step.seen.flow.phase) == ("gated", "red")
    task_admin.reject(app, step.seen.task, reason="also test negative numbers")
    assert flows.look_again(app, flow).state == "blocked"
    ground.act(
        "1-plan",
        {"expect": "also test negative numbers"},
        {"append": "test-list.md", "text": "- [ ] negative numbers\n"},
    )
    admin.retry(app, flow=rows.get(app.database, key=flow.key))
    step = ground.step(app, flow)
    assert (step.concluded.outcome.kind, step.seen.state) == ("ok", "gated"), step.concluded.outcome.reason
    task_admin.approve(app, step.seen.task)
    step = ground.step(app, flow)
    assert (step.phase, step.concluded.outcome.kind) == ("red", "ok")
    task_admin.cancel(app, flows.look_again(app, flow).task)
    assert flows.look_again(app, flow).reason == "its task 'calc/1-green' was cancelled"
    admin.retry(app, flow=rows.get(app.database, key=flow.key))
    assert flows.look_again(app, flow).task.state == "ready"
    with pytest.raises(Refused, match="cannot be skipped"):
        admin.skip(app, flow=rows.get(app.database, key=flow.key), reason="no time")
    ended = admin.cancel(app, flow=rows.get(app.database, key=flow.key), reason="enough")
    assert ended.state == "cancelled"
    with pytest.raises(Conflict, match="already"):
        admin.cancel(app, flow=ended)
    later = app.clock.now() + 3600
    forgetting.prune(app.database, before=later, dry_run=False)
    assert rows.listing(app.database, include_ended=True) == []


def test_a_list_of_tests_that_a_person_changed_at_the_gate_is_the_list_and_no_word_of_it_reaches_the_tester(
    ground, app
):
    ground.first_cycle()
    flow = ground.start(app, gates=("plan",))
    step = ground.step(app, flow)
    assert task_admin.gate_of(app, step.seen.task).subject == LIST
    for unfit in ("# Tests\n\n- [x] adds two numbers\n", "nothing\n", LIST + "- [ ] adds two numbers\n"):
        with pytest.raises(UserError, match="cannot be taken"):
            task_admin.approve(app, step.seen.task, answer=unfit)
    mine = "# Tests\n\n- [ ] adds two small numbers\n- [ ] divides\n"
    task_admin.approve(app, step.seen.task, answer=mine)
    ground.act("1-red", {"run": handoff("task", "ask", "'Of which size?'")})
    step = ground.step(app, flow)
    assert task_admin.gate_of(app, step.concluded.task).question == "Of which size?"
    task_admin.approve(app, step.concluded.task, answer="below ten")
    known = ({"expect": "adds two small numbers"}, {"expect": "below ten"})
    ground.act("1-red", *known, {"write": "tests/test_add.py", "text": TEST_ADD})
    step = ground.step(app, flow)
    assert (step.phase, step.concluded.outcome.kind) == ("red", "ok"), step.concluded.outcome.reason
    with open(
        os.path.join(app.settings.home, "calc", "sessions", step.concluded.session, "baton.md"), encoding="utf-8"
    ) as file:
        assert "divides" not in file.read()
    assert ground.repo.git("show", "handoff/calc:test-list.md") == mine
    assert ground.commits()[1:] == ["plan: test-list.md as a person changed it", "test: adds two small numbers"]
    step = ground.step(app, flow)
    assert (step.phase, step.concluded.outcome.kind) == ("green", "ok"), step.concluded.outcome.reason
    assert ground.repo.git("show", "handoff/calc:test-list.md") == mine.replace("[ ] adds", "[x] adds")


def test_a_gate_of_a_flow_has_a_time_limit_and_what_counts_then(ground, app):
    ground.first_cycle()
    flow = ground.start(app, gates=("plan",), gate_limits={"plan": (60.0, "yes")})
    assert ground.step(app, flow).seen.state == "gated"
    app.database.shift += 61
    watchdog.scan(app.database)
    assert flows.look_again(app, flow).state == "running"
    assert ground.step(app, flow).phase == "red"


def test_a_running_flow_does_not_change_when_its_file_is_edited(ground, app):
    patient(ground, 4)
    ground.first_cycle()
    flow = ground.start(app)
    ground.repo.write(".handoff/workflows/tdd.toml", "broken")
    assert ground.step(app, flow).concluded.outcome.kind == "ok"
    with pytest.raises(UserError, match=r"tdd\.toml:1"):
        ground.start(app, id="other")


def test_cycles_are_bounded_and_more_can_be_allowed(ground, app):
    ground.first_cycle()
    flow = ground.start(app, max_cycles=1)
    for _ in range(4):
        step = ground.step(app, flow)
    assert (step.seen.state, step.seen.reason) == ("blocked", "the limit of 1 cycle is reached")
    moved = admin.retry(app, flow=step.seen.flow, max_cycles=5)
    assert (moved.state, moved.phase, moved.cycle) == ("running", "plan", 2)


def test_what_fails_before_stays_known_and_a_planted_git_setting_is_not_run(ground, app):
    ground.repo.write("tests/test_bad.py", module("Bad", "NAME", case("bad", 'self.assertEqual(NAME, "else")')))
    ground.repo.commit("a failing test")
    ground.first_cycle()
    mark = os.path.join(ground.scripts, "planted")
    ground.act(
        "1-plan", {"write": "test-list.md", "text": LIST}, {"write": ".gitattributes", "text": ""}, {"delete": ".gitattributes"},
        {"run": f"git config core.fsmonitor 'touch {mark}; false'; git config filter.x.clean 'touch {mark}; cat'; echo '* filter=x' > .git/info/attributes || true"},
    )  # fmt: skip
    flow = ground.start(app)
    assert flow.facts["baseline"]["failing"] == ["unittest:tests/test_bad.py::Bad::test_bad"]
    for phase in ("plan", "red", "green"):
        step = ground.step(app, flow)
        assert (step.phase, step.concluded.outcome.kind) == (phase, "ok"), step.concluded.outcome.reason
    assert not os.path.exists(mark)
    assert step.seen.flow.facts["baseline"]["failing"] == ["unittest:tests/test_bad.py::Bad::test_bad"]


def test_start_checks_everything_first(ground, app):
    for more, words in (
        ({"request": " "}, "what is to be done"),
        ({"gates": ("nope",)}, "no phase 'nope'"),
        ({"agents": {"boss": "scripted"}}, "no role 'boss'"),
        ({"agents": {"": "nobody"}}, "no agent 'nobody'"),
        ({"workflow": "nine"}, "no workflow 'nine'"),
    ):
        with pytest.raises(UserError, match=words):
            ground.start(app, **more)
    assert rows.listing(app.database, include_ended=True) == []
    flow = ground.start(app)
    with pytest.raises(Conflict, match="still under way"):
        ground.start(app)
    assert flow.id == "calc"


def test_what_a_session_left_beside_its_work_is_kept(ground, app):
    ground.first_cycle()
    ground.act(
        "1-plan", {"write": "test-list.md", "text": LIST}, {"write": ".handoff/notes.md", "text": "mind the sign\n"},
        {"run": "git add -A && git commit -q -m 'my own commit' && git checkout -q -b elsewhere"},
    )  # fmt: skip
    flow = ground.start(app)
    step = ground.step(app, flow)
    assert step.concluded.outcome.kind == "ok", step.concluded.outcome.reason
    assert ground.commits() == ["plan: adds two numbers comes next (2 open, 0 done)"]
    assert ".handoff/notes.md" not in ground.repo.git("ls-tree", "-r", "--name-only", "handoff/calc")
    from handoff.engine.safety.snapshots import choose, open_snapshot_store, restore_into

    snapshot_store = open_snapshot_store(app, folder=flow.workspace)
    kept = choose(app, snapshot_store=snapshot_store)
    target = os.path.join(ground.scripts, "back")
    restore_into(app, snapshot_store=snapshot_store, chosen=kept, folder=target)
    with open(os.path.join(target, ".handoff", "notes.md"), encoding="utf-8") as file:
        assert file.read() == "mind the sign\n"


def test_a_phase_leaves_nothing_that_a_task_could_not_leave(ground, app):
    patient(ground, 6)
    ground.repo.write(".gitignore", "__pycache__/\n.env\n")
    ground.repo.write(".worktreeinclude", ".env\n")
    ground.repo.commit("what nobody shall see")
    ground.repo.write(".env", "KEY=secret\n")
    ground.first_cycle()
    good = {"append": "calc.py", "text": "\n\n" + ADD}
    inside = "git init -q sub && cd sub && echo a >a && git add a && git -c user.name=x -c user.email=x@y commit -qm x"
    refused = {
        "a link that leads out of the tree": "ln -s ../../../.env link",
        "(inside a repository of its own)": inside,
        "inside a repository of its own": f"{inside} && mv .git any",
        "a name that git keeps for itself": "mkdir .Git && echo x >.Git/config",
    }
    for number, act in enumerate(refused.values(), 1):
        ground.act("1-green", good, {"run": act}, attempt=number)
    ground.act(
        "1-green", good, {"run": "cat .env && echo __pycache__/ >.gitignore && git add -A"}, attempt=len(refused) + 1
    )
    flow = ground.start(app)
    for _ in ("plan", "red"):
        ground.step(app, flow)
    for why in refused:
        step = ground.step(app, flow)
        assert (codes(step), why in step.concluded.outcome.reason) == ({"outside"}, True), step.concluded.outcome.reason
        assert ground.commits()[1:] == ["test: adds two numbers"]
    step = ground.step(app, flow)
    assert step.concluded.outcome.kind == "ok", step.concluded.outcome.reason
    assert ground.repo.git("show", "handoff/calc:.gitignore") == "__pycache__/\n", (
        "a control file: a person is asked when it lands"
    )
    assert ".env" not in ground.repo.git("log", "-p", "--all", "--format=", "--name-only").split()


@pytest.mark.slow
def test_a_phase_whose_attempts_are_used_up_asks_or_goes_back_to_where_its_cycle_began(ground, app):
    text = library.load(ground.repo.path, "tdd").text.replace("back_off_seconds = [0, 5, 30]", "retries = 1", 2)
    text = text.replace('name = "red"', 'name = "red"\nwhen_used_up = "gate"').replace(
        'name = "green"', 'name = "green"\nwhen_used_up = "roll-back"'
    )
    ground.repo.write(".handoff/workflows/tdd.toml", text)
    ground.first_cycle()
    ground.act("1-red", {"say": "no"})
    ground.act("1-green", {"say": "no"})
    ground.act("2-plan", {"append": "test-list.md", "text": "- [ ] multiplies\n"})
    flow = ground.start(app)
    ground.step(app, flow)
    step = ground.step(app, flow)
    assert (step.seen.state, step.seen.flow.phase) == ("gated", "red")
    assert "refused 1 time" in step.seen.reason
    from handoff.engine.work.tasks import admin as task_admin

    task_admin.approve(app, step.seen.task)
    ground.act("1-red", {"expect": "nothing-changed"}, {"write": "tests/test_add.py", "text": TEST_ADD})
    assert ground.step(app, flow).seen.flow.phase == "green"
    head = rows.get(app.database, key=flow.key).head
    step = ground.step(app, flow)
    assert codes(step) == {"nothing-changed"}
    assert (step.seen.state, step.seen.flow.phase, step.seen.flow.cycle) == ("running", "plan", 2)
    assert step.seen.flow.head == flow.base
    assert not os.path.exists(os.path.join(flow.workspace, "tests", "test_add.py"))
    assert ground.repo.git("cat-file", "-t", head).strip() == "commit", "the rolled back work is still there"


def test_a_session_over_its_phases_minutes_is_ended_and_its_work_undone(ground, app):
    text = library.load(ground.repo.path, "tdd").text.replace("minutes = 60", "minutes = 0.02", 1)
    ground.repo.write(".handoff/workflows/tdd.toml", text)
    ground.first_cycle()
    ground.act("1-plan", {"write": "test-list.md", "text": LIST}, {"hang": True})
    flow = ground.start(app, request="a calculator, from the words of a file")
    step = ground.step(app, flow)
    assert step.concluded.outcome.reason.startswith(
        "session-failed: the limit of 0.02 minutes is reached; its last words: "
    )
    assert not os.path.exists(os.path.join(flow.workspace, "test-list.md"))
    assert "+- [ ] adds two numbers" in step.seen.flow.facts["failures"][0]["diff"]
