"""What comes of a phase: the exact tree it left, held against its fence and its check. Nothing is changed here."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks import judge
from handoff.checks.assertions.assertions import vacuous_scripts
from handoff.checks.findings import Baseline, baseline_of, first_line
from handoff.checks.suite import EXIT, Suite
from handoff.engine.place.proof import faults, test_runs, two_way
from handoff.engine.work.flows import documents as flow_documents
from handoff.engine.work.flows import evidence
from handoff.engine.work.flows.documents import GREEN_BEFORE, PROVES_NOTHING
from handoff.engine.work.flows.evidence import NOTHING_CHANGED, PhaseFault, PhaseWork, look
from handoff.engine.work.flows.prompts import next_test
from handoff.git.notes import GREEN, QUESTIONS, RED, Check
from handoff.workflows import test_list
from handoff.workflows.model import FAILED, OK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from handoff.checks.findings import Finding, Judgement
    from handoff.checks.results import Report
    from handoff.engine.app import App
    from handoff.engine.place.proof.two_way import JudgedChange
    from handoff.engine.work.flows.state import FlowState

NO_VERDICT, NO_CHECK, RED_CODE, NOTHING_PLANNED = "no-verdict", "no-check", "red", "nothing-planned"
_RERUNS = 2
_LINKS = (".venv", "venv", "node_modules")  # what a command is lent when no suite says
_TAIL = 3000


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

    @property
    def ok(self) -> bool:
        return not self.faults


def judge_phase(app: App, state: FlowState, session: str = "") -> PhaseVerdict:
    """Hold what lies in the workspace now against the phase's fence, then against its check."""
    left, faults = look(app, state, session)
    if faults:
        return PhaseVerdict(outcome=OK, tree=left.tree, faults=tuple(faults))
    found = _CHECKS[state.phase.check](app, state, left)
    if found.ok and state.phase.mutants and state.phase.check in ("green", "refactor"):
        found = evidence.weigh(app, state, left, found)
    tested = evidence.tested_lines(found.checks, found.warnings)
    facts = {**found.facts, "tested": tested} if tested else found.facts
    return found._replace(changed=bool(left.changed) or found.tree != left.tree, facts=facts)


def _known(state: FlowState) -> Baseline:
    return baseline_of(state.flow.facts.get("baseline", {}))


def run_suites(app: App, state: FlowState, tree: str) -> tuple[Report, ...]:
    """The flow's suites on this tree; a suite that cannot be started is the ground's fault."""
    reports = test_runs.verdict(
        app, repository=state.flow.workspace, tree=tree, suites=state.suites, before=state.flow.head
    )
    faults.refuse_unready_flow(app, state.flow, reports)
    return reports


def _look(app: App, state: FlowState, tree: str) -> JudgedChange:
    return two_way.look_at(app, checkout=state.flow_checkout, head=state.flow.head, tree=tree, suites=state.suites)


def _said(findings: Iterable[Finding], *, warning: bool) -> tuple[PhaseFault, ...]:
    return tuple(PhaseFault(one.code, one.message) for one in findings if one.warning == warning)


def _tail(reports: Sequence[Report]) -> str:
    return "\n".join(report.tail for report in reports if not report.green and report.tail)[-_TAIL:]


def _judged(
    state: FlowState, left: PhaseWork, judgement: Judgement, reports: Sequence[Report], **more: Any
) -> PhaseVerdict:
    known = more.pop("known", None) or _known(state)
    return PhaseVerdict(
        outcome=OK,
        tree=more.pop("tree", left.tree),
        faults=_said(judgement.findings, warning=False),
        warnings=_said(judgement.findings, warning=True),
        checks=(*evidence.runs_of(state, reports, known), *_asked(judgement)),
        tail="" if judgement.ok else _tail(reports),
        **more,
    )


def _asked(judgement: Judgement) -> Iterable[Check]:
    """What the tests were asked, as the record keeps it."""
    said = GREEN if judgement.ok else RED
    return (Check(command=line, verdict=said, suite=QUESTIONS) for line in judgement.asked)


