"""A phase from both sides: what its tests are built on, old tests on new code, and what new and changed tests ask of it."""

from __future__ import annotations

import random
import shlex

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks import judge, probes, questions
from handoff.checks.assertions.assertions import (
    EMPTIED,
    FEWER,
    NOTHING_ASKED,
    TAKEN,
    TAUTOLOGY,
    UNREACHABLE,
    find_split,
    find_vacuous,
    find_weakened,
)
from handoff.checks.assertions.gained import lost_statements
from handoff.checks.findings import Baseline, FileChange, Finding, Judgement, named_finding
from handoff.checks.suite import UNITTEST
from handoff.checks.support import (
    SOURCES,
    TestSupport,
    find_injected,
    find_knowing,
    find_settings,
    find_support,
    python_paths,
)
from handoff.engine.place.proof import elsewhere, same_questions, test_runs
from handoff.engine.place.proof.asked_outside import AlteredRuns
from handoff.engine.place.proof.same_questions import TEST_FILE
from handoff.git.workspaces.scratch import Changed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from handoff.checks.results import Report
    from handoff.checks.suite import Suite
    from handoff.engine.app import App
    from handoff.git.commits.phases import FlowCheckout

NOT_PROBED = questions.NOT_PROBED
_MOST_TESTS, _MOST_DOUBTS = 4, 5
_BY_TEXT = (TAKEN, UNREACHABLE, TAUTOLOGY, NOTHING_ASKED, EMPTIED)


class JudgedChange(Record):
    """What a phase changed since the last good tree, and how trees of it are run."""

    checkout: FlowCheckout
    head: str
    tree: str
    changes: tuple[FileChange, ...]
    test_support: TestSupport
    before: tuple[str, ...]
    links: tuple[str, ...]
    new_helpers: frozenset[str] = frozenset()
    """New modules that assert and that only tests use: support from now on."""

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
    """The run of the phase's tree, the suites, how another tree is run, and how many altered answers are asked about."""

    reports: tuple[Report, ...]
    suites: tuple[Suite, ...]
    run: Callable[[str, Sequence[Suite]], Sequence[Report]]
    elsewhere: Callable[[Sequence[str] | None, Sequence[str]], list[Finding]]
    """What the new tests, among them those that could not be asked, and all others say where a person runs them; without new ones
    every answer must be what it was."""
    forks: int


def probe_new(change: JudgedChange, new: Sequence[str], probe: Probe) -> tuple[list[Finding], tuple[str, ...]]:
    """The new tests: they enter what was built, they mind another answer, and no other answer fits; and how much was asked."""
    found: list[Finding] = []
    figures: list[str] = []
    owned = test_runs.tests_of(probe.suites)
    stood = set(change.support)
    every = dict.fromkeys([*change.before, *(one.path for one in change.changes)])
    built = questions.built_by(change.changes, {path for path in every if path not in stood and not owned.covers(path)})
    for suite in probe.suites:
        mine = [(name, *split_id(name)) for name in new if name.startswith(f"{suite.name}:")][:_MOST_TESTS]
        if mine and not same_questions.is_asked(suite):
            code = [one for one in change.changes if one.path in change.code]
            said, told = _altered(change, suite, probe).new(code, [name for name, _, _ in mine])
            found += said
            figures.append(told)
        elif mine:
            for name, one in ask_tests(change, built, suite, mine, probe).items():
                found += questions.judge_opinion(name, one)
                figures.append(f"{name}: {one.figures() if one else 'not probed'}")
    return [*found, *_read_unprobed(change, found)], tuple(figures)


def _read_unprobed(change: JudgedChange, found: Sequence[Finding]) -> list[Finding]:
    """Of tests that could not be asked, those whose text asks nothing or takes nearly every answer: their words are all there is."""
    names = {split_id(name): name for one in found if one.code == questions.NOT_PROBED for name in one.names}
    texts = {path: (None, change.checkout.read(change.tree, path)) for path, _ in names}
    weak = [one for one in find_vacuous(texts) if (one.path, one.test) in names]
    return [Finding(one.code, one.message, (names[one.path, one.test],)) for one in weak]


