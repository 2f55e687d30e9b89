"""Whether a piece of work broke anything: all tests pass but those that failed before, and what the tests lost is said."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.checks import judge
from handoff.checks.assertions.assertions import find_hollow, find_weakened
from handoff.checks.findings import KNOWN_FAILURE, Baseline, Finding, Judgement, flaws_of, named_finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.checks.findings import FileChange
    from handoff.checks.results import Report

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
    findings = list(judge.refactor(Baseline(failing=failing, flaws=flaws_of(before)), ran, changes=()).findings)
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
        for one in (*find_weakened(texts), *find_hollow(texts))
    ]
