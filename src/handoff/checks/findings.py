"""What the judge is given and what it says: changed files, what is known of the tests, findings and the judgement."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from handoff.checks.results import Flaw, Report

NO_RESULTS = "no-results"
FLAKY, KNOWN_FAILURE = "flaky", "known-failure"
WARNINGS = frozenset({FLAKY, KNOWN_FAILURE, "not-tested"})
_NAMED = 10


class Finding(Record):
    """One thing that is wrong (or, for a warning, to be known): a stable code, a sentence, the tests or files meant."""

    code: str
    message: str
    names: tuple[str, ...] = ()
    noted: bool = False
    """To be known, whatever the code: nobody is refused for it here."""

    @property
    def warning(self) -> bool:
        return self.noted or self.code in WARNINGS


class FileChange(Record):
    """One file a phase changed. The texts are those of tests, code and settings; None where the file does not exist on that side."""

    path: str
    is_test: bool
    before: str | None = None
    after: str | None = None


class Baseline(Record):
    """What is known of the tests before a phase: ids that pass, that fail already, that are skipped, that waver."""

    passing: frozenset[str] = frozenset()
    failing: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    flaky: frozenset[str] = frozenset()
    flaws: frozenset[str] = frozenset()
    """What was not as it must be about the runs already, by suite."""
    held: frozenset[str] = frozenset()
    """How many assertions hold in each test that passes, where several runs said the same: `NUMBER ID`."""

    @property
    def known(self) -> frozenset[str]:
        return self.passing | self.failing | self.skipped | self.flaky

    def record(self) -> dict[str, list[str]]:
        """The baseline as plain values."""
        return {name: sorted(value) for name, value in self._asdict().items()}


def baseline_of(values: Mapping[str, Any]) -> Baseline:
    """The baseline that `record` wrote down."""
    return Baseline(**{name: frozenset(values.get(name, ())) for name in Baseline._fields})


class Judgement(Record):
    """What was decided, why, and which tests are new."""

    ok: bool
    findings: tuple[Finding, ...] = ()
    new: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    """How many questions the tests were asked of how many, and the seeds of what was drawn."""

    @property
    def faults(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.warning)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.warning)

    def adding(self, more: Sequence[Finding]) -> Judgement:
        """The same with more findings."""
        return self._replace(ok=self.ok and all(one.warning for one in more), findings=(*self.findings, *more))

    def without(self, answered: Sequence[Finding]) -> Judgement:
        """The same without findings that something else has answered."""
        kept = tuple(one for one in self.findings if one not in answered)
        return self._replace(ok=all(one.warning for one in kept), findings=kept)

    def record(self) -> dict[str, Any]:
        """The judgement as plain values."""
        found = [
            {**finding._asdict(), "names": list(finding.names), "warning": finding.warning} for finding in self.findings
        ]
        return {"ok": self.ok, "new": list(self.new), "findings": found}


def named_finding(code: str, words: str, names: Iterable[str]) -> Finding:
    """A sentence that names the tests or files; when there are many, the first of them and their number."""
    listed = tuple(names) if isinstance(names, (tuple, list)) else tuple(sorted(names))
    shown = ", ".join(listed[:_NAMED]) + (f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else "")
    return Finding(code, f"{shown}: {words}.", listed)


def first_line(text: str) -> str:
    """The first line that says something, not too long."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")[:200]


def no_result(report: Report) -> Finding:
    """That a suite gave nothing to trust."""
    return Finding(
        report.fault or NO_RESULTS, f"{report.suite} has no results to trust: {report.trouble}.", (report.suite,)
    )


def run_faults(known: Baseline, reports: Iterable[Report]) -> list[Finding]:
    """What is wrong about the runs themselves: no results to trust, or flaws that were not there before."""
    findings: list[Finding] = []
    for report in reports:
        if report.trouble:
            findings.append(no_result(report))
        by_code: dict[str, list[Flaw]] = {}
        for flaw in report.flaws:
            if _flaw_id(report, flaw) not in known.flaws:
                by_code.setdefault(flaw.code, []).append(flaw)
        for code, flaws in by_code.items():
            more = f" (and {len(flaws) - 1} more)" if len(flaws) > 1 else ""
            names = tuple(flaw.where for flaw in flaws)
            findings.append(Finding(code, f"{report.suite}: {flaws[0].words}{more}.", names))
    return findings


def _flaw_id(report: Report, flaw: Flaw) -> str:
    return f"{report.suite}:{flaw.id}"


def flaws_of(reports: Iterable[Report]) -> frozenset[str]:
    """The flaws of these runs, as a baseline keeps them."""
    return frozenset(_flaw_id(report, flaw) for report in reports for flaw in report.flaws)
