"""Where a flow stands: its row, its workflow as it was when it began, and its own checkout."""

from __future__ import annotations

import os

from handoff.base.files import locked, make_folder
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER
from handoff.board.tasks import flows
from handoff.checks.suite import suite_of
from handoff.git.commits.phases import FlowCheckout
from handoff.workflows import library
from handoff.workflows.model import ALL, CODE, NOTHING, TESTS, Phase, Workflow

if TYPE_CHECKING:
    from handoff.board.tasks.flows import Flow
    from handoff.checks.suite import Suite
    from handoff.engine.app import App

DOCUMENTS = PROJECT_FOLDER + "/"
NO_PATH = DOCUMENTS + "nothing"
"""What a phase owns that may write nothing: an ownership names at least one path."""
_LOCK_SECONDS = 7200.0


class FlowState(Record):
    """A flow with what is needed to move it."""

    flow: Flow
    workflow: Workflow
    flow_checkout: FlowCheckout

    @property
    def phase(self) -> Phase:
        return self.workflow.phase(self.flow.phase)

    @property
    def suites(self) -> tuple[Suite, ...]:
        """The test suites the flow began with: who is judged by them cannot choose others."""
        return tuple(suite_of(values) for values in self.flow.facts.get("suites", ()))

    @property
    def keeps_list(self) -> bool:
        return any(phase.check == "test-list" for phase in self.workflow.phases)


def state_of(app: App, flow: Flow) -> FlowState:
    """The flow of a row; its workflow is read from the row, so an edited file changes nothing that runs."""
    workflow = library.read(
        f"{flow.workflow}.toml (as it was when '{flow.id}' began)",
        library.frozen_prompts(flow.prompt_texts),
        text=flow.text,
    )
    return FlowState(flow, workflow, FlowCheckout(flow.workspace, flow.branch, app.git_environment))


def now(app: App, key: int) -> FlowState:
    """The same, from the row as it is at this moment."""
    return state_of(app, flows.get(app.database, key=key))


def owned_patterns(state: FlowState) -> tuple[str, ...]:
    """What the phase may write, as ownership patterns."""
    tests = tuple(dict.fromkeys(pattern for suite in state.suites for pattern in suite.tests))
    mine = (f"!{state.workflow.test_list}",) if state.keeps_list else ()
    found: list[str] = []
    for share in state.phase.may_write:
        if share == TESTS:
            found += [*tests, *mine]
        elif share == CODE:
            found += ["**", *(f"!{pattern}" for pattern in tests), f"!{DOCUMENTS}", *mine]
        elif share == ALL:
            found += ["**", f"!{DOCUMENTS}", *mine]
        elif share != NOTHING:
            found.append(share)
    return tuple(found) or (NO_PATH,)


def moving(app: App, flow: Flow, *, patience: float = _LOCK_SECONDS) -> locked:
    """One mover of a flow at a time on this machine; rows keep movers on other machines apart."""
    folder = os.path.join(app.settings.home, flow.project, "flows")
    make_folder(folder, mode=0o700)
    return locked(os.path.join(folder, f"{flow.id}.lock"), what=f"the flow '{flow.id}'", patience=patience)
