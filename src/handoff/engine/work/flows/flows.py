"""A flow as a journey: begin it, take one phase by hand, look at it."""

from __future__ import annotations

import os

from handoff.agents import catalog
from handoff.agents.contract import OK, AgentOutcome
from handoff.base.clock import boot_id
from handoff.base.errors import Conflict, Refused, UserError
from handoff.base.ids import check_id, new_id, slug
from handoff.base.markdown import number_of
from handoff.base.process import is_running, pass_through, start_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.sessions import leases
from handoff.board.sessions import sessions as people
from handoff.board.tasks import flows, states, tasks
from handoff.board.tasks.tasks import PARTS
from handoff.engine.app.home import find_project, home_config, labels_of, settle
from handoff.engine.features.status import look as look_at_feature
from handoff.engine.place.fanout import views
from handoff.engine.place.landing.members import FLOW_MARK
from handoff.engine.place.proof.test_runs import suites_of
from handoff.engine.place.workspaces import add_workspace, remove_workspace
from handoff.engine.safety.snapshots import open_snapshot_store
from handoff.engine.session import conclude as session_conclude
from handoff.engine.session import start as session_start
from handoff.engine.work.flows import conclude, evidence
from handoff.engine.work.flows.state import state_of
from handoff.git.commits.phases import FlowCheckout
from handoff.git.workspaces import WorkspaceRequest, read_workspace
from handoff.workflows import library

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from handoff.board.events.journal import Event
    from handoff.board.tasks.flows import Flow
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.session.conclude import ConcludedSession
    from handoff.store.database import Transaction
    from handoff.workflows.model import Workflow

PERSON = "person"
_LEASE_BY_HAND = 86_400.0


class FlowRequest(Record):
    """What a flow is to be started with. `agents` and `models` by role; the empty role is for all others.

    Several agents with commas between them go on one after the other.
    """

    workflow: str
    text: str = ""
    feature: str = ""
    id: str = ""
    agents: Mapping[str, str] = {}
    models: Mapping[str, str] = {}
    gates: tuple[str, ...] = ()
    gate_limits: Mapping[str, tuple[float, str]] = {}
    """By phase: seconds a person has to answer, and what counts after that."""
    max_cycles: int = 0
    base: str = ""


class FlowView(Record):
    """A flow with its present task and the state a person means."""

    flow: Flow
    task: Task | None
    state: str
    reason: str
    page: str = ""
    """What there is to go by when a person is asked."""

    @property
    def where(self) -> str:
        """Where it stands, in words."""
        why = f" ({self.reason})" if self.reason else ""
        if self.state in (flows.DONE, flows.CANCELLED):
            tests = f"; {evidence.tests_word(self.flow.facts)}" if self.state == flows.DONE else ""
            return f"{self.state}{why} after {number_of(self.flow.cycle, 'cycle')}{tests}"
        attempt = f", attempt {self.task.attempt} of {self.task.max_attempts}" if self.task else ""
        return f"{self.state} in {self.flow.phase}, cycle {self.flow.cycle}{attempt}{why}"

    def shown(self) -> dict[str, Any]:
        """The flow for programs."""
        flow, task = self.flow, self.task
        return {
            "flow": flow.id,
            "project": flow.project,
            "workflow": flow.workflow,
            "state": self.state,
            "reason": self.reason,
            **{name: getattr(flow, name) for name in "phase cycle max_cycles request feature workspace".split()},
            "branch": flow.branch.removeprefix("refs/heads/"),
            "base": flow.base,
            "head": flow.head,
            "agents": flow.agent_by_role,
            "models": flow.facts.get("models", {}),
            "gates": list(flow.gated_phases),
            "task": task.label if task else None,
            "task_state": task.state if task else None,
            "attempt": task.attempt if task else None,
            "session": task.held_by if task else None,
            "test": flow.facts.get("test", ""),
            "tested": flow.facts.get("tested") or [evidence.NOT_TESTED],
            "evidence": self.page,
        }

    def next_steps(self, program: str) -> list[str]:
        """What a person can do now, behind what there is to go by."""
        branch = self.flow.branch.removeprefix("refs/heads/")
        if self.state == flows.DONE:
            return [f"Take it in: {program} land {branch}, or git merge {branch}"]
        if self.state == flows.GATED and self.task:
            asked = f"It waits for you: {program} answer {self.task.label} yes, or no REASON"
            return [*self.page.splitlines(), asked]
        if self.state == flows.BLOCKED:
            return [f"Let it try again: {program} retry {self.flow.id} --note 'what to mind'"]
        return [f"Go on: {program} resume {self.flow.id}"] if self.state == flows.PAUSED else []


