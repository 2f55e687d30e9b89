"""Red, green, refactored or unbroken: rules over reports and changed files. Nothing is run or read here."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.checks.assertions.assertions import (
    find_vacuous,
    find_weakened,
    missing_names,
    read_red,
    read_tests,
    renamed_ids,
)
from handoff.checks.findings import (
    FLAKY,
    KNOWN_FAILURE,
    NO_RESULTS,
    Baseline,
    Finding,
    Judgement,
    first_line,
    flaws_of,
    named_finding,
    no_result,
    run_faults,
)
from handoff.checks.probes import find_fewer, held_by_test
from handoff.checks.readers.reasons import printed_reason
from handoff.checks.results import ASSERTION, COLLECTION, MISSING, OTHER, PASSED, RAISED, SKIPPED, SYNTAX, TIMEOUT
from handoff.checks.support import documents_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from handoff.checks.findings import FileChange
    from handoff.checks.results import Case, Report

NOTHING_NEW, SEVERAL_NEW = "nothing-new", "several-new"
NOT_A_TEST, NEW_SKIPPED = "not-a-test", "new-test-skipped"
NEW_EMPTY = "new-test-empty"
TEST_CHANGED, STILL_RED, NEW_NOT_RUN, NOTHING_CHANGED = (
    "test-changed",
    "still-red",
    "new-test-not-run",
    "nothing-changed",
)
BROKEN, DID_NOT_RUN, NOW_SKIPPED = "broken", "did-not-run", "now-skipped"
_GOOD_REASONS = (ASSERTION, MISSING, RAISED)
_COMPILED = (".java", ".kt", ".go", ".rs", ".cs", ".fs", ".scala", ".groovy")


def baseline(runs: Sequence[Sequence[Report]]) -> tuple[Baseline, tuple[Finding, ...]]:
    """What is known after running everything one or more times: a test that wavers is put aside, and that is said."""
    seen: dict[str, set[str]] = {}
    for reports in runs:
        for case in _cases(reports):
            seen.setdefault(case.id, set()).add("bad" if case.bad else case.status)
    flaky = {name for name, states in seen.items() if len(states) > 1}
    steady = {name: next(iter(states)) for name, states in seen.items() if name not in flaky}
    found = Baseline(
        passing=frozenset(name for name, state in steady.items() if state == PASSED),
        failing=frozenset(name for name, state in steady.items() if state == "bad"),
        skipped=frozenset(name for name, state in steady.items() if state == SKIPPED),
        flaky=frozenset(flaky),
        flaws=flaws_of(report for reports in runs for report in reports),
        held=_steady([held_by_test(reports) for reports in runs]) if len(runs) > 1 else frozenset(),
    )
    findings = [no_result(report) for reports in runs[-1:] for report in reports if report.trouble]
    if found.failing:
        findings.append(named_finding(KNOWN_FAILURE, "already failed before anything was changed", found.failing))
    if found.flaky:
        findings.append(
            named_finding(FLAKY, "passed in one run and failed in another, and are not counted", found.flaky)
        )
    return found, tuple(findings)


def red(known: Baseline, reports: Sequence[Report], *, changes: Sequence[FileChange]) -> Judgement:
    """All known tests pass and exactly one new test fails, because of an assertion or a missing symbol."""
    cases = {case.id: case for case in _cases(reports)}
    findings = run_faults(known, [report for report in reports if not report.fails_as_one])
    other = tuple(change.path for change in changes if not change.is_test)
    findings += [named_finding(NOT_A_TEST, "is not a test; this phase may write tests only", other)] if other else []
    sealed = any(report.sealed for report in reports)
    missing = missing_names(_messages(cases.values()))
    findings += [_weak(one) for one in read_red(_texts(changes), missing, asked_later=sealed)]
    unloaded = {case.file: case for case in cases.values() if not case.name and case.bad}
    fresh = [case for case in cases.values() if case.id not in known.known and case.name]
    written = _written_tests(changes)
    new_unloaded = [case for case in unloaded.values() if case.id not in known.known]
    hidden = tuple(
        f"{_suite(case)}:{case.file}::{name}" for case in new_unloaded for name in written.get(case.file, ())
    )
    failing = _plain(case for case in fresh if case.bad)
    findings += _loading(new_unloaded, written)
    findings += _idle(new_unloaded, changes)
    findings += _rest(known, cases, waived=_waived(known, new_unloaded, cases), code=UNRELATED_BROKEN)
    findings += _reasons(case for case in fresh if case.bad)
    if any(
        change.before is not None or not change.path.endswith(".py") or "conftest" in change.path for change in changes
    ):
        findings += _fewer(known, reports, changes)
    at_once = tuple(name for name in _plain(case for case in fresh if case.status == PASSED) if name not in failing)
    one_written = sum(len(names) for names in written.values()) == 1  # a table of cases is one test in the text
    if at_once and not (failing and one_written):
        findings.append(named_finding(PASSES_AT_ONCE, "passed at once: nothing has to be built for it", at_once))
    skipped = _plain(case for case in fresh if case.status == SKIPPED)
    if skipped:
        findings.append(named_finding(NEW_SKIPPED, "is new and skipped", skipped))
    told, unnamed = red_as_one(reports, changes, written)
    findings, failing = findings + told, failing + unnamed
    new = failing + tuple(name for name in hidden if name not in failing)
    if len(new) > 1 and not one_written:
        findings.append(named_finding(SEVERAL_NEW, "are new and fail; this phase wants one test at a time", new))
    if (
        not new
        and not at_once
        and not skipped
        and not new_unloaded
        and not any(one.code in (NO_RESULTS, *RED_CODES) for one in findings)
    ):
        findings.append(Finding(NOTHING_NEW, "There is no new test."))
    return _judged(findings, known, cases, new)


def green(
    known: Baseline, reports: Sequence[Report], *, changes: Sequence[FileChange], new: Sequence[str]
) -> Judgement:
    """All tests pass, no test file was changed, and the new test really ran."""
    cases = {case.id: case for case in _cases(reports)}
    findings = run_faults(known, reports)
    touched = tuple(change.path for change in changes if change.is_test)
    if touched:
        findings.append(named_finding(TEST_CHANGED, "is a test; the implementation must leave tests alone", touched))
    if not changes:
        findings.append(Finding(NOTHING_CHANGED, "No file was changed."))
    findings += _new_ran(cases, seen_by_name(reports, new))
    findings += _rest(known, cases, waived=frozenset(), code=BROKEN)
    findings += [*_others(known, cases, new), *_fewer(known, reports, changes)]
    return _judged(findings, known, cases, tuple(new))


def refactor(known: Baseline, reports: Sequence[Report], *, changes: Sequence[FileChange]) -> Judgement:
    """All tests pass, and none was removed, skipped or weakened."""
    cases = {case.id: case for case in _cases(reports)}
    findings = run_faults(known, reports)
    findings += [_weak(one) for one in find_weakened(_texts(changes))]
    passed = (case.id for case in cases.values() if case.status == PASSED)
    waived = (
        _moved(known, cases)
        | _renamed_doctests(known, cases, changes)
        | renamed_ids(_texts(changes), known.passing - set(cases), passed)
    )
    findings += _rest(known, cases, waived=waived, code=BROKEN)
    findings += [*_others(known, cases, ()), *_fewer(known, reports, changes)]
    return _judged(findings, known, cases, ())


def after(known: Baseline, reports: Sequence[Report]) -> Baseline:
    """The baseline for the next phase: what passes now is known to pass, what failed before stays known."""
    cases = {case.id: case for case in _cases(reports)}
    passing = frozenset(name for name, case in cases.items() if case.status == PASSED and name not in known.flaky)
    skipped = frozenset(name for name, case in cases.items() if case.status == SKIPPED and name not in known.flaky)
    held = _steady([{name: held_by_test(reports).get(name, number) for name, number in held_before(known).items()}])
    failing, flaws = known.failing - passing - skipped, known.flaws | flaws_of(reports)
    return known._replace(passing=passing, failing=failing, skipped=skipped, flaws=flaws, held=held)


def _steady(runs: Sequence[Mapping[str, int]]) -> frozenset[str]:
    """The tests in which every run saw the same number of assertions hold."""
    first, *rest = runs
    return frozenset(
        f"{number} {name}" for name, number in first.items() if number and all(one.get(name) == number for one in rest)
    )


def held_before(known: Baseline) -> dict[str, int]:
    """How many assertions held in each test, as far as that is known."""
    found = (one.partition(" ") for one in known.held)
    return {name: int(number) for number, _, name in found}


def _fewer(known: Baseline, reports: Sequence[Report], changes: Sequence[FileChange]) -> list[Finding]:
    """Old tests in files nobody touched that assert less than they did."""
    touched = tuple(f":{change.path}::" for change in changes if change.is_test)
    before = {name: held for name, held in held_before(known).items() if not any(mark in name for mark in touched)}
    return find_fewer(before, held_by_test(reports))


# --- parts ----------------------------------------------------------------------------------------


def _cases(reports: Iterable[Report]) -> Iterable[Case]:
    return (case for report in reports for case in report.cases)


def _suite(case: Case) -> str:
    return case.id[: -len(case.file) - 1] if not case.name else case.id[: -len(f":{case.file}::{case.name}")]


def _plain(cases: Iterable[Case]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(case.plain for case in cases))


def _texts(changes: Iterable[FileChange]) -> dict[str, tuple[str | None, str | None]]:
    return {change.path: (change.before, change.after) for change in changes if change.is_test}


def _messages(cases: Iterable[Case]) -> list[str]:
    return [case.message for case in cases if case.bad and case.reason == MISSING]


def _written_tests(changes: Iterable[FileChange]) -> dict[str, tuple[str, ...]]:
    """By file, the tests that stand in its new text and not in its old one."""
    found = {}
    for change in changes:
        if change.is_test and change.after is not None:
            old = read_tests(change.path, change.before) if change.before is not None else {}
            found[change.path] = tuple(name for name in read_tests(change.path, change.after) if name not in old)
    return found


def _idle(unloaded: Sequence[Case], changes: Iterable[FileChange]) -> list[Finding]:
    """New tests in a file that does not load yet: what their text shows counts, because no run has shown it."""
    files = {case.file for case in unloaded}
    skipped, empty = [], []
    for change in changes:
        if change.is_test and change.after is not None and change.path in files:
            old = read_tests(change.path, change.before) if change.before is not None else {}
            for name, facts in read_tests(change.path, change.after).items():
                if name not in old:
                    skipped += [f"{change.path}::{name}"] if facts.skipped else []
                    empty += [f"{change.path}::{name}"] if facts.empty else []
    findings = [named_finding(NEW_SKIPPED, "is new and skipped", skipped)] if skipped else []
    return findings + ([named_finding(NEW_EMPTY, "is new and has no body", empty)] if empty else [])


def _loading(unloaded: Sequence[Case], written: Mapping[str, tuple[str, ...]]) -> list[Finding]:
    """Files that did not load: fine when they are new or changed and only miss what is to be built."""
    findings = []
    for case in unloaded:
        if case.reason != MISSING:
            findings.append(
                Finding(
                    WRONG_REASON, f"{case.file} does not load ({case.reason}): {first_line(case.message)}", (case.id,)
                )
            )
        elif not written.get(case.file):
            findings.append(
                Finding(UNRELATED_BROKEN, f"{case.file} no longer loads: {first_line(case.message)}", (case.id,))
            )
    return findings


def _waived(known: Baseline, unloaded: Sequence[Case], cases: Mapping[str, Case]) -> frozenset[str]:
    """Known tests that could not run because what the new test needs is missing; green runs them again.

    They are those of the same file, and all of a suite that is compiled as a whole or of which nothing ran.
    """
    heads = []
    for case in unloaded:
        if case.reason != MISSING:
            continue
        suite = f"{_suite(case)}:"
        silent = not any(other.name and other.id.startswith(suite) for other in cases.values())
        heads.append(suite if silent or case.file.endswith(_COMPILED) else f"{suite}{case.file}::")
    return frozenset(name for name in known.known if name.startswith(tuple(heads))) if heads else frozenset()


def _moved(known: Baseline, cases: Mapping[str, Case]) -> frozenset[str]:
    """Known tests that did not run under their old id while a test of the same name passes in another place or as a table."""
    there: dict[str, int] = {}
    for case in cases.values():
        if case.id not in known.known and case.status == PASSED:
            last = _own_name(case.id)
            there[last] = there.get(last, 0) + 1
    tables = {case.plain for case in cases.values() if case.id != case.plain and case.status == PASSED}
    moved = {name for name in known.passing - set(cases) if name in tables}
    for name in sorted(known.passing - set(cases) - moved):
        last = _own_name(name)
        if there.get(last, 0) > 0:
            there[last] -= 1
            moved.add(name)
    return frozenset(moved)


def _own_name(name: str) -> str:
    """The last part of a test's id; a doctest has its module before its function."""
    last, mark, row = name.rpartition("::")[2].partition("[")
    return last.rpartition(".")[2] + mark + row