def ask_tests(
    change: JudgedChange, built: questions.Built, suite: Suite, mine: Sequence[tuple[str, str, str]], probe: Probe
) -> dict[str, questions.Opinion | None]:
    """What came of asking these tests (id, path, name). One that fails without its constants is asked once more with them."""
    name, number, inside = questions.new_name(), 0, len(suite.folder) + 1 if suite.folder else 0
    pooled: dict[str, questions.Pooled] = {}
    for path in dict.fromkeys(path for _, path, _ in mine):
        text = change.checkout.read(change.tree, path) or ""
        made = questions.pool_constants(text, [test for _, at, test in mine if at == path], name, number)
        if made is not None:
            pooled[path[inside:]] = made
            number += len(made.constants)
    head = suite.folder + "/" if suite.folder else ""
    tests = [(test, path[inside:], inner) for test, path, inner in mine]

    def ask(tree: str, told: dict[str, questions.Pooled]) -> dict[str, questions.Opinion]:
        files = shlex.join(
            dict.fromkeys(path for _, path, _ in tests)
        )  # a name that is not collected would end the run
        job = questions.job_for(built, tests, told, name)
        job["beside"] = {path: one.beside for path, one in pooled.items()}
        command = suite.command if suite.command == UNITTEST else f"{suite.command} {files}"
        line = suite._replace(command=command, timeout=2 * job["seconds"], inside=job)
        return questions.opinions(probe.run(tree, [line]))

    said = ask(change.checkout.tree_with(change.tree, {head + path: one.text for path, one in pooled.items()}), pooled)
    if any(one.code == questions.FAILED for one in said.values()):
        plain = ask(change.tree, {})
        said = {test: questions.compare(one, plain.get(test), built) for test, one in said.items()}
    return {test: said.get(test) for test, _, _ in mine}


def split_id(name: str) -> tuple[str, str]:
    """File and test of a test's id."""
    place, _, test = name.partition("::")
    return place.partition(":")[2], test


SUPPORT, GOLDEN, NOT_RUN = "support-changed", "golden-changed", "assertion-not-run"
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
    made = [one.path for one in changes if one.path not in listed and one.path.endswith(".py") and not one.is_test]
    helpers: frozenset[str] = frozenset()
    if made:
        sources = {path: sha for path, sha in differing.listing(tree).items() if path.endswith(".py")}
        texts = differing.texts(list(sources.values()))
        now = {path: texts.get(sha, "") for path, sha in sources.items()}
        helpers = find_support(now, made, owned.covers).helpers
    links = tuple(path for path, mode in differing.modes(head, tree).items() if mode == _LINK)
    return JudgedChange(
        checkout=checkout,
        head=head,
        tree=tree,
        changes=changes,
        test_support=support,
        before=tuple(listed),
        links=links,
        new_helpers=helpers,
    )


def weigh_red(change: JudgedChange, judgement: Judgement, *, test: str) -> Judgement:
    """Red, and nothing else: no neighbour was changed, nothing was planted, no setting beside tests is another."""
    found = [*_injections(change), *find_settings(change.changes), *_lost(change, test)]
    return judgement.adding([*found, *probes.find_neighbours(change.changes, test)])


def _lost(change: JudgedChange, test: str) -> list[Finding]:
    """What old test files lost in red, where they may only gain; the line of the list may excuse it behind `changes:`."""
    excused = test.partition("changes:")[2]
    named = (one for one in change.changes if one.is_test and one.path.endswith(".py") and TEST_FILE.search(one.path))
    old = [one for one in named if one.before and one.after]  # helpers are run as they were
    lost = [
        f"{one.path}: {name}"
        for one in old
        for name in lost_statements(one.before or "", one.after or "")
        if name.rpartition(".")[2] not in excused
    ]
    words = "was there before and says something else now; a red phase only adds to files with tests"
    return [named_finding(probes.NEIGHBOUR, words, lost)] if lost else []


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
        found, figures = probe_new(change, new, probe)
        judgement = judgement.adding(found)._replace(asked=figures)
    silent = [name for one in judgement.findings if one.code == NOT_PROBED for name in one.names]
    return judgement.adding(probe.elsewhere(new, silent)) if judgement.ok else judgement


