"""What comes of a phase: the exact tree it left, held against its fence and its check. Nothing is changed here."""

from __future__ import annotations

import os

from handoff.base.files import read_text
from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks import judge
from handoff.checks.frameworks.suite import EXIT, Suite
from handoff.engine.flows import documents as flow_documents
from handoff.engine.flows.prompts import next_test
from handoff.engine.flows.state import DOCUMENTS, owned_patterns
from handoff.engine.proof import test_runs
from handoff.git.notes.record import GREEN, MOST_NAMES, RED, Check
from handoff.git.ownership.ownership import Ownership
from handoff.workflows import test_list
from handoff.workflows.model import FAILED, OK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from handoff.checks.results import Report
    from handoff.engine.app import App
    from handoff.engine.flows.state import FlowState

OUTSIDE, NOTHING_CHANGED, NO_VERDICT, NO_CHECK, RED_CODE = (
    "outside",
    "nothing-changed",
    "no-verdict",
    "no-check",
    "red",
)
_SHOWN = 20
_RERUNS = 2
_TAIL = 3000


class PhaseFault(Record):
    """Why a phase is refused, or what is to be known about it."""

    code: str
    words: str

    def __str__(self) -> str:
        return f"{self.code}: {self.words}"


class PhaseVerdict(Record):
    """The verdict on a phase. `facts` is what the flow remembers from now on; `subject` says it in the commit."""

    outcome: str
    tree: str
    faults: tuple[PhaseFault, ...] = ()
    warnings: tuple[PhaseFault, ...] = ()
    checks: tuple[Check, ...] = ()
    facts: dict[str, Any] = {}  # noqa: RUF012 - records are immutable tuples; nobody writes into a default
    subject: str = ""
    documents: dict[str, str] = {}  # noqa: RUF012 - as above
    step: str = ""
    tail: str = ""
    changed: bool = False
    """Whether the tree differs from the last good commit's."""
    more: bool = False
    """Whether the session left something beside it that must be kept."""

    @property
    def ok(self) -> bool:
        return not self.faults


class _PhaseWork(Record):
    """What a phase left: the tree, what it changed, and the report it wrote beside the work."""

    tree: str
    changed: tuple[str, ...]
    report: str = ""
    more: bool = False
    """Whether the session left something the tree does not hold: notes of its own, commits of its own."""


def judge_phase(app: App, state: FlowState) -> PhaseVerdict:
    """Hold what lies in the workspace now against the phase's fence, then against its check."""
    left, faults = _look(state)
    if faults:
        return PhaseVerdict(outcome=OK, tree=left.tree, faults=tuple(faults))
    found = _CHECKS[state.phase.check](app, state, left)
    return found._replace(changed=bool(left.changed) or found.tree != left.tree, more=left.more)


def _look(state: FlowState) -> tuple[_PhaseWork, list[PhaseFault]]:
    phase, flow_checkout, head = state.phase, state.flow_checkout, state.flow.head
    flow_checkout.seal(str(state.flow.facts["git_config"]))
    tree = flow_checkout.whole_tree(head)
    mine = Ownership.parse(owned_patterns(state))
    changed = flow_checkout.changed(head, tree)
    notes = [path for path in changed if path.startswith(DOCUMENTS) and not mine.covers(path)]
    if notes:  # a session's own notes are no part of the work
        tree = flow_checkout.tree_from(tree, head, notes)
        changed = flow_checkout.changed(head, tree)
    outside = [path for path in changed if not mine.covers(path)]
    if outside:
        return _PhaseWork(tree, changed), _out_of_scope(state, outside)
    report = ""
    if phase.report:
        report = _report(state)
        tree = flow_checkout.tree_from(tree, head, [phase.report])
        changed = tuple(path for path in changed if path != phase.report)
    faults = []
    if phase.commit and not changed and phase.check in ("none", "red", "green"):
        faults = [PhaseFault(NOTHING_CHANGED, "The session ended without having changed anything.")]
    return _PhaseWork(tree, changed, report, bool(notes) or flow_checkout.tip != head), faults


