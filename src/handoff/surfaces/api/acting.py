"""What the API changes: each act is one of our own commands, run in the name of the token that asked for it."""

from __future__ import annotations

import shlex

from handoff.base.errors import Conflict, HandoffError, Refused, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board import gates
from handoff.board.tasks import batches, flows, tasks
from handoff.surfaces.api import reading
from handoff.surfaces.own_commands import run_own

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.surfaces.api.reading import ApiRequest

_BY_EXIT: dict[int, type[HandoffError]] = {3: Refused, 4: Conflict}
_KINDS: dict[str, tuple[Callable[[ApiRequest], Any], Callable[..., Any]]] = {
    "task": (reading.one_task, tasks.find),
    "batch": (reading.one_batch, batches.find),
    "flow": (reading.one_flow, flows.find),
}


def answer(request: ApiRequest) -> Any:
    """Answer a gate: yes, no with a reason, or edit with the text as it is to be."""
    waiting = reading.one_gate(request)
    gate, said, text = waiting.gate, request.asked["answer"], request.asked.get("text", "")
    if gate.state != gates.OPEN:
        by = f" by {gate.answered_by}" if gate.answered_by else ""
        raise Conflict(f"The gate of '{waiting.task}' was already {gate.state}{by}.", "See the open ones: GET /gates")
    if said != "yes" and not text.strip():
        raise UserError(
            "Say why: the next session reads it." if said == "no" else "An edit needs the text as it is to be."
        )
    option = "--text" if said == "edit" else "--reason"
    words = ["answer", waiting.task, said, *([f"{option}={text}"] if text else [])]
    return _run(request, words, waiting.project)


def _on(kind: str, *words: str) -> Callable[[ApiRequest], Any]:
    """One of our commands on the task, batch or flow of a key, if its name still means that one."""
    one, find = _KINDS[kind]

    def act(request: ApiRequest) -> Any:
        meant = one(request)
        name = meant.label if kind == "task" else meant.id
        if find(request.app.database, project=meant.project, id=name).key != meant.key:
            raise Conflict(f"The {kind} of that key has ended; '{name}' is another one by now.")
        held = [f"--session={meant.held_by}", f"--fence={meant.fence}"] if words[-1] == "release" else []
        address = name if words[0] == kind else f"{kind}:{name}"
        return _run(request, [*words, address, *held, *_reason(request)], meant.project)

    return act


def _on_project(word: str) -> Callable[[ApiRequest], Any]:
    def act(request: ApiRequest) -> Any:
        if request.project not in ("", request.named["project"]):
            raise reading.NotThere("There is no project of that name.", "Projects are named in every list.")
        return _run(request, [word, *_reason(request)], request.named["project"])

    return act


def _reason(request: ApiRequest) -> list[str]:
    reason = request.asked.get("reason", "")
    return [f"--reason={reason}"] if reason else []


def _run(request: ApiRequest, words: list[str], project: str) -> Any:
    words = [*words, "--project", project]
    code, text = run_own(request.app.settings, words)
    if code:
        said, _, hint = text.strip().rpartition("Error: ")[2].partition("\nHint: ")
        raise _BY_EXIT.get(code, UserError)(said.strip(), hint.strip())
    return {"command": shlex.join([request.app.settings.program, *words]), "text": text.strip()}


TASK, BATCH, FLOW = (
    {word: _on(kind, word) for word in ("retry", "cancel", "pause", "resume")} for kind in ("task", "batch", "flow")
)
TASK["release"] = _on("task", "task", "release")
PROJECT = {word: _on_project(word) for word in ("pause", "resume")}
TAKES_REASON = {"cancel": ("task", "batch", "flow"), "pause": ("task", "batch", "project"), "release": ("task",)}
