"""Twins in one short run: copies of tests that ask for something else, and one for which the new code was emptied."""

from __future__ import annotations

import os
import shlex

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.findings import Finding, named_finding
from handoff.checks.probes import INSENSITIVE, MOST_TESTS, NAME_DEPENDENT, cases_of_twins, judge_twins, make_twins
from handoff.checks.sealed import runner_words
from handoff.checks.suite import InsideLook
from handoff.checks.support import changed_functions, changed_tests, owned_names, tests_about, uses_nothing_of
from handoff.engine.proof import test_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from handoff.checks.findings import FileChange
    from handoff.checks.probes import TwinFile
    from handoff.checks.results import Report
    from handoff.checks.suite import Suite
    from handoff.checks.support import Standing
    from handoff.git.commits.phases import FlowCheckout

NOT_PROBED, NOT_CALLED = "not-probed", "subject-not-called"
PROBE_SECONDS = 60.0


class JudgedChange(Record):
    """What a phase changed since the last good tree, and how trees of it are run."""

    checkout: FlowCheckout
    head: str
    tree: str
    changes: tuple[FileChange, ...]
    standing: Standing
    before: tuple[str, ...]
    links: tuple[str, ...]

    @property
    def support(self) -> list[str]:
        """The changed paths that are test, or that tests stand on."""
        stood = self.standing.helpers | self.standing.golden
        return [change.path for change in self.changes if change.is_test or change.path in stood]

    @property
    def code(self) -> list[str]:
        """The changed paths that are neither."""
        support = set(self.support)
        return [change.path for change in self.changes if change.path not in support]


class Probe(Record):
    """The run of the phase's tree, the suites, how another tree is run, and how many texts are read at once."""

    reports: tuple[Report, ...]
    suites: tuple[Suite, ...]
    run: Callable[[str, Sequence[Suite]], Sequence[Report]]
    texts: Callable[[Callable[[str], bool]], dict[str, str]]


class TwinTests(Record):
    """Twins of some tests of one suite: by the test's id the new file beside it, what is in that, and the test's own text."""

    suite: Suite
    files: dict[str, tuple[str, TwinFile, str]]

    def texts(self) -> dict[str, str]:
        """The new files."""
        return {path: twins.text for path, twins, _ in self.files.values()}

    def line(self, functions: Sequence[tuple[str, str]] = ()) -> Suite:
        """The suite that runs these alone, and looks inside."""
        inside = len(self.suite.folder) + 1 if self.suite.folder else 0
        ids = [
            f"{path[inside:]}::{test}"
            for path, twins, _ in self.files.values()
            for test in (twins.same, *twins.others, twins.without)
        ]
        look = InsideLook(
            tuple(_last(twins.same) for _, twins, _ in self.files.values()),
            tuple(_last(twins.without) for _, twins, _ in self.files.values()),
            tuple(functions),
        )
        return self.suite._replace(
            command=f"{self.suite.command} {shlex.join(ids)}", timeout=PROBE_SECONDS, inside=look
        )


def twins_of(change: JudgedChange, suite: Suite, tests: Sequence[tuple[str, str, str]], tree: str) -> TwinTests | None:
    """The twins of these tests (id, path, name) as the tree has them; None where there are none, or the run cannot be sealed."""
    made: dict[str, tuple[str, TwinFile, str]] = {}
    for name, path, test in tests[:MOST_TESTS] if runner_words(suite) is not None else ():
        text = change.checkout.read(tree, path) if path.endswith(".py") else None
        twins = make_twins(text or "", test)
        if twins is not None:
            beside = f"{os.path.dirname(path)}/".lstrip("/") + f"test_{os.urandom(5).hex()}.py"
            made[name] = (beside, twins, text or "")
    return TwinTests(suite, made) if made else None