def _report(state: FlowState) -> str:
    """The report as it lies there, whether git ignores it or not; a link out of the workspace is none."""
    path, top = os.path.join(state.flow.workspace, state.phase.report), os.path.realpath(state.flow.workspace)
    inside = os.path.realpath(path) == os.path.join(top, state.phase.report)
    return read_text(path) if inside and os.path.isfile(path) else ""


def _out_of_scope(state: FlowState, outside: Sequence[str]) -> list[PhaseFault]:
    """Writes over the fence, named by what they were: a test where tests are not to be touched is its own fault."""
    tests = Ownership.parse(test_runs.test_patterns(state.suites)) if state.suites else None
    touched = [path for path in outside if tests is not None and tests.covers(path)]
    other = [path for path in outside if path not in touched]
    found = []
    if touched:
        found.append(
            PhaseFault(
                judge.TEST_CHANGED, f"{_listed(touched)}: a test; the {state.phase.role} must leave tests alone."
            )
        )
    if other:
        code = judge.NOT_A_TEST if state.phase.check == "red" else OUTSIDE
        found.append(PhaseFault(code, f"{_listed(other)}: the {state.phase.role} may not write that."))
    return found


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more


# --- checks ----------------------------------------------------------------------------------------------


def _known(state: FlowState) -> judge.Baseline:
    return judge.baseline_of(state.flow.facts.get("baseline", {}))


def _run(app: App, state: FlowState, tree: str) -> tuple[Report, ...]:
    return test_runs.verdict(app, repository=state.flow.workspace, tree=tree, suites=state.suites)


def _changes(app: App, state: FlowState, tree: str) -> tuple[judge.FileChange, ...]:
    return test_runs.changes(app, repository=state.flow.workspace, old=state.flow.head, new=tree, suites=state.suites)


def _said(judgement: judge.Judgement, *, warnings: bool) -> tuple[PhaseFault, ...]:
    found = judgement.warnings if warnings else judgement.faults
    return tuple(PhaseFault(one.code, one.message) for one in found)


def checks_of(state: FlowState, reports: Sequence[Report]) -> tuple[Check, ...]:
    """The runs as the record keeps them."""
    known = _known(state)
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


def _tail(reports: Sequence[Report]) -> str:
    return "\n".join(report.tail for report in reports if not report.green and report.tail)[-_TAIL:]


def _judged(
    state: FlowState, left: _PhaseWork, judgement: judge.Judgement, reports: Sequence[Report], **more: Any
) -> PhaseVerdict:
    return PhaseVerdict(
        outcome=OK,
        tree=more.pop("tree", left.tree),
        faults=_said(judgement, warnings=False),
        warnings=_said(judgement, warnings=True),
        checks=checks_of(state, reports),
        tail="" if judgement.ok else _tail(reports),
        **more,
    )


def _baseline(app: App, state: FlowState, left: _PhaseWork) -> PhaseVerdict:
    """What is known before anything is changed; failures and wavering tests are said aloud and stay known."""
    runs = [_run(app, state, state.flow.head)]
    while any(report.cases for report in runs[0]) and len(runs) <= _RERUNS:  # without tests nothing can waver
        runs.append(_run(app, state, state.flow.head))
    known, findings = judge.baseline(runs)
    faults = tuple(PhaseFault(one.code, one.message) for one in findings if not one.warning)
    warnings = tuple(PhaseFault(one.code, one.message) for one in findings if one.warning)
    counts = {name: len(names) for name, names in known.record().items()}
    words = ", ".join(f"{number} {name}" for name, number in counts.items() if number) or "none yet"
    return PhaseVerdict(
        outcome=OK,
        tree=left.tree,
        faults=faults,
        warnings=warnings,
        checks=checks_of(state, runs[-1]),
        facts={"baseline": known.record()},
        subject=f"tests: {words}",
        tail=_tail(runs[-1]),
    )


