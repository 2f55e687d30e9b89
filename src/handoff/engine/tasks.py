"""A task's journey: written down, taken, kept alive, reported. Every report is judged on evidence."""

from __future__ import annotations

import os

from handoff.base.errors import Conflict, Refused, UserError
from handoff.base.ids import check_id
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import journal, leases, outcomes, sessions, states, tasks
from handoff.engine import stops, tickets, views
from handoff.engine.baseline import take_baseline
from handoff.engine.home import find_project, home_config
from handoff.engine.openers import Job, uri_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.board.leases import Claim
    from handoff.board.outcomes import Outcome
    from handoff.board.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.evidence import Evidence
    from handoff.engine.home import Project
    from handoff.store.database import Transaction

_SHOWN = 20


class Request(Record):
    """What `dump` was asked to write down."""

    task: str
    brief: str
    after: tuple[str, ...] = ()
    agent: str = ""
    role: str = ""
    owns: tuple[str, ...] = ()
    check: str = ""
    tests: str = ""
    priority: int = 0


def prepare(app: App, project: Project, request: Request) -> dict[str, Any]:
    """Check everything a new task needs and take its baseline; nothing is written."""
    check_id(request.task, "task")
    if not request.brief.strip():
        raise UserError(
            "The brief is empty.", "Say what the next session must do: --next 'TEXT', or --next - to read it."
        )
    config = home_config(app)
    uri_for(config, Job(project.name, request.task, project.workspace, ""))
    if request.owns:
        from handoff.git.ownership import Ownership  # noqa: PLC0415 - only tasks with an ownership

        Ownership.parse(request.owns)
    return {
        "project": project.name, "id": request.task, "brief": request.brief.strip(), "role": request.role,
        "agent": request.agent, "workspace": project.workspace, "owns": request.owns,
        "check_command": request.check, "priority": request.priority, "max_attempts": int(config.number("max_attempts")),
        "baseline": take_baseline(app, project.workspace, tests=tests_command(project.workspace, request.tests),
                                  stamps=bool(request.owns)),
    }  # fmt: skip


def write_down(app: App, project: Project, request: Request) -> Task:
    """Record a task and write its files; a live task of that id is not overwritten."""
    values = prepare(app, project, request)
    task = tasks.add(app.database, **values, after=request.after)
    refresh_or_tell(app, project.name, f"Task {task.label} is recorded")
    return task


def preview(app: App, project: Project, request: Request) -> Task:
    """The task as it would be written, for a dry run; nothing is created, not even the database."""
    values = prepare(app, project, request)
    fields: dict[str, Any] = dict.fromkeys(tasks.Task._fields, "")
    fields.update(
        dict.fromkeys(("key", "generation", "open_needs", "counted", "fence", "estimate_minutes", "not_before"), 0)
    )
    fields.update(batch=None, ended_at=None, attempt=1, changed_at=app.clock.now(), kind=tasks.TASK)
    row = tasks.new_values(**values, state=states.WAITING if request.after else states.READY)
    return tasks.Task(**{**fields, **row})


def tests_command(workspace: str, tests: str) -> str:
    """`--tests` is a command; a bare path of a test file or folder means pytest, as the older tool has it."""
    first = tests.partition("::")[0].partition(" ")[0]
    path = os.path.join(workspace, first)
    if first and os.path.exists(path) and (os.path.isdir(path) or not os.access(path, os.X_OK)):
        return f"python -m pytest {tests}"
    return tests


def refresh_or_tell(app: App, project: str, done: str) -> None:
    """Bring the files up to date; when the disk refuses, say what is safe already."""
    try:
        views.refresh(app, project)
    except UserError as error:
        raise UserError(
            f"{done}, but its files are not: {error.message}", f"Mend that, then: {app.settings.program} sync-files"
        ) from error


# --- taking --------------------------------------------------------------------------------------------


def take(
    app: App,
    *,
    task: str = "",
    project: str = "",
    agent: str = "",
    role: str = "",
    session: str = "",
    lease: float = 0.0,
) -> Claim:
    """Claim a task, the named one or the next; the ticket is written first, so that a killed claim is taken up again."""
    config = home_config(app)
    place = find_project(app, name=project)
    stops.read_files(app, place.name)
    agents = config.values["max_running_agent"]
    limits = leases.Limits(
        int(config.number("max_running")), int(config.number("max_running_project")), int(agents.get(agent, 0))
    )
    ticket = tickets.begin(app, session=session, workspace=place.workspace)
    who = sessions.Who(
        ticket.session, project=place.name, agent=agent, workspace=place.workspace, host=os.uname().nodename
    )
    seconds = lease or config.number("lease_seconds")
    claim: Claim | None = None
    try:
        if task:
            key = tasks.find(app.database, project=place.name, id=task).key
            claim = leases.claim(app.database, key=key, who=who, lease_seconds=seconds, limits=limits)
        else:
            claim = leases.claim_next(
                app.database, who=who, project=place.name, role=role, lease_seconds=seconds, limits=limits
            )
        if claim is None:
            why = leases.why_idle(app.database, who=who, project=place.name, limits=limits)
            raise UserError(f"Nothing to take in project {place.name}: {why}.", f"See: {app.settings.program} queue")
    finally:
        if claim is None:
            tickets.drop(app, ticket.session)
    taken = claim.task
    tickets.keep(app, ticket._replace(fence=claim.fence, key=taken.key, project=taken.project, task=taken.label))
    refresh_or_tell(app, place.name, f"You hold {taken.label} with fence {claim.fence}")
    return claim


class Hold(Record):
    """A task, and with which fence the caller speaks for it; without one it is a person who holds nothing."""

    task: Task
    fence: int | None
    session: str


