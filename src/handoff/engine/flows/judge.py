"""What comes of a phase: the exact tree it left, held against its fence and its check. Nothing is changed here."""

from __future__ import annotations

import os

from handoff.base.files import read_text
from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks import judge
from handoff.checks.frameworks.suite import EXIT, Suite
from handoff.engine.flows import documents as flow_documents
from handoff.engine.flows.prompts import next_test
from handoff.engine.flows.state import DOCUMENTS, owned
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
    from handoff.engine.flows.state import Standing

OUTSIDE, NOTHING_CHANGED, NO_VERDICT, NO_CHECK, RED_CODE = (
    "outside", "nothing-changed", "no-verdict", "no-check", "red",
)  # fmt: skip
_SHOWN = 20
_RERUNS = 2
_TAIL = 3000


class Finding(Record):
    """Why a phase is refused, or what is to be known about it."""

    code: str
    words: str

    def __str__(self) -> str:
        return f"{self.code}: {self.words}"


class Judged(Record):
    """The verdict on a phase. `facts` is what the flow remembers from now on; `subject` says it in the commit."""

    outcome: str
    tree: str
    faults: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
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


class _Left(Record):
    """What a phase left: the tree, what it changed, and the report it wrote beside the work."""

    tree: str
    changed: tuple[str, ...]
    report: str = ""
    more: bool = False
    """Whether the session left something the tree does not hold: notes of its own, commits of its own."""


def judge_phase(app: App, at: Standing) -> Judged:
    """Hold what lies in the workspace now against the phase's fence, then against its check."""
    left, faults = _look(at)
    if faults:
        return Judged(OK, left.tree, tuple(faults))
    found = _CHECKS[at.phase.check](app, at, left)
    return found._replace(changed=bool(left.changed) or found.tree != left.tree, more=left.more)


def _look(at: Standing) -> tuple[_Left, list[Finding]]:
    phase, lane, head = at.phase, at.lane, at.flow.head
    lane.seal(str(at.flow.facts["git_config"]))
    tree = lane.whole_tree(head)
    mine = Ownership.parse(owned(at))
    changed = lane.changed(head, tree)
    notes = [path for path in changed if path.startswith(DOCUMENTS) and not mine.covers(path)]
    if notes:  # a session's own notes are no part of the work
        tree = lane.tree_from(tree, head, notes)
        changed = lane.changed(head, tree)
    outside = [path for path in changed if not mine.covers(path)]
    if outside:
        return _Left(tree, changed), _strays(at, outside)
    report = ""
    if phase.report:
        report = _report(at)
        tree = lane.tree_from(tree, head, [phase.report])
        changed = tuple(path for path in changed if path != phase.report)
    faults = []
    if phase.commit and not changed and phase.check in ("none", "red", "green"):
        faults = [Finding(NOTHING_CHANGED, "The session ended without having changed anything.")]
    return _Left(tree, changed, report, bool(notes) or lane.tip != head), faults


def _report(at: Standing) -> str:
    """The report as it lies there, whether git ignores it or not; a link out of the workspace is none."""
    path, top = os.path.join(at.flow.workspace, at.phase.report), os.path.realpath(at.flow.workspace)
    inside = os.path.realpath(path) == os.path.join(top, at.phase.report)
    return read_text(path) if inside and os.path.isfile(path) else ""


def _strays(at: Standing, outside: Sequence[str]) -> list[Finding]:
    """Writes over the fence, named by what they were: a test where tests are not to be touched is its own fault."""
    tests = Ownership.parse(test_runs.test_patterns(at.suites)) if at.suites else None
    touched = [path for path in outside if tests is not None and tests.covers(path)]
    other = [path for path in outside if path not in touched]
    found = []
    if touched:
        found.append(
            Finding(judge.TEST_CHANGED, f"{_listed(touched)}: a test; the {at.phase.role} must leave tests alone.")
        )
    if other:
        code = judge.NOT_A_TEST if at.phase.check == "red" else OUTSIDE
        found.append(Finding(code, f"{_listed(other)}: the {at.phase.role} may not write that."))
    return found


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more


# --- checks ----------------------------------------------------------------------------------------------


def _known(at: Standing) -> judge.Baseline:
    return judge.baseline_of(at.flow.facts.get("baseline", {}))


def _run(app: App, at: Standing, tree: str) -> tuple[Report, ...]:
    return test_runs.verdict(app, repository=at.flow.workspace, tree=tree, suites=at.suites)


def _changes(app: App, at: Standing, tree: str) -> tuple[judge.Change, ...]:
    return test_runs.changes(app, repository=at.flow.workspace, old=at.flow.head, new=tree, suites=at.suites)


def _said(judgement: judge.Judgement, *, warnings: bool) -> tuple[Finding, ...]:
    found = judgement.warnings if warnings else judgement.faults
    return tuple(Finding(one.code, one.message) for one in found)