def _test_list(app: App, state: FlowState, left: _PhaseWork) -> PhaseVerdict:
    del app
    name = state.workflow.test_list
    before, after = (
        state.flow_checkout.read(state.flow.head, name) or "",
        state.flow_checkout.read(left.tree, name) or "",
    )
    faults = tuple(PhaseFault(one.code, one.words) for one in test_list.judge(before, after))
    test, counts = next_test(after), test_list.counts(after)
    words = f"{counts['open']} open, {counts['done']} done"
    return PhaseVerdict(
        outcome="open" if test else "complete",
        tree=left.tree,
        faults=faults,
        facts={"test": test, "new": [], "new_test": ""},
        subject=f"{test} comes next ({words})" if test else f"every test of the list is done ({words})",
    )


def _red(app: App, state: FlowState, left: _PhaseWork) -> PhaseVerdict:
    reports = _run(app, state, left.tree)
    judgement = judge.red(_known(state), reports, changes=_changes(app, state, left.tree))
    cases = [case for report in reports for case in report.cases if case.bad and case.id not in _known(state).failing]
    lines = [f"- `{name}`" for name in judgement.new] + [f"- it fails so: {_first(case.message)}" for case in cases[:3]]
    lines += [f"- in `{path}`" for path in left.changed]
    return _judged(
        state,
        left,
        judgement,
        reports,
        subject=str(state.flow.facts.get("test", "")),
        facts={"new": list(judgement.new), "new_test": "\n".join(lines)},
    )


def _green(app: App, state: FlowState, left: _PhaseWork) -> PhaseVerdict:
    """All pass. The box of the test is ticked here, because here it was seen to pass."""
    reports = _run(app, state, left.tree)
    facts, test = state.flow.facts, str(state.flow.facts.get("test", ""))
    judgement = judge.green(
        _known(state), reports, changes=_changes(app, state, left.tree), new=tuple(facts.get("new", ()))
    )
    tree = left.tree
    text = state.flow_checkout.read(tree, state.workflow.test_list) if state.keeps_list else None
    if judgement.ok and text is not None:
        tree = state.flow_checkout.tree_with(tree, {state.workflow.test_list: test_list.tick(text, test)})
    known = judge.after(_known(state), reports)
    return _judged(state, left, judgement, reports, tree=tree, subject=test, facts={"baseline": known.record()})


def _refactor(app: App, state: FlowState, left: _PhaseWork) -> PhaseVerdict:
    if not left.changed:  # nothing is a fine answer, and this very tree was green a moment ago
        return PhaseVerdict(outcome=OK, tree=left.tree, subject="nothing to tidy up")
    reports = _run(app, state, left.tree)
    judgement = judge.refactor(_known(state), reports, changes=_changes(app, state, left.tree))
    known = judge.after(_known(state), reports)
    test = str(state.flow.facts.get("test", ""))
    subject = f"tidy up after: {test}" if test else "tidy up"
    return _judged(state, left, judgement, reports, subject=subject, facts={"baseline": known.record()})


def _suite(app: App, state: FlowState, left: _PhaseWork) -> PhaseVerdict:
    reports = _run(app, state, left.tree)
    judgement = judge.refactor(_known(state), reports, changes=())
    found = _judged(state, left, judgement, reports, subject=state.phase.title or state.phase.name)
    return _led(state, found)


def _command(app: App, state: FlowState, left: _PhaseWork) -> PhaseVerdict:
    return _led(
        state,
        _by_command(app, state, left, state.phase.command)._replace(subject=state.phase.title or state.phase.name),
    )


def _by_command(app: App, state: FlowState, left: _PhaseWork, command: str) -> PhaseVerdict:
    """One line of shell on the exact tree; its exit code is the verdict."""
    line = Suite(
        name=state.phase.name,
        framework="command",
        folder="",
        command=command,
        results=EXIT,
        environment=(),
        links=_links(state),
    )
    (report,) = test_runs.verdict(app, repository=state.flow.workspace, tree=left.tree, suites=[line])
    check = Check(
        command=command, verdict=RED if report.trouble else GREEN, code=report.code, seconds=round(report.seconds, 3)
    )
    faults = (PhaseFault(RED_CODE, f"`{command}`: {report.trouble}."),) if report.trouble else ()
    return PhaseVerdict(
        outcome=OK, tree=left.tree, faults=faults, checks=(check,), tail=report.tail[-_TAIL:] if report.trouble else ""
    )


