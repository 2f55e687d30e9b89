"""A phase from both sides: what its tests are built on, old tests on new code and new tests on old code, and copies of tests that must fail."""

from __future__ import annotations

import os
import re
import shlex

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks import probes
from handoff.checks.assertions.assertions import FEWER, find_split
from handoff.checks.findings import Baseline, FileChange, Finding, Judgement, named_finding
from handoff.checks.sealed import runner_words
from handoff.checks.suite import InsideLook, Suite
from handoff.checks.support import (
    SOURCES,
    TestSupport,
    changed_functions,
    changed_tests,
    find_support,
    owned_names,
    tests_about,
    uses_nothing_of,
)
from handoff.engine.proof import test_runs
from handoff.git.workspaces.scratch import Changed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from handoff.checks.results import Report
    from handoff.engine.app import App
    from handoff.git.commits.phases import FlowCheckout

NOT_PROBED, NOT_CALLED = "not-probed", "subject-not-called"
PROBE_SECONDS = 60.0


class JudgedChange(Record):
    """What a phase changed since the last good tree, and how trees of it are run."""

    checkout: FlowCheckout
    head: str
    tree: str
    changes: tuple[FileChange, ...]
    test_support: TestSupport
    before: tuple[str, ...]
    links: tuple[str, ...]

    @property
    def support(self) -> list[str]:
        """The changed paths that are test, or that tests stand on."""
        stood = self.test_support.helpers | self.test_support.golden
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
    files: dict[str, tuple[str, probes.TwinFile, str]]

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
    made: dict[str, tuple[str, probes.TwinFile, str]] = {}
    for name, path, test in tests[: probes.MOST_TESTS] if runner_words(suite) is not None else ():
        text = change.checkout.read(tree, path) if path.endswith(".py") else None
        twins = probes.make_twins(text or "", test)
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
            seen = probes.cases_of_twins(path, reports)
            said = probes.judge_twins(name, made, seen, functions)
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
        if functions and len(listed) < probes.MOST_TESTS:
            texts = probe.texts(lambda path, tests=tests: path.endswith(".py") and tests.covers(path))  # type: ignore[misc]
            listed += tests_about(texts, functions, most=probes.MOST_TESTS)
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
        for one in probes.judge_twins(name, made, probes.cases_of_twins(path, reports)) or ()
    ]
    told = [(name, one) for name, one in said if one.code == probes.INSENSITIVE or not on_old_code]
    return [one for name, one in told if not _was_so(change, twins.suite, name, probe)]


def _was_so(change: JudgedChange, suite: Suite, name: str, probe: Probe) -> bool:
    """Whether the test took every answer already, on the code as it was."""
    before = twins_of(change, suite, [(name, *split_id(name))], change.head)
    if before is None:
        return False
    reports = probe.run(change.checkout.tree_with(change.head, dict(before.texts())), [before.line()])
    path, made, _ = before.files[name]
    return any(
        one.code in (probes.INSENSITIVE, probes.NAME_DEPENDENT)
        for one in probes.judge_twins(name, made, probes.cases_of_twins(path, reports)) or ()
    )


def split_id(name: str) -> tuple[str, str]:
    """File and test of a test's id."""
    place, _, test = name.partition("::")
    return place.partition(":")[2], test


def _last(name: str) -> str:
    return name.rpartition("::")[2]


SUPPORT, GOLDEN, NOT_RUN = "support-changed", "golden-changed", "assertion-not-run"
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$|\.(?:test|spec)\.[^/]*$")
_LINK = "120000"


def look_at(app: App, *, checkout: FlowCheckout, head: str, tree: str, suites: Sequence[Suite]) -> JudgedChange:
    """Read what differs, and of the last good tree what its tests stand on."""
    repository = checkout.tree
    differing = Changed(repository, app.settings.environment)
    listed = differing.listing(head)
    changes = test_runs.changes(app, repository=repository, old=head, new=tree, suites=suites)
    owned = test_runs.tests_of(suites)
    touched = [change.path for change in changes if change.path in listed]
    support = TestSupport()
    if any(not change.is_test for change in changes) and touched:
        sources = {path: sha for path, sha in listed.items() if SOURCES.search(path)}
        texts = differing.texts(list(sources.values()))
        support = find_support({path: texts.get(sha, "") for path, sha in sources.items()}, touched, owned.covers)
    links = tuple(path for path, mode in differing.modes(head, tree).items() if mode == _LINK)
    return JudgedChange(
        checkout=checkout,
        head=head,
        tree=tree,
        changes=changes,
        test_support=support,
        before=tuple(listed),
        links=links,
    )


