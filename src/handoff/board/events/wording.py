"""A line of the journal in words for people: one table, the same on each surface. Programs get the kind itself."""

from __future__ import annotations

from handoff.base.ids import on_one_line
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.events.journal import Event

NAMES = {
    "agent.held": "agent held",
    "agent.held_again": "agent still held",
    "agent.released": "agent free again",
    "batch.cancelled": "batch cancelled",
    "batch.delayed": "batch late",
    "batch.finished": "batch over",
    "batch.joined": "all parts ended",
    "batch.opened": "batch opened",
    "batch.recounted": "parts recounted",
    "batch.reopened": "batch opened again",
    "batch.verified": "batch checked",
    "claims.resumed": "resumed",
    "claims.stopped": "paused",
    "comment.added": "comment",
    "conflict.gone": "conflict gone",
    "conflict.seen": "conflict",
    "doubt.gone": "nothing to look at",
    "doubt.seen": "to look at",
    "flow.blocked": "flow blocked",
    "flow.cancelled": "flow cancelled",
    "flow.done": "flow done",
    "flow.note_failed": "git note failed",
    "flow.paused": "flow paused",
    "flow.refused": "phase refused",
    "flow.resumed": "flow resumed",
    "flow.retried": "flow tries again",
    "flow.rolled_back": "rolled back",
    "flow.skipped": "phase skipped",
    "flow.started": "flow started",
    "flow.verified": "phase verified",
    "gate.approved": "yes",
    "gate.delayed": "still asks you",
    "gate.opened": "asks you",
    "gate.rejected": "no",
    "hook.failed": "delivery not followed",
    "issue.said": "said at the issue",
    "note.added": "note",
    "path.asked": "asks for a file",
    "path.granted": "file granted",
    "path.wanted": "asks you for a file",
    "person.said": "message",
    "project.moved": "project moved",
    "project.renamed": "project renamed",
    "race.won": "won the race",
    "schedule.added": "schedule added",
    "schedule.failed": "not made",
    "schedule.paused": "schedule paused",
    "schedule.ran": "made on time",
    "schedule.removed": "schedule removed",
    "schedule.resumed": "schedule goes on",
    "schedule.skipped": "passed over",
    "request.closed": "request closed",
    "request.merged": "request merged",
    "request.opened": "request opened",
    "request.pushed": "request pushed",
    "request.red": "request red",
    "request.restacked": "brought up to its base",
    "request.said": "said at the request",
    "session.concluded": "session judged",
    "session.ended": "session ended",
    "session.heard": "message delivered",
    "session.host_refused": "host refused",
    "session.out_of_scope": "not its own files",
    "session.saw": "message seen",
    "session.started": "session started",
    "split.opened": "split into a batch",
    "task.added": "added",
    "task.blocked": "blocked",
    "task.cancelled": "cancelled",
    "task.claimed": "started",
    "task.clone_mended": "clone mended",
    "task.clone_renewed": "clone renewed",
    "task.edited": "changed",
    "task.expired": "attempt failed",
    "task.finished": "done",
    "task.held": "held",
    "task.judged": "judged",
    "task.landed": "landed",
    "task.landed_again": "landed again",
    "task.moved": "moved",
    "task.placed": "placed",
    "task.readied": "ready",
    "task.rejected": "refused",
    "task.released": "given back",
    "task.reported": "reported done",
    "task.retried": "tries again",
    "task.revived": "alive again",
    "task.sent_back": "sent back",
    "task.taken_back": "changes taken out",
    "task.undone": "landing taken back",
    "task.waived": "let through by you",
    "tasks.pruned": "old tasks removed",
    "token.made": "token made",
    "token.withdrawn": "token withdrawn",
}
"""Every kind there is, but the kinds of incidents, which say it themselves."""
WIDTH = max(map(len, NAMES.values()))
_SENTENCES = ("question", "reason", "summary", "request", "text", "said", "what")
_INWARD = ("gate", "flow", "flow_key", "code", "snapshot", "fence", "key", "incident", "charged")
"""What only the machinery reads, or what stands beside it already."""


def name(event: Event) -> str:
    """What happened, in a word or two."""
    first, _, last = event.kind.partition(".")
    if event.kind == "task.expired" and not event.body.get("charged", True):
        return "session lost"
    if event.kind == "gate.approved" and event.body.get("answer"):
        return "answered"
    return NAMES.get(event.kind) or f"{first}: {last}".replace("_", " ")


def details(event: Event) -> str:
    """What a line says besides what happened to whom: sentences as they are, facts with their names."""
    heard = event.kind in (journal.HEARD, journal.SAW)  # they hold numbers of lines alone
    body = {key: value for key, value in event.body.items() if key not in _INWARD and not heard}
    said = [str(body.pop(key)) for key in _SENTENCES if isinstance(body.get(key), str) and body[key]]
    if isinstance(body.get("said"), list):
        said += map(str, body.pop("said"))
    if body.get("path") and body.get("line"):
        said.insert(0, f"{body.pop('path')}:{body.pop('line')}")
    if event.kind == "task.expired":
        said = [one.replace("it ended with exit code", "exit") for one in said]
        body = {"next attempt": body.pop("attempt", ""), **body}
    facts = [
        f"{key} {value}"
        for key, value in body.items()
        if value not in ("", None) and not isinstance(value, dict | list)
    ]
    return " · ".join([*said, *facts])


def refusal_words(body: dict[str, Any]) -> str:
    """Why a report was refused, in short, from what the journal keeps of it."""
    outside = body.get("outside") or ()
    if outside:
        return f"it changed files it does not own: {', '.join(map(on_one_line, outside[:5]))}"
    check = body.get("check") or {}
    return f"`{check.get('command')}` is {check.get('verdict')}" if check else "its check is red"
