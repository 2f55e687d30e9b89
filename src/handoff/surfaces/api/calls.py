"""What each call of the API does: it reads rows as JSON, page by page, never more than a token may see; or it orders work, or takes and reports it for a runner of its own."""

from __future__ import annotations

import re
from functools import partial

from handoff.base.clock import stamp
from handoff.base.errors import Conflict, HandoffError, UserError
from handoff.base.ids import new_id
from handoff.base.light_json import dumps
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates, tokens
from handoff.board.events import journal
from handoff.board.sessions import sessions
from handoff.board.tasks import batches, flows, tasks
from handoff.engine.app.home import home_config
from handoff.engine.outcome.kinds import CurrentClaim
from handoff.engine.place import pulse, transcripts
from handoff.engine.session import current
from handoff.engine.session import report as journey
from handoff.engine.work import orders, overview
from handoff.engine.work.tasks import admin, search
from handoff.engine.work.tasks import batches as batch_journey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from handoff.board.events.journal import Event
    from handoff.board.gates import Waiting
    from handoff.board.sessions.sessions import Session
    from handoff.board.tasks.batches import Batch
    from handoff.board.tasks.flows import Flow
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.app.home import Project
    from handoff.engine.work.overview import OverviewItem


_PAGE = 100


class ApiRequest(Record):
    """One request that was understood: what its path names, what it asks for, and the only project its caller may see."""

    app: App
    named: dict[str, Any]
    asked: dict[str, Any]
    project: str
    """The project its token is for, empty for all."""
    caller: str = ""
    """The name of its token."""
    once: str = ""
    """The key under which it is done once, however often it is asked for."""

    @property
    def scope(self) -> str:
        """The project that is asked for, or the only one there is for this caller."""
        return str(self.project or self.asked.get("project", ""))

    @property
    def page(self) -> dict[str, Any]:
        return {"project": self.scope, "after": self.asked.get("after", 0), "limit": self.asked.get("limit", _PAGE)}

    @property
    def ended(self) -> bool:
        return bool(self.asked.get("include_ended") == "true")


class NotThere(HandoffError):
    """What the path names is not there, or not for this caller: both look the same."""


def moment(at: float | None) -> str | None:
    return stamp(at) if at else None


def _page(items: Sequence[Any], shape: Callable[[Any], Any], request: ApiRequest, key: Callable[[Any], Any]) -> Any:
    whole = len(items) == request.page["limit"]
    return {"items": [shape(item) for item in items], "next": key(items[-1]) if whole else None}


def _mine(request: ApiRequest, found: Any, what: str) -> Any:
    if found is None or request.project not in ("", found.project):
        raise NotThere(f"There is no {what} of that key.", "Keys are in the lists.")
    return found


# --- tasks, batches, flows -----------------------------------------------------------------------------------


def _task_shape(task: Task, standing: dict[int, OverviewItem]) -> dict[str, Any]:
    item = standing[task.key]
    return {
        **_fields(task, "key project kind state reason title agent role attempt priority batch held_by result"),
        "task": task.label,
        "look": item.look,
        "ended": item.ending,
        **_moments(task, "created_at changed_at ended_at"),
    }


def list_tasks(request: ApiRequest) -> Any:
    """Tasks, live ones, or all with include_ended."""
    asked = {"state": request.asked.get("state", ""), "id": request.asked.get("id", "")}
    found = tasks.page(request.app.database, **request.page, **asked, include_ended=request.ended)
    standing = overview.standing(request.app, [task.key for task in found], project=request.scope)
    return _page(found, partial(_task_shape, standing=standing), request, lambda task: task.key)


def one_task(request: ApiRequest) -> Task:
    """The task a path names."""
    found: Task = _mine(request, tasks.look_up(request.app.database, key=request.named["key"]), "task")
    return found


def get_task(request: ApiRequest) -> Any:
    """One task with what it waits for."""
    seen = admin.picture(request.app, one_task(request))
    task, gate = seen.task, seen.gate
    return {
        **_task_shape(task, overview.standing(request.app, [task.key])),
        "brief": task.brief,
        "owns": list(task.patterns),
        "check": task.check_command,
        "needs": [need._asdict() for need in seen.needs],
        "gate": gate.key if gate and gate.state == "open" else None,
        "evidence": seen.evidence,
    }


def batch_shape(batch: Batch) -> dict[str, Any]:
    return {
        **_fields(batch, "key project state total remaining"),
        "batch": batch.id,
        **_moments(batch, "created_at ended_at"),
    }


def list_batches(request: ApiRequest) -> Any:
    """Batches, open ones, or all with include_ended."""
    found = batches.page(request.app.database, **request.page, include_ended=request.ended)
    return _page(found, batch_shape, request, lambda batch: batch.key)