def held(app: App, *, task: str = "", project: str = "", session: str = "", fence: int | None = None) -> Hold:
    """Which task a report is about and in whose name it is made."""
    ticket = tickets.find(app, session=session, fence=fence, task=task, project=project)
    if ticket is not None:
        key = ticket.key
        if task and task not in (ticket.task, ticket.task.rpartition("/")[2]):
            key = 0
        if not key and not task:
            known = sessions.get(app.database, id=ticket.session)
            if known is None or known.task is None:
                raise UserError(f"Session {ticket.session} holds no task.", f"Take one: {app.settings.program} claim")
            key = known.task
        place = "" if key else find_project(app, name=project).name
        found = tasks.get(app.database, key=key) if key else tasks.find(app.database, project=place, id=task)
        return Hold(found, ticket.fence, ticket.session)
    if not task:
        raise UserError(
            "No claim of yours is known in this folder.",
            f"Take a task first: {app.settings.program} claim. Or name one: --task TASK",
        )
    found = tasks.find(app.database, project=find_project(app, name=project).name, id=task)
    return Hold(found, fence, session)


def beat(app: App, hold: Hold, *, lease: float = 0.0) -> Task:
    """A sign of life; the lease is renewed by the database's clock."""
    if hold.fence is None:
        raise UserError(f"Nobody here holds '{hold.task.label}'.", f"Take it first: {app.settings.program} claim")
    with _told(app, hold):
        task = leases.heartbeat(app.database, key=hold.task.key, fence=hold.fence, lease_seconds=lease)
    _touch(views.document(app, task).removesuffix(".md") + ".heartbeat")
    return task


# --- reporting -------------------------------------------------------------------------------------------


class Finished(Record):
    """A report that was believed, and why."""

    outcome: Outcome
    evidence: Evidence


def finish(
    app: App,
    hold: Hold,
    *,
    summary: str = "",
    accept_outside: str = "",
    also: Callable[[Transaction], None] | None = None,
) -> Finished:
    """Done, if the evidence says so: the check is green here and nothing outside the ownership was changed.

    `also` is written in the same transaction.
    """
    task = hold.task
    if hold.fence is not None and not task.ended:
        with _told(app, hold):
            task = leases.heartbeat(app.database, key=task.key, fence=hold.fence)
    evidence = _judge(app, task)
    record = evidence.record()
    refused = [path for path in evidence.outside if not accept_outside]
    if refused or (evidence.verdict is not None and not evidence.verdict.green):
        with app.database.transaction() as transaction:
            journal.append(transaction, "task.doubted", task=task, session=hold.session, **record)
        views.refresh(app, task.project)
        raise _refusal(app, task, evidence, refused)
    with _told(app, hold), app.database.transaction() as transaction:
        if evidence.outside:
            journal.append(
                transaction,
                "task.excused",
                task=task,
                session=hold.session,
                reason=accept_outside,
                outside=list(evidence.outside),
            )
            record["accepted"] = accept_outside
        if also is not None:
            also(transaction)
        outcome = outcomes.finish(
            transaction, key=task.key, fence=hold.fence, summary=summary, evidence=record, session=hold.session
        )
    _forget(app, hold)
    refresh_or_tell(app, task.project, f"Task {task.label} is done")
    return Finished(outcome, evidence)


def block(app: App, hold: Hold, *, reason: str) -> Outcome:
    """It cannot go on: the reason is kept for whoever helps."""
    with _told(app, hold):
        outcome = outcomes.block(app.database, key=hold.task.key, reason=reason, fence=hold.fence, session=hold.session)
    _forget(app, hold)
    refresh_or_tell(app, hold.task.project, f"Task {hold.task.label} is blocked")
    return outcome


def release(app: App, hold: Hold, *, reason: str = "") -> Task:
    """Give the task back unfinished."""
    if hold.fence is None:
        raise UserError(f"Nobody here holds '{hold.task.label}'.", "Nothing was changed.")
    with _told(app, hold):
        task = leases.release(app.database, key=hold.task.key, fence=hold.fence, reason=reason)
    _forget(app, hold)
    refresh_or_tell(app, task.project, f"Task {task.label} is free")
    return task


def _judge(app: App, task: Task) -> Evidence:
    from handoff.engine import evidence  # noqa: PLC0415 - only reports

    return evidence.gather(app, task)


def _refusal(app: App, task: Task, evidence: Evidence, outside: list[str]) -> Refused:
    program = app.settings.program
    if outside:
        shown = "\n".join(f"  {path}" for path in outside[:_SHOWN])
        if len(outside) > _SHOWN:
            shown += f"\n  and {len(outside) - _SHOWN} more"
        return Refused(
            f"'{task.label}' is not done: these changes are outside of what it owns:\n{shown}",
            f"Undo them, or tell who needs them: {program} block REASON. A person may say: --accept-outside REASON",
        )
    verdict = evidence.verdict
    tail = f"\n{verdict.tail}" if verdict and verdict.tail else ""
    word = f"`{verdict.command}` is {verdict.word}" if verdict else "its check is red"
    return Refused(f"'{task.label}' is not done: {word}.{tail}", "Mend it and report again; the task is still yours.")


class _told:  # noqa: N801 - reads as a word at its place of use
    """When the fence is old, the ticket of this folder is old too: forget it, and let the error tell who holds the task."""

    def __init__(self, app: App, hold: Hold) -> None:
        self.app, self.hold = app, hold

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Conflict):
            _forget(self.app, self.hold)


def _forget(app: App, hold: Hold) -> None:
    if hold.session:
        tickets.drop(app, hold.session)


def _touch(path: str) -> None:
    try:
        with open(path, "ab"):
            os.utime(path)
    except OSError:
        return  # a view for people who look at files; the lease is the truth