def _baseline(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    """What is known before anything is changed; failures and wavering tests are said aloud and stay known."""
    runs = [run_suites(app, state, state.flow.head)]
    while any(report.cases for report in runs[0]) and len(runs) <= _RERUNS:  # without tests nothing can waver
        runs.append(run_suites(app, state, state.flow.head))
    known, findings = judge.baseline(runs)
    counts = {name: len(names) for name, names in known.record().items() if name not in ("flaws", "held")}
    words = ", ".join(f"{number} {name}" for name, number in counts.items() if number) or "none yet"
    return PhaseVerdict(
        outcome=OK,
        tree=left.tree,
        faults=_said(findings, warning=False),
        warnings=_said(findings, warning=True),
        checks=evidence.runs_of(state, runs[-1], _known(state)),
        facts={"baseline": known.record()},
        subject=f"tests: {words}",
        tail=_tail(runs[-1]),
    )


def _test_list(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    name = state.workflow.test_list
    before, after = (state.flow_checkout.read(tree, name) or "" for tree in (state.flow.head, left.tree))
    faults = tuple(PhaseFault(one.code, one.words) for one in test_list.judge(before, after))
    tree, refused, suites = evidence.first_suite(app, state, left.tree, after)
    faults += refused
    faults += _unplanned(state, faults, any_open=bool(next_test(after)), what=f"an open test ('- [ ] …') to {name}")
    test, counts = next_test(after), test_list.counts(after)
    words = f"{counts['open']} open, {counts['done']} done"
    return PhaseVerdict(
        outcome="open" if test else "complete",
        tree=tree,
        faults=faults,
        facts={"test": test, "new": [], "new_test": "", "planned": True, **suites},
        subject=f"{test} comes next ({words})" if test else f"every test of the list is done ({words})",
    )


def _unplanned(state: FlowState, faults: Sequence[PhaseFault], *, any_open: bool, what: str) -> tuple[PhaseFault, ...]:
    """A request nobody has planned anything for is not done, however many boxes were ticked before it."""
    if faults or any_open or state.flow.facts.get("planned"):
        return ()
    words = f"Nothing is planned for this request: every box was closed before it. Add {what}, or say why not: handoff task block REASON."
    return (PhaseFault(NOTHING_PLANNED, words),)


def _red(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    reports = run_suites(app, state, left.tree)
    judgement, facts = seen_red(app, state, reports, tree=left.tree, changed=left.changed)
    return _judged(state, left, judgement, reports, subject=str(state.flow.facts.get("test", "")), facts=facts)


def seen_red(
    app: App, state: FlowState, reports: Sequence[Report], *, tree: str, changed: Sequence[str]
) -> tuple[Judgement, dict[str, Any]]:
    """Whether this tree adds one test that fails for the right reason, and what the flow remembers of it."""
    known, change, test = _known(state), _look(app, state, tree), str(state.flow.facts.get("test", ""))
    judgement = two_way.weigh_red(change, judge.red(known, reports, changes=change.changes), test=test)
    cases = [case for report in reports for case in report.cases if case.bad and case.id not in known.failing]
    lines = [f"- `{name}`" for name in judgement.new] + [
        f"- it fails so: {first_line(case.message)}" for case in cases[:3]
    ]
    lines += [f"- in `{path}`" for path in changed]
    return judgement, {"new": list(judgement.new), "new_test": "\n".join(lines), "before_red": state.flow.head}


def _green(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    """All pass. The box of the test is ticked here, because here it was seen to pass."""
    reports = run_suites(app, state, left.tree)
    facts, test = state.flow.facts, str(state.flow.facts.get("test", ""))
    new = tuple(facts.get("new", ()))
    change = _look(app, state, left.tree)
    judgement = judge.green(_known(state), reports, changes=change.changes, new=new)
    began, probe = str(facts.get("before_red", "")), two_way.probe_of(app, change, state.suites, reports)
    judgement = two_way.weigh_green(change, judgement, probe=probe, began=began, new=new)
    tree = left.tree
    text = state.flow_checkout.read(tree, state.workflow.test_list) if state.keeps_list else None
    if judgement.ok and text is not None:
        tree = state.flow_checkout.tree_with(tree, {state.workflow.test_list: test_list.tick(text, test)})
    known = judge.after(_known(state), reports)
    return _judged(state, left, judgement, reports, tree=tree, subject=test, facts={"baseline": known.record()})


def _refactor(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    if not left.changed:  # nothing is a fine answer, and this very tree was green a moment ago
        return PhaseVerdict(outcome=OK, tree=left.tree, subject="nothing to tidy up")
    reports = run_suites(app, state, left.tree)
    change = _look(app, state, left.tree)
    judgement = judge.refactor(_known(state), reports, changes=change.changes)
    judgement = two_way.weigh_refactor(
        change, judgement, probe=two_way.probe_of(app, change, state.suites, reports), known=_known(state)
    )
    known = judge.after(_known(state), reports)
    test = str(state.flow.facts.get("test", ""))
    subject = f"tidy up after: {test}" if test else "tidy up"
    return _judged(state, left, judgement, reports, subject=subject, facts={"baseline": known.record()})


def _suite(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    reports = run_suites(app, state, left.tree)
    judgement = judge.refactor(_known(state), reports, changes=())
    return _led(state, _judged(state, left, judgement, reports))


def _unbroken(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    subject = state.flow.request.strip().partition("\n")[0] if state.phase.role else ""
    return _led(state, _nothing_broken(app, state, left), subject)


def _nothing_broken(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    """All tests pass but those that failed before; only when something is red the tree before is asked whose fault it is."""
    reports = run_suites(app, state, left.tree)
    before = run_suites(app, state, state.flow.base) if judge.needs_the_past(reports) else ()
    judgement = judge.judge_unbroken(before, reports, changes=_look(app, state, left.tree).changes)
    failing = frozenset(case.id for report in before for case in report.cases if case.bad)
    return _judged(state, left, judgement, reports, known=Baseline(failing=failing))


def _strength(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    """The full suite, then the hidden tests and the mutants of everything this flow changed."""
    reports = run_suites(app, state, left.tree)
    found = _judged(state, left, judge.refactor(_known(state), reports, changes=()), reports)
    if found.ok:
        found = evidence.weigh_all(app, state, found)
    return _led(state, found)


def _hidden(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    """New test files are kept with the flow and taken out of the tree: whoever builds it never has them."""
    del app
    faults, texts = evidence.take_hidden(state, left)
    if faults:
        return PhaseVerdict(outcome=OK, tree=left.tree, faults=faults)
    return PhaseVerdict(outcome=OK, tree=state.flow.head, facts={"hidden": texts}, subject="hidden tests are kept")


def _command(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    return _led(state, by_command(app, state, left, state.phase.command))


def by_command(app: App, state: FlowState, left: PhaseWork, command: str) -> PhaseVerdict:
    """One line of shell on the exact tree; its exit code is the verdict."""
    links = tuple(dict.fromkeys(link for suite in state.suites for link in suite.links))
    line = Suite(
        name=state.phase.name,
        framework="command",
        folder="",
        command=command,
        results=EXIT,
        environment=(),
        links=links or _LINKS,
    )
    (report,) = test_runs.verdict(app, repository=state.flow.workspace, tree=left.tree, suites=[line])
    faults.refuse_unready_flow(app, state.flow, [report])
    verdict, seconds = RED if report.trouble else GREEN, round(report.seconds, 3)
    found = PhaseVerdict(
        outcome=OK,
        tree=left.tree,
        checks=(Check(command=command, verdict=verdict, code=report.code, seconds=seconds),),
    )
    if report.trouble:
        fault = PhaseFault(RED_CODE, f"`{command}`: {report.trouble}.")
        return found._replace(faults=(fault,), tail=report.tail[-_TAIL:])
    return found


def _led(state: FlowState, found: PhaseVerdict, subject: str = "") -> PhaseVerdict:
    """Named after the phase; a red result that the workflow leads somewhere is an outcome, not a fault."""
    found = found._replace(subject=subject or state.phase.title or state.phase.name)
    if not found.ok and FAILED in state.phase.next:
        return found._replace(outcome=FAILED, faults=(), warnings=(*found.warnings, *found.faults))
    return found


def _document(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    del app
    name = state.phase.document
    text = flow_documents.read(state.flow, name)
    faults: tuple[PhaseFault, ...] = ()
    if not flow_documents.is_written(name, text):
        faults = (PhaseFault("not-written", f"{name} still says nothing of its own."),)
    return PhaseVerdict(
        outcome=OK, tree=left.tree, faults=faults, documents={name: text}, subject=f"{name} of {state.flow.feature}"
    )


def _plan(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    name = flow_documents.STATE
    text = flow_documents.read(state.flow, name)
    faults = tuple(
        PhaseFault(*one) for one in flow_documents.plan_faults(flow_documents.text(app, state.flow, name), text)
    )
    complete = not faults and flow_documents.is_complete(text)
    faults += _unplanned(state, faults, any_open=not complete, what=f"an open step ('- [ ] …') to {name}")
    documents = {name: text}
    decisions = flow_documents.read(state.flow, "DECISIONS.md")
    if decisions:
        documents["DECISIONS.md"] = decisions
    return PhaseVerdict(
        outcome="complete" if complete else "open",
        tree=left.tree,
        faults=faults,
        facts={"planned": True},
        documents=documents,
        subject=f"the steps of {state.flow.feature}",
    )


def _step(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    found = flow_documents.current_step(app, state.flow)
    if found is None:
        return PhaseVerdict(outcome="complete", tree=left.tree)
    step, command = found
    if not command:
        said = f"Step {step.number} has no check, so nothing proves it: add '(check: command)' to it."
        return PhaseVerdict(outcome="open", tree=left.tree, faults=(PhaseFault(NO_CHECK, said),))
    judged = by_command(app, state, left, command)
    if judged.ok:
        whole = _nothing_broken(app, state, left)
        doubts = _doubts(app, state, left, command)
        faults = tuple(one for one in doubts if one.code != GREEN_BEFORE)
        judged = whole._replace(
            checks=(*judged.checks, *whole.checks),
            faults=(*whole.faults, *faults),
            warnings=(*whole.warnings, *(one for one in doubts if one.code == GREEN_BEFORE)),
        )
    last = flow_documents.would_complete(app, state.flow, number=step.number)
    return judged._replace(outcome="complete" if last else "open", subject=step.text, step=step.text)


def _doubts(app: App, state: FlowState, left: PhaseWork, command: str) -> list[PhaseFault]:
    """Why a green check shows less than it seems: written to be green by this session, or green before it began."""
    scripts = vacuous_scripts(command, left.changed, lambda path: state.flow_checkout.read(left.tree, path))
    if scripts:
        words = f"The check runs {scripts[0]}, which asserts nothing that could fail: {command}"
        return [PhaseFault(PROVES_NOTHING, words)]
    try:
        before = by_command(app, state, left._replace(tree=state.flow.head), command)
    except faults.GroundFault:
        return []  # what it needs came with the work
    if not before.ok:
        return []
    if not left.changed:
        return [PhaseFault(NOTHING_CHANGED, f"Nothing was changed, and the check was green before: {command}")]
    words = (
        f"`{command}` was green before the work too: that the step is done rests on its changes and on the reviewer."
    )
    return [PhaseFault(GREEN_BEFORE, words)]


def _review(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    del app
    first, _, rest = left.report.lstrip().partition("\n")
    said = first.strip().strip("*#` ").casefold().partition(":")
    verdict = said[2].strip().strip("*` .")
    words = ""
    if said[0].strip() != "verdict" or verdict not in ("approved", "changes"):
        words = f"{state.phase.report} must begin with 'verdict: approved' or 'verdict: changes'."
    elif verdict == "changes" and not rest.strip():
        words = "A reviewer who wants changes must say which."
    if words:
        return PhaseVerdict(outcome="changes", tree=left.tree, faults=(PhaseFault(NO_VERDICT, words),))
    return PhaseVerdict(outcome=verdict, tree=left.tree, facts={"review": left.report.strip()})


def _none(app: App, state: FlowState, left: PhaseWork) -> PhaseVerdict:
    del app
    subject = state.flow.request.strip().partition("\n")[0] or state.phase.name
    said = PhaseFault(judge.NOT_TESTED, "not tested: the check of this phase is 'none'.")
    warnings = (said,) if left.changed else ()
    return PhaseVerdict(outcome=OK, tree=left.tree, subject=subject, warnings=warnings)


_CHECKS: dict[str, Callable[[App, FlowState, PhaseWork], PhaseVerdict]] = {
    "baseline": _baseline,
    "test-list": _test_list,
    "red": _red,
    "green": _green,
    "refactor": _refactor,
    "suite": _suite,
    "hidden": _hidden,
    "strength": _strength,
    "command": _command,
    "unbroken": _unbroken,
    "document": _document,
    "plan": _plan,
    "step": _step,
    "review": _review,
    "none": _none,
}