def weigh_refactor(change: JudgedChange, judgement: Judgement, *, probe: Probe, known: Baseline) -> Judgement:
    """Refactored: answers are what they were, and changed tests mind what they minded before."""
    judgement = judgement.adding([*_injections(change), *_kept(change)])
    doubts = _doubts(change, judgement, probe)
    if any(one.code != FEWER for one in judgement.without(doubts).faults):
        return judgement
    if change.support:
        weighed = _weigh_tests(change, judgement.without(doubts), probe, known, doubts)
        unasked = not weighed.asked or any(one.code == NOT_PROBED for one in weighed.findings)
        judgement = weighed.adding([one._replace(noted=not unasked) for one in doubts])
    return judgement.adding(probe.elsewhere(None, ())) if judgement.ok else judgement


def _doubts(change: JudgedChange, judgement: Judgement, probe: Probe) -> list[Finding]:
    """What the text of some changed Python tests says against them, where the tests themselves can be asked."""
    texts = {one.path: (one.before, one.after) for one in change.changes if one.is_test}
    said = {
        (one.code, f"{one.path}::{one.test}")
        for one in find_weakened(texts)
        if one.path.endswith(".py") and one.code in _BY_TEXT
    }
    asked = all(same_questions.is_asked(suite) for suite in probe.suites)
    found = [one for one in judgement.faults if asked and len(one.names) == 1 and (one.code, one.names[0]) in said]
    return found if len(found) <= _MOST_DOUBTS else []


def _weigh_tests(
    change: JudgedChange, judgement: Judgement, probe: Probe, known: Baseline, doubts: Sequence[Finding]
) -> Judgement:
    """Old tests hold on the new code, and new ones ask what they asked; where nobody can be asked, new ones hold on the old code."""
    mixed = change.checkout.tree_from(change.tree, change.head, change.support)
    listed = [_changed_tests(change, suite, probe) for suite in probe.suites if same_questions.is_asked(suite)]
    doubted = {name for one in doubts for name in one.names}
    minded = {one.suite.name: one.old(mixed, doubted) for one in listed}
    names = {one.suite.name for one in listed}
    silent = [suite for suite in probe.suites if suite.name not in names]
    apart = [path for path in change.support if not TEST_FILE.search(path)]
    added: list[Finding] = []
    before = {
        **judge.held_before(known),
        **{name: held for one in listed for name, held in one.held(minded[one.suite.name])},
    }
    if silent or apart or any(one.failed(minded[one.suite.name]) for one in listed):
        old = probe.run(mixed, probe.suites)
        before = probes.held_by_test(old)
        added += probes.judge_old_tests(known, old) if change.code else []
    if silent and change.code:
        new = probe.run(change.checkout.tree_from(change.head, change.tree, change.support), silent)
        added += probes.judge_new_tests(known, new)
    if any(one.code == probes.INTERFACE for one in added):
        added += probes.find_lost_constants(change.changes)
    figures: list[str] = []
    for one in listed if all(each.warning for each in added) else ():
        said, here, stood = minded[one.suite.name], True, mixed
        if one.failed(said):
            said, here, stood = one.old(change.head, doubted), False, change.head  # names are others now
        asked = one.new(change.tree, said, here=here) if said and said.get("noticed") else {}
        asked = same_questions.seen_twice(one, (stood, change.tree), said or {}, asked, here=here)
        found, told = same_questions.judge(one.suite.name, said, asked)
        added += found
        figures += [told] if told else []
    for suite in silent if all(each.warning for each in added) else ():
        owned = test_runs.tests_of([suite])
        touched = [one for one in change.changes if owned.covers(one.path) and one.before and one.after]
        paths = [
            path
            for path in dict.fromkeys([*change.before, *(one.path for one in change.changes)])
            if not owned.covers(path)
        ]
        found, told = _altered(change, suite, probe).same(mixed, touched, paths)
        added += found
        figures += [told]
    after = probes.held_by_test(probe.reports)
    marks = tuple(f":{path}::" for path in change.support)
    split = find_split({one.path: (one.before, one.after) for one in change.changes if one.is_test})
    mine = {name: held for name, held in before.items() if any(mark in name for mark in marks)}
    added += probes.find_fewer({name: held for name, held in mine.items() if not name.endswith(split)}, after)
    seen = [
        one
        for one in judgement.findings
        if one.code == FEWER and all(_held_all(name, before, after) for name in one.names)
    ]
    return judgement.without(seen).adding(added)._replace(asked=tuple(figures))


