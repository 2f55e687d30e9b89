"""Probes of tests: runs with old code and new, neighbours that say something else, assertions that ran."""

from __future__ import annotations

import ast

from handoff.base.record import TYPE_CHECKING
from handoff.checks.assertions.assertions import read_tests
from handoff.checks.findings import Finding, first_line, named_finding
from handoff.checks.results import ASSERTION, COLLECTION, MISSING, PASSED, SKIPPED
from handoff.checks.support import tests_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from handoff.checks.findings import Baseline, FileChange
    from handoff.checks.results import Case, Report

OLD_FAIL, NEW_FAIL, WITHOUT = "old-tests-fail", "new-tests-fail-on-old-code", "fails-without-new-support"
NEIGHBOUR, EXPECTATION, INTERFACE = "neighbour-changed", "expectation-changed", "interface-changed"
FEWER_RAN = "fewer-assertions-ran"
_LOOSE = (MISSING, COLLECTION)


def judge_old_tests(known: Baseline, reports: Sequence[Report]) -> list[Finding]:
    """The tests of the last good commit on the new code: what fails there was not refactored but changed."""
    every = (case for report in reports for case in report.cases if case.bad)
    bad = [case for case in every if case.id in known.passing or not (case.name or case.id in known.failing)]
    return _judge(bad, OLD_FAIL, "passed before the change and fails on the new code as it was written")


def judge_new_tests(known: Baseline, reports: Sequence[Report]) -> list[Finding]:
    """The new tests on the code of the last good commit: what fails there asks for something else than before."""
    cases = (case for report in reports for case in report.cases)
    bad = [case for case in cases if case.bad and case.id not in known.failing | known.flaky]
    return _judge(bad, NEW_FAIL, "as it is written now fails on the code as it was")


def _judge(bad: Sequence[Case], code: str, words: str) -> list[Finding]:
    """A failing assertion is a fault; a name that is missing may be a rename, and is told."""
    wrong = [case for case in bad if case.reason not in _LOOSE]
    missing = [case for case in bad if case.reason in _LOOSE]
    findings = []
    if wrong:
        findings.append(named_finding(code, f"{words} ({first_line(wrong[0].message)})", [case.id for case in wrong]))
    if missing:
        what = "names of the code are others now, so that old tests and new code do not fit: " + first_line(
            missing[0].message
        )
        findings.append(Finding(INTERFACE, f"{what}.", tuple(case.id for case in missing), noted=True))
    return findings


def judge_without(new: Sequence[str], reports: Sequence[Report]) -> list[Finding]:
    """The new test with the support from before it: what fails by an assertion there passes only thanks to its helpers."""
    cases = [case for report in reports for case in report.cases]
    bad = [case for case in cases if case.bad and case.reason == ASSERTION and new and case.plain in new]
    words = "passes only with the helpers that were changed together with it"
    return [named_finding(WITHOUT, words, [case.id for case in bad])] if bad else []


def find_neighbours(changes: Iterable[FileChange], allowed: str) -> list[Finding]:
    """Tests that existed before and say something else now, unless the line of the list names them behind `changes:`."""
    excused = allowed.partition("changes:")[2]
    found = []
    for change in changes:
        if not change.is_test or change.before is None or change.after is None:
            continue
        old, new = (_shapes(change.path, text) for text in (change.before, change.after))
        for name, shape in old.items():
            if name in new and new[name] != shape and name.rpartition("::")[2] not in excused:
                found.append(f"{change.path}::{name}")
    return (
        [named_finding(NEIGHBOUR, "is a test that was there before, and it says something else now", found)]
        if found
        else []
    )


def _shapes(path: str, text: str) -> dict[str, str]:
    """Each test of a file with what it says, whatever its layout."""
    return (
        tests_of(text) if path.endswith(".py") else {name: facts.body for name, facts in read_tests(path, text).items()}
    )


def find_lost_constants(changes: Iterable[FileChange]) -> list[Finding]:
    """Values the old tests asked for that stand in no new one."""
    listed = [change for change in changes if change.is_test and change.path.endswith(".py")]
    now = set().union(*(_constants(change.after or "") for change in listed)) if listed else set()
    lost = sorted({repr(value) for change in listed for value in _constants(change.before or "") - now})
    if not lost:
        return []
    words = f"the tests asked for {', '.join(lost[:5])} before, and nothing asks for it now"
    return [Finding(EXPECTATION, f"With the names an expectation was changed: {words}.", tuple(lost))]


def _constants(text: str) -> set[object]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    bare = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return {
        (type(node.value).__name__, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and id(node) not in bare
        and not isinstance(node.value, (bool, type(None), type(...)))
    }


def held_by_test(reports: Iterable[Report]) -> dict[str, int]:
    """How many assertions held in each test, the cases of a table together."""
    found: dict[str, int] = {}
    for report in reports:
        for case in report.cases:
            if case.status in (PASSED, SKIPPED):
                found[case.plain] = found.get(case.plain, 0) + case.held
    return found


def find_fewer(before: Mapping[str, int], after: Mapping[str, int]) -> list[Finding]:
    """Tests in which fewer assertions held than in the same test before."""
    lost = {name: (number, after[name]) for name, number in before.items() if name in after and after[name] < number}
    return [
        Finding(FEWER_RAN, f"{name}: {old} assertions ran in it before, {now} now.", (name,))
        for name, (old, now) in sorted(lost.items())
    ]


def asserts_plainly(text: str, test: str) -> bool:
    """Whether a test's own text holds assert statements."""
    return "Assert(" in tests_of(text).get(test, "")
