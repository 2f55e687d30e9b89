"""Work that a schedule or a program orders: a task, a batch or a flow, made in one transaction with whatever stands beside it."""

from __future__ import annotations

from handoff.base.errors import UserError
from handoff.base.light_json import dumps, loads
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks import tasks
from handoff.engine.app import App
from handoff.engine.outcome import whole_check
from handoff.engine.work.flows import flows
from handoff.engine.work.tasks import batches, create, projects
from handoff.workflows import library

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.engine.app.home import Project
    from handoff.store.database import Transaction

    Also = Callable[[Transaction, "Made"], None]

TASK, DO, BATCH, FLOW = "task", "do", "batch", "flow"
KINDS = (TASK, DO, BATCH, FLOW)


class Order(Record):
    """What is to be made. `do` is a task with the project's own tests as its check, shown to a person before it lands."""

    kind: str
    words: str = ""
    """The brief of a task, or what a flow is asked for."""
    manifest: str = ""
    """Of a batch, as JSON."""
    workflow: str = ""
    id: str = ""
    agent: str = ""
    model: str = ""
    landing: str = ""
    check: str = ""
    """A command, which a person alone may name."""
    checked: bool = False
    """Whether the project's own tests are the check of a task."""
    after: tuple[str, ...] = ()
    owns: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    priority: int = 0

    def said(self) -> dict[str, Any]:
        """What of it is not left open, for a row."""
        return {name: value for name, value in self._asdict().items() if value}


class Made(Record):
    """What was made."""

    kind: str
    key: int
    id: str
    state: str


def read(said: dict[str, Any]) -> Order:
    """An order as a row keeps it."""
    values: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in said.items()}
    return Order(**values)


def place_of(app: App, project: str) -> Project:
    """A project's checkout on this machine."""
    return create.project_of_caller(app, name=project, workspace=projects.checkout(app, project))


def check(app: App, place: Project, order: Order) -> None:
    """Say now what would fail later, as far as that is known."""
    create.check_agents(app, order.agent)
    if order.kind == BATCH:
        batches.read_checked("the manifest.json", order.manifest)
    elif order.kind == FLOW:
        library.load(place.workspace, order.workflow)
    elif not order.words.strip():
        raise UserError("Say in words what is to be done.")


def make(app: App, place: Project, order: Order, *, also: Also = lambda *_: None) -> Made:
    """Make it, all or nothing: what `also` refuses is not made."""
    if order.kind == BATCH:
        return _batch(app, place, order, also)
    return _flow(app, place, order, also) if order.kind == FLOW else _task(app, place, order, also)


def _task(app: App, place: Project, order: Order, also: Also) -> Made:
    checked = order.checked or order.kind == DO
    request = create.Request(
        task=order.id or create.new_id(app, place.name, order.words), brief=order.words, agent=order.agent, model=order.model,
        landing=order.landing or (tasks.REVIEW if order.kind == DO else ""), after=order.after, owns=order.owns,
        labels=order.labels, priority=order.priority, check=order.check or (whole_check.found(app, place.workspace) if checked else ""),
    )  # fmt: skip
    told: list[Made] = []

    def with_task(transaction: Transaction, task: tasks.Task) -> None:
        told.append(Made(TASK, task.key, task.label, task.state))
        also(transaction, told[0])

    create.write_down(app, place, request, also=with_task)
    return told[0]


def _batch(app: App, place: Project, order: Order, also: Also) -> Made:
    raw = loads(order.manifest)
    text = dumps({**raw, "batch_id": order.id, "workspace": place.workspace} if order.id else raw)
    told: list[Made] = []

    def with_batch(transaction: Transaction, batch: Any) -> None:
        told.append(Made(BATCH, batch.key, batch.id, batch.state))
        also(transaction, told[0])

    batches.open_batch(app, place, "the manifest.json", text, also=with_batch)
    return told[0]


def _flow(app: App, place: Project, order: Order, also: Also) -> Made:
    inside = App(app.settings._replace(folder=place.workspace), app.clock)
    agents = {"": order.agent} if order.agent else {}
    request = flows.FlowRequest(workflow=order.workflow, text=order.words, id=order.id, agents=agents)
    told: list[Made] = []

    def with_flow(transaction: Transaction, flow: Any) -> None:
        told.append(Made(FLOW, flow.key, flow.id, flow.state))
        also(transaction, told[0])

    try:
        flows.start(inside, request=request, also=with_flow)
    finally:
        inside.close()
    return told[0]