def _links(state: FlowState) -> tuple[str, ...]:
    return tuple(dict.fromkeys(link for suite in state.suites for link in suite.links)) or (
        ".venv",
        "venv",
        "node_modules",
    )


def _led(state: FlowState, found: PhaseVerdict) -> PhaseVerdict:
    """A red result that the workflow leads somewhere is an outcome, not a fault."""
    if not found.ok and FAILED in state.phase.next:
        return found._replace(outcome=FAILED, faults=(), warnings=(*found.warnings, *found.faults))
    return found


def _document(app: App, state: FlowState, left: _PhaseWork) -> PhaseVerdict:
    del app
    name = state.phase.document
    text = flow_documents.read(state.flow, name)
    faults: tuple[PhaseFault, ...] = ()
    if not flow_documents.is_written(name, text):
        faults = (PhaseFault("not-written", f"{name} still says nothing of its own."),)
    return PhaseVerdict(
        outcome=OK, tree=left.tree, faults=faults, documents={name: text}, subject=f"{name} of {state.flow.feature}"
    )


def _plan(app: App, state: FlowState, left: _PhaseWork) -> PhaseVerdict:
    name = flow_documents.STATE
    text = flow_documents.read(state.flow, name)
    faults = flow_documents.plan_faults(flow_documents.text(app, state.flow, name), text)
    documents = {name: text}
    decisions = flow_documents.read(state.flow, "DECISIONS.md")
    if decisions:
        documents["DECISIONS.md"] = decisions
    return PhaseVerdict(
        outcome="complete" if not faults and flow_documents.is_complete(text) else "open",
        tree=left.tree,
        faults=tuple(PhaseFault(*one) for one in faults),
        documents=documents,
        subject=f"the steps of {state.flow.feature}",
    )


def _step(app: App, state: FlowState, left: _PhaseWork) -> PhaseVerdict:
    found = flow_documents.current_step(app, state.flow)
    if found is None:
        return PhaseVerdict(outcome="complete", tree=left.tree)
    step, command = found
    if not command:
        said = f"Step {step.number} has no check, so nothing proves it: add '(check: command)' to it."
        return PhaseVerdict(outcome="open", tree=left.tree, faults=(PhaseFault(NO_CHECK, said),))
    judged = _by_command(app, state, left, command)
    last = flow_documents.would_complete(app, state.flow, number=step.number)
    return judged._replace(outcome="complete" if last else "open", subject=step.text, step=step.text)


def _review(app: App, state: FlowState, left: _PhaseWork) -> PhaseVerdict:
    del app
    first, _, rest = left.report.lstrip().partition("\n")
    said = first.strip().strip("*#` ").casefold().partition(":")
    verdict = said[2].strip().strip("*` .")
    if said[0].strip() != "verdict" or verdict not in ("approved", "changes"):
        words = f"{state.phase.report} must begin with 'verdict: approved' or 'verdict: changes'."
        return PhaseVerdict(outcome="changes", tree=left.tree, faults=(PhaseFault(NO_VERDICT, words),))
    if verdict == "changes" and not rest.strip():
        return PhaseVerdict(
            outcome="changes",
            tree=left.tree,
            faults=(PhaseFault(NO_VERDICT, "A reviewer who wants changes must say which."),),
        )
    return PhaseVerdict(outcome=verdict, tree=left.tree, facts={"review": left.report.strip()})


def _none(app: App, state: FlowState, left: _PhaseWork) -> PhaseVerdict:
    del app
    return PhaseVerdict(
        outcome=OK, tree=left.tree, subject=state.flow.request.strip().partition("\n")[0] or state.phase.name
    )


def _first(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")[:300]


_CHECKS: dict[str, Callable[[App, FlowState, _PhaseWork], PhaseVerdict]] = {
    "baseline": _baseline,
    "test-list": _test_list,
    "red": _red,
    "green": _green,
    "refactor": _refactor,
    "suite": _suite,
    "command": _command,
    "document": _document,
    "plan": _plan,
    "step": _step,
    "review": _review,
    "none": _none,
}