def _renamed_doctests(known: Baseline, cases: Mapping[str, Case], changes: Sequence[FileChange]) -> frozenset[str]:
    """Doctests that did not run under their old id while the same words pass under another function's name."""
    passed = {_own_name(case.id) for case in cases.values() if case.id not in known.known and case.status == PASSED}
    code = [one for one in changes if not one.is_test and one.path.endswith(".py")]
    new = [(name, said) for one in code for name, said in documents_of(one.after or "").items() if name in passed]
    old = {name: said for one in code for name, said in documents_of(one.before or "").items()}
    gone = {name: _own_name(name) for name in known.passing - set(cases)}
    return frozenset(
        name
        for name, own in gone.items()
        if own in old and any(said.replace(other, own) == old[own] for other, said in new)
    )


def _rest(known: Baseline, cases: Mapping[str, Case], *, waived: frozenset[str], code: str) -> list[Finding]:
    """The tests that passed before: they must have run, and passed."""
    findings = []
    broken = [name for name in sorted(known.passing) if name in cases and cases[name].bad]
    if broken:
        why = first_line(cases[broken[0]].message)
        findings.append(
            named_finding(code, f"passed before and fail{'s' if len(broken) == 1 else ''} now: {why}", broken)
        )
    gone = [name for name in sorted(known.passing) if name not in cases and name not in waived]
    if gone:
        findings.append(named_finding(DID_NOT_RUN, "passed before and did not run", gone))
    skipped = [name for name in sorted(known.passing) if name in cases and cases[name].status == SKIPPED]
    if skipped:
        findings.append(named_finding(NOW_SKIPPED, "passed before and is skipped now", skipped))
    return findings