def _altered(change: JudgedChange, suite: Suite, probe: Probe) -> AlteredRuns:
    checkout = change.checkout
    return AlteredRuns(
        suite=suite,
        tree=change.tree,
        read=checkout.read,
        made=lambda tree, texts: checkout.tree_with(tree, dict(texts)),
        run=probe.run,
        seed=random.SystemRandom().getrandbits(40),
    )


def _changed_tests(change: JudgedChange, suite: Suite, probe: Probe) -> same_questions.ChangedTests:
    owned, stood = test_runs.tests_of([suite]), {*change.support, *change.new_helpers}
    touched = [one for one in change.changes if owned.covers(one.path) and TEST_FILE.search(one.path)]
    paths = dict.fromkeys([*change.before, *(one.path for one in change.changes)])
    every = test_runs.tests_of(probe.suites)
    code = [path for path in paths if path.endswith(".py") and path not in stood and not every.covers(path)]
    tests = [path for path in change.before if path.endswith(".py") and owned.covers(path)]
    others = [path for path in tests if TEST_FILE.search(path) and path not in stood]
    return same_questions.ChangedTests(
        suite=suite,
        touched=tuple(one for one in touched if one.path.endswith(".py")),
        others=tuple(others),
        product=tuple(code),
        run=probe.run,
        forks=probe.forks,
    )


def probe_of(app: App, change: JudgedChange, suites: tuple[Suite, ...], reports: tuple[Report, ...]) -> Probe:
    """Further trees are run as the phase's own was."""

    def run(tree: str, chosen: Sequence[Suite]) -> tuple[Report, ...]:
        return test_runs.verdict(app, repository=change.checkout.tree, tree=tree, suites=chosen, before=change.head)

    def weigh_elsewhere(new: Sequence[str] | None, silent: Sequence[str]) -> list[Finding]:
        phase = elsewhere.LeftWork(
            checkout=change.checkout,
            head=change.head,
            tree=change.tree,
            changes=change.changes,
            before=change.before,
            new=tuple(new or ()),
            silent=tuple(silent),
            keeps=new is None,
        )
        return elsewhere.weigh(app, phase, suites, reports)

    return Probe(reports, suites, run, weigh_elsewhere, test_runs.most_questions(app, change.checkout.tree))


def _injections(change: JudgedChange) -> list[Finding]:
    paths = python_paths(lambda name: change.checkout.read(change.head, name))
    return find_injected(change.changes, change.links, change.before, paths)


def _kept(change: JudgedChange) -> list[Finding]:
    """What also a refactoring leaves alone."""
    golden = sorted(change.test_support.golden)
    found = [named_finding(GOLDEN, "holds what tests compare with", golden)] if golden else []
    return [*found, *find_settings(change.changes), *find_knowing(change.changes, change.before)]


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
    helpers = [path for path in written if not TEST_FILE.search(path) and not path.endswith("__init__.py")]
    if not helpers:
        return []
    return probes.judge_without(new, probe.run(change.checkout.tree_from(change.tree, began, helpers), probe.suites))
