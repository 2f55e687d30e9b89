"""What programs order over the API, and how a runner of their own takes a task and reports it."""

from __future__ import annotations

import re

from handoff.base.errors import Conflict, UserError
from handoff.base.ids import new_id
from handoff.base.light_json import dumps
from handoff.base.record import TYPE_CHECKING
from handoff.board import asked_once
from handoff.board.sessions import sessions
from handoff.board.tasks import tasks
from handoff.engine.app.home import home_config
from handoff.engine.outcome.ended import CurrentClaim
from handoff.engine.session import current
from handoff.engine.session import report as journey
from handoff.engine.work.flows import orders
from handoff.surfaces.api import reading

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app.home import Project
    from handoff.surfaces.api.reading import ApiRequest

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
    if key and (before := asked_once.answer_to(app.database, caller=caller, name=key, asked=asked)):
        return before

    def note(transaction: Any, made: orders.Made) -> None:
        if key:
            asked_once.keep(transaction, caller=caller, name=key, asked=asked, answer=made._asdict())

    place = _place(request)
    orders.check(app, place, wanted)
    try:
        return orders.make(app, place, wanted, also=note)._asdict()
    except Conflict:
        if key and (before := asked_once.answer_to(app.database, caller=caller, name=key, asked=asked)):
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
        wanted = reading.one_task(request._replace(named={"key": asked["key"]}))
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
    task, asked = reading.one_task(request), request.asked
    if task.held_by != asked["session"] or task.fence != asked["fence"]:
        raise tasks.stale(task, asked["fence"])
    return CurrentClaim(task, asked["fence"], asked["session"], task.workspace)


def _claimed(task: Task, session: str, fence: int, *, repeated: bool) -> dict[str, Any]:
    shown = {name: getattr(task, name) for name in ("key", "project", "brief", "attempt", "workspace", "lease_seconds")}
    said = {"session": session, "fence": fence, "task": task.label, "check": task.check_command, "repeated": repeated}
    return {**shown, **said}
