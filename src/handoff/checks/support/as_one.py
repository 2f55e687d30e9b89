"""Suites that say nothing but an exit code: which test is new is read from the files, and the command is red or green as one."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.checks.findings import Finding, named_finding
from handoff.checks.readers.reasons import printed_reason
from handoff.checks.results import COLLECTION, OTHER, SYNTAX, TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.checks.findings import FileChange
    from handoff.checks.results import Report

PASSES_AT_ONCE, UNRELATED_BROKEN, WRONG_REASON = "passes-at-once", "unrelated-broken", "wrong-reason"
UNCLEAR = "reason-unclear"
CODES = (PASSES_AT_ONCE, UNRELATED_BROKEN, WRONG_REASON)
_BROKEN = (SYNTAX, COLLECTION, TIMEOUT)


def red(
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
            findings += _why(report, ids)
            new += ids
    return findings, tuple(new)


def _why(report: Report, ids: Sequence[str]) -> list[Finding]:
    reason = printed_reason(report.tail, ids[0].partition("::")[0])
    if reason in _BROKEN:
        words = f"{report.trouble}: the test itself is broken ({reason})."
        return [Finding(WRONG_REASON, words, tuple(ids))]
    if reason == OTHER:
        words = f"{report.trouble}; why could not be told from what it printed."
        return [Finding(UNCLEAR, words, tuple(ids), noted=True)]
    return []


def without(reports: Sequence[Report], new: Sequence[str]) -> tuple[str, ...]:
    """The new tests of which a run can say whether they ran."""
    unnamed = tuple(f"{report.suite}:" for report in reports if not report.named)
    return tuple(name for name in new if not unnamed or not name.startswith(unnamed))
