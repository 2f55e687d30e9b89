"""Before a phase's session: what will judge it is tried out on the last good tree, once for each flow."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.engine.flows import documents as flow_documents
from handoff.engine.flows import judge
from handoff.engine.flows.fence import PhaseWork

if TYPE_CHECKING:
    from handoff.engine.app import App
    from handoff.engine.flows.state import FlowState

_SUITES = "the suites"
_BY_SUITES = ("red", "green", "refactor", "suite", "unbroken")


def try_out(app: App, state: FlowState) -> list[str]:
    """Before a session: what will judge its phase runs once on the last good tree, unless it is known to run by now.

    Red is expected; a check that cannot be started is refused before anybody is paid.
    """
    ran = [str(name) for name in state.flow.facts.get("ran", ())]
    command = state.phase.command if state.phase.check == "command" else ""
    if state.phase.check == "step":
        found = flow_documents.current_step(app, state.flow)
        command = found[1] if found else ""
    if command and command not in ran:
        judge.by_command(app, state, PhaseWork(tree=state.flow.head, changed=()), command)
        ran.append(command)
    by_suites = state.phase.check in _BY_SUITES and bool(state.suites)
    if by_suites and "baseline" not in state.flow.facts and _SUITES not in ran:
        judge.run_suites(app, state, state.flow.head)
        ran.append(_SUITES)
    return ran
