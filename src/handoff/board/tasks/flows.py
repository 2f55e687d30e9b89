"""Flows: a workflow that runs, as one row. The phase it stands in is a task; what follows is written with what was."""

from __future__ import annotations

from handoff.base.errors import Conflict, UserError
from handoff.base.ids import check_id
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal, texts
from handoff.board.tasks import requirements, states, tasks
from handoff.store.database import fetch_all, fetch_one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from handoff.board.events.journal import Event
    from handoff.board.tasks.tasks import Task
    from handoff.store.database import Store, Transaction

RUNNING, PAUSED, BLOCKED, DONE, CANCELLED = "running", "paused", "blocked", "done", "cancelled"
GATED = "gated"
"""Never in the row: a flow waits for a person while its task does."""
LIMIT = 1000
_EVENTS = 10_000
_MOVED = "head phase cycle max_cycles task state reason data agents".split()


class Flow(Record):
    """A flow as it was at one moment. `task` is the task of its phase; without one the next move is the orchestrator's."""

    key: int
    project: str
    id: str
    workflow: str
    text: str
    prompts: str
    request: str
    feature: str
    repository: str
    workspace: str
    branch: str
    base: str
    head: str
    phase: str
    cycle: int
    max_cycles: int
    task: int | None
    state: str
    reason: str
    agents: str
    gates: str
    data: str
    version: int
    created_at: float
    changed_at: float
    ended_at: float | None

    @property
    def prompt_texts(self) -> dict[str, str]:
        return dict(texts.read(self.prompts, {}))

    @property
    def agent_by_role(self) -> dict[str, str]:
        return dict(texts.read(self.agents, {}))

    @property
    def gated_phases(self) -> tuple[str, ...]:
        return tuple(texts.read(self.gates, []))

    @property
    def facts(self) -> dict[str, Any]:
        """What the flow remembers: suites, known tests, the test at hand, failures."""
        return dict(texts.read(self.data, {}))


def add(
    store: Store, *, project: str, id: str, workflow: str, text: str, prompts: Mapping[str, str], request: str,
    feature: str, repository: str, workspace: str, branch: str, base: str, phase: str, max_cycles: int,
    agents: Mapping[str, str], gates: Sequence[str], data: Mapping[str, Any],
) -> Flow:  # fmt: skip
    """Write a flow down; an id names one live flow at a time."""
    check_id(project, "project")
    check_id(id, "flow")
    texts.check(request, "request")
    with store.transaction() as transaction:
        refuse_live(transaction, project=project, id=id)
        (row,) = transaction.query(
            "add_flow", project=project, id=id, workflow=workflow, text=text, prompts=texts.write(dict(prompts)),
            request=request, feature=feature, repository=repository, workspace=workspace, branch=branch, base=base,
            head=base, phase=phase, max_cycles=max_cycles, state=RUNNING, agents=texts.write(dict(agents)),
            gates=texts.write(list(gates)), data=texts.write(dict(data)), now=transaction.now(),
        )  # fmt: skip
        flow = Flow(**row)
        tell(transaction, flow, "flow.started", workflow=workflow, request=request[:500])
        return flow


def refuse_live(store: Store, *, project: str, id: str) -> None:
    """An id names one live flow at a time."""
    if any(flow.ended_at is None for flow in fetch_all(store, Flow, "find_flow", project=project, id=id)):
        raise Conflict(f"The flow '{id}' is still under way.", f"See: handoff show {id}. Or choose another --id.")


def tell(
    transaction: Transaction, flow: Flow, kind: str, /, *, task: Task | None = None, session: str = "", **body: Any
) -> None:
    """A line of the journal about a flow."""
    journal.append(
        transaction, kind, task=task, project=flow.project, session=session, flow=flow.id, flow_key=flow.key, **body
    )


def get(store: Store, *, key: int) -> Flow:
    """The flow with that key."""
    found = fetch_one(store, Flow, "get_flow", key=key)
    if found is None:
        raise UserError(f"There is no flow number {key}.", "See: handoff flow list --all")
    return found


