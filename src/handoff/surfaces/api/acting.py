"""What the API changes: acts, done in the name of the token that asked for them."""

from __future__ import annotations

from handoff.base.errors import Conflict, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board import gates
from handoff.board.tasks import batches, flows, tasks
from handoff.engine.acts.act import Act
from handoff.surfaces.acting import perform, report
from handoff.surfaces.api import reading

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.surfaces.api.reading import ApiRequest

_RELEASE, _EDIT = "task release", "task edit"
_KINDS: dict[str, tuple[Callable[[ApiRequest], Any], Callable[..., Any]]] = {
    "task": (reading.one_task, tasks.find),
    "batch": (reading.one_batch, batches.find),
    "flow": (reading.one_flow, flows.find),
}


def answer(request: ApiRequest) -> Any:
    """Answer a gate: yes, no with a reason, edit with the text as it is to be, or in the person's own words."""
    waiting = reading.one_gate(request)
    gate, said, text = waiting.gate, request.asked["answer"], request.asked.get("text", "")
    if gate.state != gates.OPEN:
        by = f" by {gate.answered_by}" if gate.answered_by else ""
        raise Conflict(f"The gate of '{waiting.task}' was already {gate.state}{by}.", "See the open ones: GET /gates")
    if said in ("no", "edit") and not text.strip():
        raise UserError(
            "Say why: the next session reads it." if said == "no" else "An edit needs the text as it is to be."
        )
    options = {"text" if said == "edit" else "reason": text} if text else {}
    return _perform(request, Act("answer", (waiting.task, said), options, waiting.project))


def say(request: ApiRequest) -> Any:
    """Say something to a session that runs."""
    session, options = reading.one_session(request), {"now": True} if request.asked.get("now") else {}
    return _perform(request, Act("session say", (session.id, request.asked["text"]), options))


def _on(kind: str, verb: str) -> Callable[[ApiRequest], Any]:
    """One of our acts on the task, batch or flow of a key, if its name still means that one."""
    one, find = _KINDS[kind]

    def act(request: ApiRequest) -> Any:
        meant = one(request)
        name = meant.label if kind == "task" else meant.id
        if find(request.app.database, project=meant.project, id=name).key != meant.key:
            raise Conflict(f"The {kind} of that key has ended; '{name}' is another one by now.")
        if verb == _RELEASE:
            options = {"session": str(meant.held_by), "fence": meant.fence, **_reason(request)}
            return _perform(request, Act(verb, (name,), options, meant.project))
        word = name if verb == _EDIT else f"{kind}:{name}"
        return _perform(request, Act(verb, (word,), dict(request.asked), meant.project))

    return act


def _on_project(word: str) -> Callable[[ApiRequest], Any]:
    def act(request: ApiRequest) -> Any:
        if request.project not in ("", request.named["project"]):
            raise reading.NotThere("There is no project of that name.", "Projects are named in every list.")
        return _perform(request, Act(word, (), _reason(request), request.named["project"]))

    return act


def _reason(request: ApiRequest) -> dict[str, Any]:
    reason = request.asked.get("reason", "")
    return {"reason": reason} if reason else {}


def _perform(request: ApiRequest, act: Act) -> Any:
    done = perform(request.app, act)
    text = report(request.app, done)
    if not done.ok:
        raise UserError(text)
    return {"command": act.line(request.app.settings.program), "text": text}


TASK, BATCH, FLOW = (
    {word: _on(kind, word) for word in ("retry", "cancel", "pause", "resume")} for kind in ("task", "batch", "flow")
)
TASK["release"] = _on("task", _RELEASE)
PROJECT = {word: _on_project(word) for word in ("pause", "resume")}
TASK["edit"] = _on("task", _EDIT)
# A command to run never comes by network: the check of a task is changed in a terminal.
_REASON, _AGAIN = ("reason",), ("note", "agent", "model")
TAKES: dict[str, dict[str, tuple[str, ...]]] = {
    "cancel": {"task": _REASON, "batch": _REASON, "flow": _REASON},
    "pause": {"task": _REASON, "batch": _REASON, "project": _REASON},
    "release": {"task": _REASON},
    "retry": {"task": _AGAIN, "batch": _AGAIN, "flow": ("note",)},
    "edit": {"task": ("brief", *_AGAIN)},
}