class StepResult(Record):
    """One phase, taken by hand: what came of its session (none for the orchestrator's own), and where the flow stands now."""

    concluded: ConcludedSession | None
    phase: str
    seen: FlowView


# --- beginning -------------------------------------------------------------------------------------------


def start(
    app: App,
    *,
    request: FlowRequest,
    tell: Callable[[str], None] = lambda _: None,
    also: Callable[[Transaction, Flow], None] = lambda *_: None,
) -> Flow:
    """Begin a workflow in a workspace of its own; the person's checkout stays as it is. Everything is checked first.

    `also` writes in the transaction that makes the flow.
    """
    place = find_project(app)
    workflow = library.load(place.workspace, request.workflow)
    _check(app, request, workflow)
    place = settle(app, place)
    feature, wanted = _subject(app, request, workflow)
    name = request.id or _free_id(app, place.name, feature or workflow.name)
    check_id(name, "flow")
    flows.refuse_live(app.database, project=place.name, id=name)
    suites = suites_for(app, workflow, place.workspace)
    tell("Making the workspace and looking at the tests as they are now …" if suites else "Making the workspace …")
    if workflow.runs_tests and not suites:
        tell("There is no test suite yet: the planner proposes one.")
    workspace = workspace_for(app, name, request.base, place.workspace)
    flow_checkout = FlowCheckout(workspace.tree, workspace.branch, app.git_environment)
    with app.database.transaction() as transaction:
        flow = flows.add(
            transaction, project=place.name, id=name, workflow=workflow.name, text=workflow.text,
            prompts=library.prompts_of(workflow), request=app.clean(wanted), feature=feature, repository=place.workspace,
            workspace=workspace.tree, branch=workspace.branch, base=workspace.base, phase=workflow.phases[0].name,
            max_cycles=request.max_cycles or workflow.max_cycles, agents=request.agents, gates=request.gates,
            data={
                "suites": suites, "models": dict(request.models), "git_config": flow_checkout.config, "cycle_base": workspace.base,
                "gate_limits": {name: list(limit) for name, limit in request.gate_limits.items()},
            },
        )  # fmt: skip
        also(transaction, flow)
    flow = conclude.drive(app, flow.key)
    views.refresh_or_tell(app, flow.project, f"The flow '{flow.id}' has begun")
    return flow


def _check(app: App, request: FlowRequest, workflow: Workflow) -> None:
    """Names on the command line: phases, roles and agents that exist."""
    names = [phase.name for phase in workflow.phases]
    for name in request.gates:
        if name not in names:
            raise UserError(f"'{workflow.name}' has no phase '{name}'.", f"Its phases: {', '.join(names)}.")
    config = home_config(app)
    for role in (*request.agents, *request.models):
        if role and role not in workflow.roles:
            raise UserError(f"'{workflow.name}' has no role '{role}'.", f"Its roles: {', '.join(workflow.roles)}.")
    for agent in (name for listed in request.agents.values() for name in tasks.agent_names(listed)):
        catalog.adapter(agent, commands=config.values["agents"], where=config.path)
    if request.max_cycles < 0:
        raise UserError("--max-cycles must be at least 1.")


def _subject(app: App, request: FlowRequest, workflow: Workflow) -> tuple[str, str]:
    """The feature and the request; a feature's own words are the request where there is no other."""
    feature, wanted = request.feature, request.text.strip()
    if feature or workflow.needs_feature:
        view = look_at_feature(app.with_feature(feature) if feature else app)
        feature = view.feature.name
        said = [view.texts.get(name) or "" for name in ("FEATURE.md", "SPEC.md")]
        wanted = wanted or "\n\n".join(text.strip() for text in said if text.strip())
    if not wanted:
        raise UserError(
            "Say what is to be done.",
            f"{app.settings.program} flow start {workflow.name} --request 'what you want', or --from FILE, or --feature NAME",
        )
    return feature if workflow.needs_feature or request.feature else "", wanted