def noted(at: Standing, reports: Sequence[Report]) -> tuple[Check, ...]:
    """The runs as the record keeps them."""
    known = _known(at)
    folders = {suite.name: suite.folder for suite in at.suites}
    found = []
    for report in reports:
        counts, failing = report.counts(), [case.id for case in report.cases if case.bad]
        excused = [name for name in failing if name in known.failing | known.flaky]
        green = not report.trouble and len(excused) == len(failing)
        found.append(
            Check(
                report.command, GREEN if green else RED, report.code, folders.get(report.suite, ""), report.suite,
                counts["passed"], len(failing), counts["skipped"], len(excused), tuple(failing[:MOST_NAMES]),
                round(report.seconds, 3),
            )
        )  # fmt: skip
    return tuple(found)


def _tail(reports: Sequence[Report]) -> str:
    return "\n".join(report.tail for report in reports if not report.green and report.tail)[-_TAIL:]


def _judged(at: Standing, left: _Left, judgement: judge.Judgement, reports: Sequence[Report], **more: Any) -> Judged:
    return Judged(
        OK, more.pop("tree", left.tree), _said(judgement, warnings=False), _said(judgement, warnings=True),
        noted(at, reports), tail="" if judgement.ok else _tail(reports), **more,
    )  # fmt: skip


def _baseline(app: App, at: Standing, left: _Left) -> Judged:
    """What is known before anything is changed; failures and wavering tests are said aloud and stay known."""
    runs = [_run(app, at, at.flow.head)]
    while any(report.cases for report in runs[0]) and len(runs) <= _RERUNS:  # without tests nothing can waver
        runs.append(_run(app, at, at.flow.head))
    known, findings = judge.baseline(runs)
    faults = tuple(Finding(one.code, one.message) for one in findings if not one.warning)
    warnings = tuple(Finding(one.code, one.message) for one in findings if one.warning)
    counts = {name: len(names) for name, names in known.record().items()}
    words = ", ".join(f"{number} {name}" for name, number in counts.items() if number) or "none yet"
    return Judged(
        OK, left.tree, faults, warnings, noted(at, runs[-1]), {"baseline": known.record()}, f"tests: {words}",
        tail=_tail(runs[-1]),
    )  # fmt: skip


def _test_list(app: App, at: Standing, left: _Left) -> Judged:
    del app
    name = at.workflow.test_list
    before, after = at.lane.read(at.flow.head, name) or "", at.lane.read(left.tree, name) or ""
    faults = tuple(Finding(one.code, one.words) for one in test_list.judge(before, after))
    test, counts = next_test(after), test_list.counts(after)
    words = f"{counts['open']} open, {counts['done']} done"
    return Judged(
        "open" if test else "complete", left.tree, faults, facts={"test": test, "new": [], "new_test": ""},
        subject=f"{test} comes next ({words})" if test else f"every test of the list is done ({words})",
    )  # fmt: skip


def _red(app: App, at: Standing, left: _Left) -> Judged:
    reports = _run(app, at, left.tree)
    judgement = judge.red(_known(at), reports, changes=_changes(app, at, left.tree))
    cases = [case for report in reports for case in report.cases if case.bad and case.id not in _known(at).failing]
    lines = [f"- `{name}`" for name in judgement.new] + [f"- it fails so: {_first(case.message)}" for case in cases[:3]]
    lines += [f"- in `{path}`" for path in left.changed]
    return _judged(
        at, left, judgement, reports, subject=str(at.flow.facts.get("test", "")),
        facts={"new": list(judgement.new), "new_test": "\n".join(lines)},
    )  # fmt: skip


def _green(app: App, at: Standing, left: _Left) -> Judged:
    """All pass. The box of the test is ticked here, because here it was seen to pass."""
    reports = _run(app, at, left.tree)
    facts, test = at.flow.facts, str(at.flow.facts.get("test", ""))
    judgement = judge.green(_known(at), reports, changes=_changes(app, at, left.tree), new=tuple(facts.get("new", ())))
    tree = left.tree
    text = at.lane.read(tree, at.workflow.test_list) if at.keeps_list else None
    if judgement.ok and text is not None:
        tree = at.lane.tree_with(tree, {at.workflow.test_list: test_list.tick(text, test)})
    known = judge.after(_known(at), reports)
    return _judged(at, left, judgement, reports, tree=tree, subject=test, facts={"baseline": known.record()})


def _refactor(app: App, at: Standing, left: _Left) -> Judged:
    if not left.changed:  # nothing is a fine answer, and this very tree was green a moment ago
        return Judged(OK, left.tree, subject="nothing to tidy up")
    reports = _run(app, at, left.tree)
    judgement = judge.refactor(_known(at), reports, changes=_changes(app, at, left.tree))
    known = judge.after(_known(at), reports)
    test = str(at.flow.facts.get("test", ""))
    subject = f"tidy up after: {test}" if test else "tidy up"
    return _judged(at, left, judgement, reports, subject=subject, facts={"baseline": known.record()})