def _others(known: Baseline, cases: Mapping[str, Case], new: Sequence[str]) -> list[Finding]:
    """Tests nobody knew that fail, beside the new one."""
    bad = [case.id for case in cases.values() if case.bad and case.id not in known.known and case.plain not in new]
    return [named_finding(BROKEN, "fails: " + first_line(cases[bad[0]].message), bad)] if bad else []


def _new_ran(cases: Mapping[str, Case], new: Sequence[str]) -> list[Finding]:
    findings = []
    for name in new:
        ran = [case for case in cases.values() if name in (case.plain, case.id)] or _alike(cases, name)
        if not ran:
            findings.append(Finding(NEW_NOT_RUN, f"The new test {name} did not run.", (name,)))
        elif bad := [case for case in ran if case.bad]:
            findings.append(
                Finding(STILL_RED, f"The new test {name} still fails: {first_line(bad[0].message)}", (name,))
            )
        elif all(case.status == SKIPPED for case in ran):
            findings.append(Finding(NEW_SKIPPED, f"The new test {name} is skipped.", (name,)))
    return findings


def _alike(cases: Mapping[str, Case], name: str) -> list[Case]:
    """A new test that could only be read from its text has the name it has there; frameworks put their own before it."""
    place, _, words = name.rpartition("::")
    wanted = words.replace(" > ", " ")
    same = [case for case in cases.values() if case.id.startswith(f"{place}::")]
    suite = place.partition(":")[0] + ":"
    among = same or [case for case in cases.values() if case.id.startswith(suite)]
    found = []
    for case in among:
        last = case.name.partition("[")[0].replace(" > ", " ")
        if last == wanted or last.endswith((f" {wanted}", f"::{wanted}", f".{wanted}")):
            found.append(case)
    return found


