"""Tasks that a sandboxed session writes: they get at most what their writer has, and what goes beyond waits for a person."""

from __future__ import annotations

from handoff.base.errors import Refused
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import leases
from handoff.board.tasks import questions, requirements, tasks
from handoff.engine.fanout import views
from handoff.engine.tasks import batches, create
from handoff.engine.workspaces.task_clones import is_sandboxed
from handoff.git.ownership.ownership import Ownership

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.tasks.batches import OpenedBatch
    from handoff.engine.tasks.create import Request
    from handoff.engine.tasks.manifests.fields import Manifest

_NEVER_EMPTY = "(none)"


class Writer(Record):
    """The sandboxed session that writes a task, and the task it holds."""

    task: Task
    session: str
    agent: str
    limits: dict[str, Any]
    labels: tuple[str, ...]

    @property
    def mark(self) -> dict[str, Any]:
        """What a task of its own remembers: whoever starts it keeps it inside, with the limits of its writer."""
        return {tasks.WRITTEN_INSIDE: {"session": self.session, "task": self.task.label}, "limits": self.limits}


def writer_of(app: App) -> Writer | None:
    """The sandboxed session that calls; None for everybody else. One that lost its task is refused."""
    session, project = app.settings.get("HANDOFF_SESSION"), app.settings.get("HANDOFF_PROJECT")
    if not is_sandboxed(app, project=project, session=session):
        return None
    facts = create.session_facts(app)
    task = leases.heartbeat(app.database, key=int(facts["key"]), fence=int(facts["fence"]))
    return Writer(
        task=task,
        session=session,
        agent=str(facts.get("agent", "")),
        limits=dict(facts.get("limits", {})),
        labels=requirements.of_task(app.database, key=task.key),
    )


def write_down(app: App, request: Request) -> Task:
    """Record a task for whoever calls; one from inside a sandbox stays inside, and beyond its writer's means it is asked for."""
    project, writer = create.project_of_caller(app), writer_of(app)
    if writer is None:
        return create.write_down(app, project, request)
    request = request._replace(owns=request.owns or writer.task.patterns)
    beyond = _beyond(writer, request)
    values, project = create.values_of_new(app, project, request)
    values["baseline"] = {**values["baseline"], **writer.mark}
    with app.database.transaction() as transaction:
        task = tasks.add(
            transaction,
            **values,
            after=request.after,
            labels=request.labels,
            session=writer.session,
            gated=bool(beyond),
        )
        if beyond:
            questions.put(transaction, task, question=app.clean(_question(writer, request, beyond)))
    views.refresh_or_tell(app, project.name, f"Task {task.label} is recorded")
    return task


def open_batch(app: App, text: str) -> OpenedBatch:
    """Open a batch for whoever calls; from inside a sandbox only one whose parts keep to what their writer has."""
    project, writer = create.project_of_caller(app), writer_of(app)
    if writer is None:
        return batches.open_batch(app, project, "parts", text)
    return batches.open_batch(
        app,
        project,
        "parts",
        text,
        bound=lambda manifest: _bounded(writer, manifest),
        mark=writer.mark,
        owns=writer.task.patterns,
    )


def _bounded(writer: Writer, manifest: Manifest) -> None:
    for part in manifest.sub_tasks:
        request = create.Request(
            task=part.id,
            brief=part.brief,
            owns=part.owns or writer.task.patterns,
            agent=part.agent or manifest.agent,
            check=part.check_command or manifest.check,
            labels=(*part.labels, *manifest.labels),
        )
        beyond = _beyond(writer, request)
        if beyond:
            raise Refused(
                f"Part '{part.id}' goes beyond what you have: {'; '.join(beyond)}.",
                "Keep within that. What needs more is written with the tool `handoff`, as a task of its own: a person is asked.",
            )


def _beyond(writer: Writer, request: Request) -> list[str]:
    """What of a task its writer does not have itself, in words."""
    found, mine = [], writer.task
    if mine.patterns:
        path = Ownership.parse(request.owns).beyond(Ownership.parse(mine.patterns))
        found += [f"it would own {path}, which '{mine.label}' does not"] if path else []
    if request.agent not in ("", writer.agent):
        found.append(f"it asks for the agent {request.agent}, '{mine.label}' is done by {writer.agent}")
    if request.check not in ("", mine.check_command):
        found.append("it brings a check of its own")
    strange = [label for label in request.labels if label not in writer.labels]
    found += [f"it demands the host label {', '.join(strange)}"] if strange else []
    if request.priority > mine.priority:
        found.append(f"it asks for priority {request.priority}, '{mine.label}' has {mine.priority}")
    return found


def _question(writer: Writer, request: Request, beyond: list[str]) -> str:
    """What a person needs to know for a yes: what would run, where, and what in it is new."""
    lines = [
        f"May this task run? The session of '{writer.task.label}' wrote it, and {'; '.join(beyond)}.",
        f"Owns: {', '.join(request.owns) or 'everything'}",
        f"Check: {request.check or _NEVER_EMPTY}",
        f"Agent: {request.agent or 'any'}",
        "Where: in a clone of its own inside the sandbox, its check too",
        f"Written by: session {writer.session} ({writer.agent})",
        "Brief:",
        *(f"  {line}" for line in request.brief.strip().splitlines()),
    ]
    return "\n".join(lines)
