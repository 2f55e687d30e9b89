"""How much tests notice: mutants of the changed lines run against the suite, and hidden tests run on what was built."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.mutants import Mutant, changed_lines, mutants
from handoff.engine.place.proof import test_runs
from handoff.git.notes import GREEN, HIDDEN, MOST_NAMES, MUTANTS, RED, Check

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from handoff.checks.results import Case, Report
    from handoff.checks.suite import Suite
    from handoff.engine.app import App
    from handoff.git.commits.phases import FlowCheckout

_TIMES, _LEAST = 5.0, 10.0  # each mutant may take five times the clean run, and never less than this
_SECONDS = 900.0
_FAILED = "assertion"


class Measured(Record):
    """What became of the mutants: those no test noticed, those one did, and how many there was no time for."""

    alive: tuple[Mutant, ...] = ()
    killed: tuple[Mutant, ...] = ()
    left_out: int = 0
    seconds: float = 0.0

    @property
    def tried(self) -> int:
        return len(self.alive) + len(self.killed)

    @property
    def score(self) -> float:
        """The share that was noticed; without a mutant nothing was missed."""
        return len(self.killed) / self.tried if self.tried else 1.0

    def as_check(self, wanted: float) -> Check:
        """The run as the record keeps it: survivors stand where failing tests stand."""
        return Check(
            command=f"{self.tried} {MUTANTS} of the changed lines",
            verdict=GREEN if self.score >= wanted else RED,
            suite=MUTANTS,
            passed=len(self.killed),
            failed=len(self.alive),
            skipped=self.left_out,
            failing=tuple(str(one) for one in self.alive[:MOST_NAMES]),
            seconds=round(self.seconds, 3),
        )


def measure(
    app: App,
    *,
    checkout: FlowCheckout,
    old: str,
    new: str,
    suites: Sequence[Suite],
    passing: Collection[str],
    most: int,
) -> Measured:
    """Change one thing after the other in the lines that are new, and see whether a test that passes notices."""
    owned, chosen = test_runs.tests_of(suites), []
    paths = [path for path in checkout.changed(old, new) if path.endswith(".py") and not owned.covers(path)]
    for path in paths:
        after = checkout.read(new, path)
        if after is not None:
            lines = changed_lines(checkout.read(old, path) or "", after)
            chosen += mutants(path, after, lines, most=max(most // len(paths), 1))
    if not chosen:
        return Measured()
    began = app.clock.monotonic()
    test_runs.verdict(app, repository=checkout.tree, tree=new, suites=suites)
    clean = app.clock.monotonic() - began
    alive: list[Mutant] = []
    killed: list[Mutant] = []
    for mutant in chosen:
        if app.clock.monotonic() - began > _SECONDS:
            break
        tree = checkout.tree_with(new, {mutant.path: mutant.text})
        limit = max(_TIMES * clean, _LEAST)
        reports = test_runs.verdict(app, repository=checkout.tree, tree=tree, suites=suites, timeout=limit)
        (killed if _is_noticed(reports, passing) else alive).append(mutant)
    return Measured(
        alive=tuple(alive),
        killed=tuple(killed),
        left_out=len(chosen) - len(alive) - len(killed),
        seconds=app.clock.monotonic() - began,
    )


def _is_noticed(reports: Sequence[Report], passing: Collection[str]) -> bool:
    seen = {case.id for report in reports for case in report.cases if not case.bad}
    return any(report.trouble for report in reports) or any(name not in seen for name in passing)


class HiddenRun(Record):
    """What the hidden tests said: those an assertion of theirs refused, and those that ask for names nobody promised."""

    passed: int = 0
    failed: tuple[Case, ...] = ()
    other: tuple[Case, ...] = ()

    def as_check(self) -> Check:
        """The run as the record keeps it, by names alone: the texts stay hidden."""
        return Check(
            command=HIDDEN,
            verdict=RED if self.failed else GREEN,
            suite=HIDDEN,
            passed=self.passed,
            failed=len(self.failed),
            skipped=len(self.other),
            failing=tuple(case.id for case in self.failed[:MOST_NAMES]),
        )


def run_hidden(
    app: App, *, checkout: FlowCheckout, tree: str, hidden: Mapping[str, str], suites: Sequence[Suite]
) -> HiddenRun:
    """Lay the hidden tests into the tree and run everything; only what stands in their files counts."""
    whole = checkout.tree_with(tree, dict(hidden))
    try:
        reports = test_runs.verdict(app, repository=checkout.tree, tree=whole, suites=suites)
    finally:
        checkout.forget(whole, list(hidden))
    mine = [case for report in reports for case in report.cases if case.file in hidden]
    bad = [case for case in mine if case.bad]
    failed = tuple(case for case in bad if case.reason == _FAILED)
    return HiddenRun(
        passed=len(mine) - len(bad), failed=failed, other=tuple(case for case in bad if case not in failed)
    )
