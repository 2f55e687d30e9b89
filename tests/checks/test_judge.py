"""The rules for red, green and refactored, on reports made by hand: what real runs in tests/engine/place/proof/test_test_runs.py leave open."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.checks import judge
from handoff.checks.findings import FLAKY, NO_RESULTS, FileChange, baseline_of
from handoff.checks.results import Report, case


def _report(*lines, trouble="", suite="s"):
    """`file::name status [reason]`, one for each test."""
    cases = []
    for line in lines:
        words = line.split()
        file, _, name = words[0].partition("::")
        cases.append(
            case(
                suite,
                file=file,
                name=name.replace("_>_", " > "),
                status=words[1],
                reason="".join(words[2:]),
                message="why",
            )
        )
    return Report(suite, "run", 0, 0.1, "", tuple(cases), trouble)  # fmt: skip


def _known(*lines):
    return judge.baseline([[_report(*lines)]])[0]


def _test(path, before, after):
    return FileChange(path, True, before, after)


OLD = "def test_a():\n    assert f()\n"
NEW = OLD + "\ndef test_b():\n    assert g()\n"


def _codes(judged):
    return [finding.code for finding in judged.findings]


def test_a_table_of_cases_is_one_new_test():
    known = _known("t.py::test_a passed")
    judged = judge.red(
        known,
        [_report("t.py::test_a passed", "t.py::test_b[1] failed assertion", "t.py::test_b[2] failed assertion", "t.py::test_b[0] passed")],
        changes=[_test("t.py", OLD, NEW)],
    )  # fmt: skip
    assert (judged.ok, judged.new) == (True, ("s:t.py::test_b",)), judged.findings
    table = 'test.each([1, 2])("adds %i", (n) => { expect(f(n)).toBe(n); });\n'
    judged = judge.red(
        _known(), [_report("a.test.js::adds1 failed assertion", "a.test.js::adds2 failed assertion")],
        changes=[_test("a.test.js", None, table)],
    )  # fmt: skip
    assert judged.ok, judged.findings
    assert judged.new == ("s:a.test.js::adds1", "s:a.test.js::adds2")
    half = [_report("a.test.js::adds1 failed assertion", "a.test.js::adds2 passed")]
    assert judge.red(_known(), half, changes=[_test("a.test.js", None, table)]).ok


def test_a_sub_test_of_go_belongs_to_its_test():
    judged = judge.red(
        _known(), [_report("a_test.go::TestX/one passed", "a_test.go::TestX/two failed assertion")],
        changes=[_test("a_test.go", None, "func TestX(t *testing.T) { t.Fatal() }\n")],
    )  # fmt: skip
    assert (judged.ok, judged.new) == (True, ("s:a_test.go::TestX",)), judged.findings


def test_a_new_test_that_is_skipped_is_not_red():
    judged = judge.red(_known("t.py::test_a passed"), [_report("t.py::test_a passed", "t.py::test_b skipped")], changes=[_test("t.py", OLD, NEW)])  # fmt: skip
    assert _codes(judged) == [judge.NEW_SKIPPED]


def test_a_report_without_results_is_never_good():
    broken = [_report(trouble="it hung")]
    for judged in (
        judge.red(_known(), broken, changes=[]),
        judge.green(_known(), broken, changes=[FileChange("a.py", False)], new=()),
        judge.refactor(_known(), broken, changes=[]),
    ):
        assert _codes(judged) == [NO_RESULTS]
        assert "it hung" in judged.findings[0].message


def test_a_file_that_was_not_touched_and_no_longer_loads_is_unrelated():
    known = _known("t.py::test_a passed", "u.py::test_u passed")
    judged = judge.red(known, [_report("t.py::test_a passed", "u.py error missing")], changes=[_test("t.py", OLD, OLD)])
    assert judge.UNRELATED_BROKEN in _codes(judged)
    assert not judged.ok


def test_a_java_test_that_does_not_compile_for_want_of_a_symbol_is_red_and_excuses_what_could_not_run():
    known = _known("src/test/java/ATest.java::adds passed", "src/test/java/OtherTest.java::others passed")
    text = (
        "class ATest { @Test void adds() { assertEquals(1, f()); } @Test void multiplies() { assertEquals(6, g()); } }"
    )
    old = "class ATest { @Test void adds() { assertEquals(1, f()); } }"
    judged = judge.red(known, [_report("src/test/java/ATest.java error missing")], changes=[_test("src/test/java/ATest.java", old, text)])  # fmt: skip
    assert (judged.ok, judged.new) == (True, ("s:src/test/java/ATest.java::multiplies",)), judged.findings


@pytest.mark.parametrize(
    ("new", "ran"),
    [
        ("s:spec/a_spec.rb::adds", "spec/a_spec.rb::Calc_adds"),
        ("s:a.test.js::group > adds", "a.test.js::group_adds"),
        ("s:src/ATests.cs::Adds", "Shop.ATests::Adds"),
    ],
)
def test_a_new_test_read_from_its_text_is_found_again_under_its_frameworks_name(new, ran):
    file, _, name = ran.partition("::")
    report = Report("s", "run", 0, 0.1, "", (case("s", file=file, name=name.replace("_", " "), status="passed"),))
    judged = judge.green(_known(), [report], changes=[FileChange("a.rb", False)], new=(new,))
    assert judged.ok, judged.findings
    other = Report("s", "run", 0, 0.1, "", (case("s", file=file, name="subtracts", status="passed"),))
    judged = judge.green(_known(), [other], changes=[FileChange("a.rb", False)], new=(new,))
    assert _codes(judged) == [judge.NEW_NOT_RUN]


def test_a_test_that_moved_is_still_there_after_refactoring():
    known = _known("t.py::test_a passed", "t.py::test_c passed")
    changes = [_test("t.py", OLD + "\ndef test_c():\n    assert h()\n", None), _test("u.py", None, OLD)]
    judged = judge.refactor(known, [_report("u.py::test_a passed")], changes=changes)
    assert _codes(judged) == ["test-removed", judge.DID_NOT_RUN]
    assert judged.findings[1].names == ("s:t.py::test_c",)


def test_a_wavering_test_is_told_and_not_counted():
    runs = [
        [_report("t.py::test_a passed", "t.py::test_w failed assertion")],
        [_report("t.py::test_a passed", "t.py::test_w passed")],
    ]
    known, findings = judge.baseline(runs)
    assert known.flaky == {"s:t.py::test_w"}
    assert [finding.code for finding in findings] == [FLAKY]
    judged = judge.refactor(known, [_report("t.py::test_a passed", "t.py::test_w failed assertion")], changes=[])
    assert (judged.ok, _codes(judged)) == (True, [FLAKY])
    assert judged.warnings
    assert not judged.faults
    assert judge.after(known, [_report("t.py::test_a passed", "t.py::test_w passed")]) == known


def test_what_failed_before_stays_known_until_it_passes():
    known = _known("t.py::test_a passed", "t.py::test_old failed assertion")
    reports = [_report("t.py::test_a passed", "t.py::test_old failed assertion")]
    assert judge.refactor(known, reports, changes=[]).ok
    assert judge.after(known, reports) == known
    later = judge.after(known, [_report("t.py::test_a passed", "t.py::test_old passed")])
    assert later.failing == frozenset()
    assert "s:t.py::test_old" in later.passing


def test_a_known_test_that_is_skipped_now_is_told():
    judged = judge.refactor(_known("t.py::test_a passed"), [_report("t.py::test_a skipped")], changes=[])
    assert _codes(judged) == [judge.NOW_SKIPPED]


def test_many_names_are_shortened_in_the_sentence_and_kept_in_the_finding():
    known = _known(*(f"t.py::test_{number} passed" for number in range(30)))
    (finding,) = judge.refactor(known, [_report()], changes=[]).findings
    assert "and 20 more" in finding.message
    assert len(finding.names) == 30


_STATES = st.dictionaries(
    st.sampled_from("abcdefgh"), st.sampled_from(["passed", "failed assertion", "skipped"]), max_size=8
)


@given(_STATES, _STATES)
def test_no_test_that_passed_can_be_lost_whatever_the_run_says(before, now):
    known = _known(*(f"t.py::{name} {state}" for name, state in before.items()))
    reports = [_report(*(f"t.py::{name} {state}" for name, state in now.items()))]
    passed = {name for name, state in before.items() if state == "passed"}
    lost = {name for name in passed if now.get(name) != "passed"}
    fresh = {name for name, state in now.items() if state.startswith("failed") and name not in before}
    for judged in (
        judge.refactor(known, reports, changes=[]),
        judge.green(known, reports, changes=[FileChange("a.py", False)], new=()),
    ):
        assert judged.ok is not bool(lost | fresh)
        named = {name.rpartition("::")[2] for finding in judged.faults for name in finding.names}
        assert named == lost | fresh
    assert baseline_of(json.loads(json.dumps(known.record()))) == known


def _asserting(held: int, *, file: str = "tests/test_a.py"):
    made = case("pytest", file=file, name="test_a", status="passed")._replace(held=held)
    return Report(suite="pytest", command="", code=0, seconds=0.0, tail="", cases=(made,), sealed=True)


def test_an_old_test_in_which_fewer_assertions_hold_than_before_is_named_in_every_phase():
    known, _ = judge.baseline([[_asserting(3)], [_asserting(3)]])
    code = [FileChange("calc.py", False, "a = 1\n", "a = 2\n")]
    support = [FileChange("tests/conftest.py", True, "a = 1\n", "a = 2\n")]
    assert "fewer-assertions-ran" in [
        one.code for one in judge.green(known, [_asserting(2)], changes=code, new=()).findings
    ]
    assert "fewer-assertions-ran" in [one.code for one in judge.refactor(known, [_asserting(2)], changes=code).findings]
    assert "fewer-assertions-ran" in [one.code for one in judge.red(known, [_asserting(2)], changes=support).findings]
    assert judge.refactor(known, [_asserting(3)], changes=code).ok
    assert judge.refactor(judge.after(known, [_asserting(4)]), [_asserting(4)], changes=code).ok
    assert not judge.refactor(judge.after(known, [_asserting(4)]), [_asserting(3)], changes=code).ok


def test_a_test_whose_assertions_waver_is_not_held_to_a_number():
    known, _ = judge.baseline([[_asserting(3)], [_asserting(5)]])
    assert judge.refactor(known, [_asserting(1)], changes=[FileChange("calc.py", False, "a = 1\n", "a = 2\n")]).ok
    once, _ = judge.baseline([[_asserting(3)]])
    assert once.held == frozenset()
