"""Task: its brief, its sessions, what was verified, what it is saying, and all that happened to it."""

from __future__ import annotations

import json

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import sessions
from handoff.engine.features import overview
from handoff.engine.tasks import admin
from handoff.engine.tasks.splitting import report
from handoff.engine.workspaces import transcripts

if TYPE_CHECKING:
    from handoff.board.events.journal import Event
    from handoff.engine.app import App
    from handoff.engine.tasks.admin import TaskDetails
    from handoff.engine.tasks.splitting.report import SessionReport

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
    return TaskPage(
        address=task.label,
        path=f"{task.project}/{task.label}",
        look=overview.ENDED if admin.ending_of(app, task) else task.state,
        details=found,
        sessions=worked,
        evidence=json.dumps(found.evidence, indent=2, ensure_ascii=False) if found.evidence else "",
        said=tuple(said[-_TAIL:]),
        now=app.clock.now(),
        flow=task.scope if task.kind == "phase" else "",
    )