def weigh_red(change: JudgedChange, judgement: Judgement, *, test: str) -> Judgement:
    """Red, and nothing else: no neighbour was changed, nothing was planted."""
    return judgement.adding([*_injections(change), *probes.find_neighbours(change.changes, test)])


def weigh_green(
    change: JudgedChange, judgement: Judgement, *, probe: Probe, began: str, new: Sequence[str]
) -> Judgement:
    """Green, and what the new test stands on is as it was; it passes for what it asks, and not for its name."""
    judgement = judgement.adding([*_injections(change), *_held(change, new, probe.reports), *_stood(change)])
    if not judgement.ok:
        return judgement
    if began:
        judgement = judgement.adding(_without_support(change, began, new, probe))
    if judgement.ok:
        judgement = judgement.adding(probe_new(change, new, probe))
    return judgement.adding(_plain_runs(change, new, probe)) if judgement.ok else judgement


def weigh_refactor(change: JudgedChange, judgement: Judgement, *, probe: Probe, known: Baseline) -> Judgement:
    """Refactored: old tests hold on the new code and new tests on the old, wherever both were touched."""
    judgement = judgement.adding([*_injections(change), *_kept(change)])
    support = change.support
    if any(one.code != FEWER for one in judgement.faults):
        return judgement
    twins = about_refactoring(change, probe)
    if not support:
        return judgement if judgement.faults else judgement.adding(_twins(change, twins, probe))
    old = probe.run(change.checkout.tree_from(change.tree, change.head, support), probe.suites)
    added = probes.judge_old_tests(known, old) if change.code else []
    if change.code:
        # the twins of changed tests run along: what a test takes, it takes on the old code too
        beside = {path: text for one in twins for path, text in one.texts().items()}
        tree = change.checkout.tree_with(change.checkout.tree_from(change.head, change.tree, support), dict(beside))
        new = probe.run(tree, probe.suites)
        for one in twins:
            added += judge_refactoring(change, one, new, probe, on_old_code=True)
        kept = [
            report._replace(cases=tuple(case for case in report.cases if case.file not in beside)) for report in new
        ]
        added += probes.judge_new_tests(known, kept)
        if any(one.code == probes.INTERFACE for one in added):
            added += probes.find_lost_constants(change.changes)
    before, after = probes.held_by_test(old), probes.held_by_test(probe.reports)
    marks = tuple(f":{path}::" for path in support)
    split = find_split({one.path: (one.before, one.after) for one in change.changes if one.is_test})
    mine = {name: held for name, held in before.items() if any(mark in name for mark in marks)}
    added += probes.find_fewer({name: held for name, held in mine.items() if not name.endswith(split)}, after)
    seen = [
        one
        for one in judgement.findings
        if one.code == FEWER and all(_held_all(name, before, after) for name in one.names)
    ]
    judgement = judgement.without(seen).adding(added)
    return judgement.adding(_twins(change, twins, probe)) if judgement.ok and not change.code else judgement


def _twins(change: JudgedChange, twins: Sequence[TwinTests], probe: Probe) -> list[Finding]:
    found: list[Finding] = []
    for one in twins:
        reports = probe.run(change.checkout.tree_with(change.tree, dict(one.texts())), [one.line()])
        found += judge_refactoring(change, one, reports, probe)
    return found