def probe_new(change: JudgedChange, new: Sequence[str], probe: Probe) -> list[Finding]:
    """The new tests: sensitive, not bound to their names, and about what was built."""
    found: list[Finding] = []
    functions = changed_functions(change.changes)
    for suite in probe.suites:
        mine = [(name, *split_id(name)) for name in new if name.startswith(f"{suite.name}:")]
        twins = twins_of(change, suite, mine, change.tree)
        if twins is None:
            continue
        reports = probe.run(change.checkout.tree_with(change.tree, dict(twins.texts())), [twins.line(functions)])
        for name, (path, made, text) in twins.files.items():
            seen = cases_of_twins(path, reports)
            said = judge_twins(name, made, seen, functions)
            if said is None:
                words = f"{name} was not probed: its copies gave no result."
                said = [Finding(NOT_PROBED, words, (name,), noted=True)]
            elif not said:
                entered = [one for case in seen[made.same] for one in case.called]
                said = _not_called(change, suite, name, text, entered)
            found += said
    return found


def _not_called(change: JudgedChange, suite: Suite, name: str, text: str, entered: Sequence[str]) -> list[Finding]:
    """A test that went through nothing of the project and speaks of nothing of it."""
    tests = test_runs.tests_of([suite])
    product = [one for one in entered if not tests.covers(one.rpartition(":")[0])]
    owned = owned_names([*change.before, *(one.path for one in change.changes)], suite)
    if product or not uses_nothing_of(text, split_id(name)[1], owned):
        return []
    return [named_finding(NOT_CALLED, "passes without having called or used anything of the project", [name])]


def about_refactoring(change: JudgedChange, probe: Probe) -> list[TwinTests]:
    """Twins of the tests that a refactoring changed, and of some that speak of the functions it changed."""
    found: list[TwinTests] = []
    functions = [name for _, name in changed_functions(change.changes)]
    for suite in probe.suites:
        if runner_words(suite) is None:
            continue
        tests = test_runs.tests_of([suite])
        touched = {one.path: one for one in change.changes if one.is_test and one.after is not None}
        listed = [
            (path, test) for path, one in touched.items() for test in changed_tests(one.before or "", one.after or "")
        ]
        if functions and len(listed) < MOST_TESTS:
            texts = probe.texts(lambda path, tests=tests: path.endswith(".py") and tests.covers(path))  # type: ignore[misc]
            listed += tests_about(texts, functions, most=MOST_TESTS)
        named = [(f"{suite.name}:{path}::{test}", path, test) for path, test in dict.fromkeys(listed)]
        twins = twins_of(change, suite, named, change.tree)
        found += [twins] if twins is not None else []
    return found


def judge_refactoring(
    change: JudgedChange, twins: TwinTests, reports: Sequence[Report], probe: Probe, *, on_old_code: bool = False
) -> list[Finding]:
    """Tests that take every answer now; one that took every answer before is not charged to this change.

    On the old code a test may fail for what it asks: of its copies there only those that take everything tell something.
    """
    said = [
        (name, one)
        for name, (path, made, _) in twins.files.items()
        for one in judge_twins(name, made, cases_of_twins(path, reports)) or ()
    ]
    told = [(name, one) for name, one in said if one.code == INSENSITIVE or not on_old_code]
    return [one for name, one in told if not _was_so(change, twins.suite, name, probe)]


def _was_so(change: JudgedChange, suite: Suite, name: str, probe: Probe) -> bool:
    """Whether the test took every answer already, on the code as it was."""
    before = twins_of(change, suite, [(name, *split_id(name))], change.head)
    if before is None:
        return False
    reports = probe.run(change.checkout.tree_with(change.head, dict(before.texts())), [before.line()])
    path, made, _ = before.files[name]
    return any(
        one.code in (INSENSITIVE, NAME_DEPENDENT)
        for one in judge_twins(name, made, cases_of_twins(path, reports)) or ()
    )


def split_id(name: str) -> tuple[str, str]:
    """File and test of a test's id."""
    place, _, test = name.partition("::")
    return place.partition(":")[2], test


def _last(name: str) -> str:
    return name.rpartition("::")[2]
