"""Which lines of the journal are worth telling, and in which words."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from typing import Any

CLASSES: dict[str, str] = {
    "needs-you": "a gate waits for your answer, a session wishes for a path, an agent is refused by its provider, a check cannot run",
    "blocked": "a task or a flow cannot go on",
    "done": "a task or a flow is finished",
    "limit": "an agent waits for its provider's limit",
    "incident": "a session died or strayed, a guard said no, work is late, a default was applied",
}
_KINDS = {
    "gate.opened": "needs-you",
    "gate.delayed": "needs-you",
    "path.wanted": "needs-you",
    "task.held": "needs-you",
    "task.blocked": "blocked",
    "flow.blocked": "blocked",
    "task.finished": "done",
    "flow.done": "done",
    "task.expired": "incident",
    "session.out_of_scope": "incident",
    "batch.delayed": "incident",
    "flow.note_failed": "incident",
}
_LONGEST = 1500


class NotifiedEvent(Record):
    """One line of the journal as it is told. `code` answers the gate it tells of; only channels that may answer get it."""

    id: str
    at: float
    kind: str
    word: str
    project: str
    task: str
    session: str
    body: dict[str, Any]
    code: str = ""
    link: str = ""


def class_of(kind: str, body: dict[str, Any]) -> str:
    """Which class an event belongs to; empty for what nobody needs to hear."""
    if kind == "agent.held":  # the first of a row: that it goes on being held calls nobody
        return "limit" if body.get("fault") == "limit" else "needs-you"
    if kind.startswith("incident."):
        return "incident" if body.get("what") else ""  # that one was concluded calls nobody
    if kind in ("gate.approved", "gate.rejected"):
        return "incident" if body.get("by_default") else ""
    return _KINDS.get(kind, "")


def title(event: NotifiedEvent) -> str:
    """One line: who and what."""
    what = {
        "gate.opened": "waits for your answer",
        "gate.delayed": "still waits for your answer",
        "gate.approved": "went on: nobody answered in time",
        "gate.rejected": "is blocked: nobody answered in time",
        "path.wanted": "wishes for a path",
        "task.blocked": "is blocked",
        "flow.blocked": "is blocked",
        "task.finished": "is done",
        "flow.done": "is done",
        "task.expired": "lost its session",
        "task.held": "cannot begin or be judged",
        "session.out_of_scope": "changed files it does not own",
        "batch.delayed": "is late",
        "flow.note_failed": "could not be recorded in git",
        "notify.test": "sends a test",
    }.get(event.kind, "has an incident" if event.kind.startswith("incident.") else event.kind)
    if event.kind == "agent.held":
        return f"agent {event.body.get('agent')} is held until {event.body.get('until')}"
    name = event.task or str(event.body.get("flow") or event.body.get("id") or "")
    return f"{event.project}/{name} {what}" if name else f"{event.project or 'handoff'} {what}"


def text(event: NotifiedEvent, *, program: str) -> str:
    """What a person needs to act: the words of the event, and the commands that answer it."""
    lines = []
    for key in ("question", "what", "fix", "reason", "summary", "path", "outcome"):
        value = event.body.get(key)
        if isinstance(value, str) and value.strip():
            lines.append(value.strip()[:_LONGEST])
    if event.kind in ("gate.opened", "gate.delayed") and event.task:
        where = f" --project {event.project}"
        lines.append(f"{program} answer {event.task} yes{where} | {program} answer {event.task} no REASON{where}")
        if event.code:
            lines.append(f"Once, from anywhere: {program} answer {event.code} yes|no|edit")
        if event.link:
            lines.append(f"Or in a browser: {event.link}")
    elif event.word == "blocked" and event.task:
        lines.append(f"{program} show {event.task} --project {event.project}")
    return "\n".join(lines) or title(event)
