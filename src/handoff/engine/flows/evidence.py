"""What a person or a reviewer is shown before they decide: what changed, what the tests said, what the tests lost."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.checks import unbroken
from handoff.engine.proof import test_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from handoff.engine.app import App
    from handoff.engine.flows.fence import PhaseFault
    from handoff.engine.flows.state import FlowState
    from handoff.git.notes.record import Check

NOT_TESTED = "not tested"
GREEN_BEFORE = "green-before"
_MOST = 40


def tested_lines(checks: Iterable[Check], warnings: Iterable[PhaseFault]) -> list[str]:
    """One line for each run, and one for each suite that gave no result."""
    found = [_line(check) for check in checks]
    return found + [one.words for one in warnings if one.code in (unbroken.NOT_TESTED, GREEN_BEFORE)]


def _line(check: Check) -> str:
    name = f"{check.suite}: " if check.suite else f"`{check.command}`: "
    counts = {"passed": check.passed, "failed": check.failed, "skipped": check.skipped}
    said = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
    known = f" ({check.known} of them failed before)" if check.known else ""
    return f"{name}{check.verdict}" + (f", {said}{known}" if said else "")


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
    return [one.message for one in unbroken.note_lost(changes)]


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
