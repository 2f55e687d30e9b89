"""Task: its brief, its sessions, what was verified, what it is saying, and all that happened to it."""

from __future__ import annotations

import json

from handoff.base.errors import HandoffError, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import sessions
from handoff.board.tasks import states, tasks
from handoff.engine.place import transcripts
from handoff.engine.work import overview, stopping
from handoff.engine.work.acts.landing import landing_of, undo
from handoff.engine.work.tasks import admin
from handoff.engine.work.tasks.splitting import report

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.events.journal import Event
    from handoff.engine.app import App
    from handoff.engine.work.tasks.admin import TaskDetails
    from handoff.engine.work.tasks.splitting.report import SessionReport

_TAIL = 80


class TaskPage(Record):
    """Everything about one task."""

    address: str
    path: str
    look: str
    details: TaskDetails
    sessions: tuple[SessionReport, ...]
    evidence: str
    said: tuple[str, ...]
    now: float
    flow: str
    """The flow it is a phase of."""
    unstoppable: str
    """Why the session at work cannot be stopped from here; empty where it can."""
    untakeable: str
    """Why nobody can take it over from here; empty where somebody can."""
    lands: bool
    """Whether its work is kept on a branch of its own and nowhere else."""
    landed: str
    """The commit that brought its work; empty where it is on no branch of the person."""
    back: str
    """What taking that back would do, in words."""
    kept: str
    """Why it cannot be taken back now; empty where it can."""

    @property
    def events(self) -> list[Event]:
        return self.details.events[::-1]


def read(app: App, *, project: str, label: str) -> TaskPage:
    """The task an address names."""
    found = admin.picture(app, admin.find_task(app, label, project=project))
    task = found.task
    worked = tuple(report.sessions_of(app, found.events))
    last = worked[-1].id if worked else ""
    known = sessions.get(app.database, id=last) if last else None
    said = transcripts.said(app, project=task.project, session=last, agent=known.agent) if known else []
    held = sessions.get(app.database, id=task.held_by) if task.held_by else None
    obstacle = stopping.why_not(app, held) if held else UserError("No session works on it.")
    own = task.state == states.DONE and task.kind in (tasks.TASK, tasks.FAN_IN)
    branch = str(found.evidence.get("branch", "")) if own else ""
    landed, back, kept = _landed(app, task.project, branch, found.evidence) if own else ("", "", "")
    return TaskPage(
        address=task.label,
        path=f"{task.project}/{task.label}",
        look=overview.standing(app, [task.key])[task.key].look,
        details=found,
        sessions=worked,
        evidence=json.dumps(found.evidence, indent=2, ensure_ascii=False) if found.evidence else "",
        said=tuple(said[-_TAIL:]),
        now=app.clock.now(),
        flow=task.scope if task.kind == "phase" else "",
        unstoppable=obstacle.message if obstacle else "",
        untakeable=obstacle.message if obstacle and held and not stopping.is_taken(app, task) else "",
        lands=bool(branch) and not landed,
        landed=landed,
        back=back,
        kept=kept,
    )


def _landed(app: App, project: str, branch: str, evidence: dict[str, Any]) -> tuple[str, str, str]:
    """The commit that brought its work, what taking that back would do, or why it cannot be done."""
    landed = ""
    try:
        landed = landing_of(app, project=project, branch=branch, landed=str(evidence.get("landed", "")))
        return landed, undo(app, landed, dry_run=True, project=project).text if landed else "", ""
    except HandoffError as error:
        return landed, "", error.message
