"""What a phase left in its workspace, held against its fence: the exact tree, and what in it the phase may not write."""

from __future__ import annotations

from handoff.base.files import as_text
from handoff.base.ids import on_one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.judge import NOT_A_TEST, TEST_CHANGED
from handoff.engine.flows.state import DOCUMENTS, owned_patterns
from handoff.engine.proof import test_runs
from handoff.git.ownership.ownership import Ownership
from handoff.git.plumbing.beneath import Beneath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.engine.flows.state import FlowState

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
    more: bool = False
    """Whether the session left something the tree does not hold: notes of its own, commits of its own."""


def look(state: FlowState) -> tuple[PhaseWork, list[PhaseFault]]:
    """The tree a phase left without its session's own notes and report, and where it went over its fence."""
    phase, flow_checkout, head = state.phase, state.flow_checkout, state.flow.head
    flow_checkout.seal(str(state.flow.facts["git_config"]))
    tree = flow_checkout.whole_tree(head)
    mine = Ownership.parse(owned_patterns(state))
    changed = flow_checkout.changed(head, tree)
    shared = f"{DOCUMENTS}features/{state.flow.feature}/" if state.flow.feature else "\0"
    notes = [
        path for path in changed if path.startswith(shared) or (path.startswith(DOCUMENTS) and not mine.covers(path))
    ]
    if notes:  # a session's own notes are no part of the work, and a feature's documents are the person's own files
        tree = flow_checkout.tree_from(tree, head, notes)
        changed = flow_checkout.changed(head, tree)
    outside = [path for path in changed if not mine.covers(path)]
    if outside:
        return PhaseWork(tree, changed), _out_of_scope(state, outside)
    report = ""
    if phase.report:
        report = _report(state)
        tree = flow_checkout.tree_from(tree, head, [phase.report])
        changed = tuple(path for path in changed if path != phase.report)
    faults = []
    if phase.commit and not changed and phase.check in ("none", "unbroken", "red", "green"):
        faults = [PhaseFault(NOTHING_CHANGED, "The session ended without having changed anything.")]
    more = any(not path.startswith(shared) for path in notes) or flow_checkout.tip != head
    return PhaseWork(tree, changed, report, more), faults


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
        words = f"{_listed(touched)}: a test; the {state.phase.role} must leave tests alone."
        found.append(PhaseFault(TEST_CHANGED, words))
    if other:
        code = NOT_A_TEST if state.phase.check == "red" else OUTSIDE
        found.append(PhaseFault(code, f"{_listed(other)}: the {state.phase.role} may not write that."))
    return found


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(map(on_one_line, paths[:_SHOWN])) + more