def _plain_runs(change: JudgedChange, new: Sequence[str], probe: Probe) -> list[Finding]:
    """The new tests as plain code, in a tree without tests; those that need a runner are named."""
    found: list[Finding] = []
    owned = test_runs.tests_of(probe.suites)
    for suite in probe.suites:
        mine = [name for name in new if name.startswith(f"{suite.name}:")] if runner_words(suite) is not None else []
        asked, left = [], []
        for name in mine[: probes.MOST_TESTS]:
            path, test = split_id(name)
            text = change.checkout.read(change.tree, path) or ""
            plain = probes.plain_test(text, test)
            if plain is None:
                left.append(name)
            else:
                asked.append((name, *plain, text))
        if left:
            words = "not probed by a second opinion: it needs its runner (fixtures, tables or a class)"
            found.append(named_finding(NOT_PROBED, words, left)._replace(noted=True))
        if not asked:
            continue
        tests = [path for path in change.checkout.paths(change.tree) if owned.covers(path)]
        dated = any("time" in text for *_, text in asked) or any(
            "datetime" in (one.after or "") for one in change.changes
        )
        line = suite._replace(
            plain=tuple((name, text, function) for name, text, function, _ in asked),
            later=not dated,
            timeout=PROBE_SECONDS,
        )
        reports = probe.run(change.checkout.tree_with(change.tree, dict.fromkeys(tests)), [line])
        found += probes.judge_plain_runs([name for name, *_ in asked], reports)
    return found


def probe_of(app: App, change: JudgedChange, suites: tuple[Suite, ...], reports: tuple[Report, ...]) -> Probe:
    """Further trees are run as the phase's own was."""

    def run(tree: str, chosen: Sequence[Suite]) -> tuple[Report, ...]:
        return test_runs.verdict(app, repository=change.checkout.tree, tree=tree, suites=chosen, before=change.head)

    def texts(wanted: Callable[[str], bool]) -> dict[str, str]:
        files = Changed(change.checkout.tree, app.settings.environment)
        listed = {path: sha for path, sha in files.listing(change.tree).items() if wanted(path)}
        found = files.texts(list(listed.values()))
        return {path: found.get(sha, "") for path, sha in listed.items()}

    return Probe(reports, suites, run, texts)


def _injections(change: JudgedChange) -> list[Finding]:
    return probes.find_injected(change.changes, change.links, change.before)


def _kept(change: JudgedChange) -> list[Finding]:
    """What also a refactoring leaves alone."""
    golden = sorted(change.test_support.golden)
    found = [named_finding(GOLDEN, "holds what tests compare with", golden)] if golden else []
    return [*found, *probes.find_settings(change.changes), *probes.find_knowing(change.changes, change.before)]


def _stood(change: JudgedChange) -> list[Finding]:
    helpers = sorted(change.test_support.helpers)
    words = "is made for tests and used by them alone; the implementation must leave it as it is"
    return [*([named_finding(SUPPORT, words, helpers)] if helpers else []), *_kept(change)]


def _held(change: JudgedChange, new: Sequence[str], reports: Sequence[Report]) -> list[Finding]:
    """A new test with assertions in its text of which none was seen to hold."""
    held = probes.held_by_test(report for report in reports if report.sealed)
    idle = [name for name in new if held.get(name) == 0 and _asserts(change, name)]
    return [named_finding(NOT_RUN, "passed without one of its assertions having run", idle)] if idle else []


def _asserts(change: JudgedChange, name: str) -> bool:
    path, test = split_id(name)
    return probes.asserts_plainly(change.checkout.read(change.tree, path) or "", test)


def _held_all(name: str, before: dict[str, int], after: dict[str, int]) -> bool:
    """Whether a test whose text asserts less was seen to assert as much as before."""
    return any(whole.endswith(f":{name}") and 0 < number <= after.get(whole, 0) for whole, number in before.items())


def _without_support(change: JudgedChange, began: str, new: Sequence[str], probe: Probe) -> list[Finding]:
    """After a red that also wrote helpers: does the new test pass without them?"""
    owned = test_runs.tests_of(probe.suites)
    written = [path for path in change.checkout.changed(began, change.head) if owned.covers(path)]
    helpers = [path for path in written if not _TEST_FILE.search(path) and not path.endswith("__init__.py")]
    if not helpers:
        return []
    return probes.judge_without(new, probe.run(change.checkout.tree_from(change.tree, began, helpers), probe.suites))
