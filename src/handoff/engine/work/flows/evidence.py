"""What a phase left, held against its fence, and what it can show for itself: what the tests said and lost, what mutants say."""

from __future__ import annotations

from handoff.base.files import as_text
from handoff.base.ids import on_one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks import judge
from handoff.checks.assertions.assertions import find_vacuous, read_tests
from handoff.checks.findings import baseline_of
from handoff.checks.judge import NOT_A_TEST, NOTHING_NEW, TEST_CHANGED
from handoff.engine.place.landing.members import left_by_phase
from handoff.engine.place.landing.members import outside as outside_of
from handoff.engine.place.proof import strength, test_runs
from handoff.engine.place.proof.test_runs import NO_SUITE, make_suite
from handoff.engine.work.flows import documents
from handoff.engine.work.flows.documents import GREEN_BEFORE
from handoff.engine.work.flows.state import DOCUMENTS, owned_patterns
from handoff.git.notes import GREEN, MOST_NAMES, MUTANTS, QUESTIONS, RED, Check
from handoff.git.ownership import Ownership
from handoff.git.plumbing.beneath import Beneath

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from handoff.checks.findings import Baseline
    from handoff.checks.results import Report
    from handoff.engine.app import App
    from handoff.engine.work.flows.state import FlowState
    from handoff.git.landing.merge import Member

NOT_TESTED = "not tested"
_MOST = 40
WEAKER, LOW, SURVIVORS = "tests-weaker", "strength-low", "survivors"
HIDDEN_FAILED, HIDDEN_OTHER = "hidden-test-fails", "hidden-not-counted"
_NAMED = 10
_MUTANTS = 40
OUTSIDE, NOTHING_CHANGED = "outside", "nothing-changed"
_SHOWN = 20
_MOST_BYTES = 1_000_000


class PhaseFault(Record):
    """Why a phase is refused, or what is to be known about it."""

    code: str
    words: str

    def __str__(self) -> str:
        return f"{self.code}: {self.words}"


class PhaseWork(Record):
    """What a phase left: the tree, what it changed, and the report it wrote beside the work."""

    tree: str
    changed: tuple[str, ...]
    report: str = ""


def look(app: App, state: FlowState, session: str = "") -> tuple[PhaseWork, list[PhaseFault]]:
    """The tree a phase left without its session's own notes and report, and where it went over its fence."""
    phase, mine = state.phase, Ownership.parse(owned_patterns(state))
    left = taken(app, state, session)
    changed = tuple(sorted(left.paths))
    tree = state.flow_checkout.tree_of(left.commit)
    if refused := list(outside_of(left).values()):
        return PhaseWork(tree, changed), [PhaseFault(OUTSIDE, f"{one}.") for one in refused[:_SHOWN]]
    outside = [path for path in changed if not mine.covers(path)]
    if outside:
        return PhaseWork(tree, changed), _out_of_scope(state, outside)
    report = _report(state) if phase.report else ""
    faults = []
    if phase.commit and not changed and phase.check in ("none", "unbroken", "red", "green"):
        faults = [PhaseFault(NOTHING_CHANGED, "The session ended without having changed anything.")]
    return PhaseWork(tree, changed, report), faults


def taken(app: App, state: FlowState, session: str = "") -> Member:
    """What lies in the flow's workspace beside its last good commit, taken as the work of any task is."""
    flow, mine = state.flow, Ownership.parse(owned_patterns(state))
    state.flow_checkout.seal(str(flow.facts["git_config"]))
    return left_by_phase(
        app, repository=flow.repository, workspace=documents.workspace_of(flow), head=flow.head, session=session,
        without=lambda path: _is_beside(state, path, mine),
    )  # fmt: skip


def _is_beside(state: FlowState, path: str, mine: Ownership) -> bool:
    """Whether a file is no part of the work: the report, a session's own notes, a feature's documents, which are the person's files."""
    feature = state.flow.feature
    shared = bool(feature) and path.startswith(f"{DOCUMENTS}features/{feature}/")
    return shared or path == state.phase.report or (path.startswith(DOCUMENTS) and not mine.covers(path))


def _report(state: FlowState) -> str:
    """The report as it lies there, whether git ignores it or not; a link, or one on the way, is none."""
    name = state.phase.report
    with Beneath(state.flow.workspace) as inside:
        return as_text(name, inside.read(name, most=_MOST_BYTES))


def _out_of_scope(state: FlowState, outside: Sequence[str]) -> list[PhaseFault]:
    """Writes over the fence, named by what they were: a test where tests are not to be touched is its own fault."""
    tests = test_runs.tests_of(state.suites) if state.suites else None
    touched = [path for path in outside if tests is not None and tests.covers(path)]
    other = [path for path in outside if path not in touched]
    found = []
    if touched:
        words = f"{_paths(touched)}: a test; the {state.phase.role} must leave tests alone."
        found.append(PhaseFault(TEST_CHANGED, words))
    if other:
        code = NOT_A_TEST if state.phase.check == "red" else OUTSIDE
        found.append(PhaseFault(code, f"{_paths(other)}: the {state.phase.role} may not write that."))
    return found