def _reasons(cases: Iterable[Case]) -> list[Finding]:
    return [
        Finding(
            WRONG_REASON, f"{case.id} fails for a wrong reason ({case.reason}): {first_line(case.message)}", (case.id,)
        )
        for case in cases
        if case.reason not in _GOOD_REASONS
    ]


def _weak(one: Any) -> Finding:
    return Finding(one.code, one.message, (f"{one.path}::{one.test}",), noted=one.noted)


def _judged(findings: list[Finding], known: Baseline, cases: Mapping[str, Case], new: tuple[str, ...]) -> Judgement:
    wavering = sorted(name for name in known.flaky if name in cases and cases[name].bad)
    if wavering:
        findings.append(named_finding(FLAKY, "failed, but is known to waver and is not counted", wavering))
    return Judgement(all(finding.warning for finding in findings), tuple(findings), new)


# Suites that give nothing but an exit code: which test is new is read from the files, and the command is red or green as one.


PASSES_AT_ONCE, UNRELATED_BROKEN, WRONG_REASON = "passes-at-once", "unrelated-broken", "wrong-reason"
UNCLEAR = "reason-unclear"
RED_CODES = (PASSES_AT_ONCE, UNRELATED_BROKEN, WRONG_REASON)
_BROKEN_TEST = (SYNTAX, COLLECTION, TIMEOUT)


