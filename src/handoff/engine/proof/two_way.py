"""A phase from both sides: what its tests stand on, the old tests on the new code, the new tests on the old code."""

from __future__ import annotations

import re

from handoff.base.record import TYPE_CHECKING
from handoff.checks import injected, probes
from handoff.checks.assertions.assertions import FEWER, find_split
from handoff.checks.findings import Finding, named_finding
from handoff.checks.probes import MOST_TESTS, judge_opinions, plain_test
from handoff.checks.sealed import runner_words
from handoff.checks.support import SOURCES, Standing, find_standing
from handoff.engine.proof import test_runs, twin_runs
from handoff.engine.proof.twin_runs import NOT_PROBED, PROBE_SECONDS, JudgedChange, Probe, split_id
from handoff.git.workspaces.scratch import Changed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from handoff.checks.findings import Baseline, Judgement
    from handoff.checks.results import Report
    from handoff.checks.suite import Suite
    from handoff.engine.app import App
    from handoff.git.commits.phases import FlowCheckout

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
    standing = Standing()
    if any(not change.is_test for change in changes) and touched:
        sources = {path: sha for path, sha in listed.items() if SOURCES.search(path)}
        texts = differing.texts(list(sources.values()))
        standing = find_standing({path: texts.get(sha, "") for path, sha in sources.items()}, touched, owned.covers)
    links = tuple(path for path, mode in differing.modes(head, tree).items() if mode == _LINK)
    return JudgedChange(
        checkout=checkout,
        head=head,
        tree=tree,
        changes=changes,
        standing=standing,
        before=tuple(listed),
        links=links,
    )


def weigh_red(change: JudgedChange, judgement: Judgement, *, test: str) -> Judgement:
    """Red, and nothing else: no neighbour was changed, nothing was planted."""
    return judgement.adding([*_ground(change), *probes.find_neighbours(change.changes, test)])


def weigh_green(
    change: JudgedChange, judgement: Judgement, *, probe: Probe, began: str, new: Sequence[str]
) -> Judgement:
    """Green, and what the new test stands on is as it was; it passes for what it asks, and not for its name."""
    judgement = judgement.adding([*_ground(change), *_held(change, new, probe.reports), *_stood(change)])
    if not judgement.ok:
        return judgement
    if began:
        judgement = judgement.adding(_without_support(change, began, new, probe))
    if judgement.ok:
        judgement = judgement.adding(twin_runs.probe_new(change, new, probe))
    return judgement.adding(_opinions(change, new, probe)) if judgement.ok else judgement


def weigh_refactor(change: JudgedChange, judgement: Judgement, *, probe: Probe, known: Baseline) -> Judgement:
    """Refactored: old tests hold on the new code and new tests on the old, wherever both were touched."""
    judgement = judgement.adding([*_ground(change), *_kept(change)])
    support = change.support
    if any(one.code != FEWER for one in judgement.faults):
        return judgement
    twins = twin_runs.about_refactoring(change, probe)
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
            added += twin_runs.judge_refactoring(change, one, new, probe, on_old_code=True)
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


def _twins(change: JudgedChange, twins: Sequence[twin_runs.TwinTests], probe: Probe) -> list[Finding]:
    found: list[Finding] = []
    for one in twins:
        reports = probe.run(change.checkout.tree_with(change.tree, dict(one.texts())), [one.line()])
        found += twin_runs.judge_refactoring(change, one, reports, probe)
    return found


def _opinions(change: JudgedChange, new: Sequence[str], probe: Probe) -> list[Finding]:
    """The new tests as plain code, in a tree without tests; those that need a runner are named."""
    found: list[Finding] = []
    owned = test_runs.tests_of(probe.suites)
    for suite in probe.suites:
        mine = [name for name in new if name.startswith(f"{suite.name}:")] if runner_words(suite) is not None else []
        asked, left = [], []
        for name in mine[:MOST_TESTS]:
            path, test = split_id(name)
            text = change.checkout.read(change.tree, path) or ""
            plain = plain_test(text, test)
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
        found += judge_opinions([name for name, *_ in asked], reports)
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


def _ground(change: JudgedChange) -> list[Finding]:
    return injected.find_planted(change.changes, change.links, change.before)


def _kept(change: JudgedChange) -> list[Finding]:
    """What also a refactoring leaves alone."""
    golden = sorted(change.standing.golden)
    found = [named_finding(GOLDEN, "holds what tests compare with", golden)] if golden else []
    return [*found, *injected.find_settings(change.changes), *injected.find_knowing(change.changes, change.before)]


def _stood(change: JudgedChange) -> list[Finding]:
    helpers = sorted(change.standing.helpers)
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