def find(store: Store, *, project: str, id: str = "") -> Flow:
    """The flow people mean: the live one of that id, else the latest; without an id the only live one, else the last that ended."""
    if not id:
        live = listing(store, project=project)
        if len(live) == 1:
            return live[0]
        ended = [] if live else listing(store, project=project, include_ended=True, limit=1)
        if ended:
            return ended[0]
        if not live:
            raise UserError(
                f"No flow is under way in project '{project}'.", "Begin one: handoff flow start tdd --request TEXT"
            )
        names = ", ".join(flow.id for flow in live)
        raise UserError(f"Several flows are under way: {names}.", "Say which one.")
    found = fetch_all(store, Flow, "find_flow", project=project, id=id)
    if not found:
        raise UserError(f"There is no flow '{id}' in project '{project}'.", "See: handoff flow list --all")
    return next((flow for flow in found if flow.ended_at is None), found[0])


def is_known(store: Store, *, project: str, id: str) -> bool:
    """Whether a flow of that id was ever begun, live or ended."""
    return bool(fetch_all(store, Flow, "find_flow", project=project, id=id))


def of_task(store: Store, *, task: int) -> Flow | None:
    """The flow whose present phase is that task."""
    return fetch_one(store, Flow, "flow_of_task", task=task)


def listing(store: Store, *, project: str = "", include_ended: bool = False, limit: int = LIMIT) -> list[Flow]:
    """Live flows, or all of them, newest first."""
    return fetch_all(store, Flow, "list_flows", project=project, include_ended=int(include_ended), limit=limit)


def page(
    store: Store, *, project: str = "", include_ended: bool = False, after: int = 0, limit: int = 100
) -> list[Flow]:
    """Flows by their keys: what comes after one, whatever happened to the rows before it."""
    asked = {"project": project, "ended": int(include_ended), "after": after, "limit": limit}
    return fetch_all(store, Flow, "page_of_flows", **asked)


def idle(store: Store) -> list[Flow]:
    """Flows whose next move is the orchestrator's own."""
    return fetch_all(store, Flow, "list_idle_flows")


def move(transaction: Transaction, flow: Flow, **changed: Any) -> Flow:
    """Write where a flow stands now. Who read it before somebody else moved it is refused."""
    for name in ("data", "agents"):
        if name in changed and not isinstance(changed[name], str):
            changed[name] = texts.write(changed[name])
    new = flow._replace(**changed)
    ended = new.ended_at
    if new.state in (DONE, CANCELLED) and ended is None:
        ended = transaction.now()
    kept = {name: getattr(new, name) for name in _MOVED}
    row = transaction.one(
        "move_flow", key=flow.key, version=flow.version, now=transaction.now(), ended_at=ended, **kept
    )
    if row is None:
        raise moved_on(flow)
    return Flow(**row)


def moved_on(flow: Flow) -> Conflict:
    """Why whoever read the flow before may not move it."""
    return Conflict(f"The flow '{flow.id}' was moved on by somebody else.", f"See: handoff show {flow.id}")


def add_phase(
    transaction: Transaction, flow: Flow, *, id: str, title: str, brief: str, role: str, agent: str,
    owns: Sequence[str], attempts: int, limits: Mapping[str, Any], host: str, model: str = "",
) -> Task:  # fmt: skip
    """The task of a phase: one fresh session at a time does it, in the flow's workspace, on the host that has it."""
    tasks.check_fields(id=id, brief=brief, title=title, max_attempts=attempts, estimate_minutes=0.0)
    tasks.refuse_live(transaction, project=flow.project, id=id, scope=flow.id)
    baseline = {"head": flow.head, "limits": dict(limits)} | ({tasks.MODEL: model} if model else {})
    values = tasks.new_values(
        project=flow.project, id=id, scope=flow.id, kind=tasks.PHASE, brief=brief, title=title, role=role, agent=agent,
        workspace=flow.workspace, owns=owns, check_command="", baseline=baseline,
        priority=0, not_before=0.0, estimate_minutes=0.0, max_attempts=attempts, state=states.READY, open_needs=0,
        generation=tasks.next_generation(transaction, project=flow.project, id=id, scope=flow.id),
        now=transaction.now(),
    )  # fmt: skip
    (row,) = transaction.query("add_task", **values)
    task = tasks.Task(**row)
    requirements.add(transaction, {task.key: [host]})
    journal.append(transaction, "task.added", task=task, state=task.state)
    return task


def events(store: Store, flow: Flow) -> list[Event]:
    """What happened to a flow and its tasks, in order."""
    below, named = f"{flow.id}/%", f'%"flow_key": {flow.key}%'
    asked = {"project": flow.project, "below": below, "named": named, "limit": _EVENTS}
    found = fetch_all(store, journal.event_of, "read_flow_events", **asked)
    return [event for event in found if event.at >= flow.created_at]  # an id may have been used before