def _free_id(app: App, project: str, wanted: str) -> str:
    taken = {flow.id for flow in flows.listing(app.database, project=project, include_ended=True)}
    base = slug(wanted)[:40]
    return next(
        name for number in range(1, 10_000) if (name := base if number == 1 else f"{base}-{number}") not in taken
    )


def suites_for(app: App, workflow: Workflow, folder: str) -> list[dict[str, Any]]:
    """The tests the flow is judged by, taken now: who is judged by them cannot choose others. A planner may propose the first."""
    planned = next((phase.check for phase in workflow.phases if phase.role), "") == "test-list"
    return [suite.record() for suite in suites_of(app, folder=folder, required=workflow.runs_tests and not planned)]


def workspace_for(app: App, name: str, base: str, folder: str) -> Any:
    """The flow's own clone. One that a killed start left without a flow is put aside (it is in a snapshot) and made anew."""
    snapshot_store = open_snapshot_store(app, folder=folder)
    left = read_workspace(os.path.join(snapshot_store.place.project, "workspaces", name))
    if left is not None and left.session == FLOW_MARK + name:
        remove_workspace(app, name=name, snapshot_store=snapshot_store)
    return add_workspace(
        app, order=WorkspaceRequest(name=name, base=base, session=FLOW_MARK + name), snapshot_store=snapshot_store
    ).workspace


# --- one phase by hand -----------------------------------------------------------------------------------


def step(
    app: App, *, flow: Flow, agent: str = "", words: Sequence[str] = (), model: str = "", tell: Callable[[str], None]
) -> StepResult:
    """One phase now, without a supervisor: what a crash left is carried out first, a living session is attached to."""
    flow = conclude.drive(app, flow.key)
    seen = look(app, flow)
    if seen.task is None or flow.state != flows.RUNNING:
        return StepResult(None, flow.phase, _refuse_still(app, seen))
    task, phase = seen.task, flow.phase
    if task.state == states.RUNNING:
        started = _under_way(app, task)
        if started is not None:
            tell(f"Session {task.held_by} works on '{task.label}' already; staying with it.")
            return StepResult(session_start.watch(app, started, tell=tell), phase, look_again(app, flow))
        task = leases.release(app.database, key=task.key, fence=task.fence, reason="its session was never started")
    if task.state != states.READY:
        return StepResult(None, phase, _refuse_still(app, seen))
    chosen = agent or task.agent
    if not chosen:
        raise UserError(
            f"No agent was chosen for the role '{task.role}'.",
            f"{app.settings.program} flow step {flow.id} --agent NAME. See: {app.settings.program} agent list",
        )
    if task.not_before:
        tasks.edit(app.database, key=task.key, not_before=0.0)  # by hand nobody waits
    if chosen == PERSON:
        return by_hand(app, flow=flow, task=task, tell=tell)

    def began(started: session_start.RunningSession) -> None:
        tell(f"Session {started.session.name} ({chosen}) works on {phase}, cycle {flow.cycle}, attempt {task.attempt}.")

    request = session_start.StartRequest(
        agent=chosen, task=task.label, project=task.project, model=model, words=fill_in(words, task)
    )
    concluded = session_start.run(app, request=request, began=began, tell=tell)
    return StepResult(concluded, phase, look_again(app, flow))


def _under_way(app: App, task: Task) -> session_start.RunningSession | None:
    """The session that holds the task, living or over; None when whoever wanted to start it died before that."""
    session = people.get(app.database, id=str(task.held_by))
    if session is None:
        return None
    claim = leases.Claim(task, session, task.fence, task.lease_seconds, repeated=True)
    if session_start.has_started(app, claim):
        return session_start.attach_to(app, claim)
    if session.pid and is_running(session.pid, session.process_start):
        raise Conflict(f"'{task.label}' is in other hands right now: {session.id}.", "Try again when that has ended.")
    return None