def one_batch(request: ApiRequest) -> Batch:
    """The batch a path names."""
    found: Batch = _mine(request, _look(batches.get, request), "batch")
    return found


def get_batch(request: ApiRequest) -> Any:
    """One batch with its parts."""
    batch = one_batch(request)
    parts = batch_journey.parts_of(request.app, batch)
    standing = overview.standing(request.app, [part.key for part in parts])
    shown = [_task_shape(part, standing) for part in parts]
    return {**batch_shape(batch), "rationale": batch.rationale, "parts": shown}


def flow_shape(flow: Flow) -> dict[str, Any]:
    return {
        **_fields(flow, "key project workflow request phase cycle state reason task branch"),
        "flow": flow.id,
        **_moments(flow, "created_at changed_at ended_at"),
    }


def list_flows(request: ApiRequest) -> Any:
    """Flows, running ones, or all with include_ended."""
    found = flows.page(request.app.database, **request.page, include_ended=request.ended)
    return _page(found, flow_shape, request, lambda flow: flow.key)


def one_flow(request: ApiRequest) -> Flow:
    """The flow a path names."""
    found: Flow = _mine(request, _look(flows.get, request), "flow")
    return found


def get_flow(request: ApiRequest) -> Any:
    """One flow."""
    return flow_shape(one_flow(request))


def _look(get: Callable[..., Any], request: ApiRequest) -> Any:
    try:
        return get(request.app.database, key=request.named["key"])
    except UserError:
        return None


# --- sessions, gates, the journal ----------------------------------------------------------------------------


def _session_shape(app: App, session: Session) -> dict[str, Any]:
    over = session.ended_at is not None or pulse.ending_of(app, project=session.project, session=session.id)
    return {
        **_fields(session, "id kind project agent host task ending"),
        **_moments(session, "started_at seen_at ended_at"),
        "alive": not over,
    }


def list_sessions(request: ApiRequest) -> Any:
    """Sessions, those that live, or all with include_ended."""
    page = {**request.page, "after": request.asked.get("after", "")}
    found = sessions.page(request.app.database, **page, include_ended=request.ended)
    return _page(found, partial(_session_shape, request.app), request, lambda session: session.id)


def one_session(request: ApiRequest) -> Session:
    """The session a path names."""
    found: Session = _mine(request, sessions.get(request.app.database, id=request.named["id"]), "session")
    return found


def get_session(request: ApiRequest) -> Any:
    """One session."""
    return _session_shape(request.app, one_session(request))


def get_session_log(request: ApiRequest) -> Any:
    """What a session of this machine said, its last lines."""
    session = one_session(request)
    try:
        said = transcripts.transcript(request.app, session=session.id)
    except UserError:
        said = []  # an agent the settings know no more
    return {"session": session.id, "lines": said[-request.page["limit"] :]}


def get_messages(request: ApiRequest) -> Any:
    """What a person said to a session, and how far it got."""
    session = one_session(request)
    events = journal.of_task(request.app.database, key=session.task) if session.task is not None else []
    said = journal.said_to(session.id, events)
    shown = [{**_fields(one, "text by state session"), "at": moment(one.at)} for one in said]
    return {"session": session.id, "messages": shown}


def gate_shape(waiting: Waiting) -> dict[str, Any]:
    gate = waiting.gate
    return {
        **_fields(gate, "key question subject state fallback answered_by reason answer"),
        "choices": list(gate.offered),
        "open_ended": gate.open_ended,
        "task": waiting.task,
        "project": waiting.project,
        **_moments(gate, "opened_at due_at answered_at"),
    }


def list_gates(request: ApiRequest) -> Any:
    """Gates, open ones, or all with include_ended."""
    found = gates.page(request.app.database, **request.page, include_ended=request.ended)
    return _page(found, gate_shape, request, lambda waiting: waiting.gate.key)


def one_gate(request: ApiRequest) -> Waiting:
    """The gate a path names."""
    found: Waiting = _mine(request, gates.get(request.app.database, key=request.named["key"]), "gate")
    return found


def get_gate(request: ApiRequest) -> Any:
    """One gate."""
    return gate_shape(one_gate(request))


def event_shape(event: Event) -> dict[str, Any]:
    return {
        **_fields(event, "seq kind project session body"),
        "at": moment(event.at),
        "task": event.task_id,
        "task_key": event.task,
    }


def list_events(request: ApiRequest) -> Any:
    """The journal after a line."""
    page = request.page
    found = journal.since(request.app.database, seq=page["after"], project=page["project"], limit=page["limit"])
    return _page(found, event_shape, request, lambda event: event.seq)


def find(request: ApiRequest) -> Any:
    """One search over all that was written or said."""
    asked = request.asked
    kinds = [asked["kind"]] if "kind" in asked else []
    found = search.find(
        request.app,
        words=asked["q"],
        project=request.scope,
        kinds=kinds,
        limit=asked.get("limit", search.LIMIT),
        before=asked.get("before", 0),
    )
    items = [{**hit._asdict(), "at": moment(hit.at)} for hit in found.hits]
    return {"items": items, "next": found.next or None}


