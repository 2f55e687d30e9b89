"""Work that is ordered, in a sentence by a person or by a schedule or a program: made in one transaction, done until somebody must decide."""

from __future__ import annotations

from handoff.agents.contract import ENVIRONMENT
from handoff.base.errors import Refused, UserError
from handoff.base.light_json import dumps, loads
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import project_config
from handoff.board import gates
from handoff.board.tasks import states, tasks
from handoff.engine.app import App
from handoff.engine.outcome import whole_check
from handoff.engine.session import agents
from handoff.engine.session import start as session_start
from handoff.engine.work import acts, review, stopping
from handoff.engine.work.flows import flows
from handoff.engine.work.tasks import batches, create, projects
from handoff.workflows import library

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app.home import Project
    from handoff.engine.work.review import TaskReview
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
    told: list[Made] = []

    def note(transaction: Transaction, made: Any) -> None:
        kind = TASK if order.kind == DO else order.kind
        told.append(Made(kind, made.key, made.label if kind == TASK else made.id, made.state))
        also(transaction, told[0])

    if order.kind == BATCH:
        raw = loads(order.manifest)
        text = dumps({**raw, "batch_id": order.id, "workspace": place.workspace} if order.id else raw)
        batches.open_batch(app, place, "the manifest.json", text, also=note)
    elif order.kind == FLOW:
        _start_flow(app, place, order, note)
    else:
        create.write_down(app, place, _task_request(app, place, order), also=note)
    return told[0]


def _task_request(app: App, place: Project, order: Order) -> create.Request:
    request = create.Request(
        task=order.id, brief=order.words, agent=order.agent, model=order.model,
        landing=order.landing or (tasks.REVIEW if order.kind == DO else ""), after=order.after, owns=order.owns,
        labels=order.labels, priority=order.priority, check=order.check,
    )  # fmt: skip
    return _complete(app, place, request, checked=order.checked or order.kind == DO)


def _complete(app: App, place: Project, request: create.Request, *, checked: bool) -> create.Request:
    """What it does not name is found: its id, and where it is to be `checked` the project's own tests."""
    return request._replace(
        task=request.task or create.new_id(app, place.name, request.brief),
        check=request.check or (whole_check.found(app, place.workspace) if checked else ""),
    )


def _start_flow(app: App, place: Project, order: Order, note: Callable[[Transaction, Any], None]) -> None:
    inside = App(app.settings._replace(folder=place.workspace), app.clock)
    agents = {"": order.agent} if order.agent else {}
    request = flows.FlowRequest(workflow=order.workflow, text=order.words, id=order.id, agents=agents)
    try:
        flows.start(inside, request=request, also=note)
    finally:
        inside.close()


# --- from a sentence to a checked commit: one task, and sessions for it until somebody has to decide -----------------


class DoneSentence(Record):
    """How the sessions of a sentence's task went."""

    task: Task
    interrupted: bool = False
    refusal: Refused | None = None
    """Why no session could start for it now."""


def add(app: App, request: create.Request) -> Task:
    """The task for a sentence; what it does not name is found: its id, the agent, the project's own tests."""
    project = create.project_of_caller(app)
    request = request._replace(agent=agent_for(app, project.workspace, request.agent))
    return create.write_down(app, project, _complete(app, project, request, checked=True))


def agent_for(app: App, workspace: str, said: str = "") -> str:
    """Who works for a sentence: who is said, the project's own, or the only one that is installed."""
    return said or ",".join(project_config(workspace).texts("agents")) or _installed(app)


def _installed(app: App) -> str:
    found = [one.name for one in agents.listing(app) if one.program and one.version and not one.old and not one.held]
    if len(found) == 1:
        return found[0]
    program = app.settings.program
    if not found:
        raise UserError(
            "No coding agent was found on this machine.",
            f"Install one of these: {program} agent list. Or use a command of yours: {program} help docs/howto/agents.md."
            f" Or do it yourself: {program} task add ID 'what to do'",
        )
    raise UserError(f"Several agents are installed: {', '.join(found)}.", f"Choose one with: --agent {found[0]}")


def until_decided(
    app: App,
    task: Task,
    *,
    words: tuple[str, ...] = (),
    tell: Callable[[str], None],
    ask: Callable[[Task, TaskReview, gates.Gate], str],
) -> DoneSentence:
    """Sessions for the task, one after the other, until it has landed, is stuck, or waits for a person who is not here.

    `ask` shows a person what waits and returns their words, or nothing where nobody answers.
    """

    def began(started: session_start.RunningSession) -> None:
        name = started.session.name
        tell(f"Session {name} works. Follow it: {app.settings.program} session log {name}")

    while task.state == states.READY:
        request = session_start.StartRequest(agent=task.agent, task=task.label, project=task.project, words=words)
        try:
            concluded = session_start.run(app, request=request, began=began, tell=tell)
        except Refused as error:
            return DoneSentence(tasks.get(app.database, key=task.key), refusal=error)
        tell(concluded.words)
        task = tasks.get(app.database, key=task.key)
        if concluded.outcome.reason in (session_start.INTERRUPTED, stopping.STOPPED):
            return DoneSentence(task, interrupted=True)
        if concluded.outcome.kind == ENVIRONMENT and task.state == states.READY:  # only a person can mend that
            return DoneSentence(task, refusal=Refused(concluded.outcome.reason, concluded.outcome.fix))
        if task.state == states.GATED:
            found = review.review(app, key=task.key)
            if found.gate is not None and found.gate.state == gates.OPEN:
                said = ask(task, found, found.gate)
                if not said:
                    return DoneSentence(task)
                word, reason = _as_answer(found.gate, said)
                tell(acts.answer(app, task.label, word, reason=reason, project=task.project).text)
            task = tasks.get(app.database, key=task.key)
    return DoneSentence(task)


def _as_answer(gate: gates.Gate, said: str) -> tuple[str, str]:
    """The answer that a person's words are, and its reason: what is no yes to a yes-or-no question says what must change."""
    if gate.open_ended:
        return said, ""
    return ("yes", "") if said.lower() in ("y", "yes") else ("no", said)