def _paths(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(map(on_one_line, paths[:_SHOWN])) + more


# --- what it can show -------------------------------------------------------------------------------------------


def tested_lines(checks: Iterable[Check], warnings: Iterable[PhaseFault]) -> list[str]:
    """One line for each run, and one for each suite that gave no result."""
    found = [_line(check) for check in checks]
    return found + [one.words for one in warnings if one.code in (judge.NOT_TESTED, GREEN_BEFORE)]


def asked_lines(checks: Iterable[Check]) -> list[str]:
    """How many questions the tests of a phase were asked of how many, with the seeds: a verdict says so."""
    return [_line(check) for check in checks if check.suite == QUESTIONS]


def _line(check: Check) -> str:
    if check.suite == MUTANTS:
        return f"{MUTANTS}: {check.passed} of {(check.passed or 0) + (check.failed or 0)} noticed"
    if check.suite == QUESTIONS:
        return f"{QUESTIONS}: {check.command}"
    name = f"{check.suite}: " if check.suite else f"`{check.command}`: "
    counts = {"passed": check.passed, "failed": check.failed, "skipped": check.skipped}
    said = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
    known = f" ({check.known} of them failed before)" if check.known else ""
    return f"{name}{check.verdict}" + (f", {said}{known}" if said else "")


def runs_of(state: FlowState, reports: Sequence[Report], known: Baseline) -> tuple[Check, ...]:
    """The runs as the record keeps them."""
    folders = {suite.name: suite.folder for suite in state.suites}
    found = []
    for report in reports:
        counts, failing = report.counts(), [case.id for case in report.cases if case.bad]
        waived = [name for name in failing if name in known.failing | known.flaky]
        green = not report.trouble and len(waived) == len(failing)
        found.append(
            Check(
                command=report.command,
                verdict=GREEN if green else RED,
                code=report.code,
                folder=folders.get(report.suite, ""),
                suite=report.suite,
                passed=counts["passed"],
                failed=len(failing),
                skipped=counts["skipped"],
                known=len(waived),
                failing=tuple(failing[:MOST_NAMES]),
                seconds=round(report.seconds, 3),
            )
        )
    return tuple(found)


def tests_word(facts: Mapping[str, Any]) -> str:
    """The tests' word on the work as it is, in one line."""
    lines = facts.get("tested") or [NOT_TESTED]
    return "; ".join(line.partition(":")[0] if line.startswith(NOT_TESTED) else line for line in lines)


def lost_tests(app: App, state: FlowState, head: str) -> list[str]:
    """What the tests lost since the flow began."""
    if not state.suites:
        return []
    changes = test_runs.changes(
        app, repository=state.flow.workspace, old=state.flow.base, new=head, suites=state.suites
    )
    return [one.message for one in judge.note_lost(changes)]


def gate_page(app: App, state: FlowState, head: str, facts: Mapping[str, Any]) -> str:
    """What stands below the question of a gate."""
    stat = state.flow_checkout.stat(state.flow.base, head).splitlines()
    lines = ["What was changed:", *_cut(stat or ["nothing"])]
    lines += ["The tests:", *_cut(facts.get("tested") or [NOT_TESTED])]
    lost = lost_tests(app, state, head)
    return "\n".join([*lines, *(["What the tests lost:", *_cut(lost)] if lost else [])])


def tell_reviewer(app: App, state: FlowState) -> str:
    """The tests' word and what they lost, for a reviewer."""
    lines = [*(state.flow.facts.get("tested") or [NOT_TESTED]), *lost_tests(app, state, state.flow.head)]
    return "\n".join(f"- {line}" for line in lines)


def _cut(lines: Sequence[str]) -> list[str]:
    shown = [f"  {line.strip()}" for line in lines[:_MOST]]
    return [*shown, f"  and {len(lines) - _MOST} more"] if len(lines) > _MOST else shown


# --- what a strict workflow asks beyond green ----------------------------------------------------------------


def _weighed(found: Any, *checks: Check, facts: dict[str, Any], faults: Sequence[PhaseFault], warnings: Any) -> Any:
    """The verdict with what the mutants and the hidden tests say."""
    known = {"checks": (*found.checks, *checks), "facts": {**found.facts, **facts}}
    return found._replace(faults=tuple(faults), warnings=(*found.warnings, *warnings), **known)


def weigh(app: App, state: FlowState, left: PhaseWork, found: Any) -> Any:
    """What no test notices in this cycle's lines is named; a refactoring may not let live what was noticed before it."""
    tests, tidied = test_runs.tests_of(state.suites), state.phase.check == "refactor"
    if tidied and not any(tests.covers(path) for path in left.changed):
        return found
    passing = baseline_of(found.facts.get("baseline", {})).passing
    old = str(state.flow.facts.get("cycle_base", "")) or state.flow.base
    measured = _measured(app, state, found.tree, old, passing)
    noticed = {tuple(key) for key in state.flow.facts.get("noticed", ())}
    weaker = [str(one) for one in measured.alive if one.key in noticed] if tidied else []
    words = f"Tests noticed this before the refactoring and do not any more: {_listed(weaker)}."
    return _weighed(
        found,
        measured.as_check(0.0),
        facts={
            "survivors": [str(one) for one in measured.alive],
            "noticed": [list(one.key) for one in measured.killed],
        },
        faults=(PhaseFault(WEAKER, words),) if weaker else (),
        warnings=_survivors(measured),
    )


def weigh_all(app: App, state: FlowState, found: Any) -> Any:
    """The mutants of everything the flow changed, and the hidden tests: what counts at the end of the list."""
    passing = baseline_of(state.flow.facts.get("baseline", {})).passing
    tree, wanted = found.tree, state.phase.score
    measured = _measured(app, state, tree, state.flow.base, passing)
    faults, warnings, more = [], list(_survivors(measured)), []
    told = [str(one) for one in measured.alive]
    if measured.score < wanted:
        words = f"{len(measured.killed)} of {measured.tried} mutants were noticed, and the phase wants {wanted:.0%}"
        faults.append(PhaseFault(LOW, f"{words}: {_listed(told)}."))
    hidden = dict(state.flow.facts.get("hidden", {}))
    if hidden:
        ran = strength.run_hidden(app, checkout=state.flow_checkout, tree=tree, hidden=hidden, suites=state.suites)
        more.append(ran.as_check())
        if ran.failed:
            names = [case.id for case in ran.failed]
            faults.append(PhaseFault(HIDDEN_FAILED, f"Hidden tests of the request fail: {_listed(names)}."))
            told += [f"the hidden test {name} fails" for name in names]
        if ran.other:
            words = f"{_listed([case.id for case in ran.other])}: hidden, and could not ask: they miss what nobody promised."
            warnings.append(PhaseFault(HIDDEN_OTHER, words))
    return _weighed(
        found, measured.as_check(wanted), *more, facts={"survivors": told}, faults=faults, warnings=warnings
    )


def take_hidden(state: FlowState, left: PhaseWork) -> tuple[tuple[PhaseFault, ...], dict[str, str]]:
    """The texts of the new test files, which leave the clone; what is wrong with them otherwise."""
    checkout, faults = state.flow_checkout, []
    texts = {path: text for path in left.changed if (text := checkout.read(left.tree, path)) is not None}
    old = [path for path in left.changed if checkout.read(state.flow.head, path) is not None]
    if old:
        faults.append(PhaseFault(TEST_CHANGED, f"{_listed(old)}: was there already; hidden tests stand in new files."))
    if not any(read_tests(path, text) for path, text in texts.items()):
        faults.append(PhaseFault(NOTHING_NEW, "There is no hidden test."))
    hollow = [one for one in find_vacuous({path: (None, text) for path, text in texts.items()}) if not one.noted]
    faults += [PhaseFault(one.code, one.message) for one in hollow]
    if not faults:
        checkout.forget(left.tree, list(texts))
    return tuple(faults), texts


def _measured(app: App, state: FlowState, tree: str, old: str, passing: frozenset[str]) -> strength.Measured:
    return strength.measure(
        app,
        checkout=state.flow_checkout,
        old=old,
        new=tree,
        suites=state.suites,
        passing=passing,
        most=min(state.phase.mutants or _MUTANTS, _MUTANTS),
    )


def _survivors(measured: strength.Measured) -> tuple[PhaseFault, ...]:
    if not measured.alive:
        return ()
    words = f"{len(measured.alive)} of {measured.tried} mutants of the changed lines are noticed by no test"
    return (PhaseFault(SURVIVORS, f"{words}: {_listed([str(one) for one in measured.alive])}."),)


def _listed(names: list[str]) -> str:
    return "; ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def first_suite(app: App, state: FlowState, tree: str, text: str) -> tuple[str, tuple[PhaseFault, ...], dict[str, Any]]:
    """In a project without tests the list also says what runs them: the tree with it, or the fault; what the flow keeps of it."""
    if state.suites:
        return tree, (), {}
    made = make_suite(
        app,
        checkout=state.flow_checkout,
        tree=tree,
        text=text,
        repository=state.flow.repository,
        list_name=state.workflow.test_list,
    )
    if made.refused:
        return tree, (PhaseFault(NO_SUITE, made.refused),), {}
    return made.tree, (), {"suites": [suite.record() for suite in made.suites]}