def _fields(found: object, names: str) -> dict[str, Any]:
    return {name: getattr(found, name) for name in names.split()}


def _moments(found: object, names: str) -> dict[str, Any]:
    return {name: moment(getattr(found, name)) for name in names.split()}


KEY_HEADER = "Idempotency-Key"
KEY_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}


def order(request: ApiRequest) -> Any:
    """Make a task, a batch or a flow; under a key once, however often it is asked for."""
    given = {name: value for name, value in request.asked.items() if name != "project"}
    if "batch_id" in given:
        wanted = orders.Order(kind=orders.BATCH, manifest=dumps({"schema_version": 2, **given}))
    elif "workflow" in given:
        wanted = orders.read({"kind": orders.FLOW, "words": given.pop("request"), **given})
    else:
        wanted = orders.read({"kind": orders.TASK, "checked": True, "words": given.pop("brief"), **given})
    return _once(request, wanted)


def _once(request: ApiRequest, wanted: orders.Order) -> Any:
    app, key, asked = request.app, request.once, dumps(request.asked).encode()
    if key and not re.fullmatch(r"[!-~]{1,200}", key):
        raise UserError(f"{KEY_HEADER} has 1 to 200 plain characters.")
    caller = f"token {request.caller}"
    if key and (before := tokens.answer_to(app.database, caller=caller, name=key, asked=asked)):
        return before

    def note(transaction: Any, made: orders.Made) -> None:
        if key:
            tokens.keep_answer(transaction, caller=caller, name=key, asked=asked, answer=made._asdict())

    place = _place(request)
    orders.check(app, place, wanted)
    try:
        return orders.make(app, place, wanted, also=note)._asdict()
    except Conflict:
        if key and (before := tokens.answer_to(app.database, caller=caller, name=key, asked=asked)):
            return before  # the same came twice at once
        raise


def _place(request: ApiRequest) -> Project:
    project = request.asked.get("project") or request.project
    if not project:
        raise UserError("Say for which project: this token is for all of them.")
    return orders.place_of(request.app, project)


def claim(request: ApiRequest) -> Any:
    """Take a task for a runner that is not ours; asked again with its session it is the same claim."""
    app, asked, place = request.app, request.asked, _place(request)
    who = sessions.SessionIdentity(
        id=asked.get("session") or new_id("session"),
        project=place.name,
        agent=asked.get("agent", ""),
        workspace=place.workspace,
        host=app.settings.host,
        labels=tuple(asked.get("labels", ())),
    )
    wanted = None
    if asked.get("key") is not None:
        wanted = one_task(request._replace(named={"key": asked["key"]}))
        journey.refuse_agents_own(app, wanted)
    taken = journey.claim_as(
        app, home_config(app), who, task=wanted, role=asked.get("role", ""), lease=float(asked.get("lease_seconds", 0))
    )
    return _claimed(taken.task, taken.session.id, taken.fence, repeated=taken.repeated)


def beat(request: ApiRequest) -> Any:
    """A sign of life of such a runner."""
    held = _held(request)
    return _claimed(current.beat(request.app, held), held.session, held.fence or 0, repeated=True)


def finish(request: ApiRequest) -> Any:
    """How it ended. Done is believed by its check, which runs in the workspace the claim named."""
    app, held, asked = request.app, _held(request), request.asked
    text, outcome = asked.get("text", ""), asked["outcome"]
    if outcome == "done":
        task = journey.finish(app, held, summary=text).outcome.task
    elif outcome == "blocked":
        if not text.strip():
            raise UserError("Say what is missing: whoever helps reads it.")
        task = journey.block(app, held, reason=text).task
    else:
        task = journey.release(app, held, reason=text)
    program = app.settings.program
    verb = {"done": "done", "blocked": "block", "released": "release"}[outcome]
    return {"command": f"{program} task {verb} {task.label}", "text": f"{task.label} is {task.state}."}


def _held(request: ApiRequest) -> CurrentClaim:
    """The task of the path, if that session holds it."""
    task, asked = one_task(request), request.asked
    if task.held_by != asked["session"] or task.fence != asked["fence"]:
        raise tasks.stale(task, asked["fence"])
    return CurrentClaim(task, asked["fence"], asked["session"], task.workspace)


def _claimed(task: Task, session: str, fence: int, *, repeated: bool) -> dict[str, Any]:
    shown = {name: getattr(task, name) for name in ("key", "project", "brief", "attempt", "workspace", "lease_seconds")}
    said = {"session": session, "fence": fence, "task": task.label, "check": task.check_command, "repeated": repeated}
    return {**shown, **said}