def _suite(app: App, at: Standing, left: _Left) -> Judged:
    reports = _run(app, at, left.tree)
    judgement = judge.refactor(_known(at), reports, changes=())
    found = _judged(at, left, judgement, reports, subject=at.phase.title or at.phase.name)
    return _led(at, found)


def _command(app: App, at: Standing, left: _Left) -> Judged:
    return _led(at, _by_command(app, at, left, at.phase.command)._replace(subject=at.phase.title or at.phase.name))


def _by_command(app: App, at: Standing, left: _Left, command: str) -> Judged:
    """One line of shell on the exact tree; its exit code is the verdict."""
    line = Suite(at.phase.name, "command", "", command, EXIT, environment=(), links=_links(at))
    (report,) = test_runs.verdict(app, repository=at.flow.workspace, tree=left.tree, suites=[line])
    check = Check(command, RED if report.trouble else GREEN, report.code, seconds=round(report.seconds, 3))
    faults = (Finding(RED_CODE, f"`{command}`: {report.trouble}."),) if report.trouble else ()
    return Judged(OK, left.tree, faults, checks=(check,), tail=report.tail[-_TAIL:] if report.trouble else "")


def _links(at: Standing) -> tuple[str, ...]:
    return tuple(dict.fromkeys(link for suite in at.suites for link in suite.links)) or (
        ".venv",
        "venv",
        "node_modules",
    )


def _led(at: Standing, found: Judged) -> Judged:
    """A red result that the workflow leads somewhere is an outcome, not a fault."""
    if not found.ok and FAILED in at.phase.next:
        return found._replace(outcome=FAILED, faults=(), warnings=(*found.warnings, *found.faults))
    return found


def _document(app: App, at: Standing, left: _Left) -> Judged:
    del app
    name = at.phase.document
    text = flow_documents.written(at.flow, name)
    faults: tuple[Finding, ...] = ()
    if not flow_documents.is_written(name, text):
        faults = (Finding("not-written", f"{name} still says nothing of its own."),)
    return Judged(OK, left.tree, faults, documents={name: text}, subject=f"{name} of {at.flow.feature}")


def _plan(app: App, at: Standing, left: _Left) -> Judged:
    name = flow_documents.STATE
    text = flow_documents.written(at.flow, name)
    faults = flow_documents.plan_faults(flow_documents.text(app, at.flow, name), text)
    documents = {name: text}
    decisions = flow_documents.written(at.flow, "DECISIONS.md")
    if decisions:
        documents["DECISIONS.md"] = decisions
    return Judged(
        "complete" if not faults and flow_documents.is_complete(text) else "open", left.tree,
        tuple(Finding(*one) for one in faults), documents=documents, subject=f"the steps of {at.flow.feature}",
    )  # fmt: skip


def _step(app: App, at: Standing, left: _Left) -> Judged:
    found = flow_documents.current_step(app, at.flow)
    if found is None:
        return Judged("complete", left.tree)
    step, command = found
    if not command:
        said = f"Step {step.number} has no check, so nothing proves it: add '(check: command)' to it."
        return Judged("open", left.tree, (Finding(NO_CHECK, said),))
    judged = _by_command(app, at, left, command)
    last = flow_documents.would_complete(app, at.flow, number=step.number)
    return judged._replace(outcome="complete" if last else "open", subject=step.text, step=step.text)


def _review(app: App, at: Standing, left: _Left) -> Judged:
    del app
    first, _, rest = left.report.lstrip().partition("\n")
    said = first.strip().strip("*#` ").casefold().partition(":")
    verdict = said[2].strip().strip("*` .")
    if said[0].strip() != "verdict" or verdict not in ("approved", "changes"):
        words = f"{at.phase.report} must begin with 'verdict: approved' or 'verdict: changes'."
        return Judged("changes", left.tree, (Finding(NO_VERDICT, words),))
    if verdict == "changes" and not rest.strip():
        return Judged("changes", left.tree, (Finding(NO_VERDICT, "A reviewer who wants changes must say which."),))
    return Judged(verdict, left.tree, facts={"review": left.report.strip()})


def _none(app: App, at: Standing, left: _Left) -> Judged:
    del app
    return Judged(OK, left.tree, subject=at.flow.request.strip().partition("\n")[0] or at.phase.name)


def _first(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")[:300]


_CHECKS: dict[str, Callable[[App, Standing, _Left], Judged]] = {
    "baseline": _baseline, "test-list": _test_list, "red": _red, "green": _green, "refactor": _refactor,
    "suite": _suite, "command": _command, "document": _document, "plan": _plan, "step": _step, "review": _review,
    "none": _none,
}  # fmt: skip