def red_as_one(
    reports: Sequence[Report], changes: Sequence[FileChange], written: Mapping[str, tuple[str, ...]]
) -> tuple[list[Finding], tuple[str, ...]]:
    """What is wrong, and the new tests: those that stand in changed files, when the command fails since then."""
    findings: list[Finding] = []
    new: list[str] = []
    for report in reports:
        if report.named:
            continue
        ids = [
            f"{report.suite}:{change.path}::{name}" if name else f"{report.suite}:{change.path}"
            for change in changes
            if change.is_test and change.after is not None
            for name in written.get(change.path) or (() if change.before is not None else ("",))
        ]
        if report.green and ids:
            words = "stands there and the command passes: nothing has to be built for it"
            findings.append(named_finding(PASSES_AT_ONCE, words, ids))
        elif report.fails_as_one and not ids:
            findings.append(Finding(UNRELATED_BROKEN, f"{report.trouble}, and no test is new.", (report.suite,)))
        elif report.fails_as_one:
            findings += _why_as_one(report, ids)
            new += ids
    return findings, tuple(new)


def _why_as_one(report: Report, ids: Sequence[str]) -> list[Finding]:
    reason = printed_reason(report.tail, ids[0].partition("::")[0])
    if reason in _BROKEN_TEST:
        words = f"{report.trouble}: the test itself is broken ({reason})."
        return [Finding(WRONG_REASON, words, tuple(ids))]
    if reason == OTHER:
        words = f"{report.trouble}; its output does not say why."
        return [Finding(UNCLEAR, words, tuple(ids), noted=True)]
    return []


def seen_by_name(reports: Sequence[Report], new: Sequence[str]) -> tuple[str, ...]:
    """The new tests of which a run can say whether they ran."""
    unnamed = tuple(f"{report.suite}:" for report in reports if not report.named)
    return tuple(name for name in new if not unnamed or not name.startswith(unnamed))


# Work without a phase: all tests pass but those that failed before, and what the tests lost is noted.


NOT_TESTED = "not-tested"
NO_SUITE = "not tested: no test suite was found, and .handoff/config.toml names none under [checks]."


def needs_the_past(reports: Sequence[Report]) -> bool:
    """Whether a run on the tree before is needed to say whose fault it is."""
    return any(not report.green or report.flaws for report in reports)


def judge_unbroken(before: Sequence[Report], reports: Sequence[Report], *, changes: Sequence[FileChange]) -> Judgement:
    """What is wrong and what is to be known. A suite that could not run before either is nobody's fault."""
    past = {report.suite for report in before if report.trouble}
    silent = [report for report in reports if report.trouble and report.suite in past]
    ran = [report for report in reports if report not in silent]
    failing = frozenset(case.id for report in before for case in report.cases if case.bad)
    findings = list(refactor(Baseline(failing=failing, flaws=flaws_of(before)), ran, changes=()).findings)
    known = sorted(case.id for report in ran for case in report.cases if case.bad and case.id in failing)
    if known:
        findings.append(named_finding(KNOWN_FAILURE, "failed before anything was changed", known))
    findings += [
        Finding(
            NOT_TESTED, f"not tested: {report.suite} gave no result to trust, before the work as now: {report.trouble}."
        )
        for report in silent
    ]
    if not reports:
        findings.append(Finding(NOT_TESTED, NO_SUITE))
    findings += note_lost(changes)
    return Judgement(all(one.warning for one in findings), tuple(findings))


def note_lost(changes: Sequence[FileChange]) -> list[Finding]:
    """What the tests lost, to be told to whoever decides: work that was asked for may change tests."""
    texts = {change.path: (change.before, change.after) for change in changes if change.is_test}
    return [
        Finding(one.code, one.message, (f"{one.path}::{one.test}",), noted=True)
        for one in (*find_weakened(texts), *find_vacuous(texts))
    ]