def by_hand(app: App, *, flow: Flow, task: Task, tell: Callable[[str], None]) -> StepResult:
    """A person does the phase in a shell in the workspace; it is judged like anybody's."""
    who = people.SessionIdentity(
        id=new_id("session"),
        kind=people.PERSON,
        project=flow.project,
        agent=PERSON,
        workspace=flow.workspace,
        host=app.settings.host,
        boot=boot_id(),
        pid=os.getpid(),
        process_start=start_of(os.getpid()),
        labels=labels_of(app),
    )
    claim = leases.claim(app.database, key=task.key, who=who, lease_seconds=_LEASE_BY_HAND, by_hand=True)
    tell(conclude.prepare(app, claim.task))
    tell(f"This shell is in the flow's workspace, {flow.workspace}. Leave it (exit) when you are finished.")
    shell = app.settings.get("SHELL") or "/bin/sh"
    line = 'cd "$1" && exec "$2"'
    pass_through(["/bin/sh", "-c", line, "handoff", flow.workspace, shell], environment=app.settings.environment)
    concluded = session_conclude.conclude(app, claim=claim, outcome=AgentOutcome(OK))
    return StepResult(concluded, flow.phase, look_again(app, flow))


def _refuse_still(app: App, seen: FlowView) -> FlowView:
    """Why there is nothing to step: ended, paused, blocked or waiting for a person."""
    program, flow = app.settings.program, seen.flow
    if seen.state == flows.DONE:
        return seen
    hints = {
        flows.CANCELLED: f"Begin another: {program} flow start {flow.workflow}",
        flows.PAUSED: f"Go on: {program} resume {flow.id}",
        flows.BLOCKED: f"Fix the cause, then: {program} retry {flow.id}",
        flows.GATED: f"Answer: {program} answer {seen.task.label if seen.task else ''}",
    }
    raise Refused(
        f"The flow '{flow.id}' is {seen.state}" + (f": {seen.reason}." if seen.reason else "."),
        hints.get(seen.state, ""),
    )


# --- looking -------------------------------------------------------------------------------------------


def look(app: App, flow: Flow) -> FlowView:
    """A flow with the state a person means: it waits, or is stuck, while its task is."""
    task = tasks.get(app.database, key=flow.task) if flow.task is not None else None
    state, reason, page = flow.state, flow.reason, ""
    if flow.state == flows.RUNNING and task is not None:
        if task.state == states.BLOCKED:
            state, reason = flows.BLOCKED, task.reason
        elif task.state == states.CANCELLED:
            state, reason = flows.BLOCKED, f"its task '{task.label}' was cancelled"
        elif task.state == states.GATED:
            gate = gates.of_task(app.database, key=task.key)
            state = flows.GATED
            reason, _, page = gate.question.partition("\n") if gate else ("", "", "")
    return FlowView(flow, task, state, reason, page)


def look_again(app: App, flow: Flow) -> FlowView:
    """The same flow as it is now."""
    return look(app, flows.get(app.database, key=flow.key))


def find(app: App, *, name: str = "", project: str = "") -> Flow:
    """The flow a person means."""
    return flows.find(app.database, project=find_project(app, name=project).name, id=name)


def listing(app: App, *, project: str = "", include_ended: bool = False) -> list[FlowView]:
    """Flows with their states, newest first."""
    return [look(app, flow) for flow in flows.listing(app.database, project=project, include_ended=include_ended)]


def history(app: App, flow: Flow) -> list[Event]:
    """What happened to a flow: phases verified, refused, skipped, gates, the end."""
    return flows.events(app.database, flow)


def commits(app: App, flow: Flow) -> list[str]:
    """The flow's commits, oldest first."""
    return state_of(app, flow).flow_checkout.log(flow.base, flow.head).splitlines()


def fill_in(words: Sequence[str], task: Task) -> tuple[str, ...]:
    """`{task}`, `{part}` (the task without its batch), `{attempt}` and, in a flow, `{flow}`, `{cycle}` and `{phase}` stand for what they say.

    A part is told with its batch (`split/one`), because another batch may have a part of that name.
    """
    cycle, _, phase = task.id.partition("-")
    names = {
        "{task}": task.label if task.kind in PARTS else task.id,
        "{part}": task.id,
        "{attempt}": str(task.attempt),
        "{flow}": task.scope,
        "{cycle}": cycle,
        "{phase}": phase,
    }
    found = []
    for word in words:
        for name, value in names.items():
            word = word.replace(name, value)  # noqa: PLW2901 - one word, filled name by name
        found.append(word)
    return tuple(found)
