"""A task's journey: taken, kept, reported. Every report is judged on evidence."""

from __future__ import annotations

import os

from handoff.base.errors import Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import outcomes, tasks
from handoff.engine.fanout import stop_files, views
from handoff.engine.home import find_project, home_config, labels_of, name_of
from handoff.engine.tasks import claims
from handoff.engine.tasks.current import dropping_stale_claim, forget
from handoff.engine.tasks.kinds import BY_KIND

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.board.sessions.leases import Claim
    from handoff.board.tasks.outcomes import Outcome
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.proof.evidence import Evidence
    from handoff.engine.tasks.current import CurrentClaim
    from handoff.engine.workspaces.task_work import JudgedWork
    from handoff.git.workspaces.workspaces import Workspace
    from handoff.store.database import Transaction

_SHOWN = 20


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
    labels: str = "",
) -> Claim:
    """Claim a task, the named one or the next; the ticket is written first, so that a killed claim is taken up again."""
    config = home_config(app)
    place = find_project(app, name=project)
    stop_files.read_files(app, place.name)
    agents = config.values["max_running_agent"]
    limits = leases.ClaimLimits(
        int(config.number("max_running")), int(config.number("max_running_project")), int(agents.get(agent, 0))
    )
    local_claim = claims.begin(app, session=session, workspace=place.workspace)
    who = sessions.SessionIdentity(
        id=local_claim.session,
        project=place.name,
        agent=agent,
        workspace=place.workspace,
        host=app.settings.host,
        labels=labels_of(app, said=labels),
    )
    seconds = lease or config.number("lease_seconds")
    claim: Claim | None = None
    try:
        if task:
            key = _for_a_tab(app, tasks.find(app.database, project=place.name, id=task)).key
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
            claims.drop(app, local_claim.session)
    taken = claim.task
    claims.keep(app, local_claim._replace(fence=claim.fence, key=taken.key, project=taken.project, task=taken.label))
    if not claim.repeated and taken.patterns:
        from handoff.engine.proof.evidence import note_claim

        note_claim(app, taken, workspace=taken.workspace or place.workspace)
    views.refresh_or_tell(app, place.name, f"You hold {taken.label} with fence {claim.fence}")
    return claim


def _for_a_tab(app: App, task: Task) -> Task:
    if task.kind in BY_KIND:
        raise Refused(
            f"'{task.label}' is a phase of a flow: its session works in the flow's own workspace.",
            f"Do it yourself: {app.settings.program} flow step {task.scope} --agent person",
        )
    return task


# --- reporting -------------------------------------------------------------------------------------------


class Finished(Record):
    """A report that was believed, and why."""

    outcome: Outcome
    evidence: Evidence
    trouble: str = ""
    """Why the record in git could not be written; the task is done all the same."""


def finish(
    app: App,
    current_claim: CurrentClaim,
    *,
    summary: str = "",
    accept_outside: str = "",
    also: Callable[[Transaction], None] | None = None,
) -> Finished:
    """Done, if the evidence says so: the check is green here and nothing outside the ownership was changed.

    `also` is written in the same transaction.
    """
    task = current_claim.task
    if current_claim.fence is not None and not task.ended:
        task = _renew(app, task, current_claim)
    if task.kind in BY_KIND and not task.ended:
        return _heard(app, task, current_claim, summary)
    began = app.clock.now()
    evidence, clone, judged = _judge(app, task, current_claim, summary)
    record = evidence.record()
    refused = [path for path in evidence.outside if not accept_outside]
    if refused or (evidence.verdict is not None and not evidence.verdict.green):
        with app.database.transaction() as transaction:
            journal.append(transaction, "task.rejected", task=task, session=current_claim.session, **record)
        views.refresh(app, task.project)
        raise _refusal(app, task, evidence, refused)
    if clone is not None and judged is not None:
        from handoff.engine.workspaces import task_work

        if current_claim.fence is not None and not task.ended:
            _renew(app, task, current_claim)  # a check may take long: whoever was replaced lands nothing
        record.update(task_work.keep(app, task, clone, judged))
    trouble = _put_on_record(app, task, evidence, current_claim.session, began)
    _publish(app, task, current_claim, clone)
    with dropping_stale_claim(app, current_claim), app.database.transaction() as transaction:
        if evidence.outside:
            journal.append(
                transaction,
                "task.waived",
                task=task,
                session=current_claim.session,
                reason=accept_outside,
                outside=list(evidence.outside),
            )
            record["accepted"] = accept_outside
        if also is not None:
            also(transaction)
        outcome = outcomes.finish(
            transaction,
            key=task.key,
            fence=current_claim.fence,
            summary=summary,
            evidence=record,
            session=current_claim.session,
        )
    forget(app, current_claim)
    views.refresh_or_tell(app, task.project, f"Task {task.label} is done")
    return Finished(outcome, evidence, trouble)


def _renew(app: App, task: Task, current_claim: CurrentClaim) -> Task:
    with dropping_stale_claim(app, current_claim):
        return leases.heartbeat(app.database, key=task.key, fence=current_claim.fence or 0)


def _heard(app: App, task: Task, current_claim: CurrentClaim, summary: str) -> Finished:
    """A phase of a flow is judged when its session is over; that it was reported is written down, and nothing follows."""
    from handoff.engine.proof.evidence import Evidence

    if current_claim.fence is None:
        raise Refused(
            f"'{task.label}' is a phase of a flow: it is done when its check says so.",
            f"Do it now: {app.settings.program} flow step {task.scope}. Or pass it over: flow step {task.scope} --skip REASON",
        )
    with app.database.transaction() as transaction:
        journal.append(transaction, "task.reported", task=task, session=current_claim.session, summary=summary)
    return Finished(outcomes.Outcome(task), Evidence(head="", changed=(), outside=(), verdict=None))


def _put_on_record(app: App, task: Task, evidence: Evidence, session: str, began: float) -> str:
    """A note on the commit, before the row: a killed report is made again and finds the same note."""
    if not evidence.tree:
        return ""
    from handoff.engine.proof import git_notes

    return git_notes.record_finished(app, task, evidence, session=session, began=began)


def block(app: App, current_claim: CurrentClaim, *, reason: str) -> Outcome:
    """It cannot go on: the reason is kept for whoever helps."""
    with dropping_stale_claim(app, current_claim):
        outcome = outcomes.block(
            app.database,
            key=current_claim.task.key,
            reason=reason,
            fence=current_claim.fence,
            session=current_claim.session,
        )
    forget(app, current_claim)
    views.refresh_or_tell(app, current_claim.task.project, f"Task {current_claim.task.label} is blocked")
    return outcome


def release(app: App, current_claim: CurrentClaim, *, reason: str = "") -> Task:
    """Give the task back unfinished."""
    if current_claim.fence is None:
        raise UserError(f"Nobody here holds '{current_claim.task.label}'.", "Nothing was changed.")
    with dropping_stale_claim(app, current_claim):
        task = leases.release(app.database, key=current_claim.task.key, fence=current_claim.fence, reason=reason)
    forget(app, current_claim)
    views.refresh_or_tell(app, task.project, f"Task {task.label} is free")
    return task


def _publish(app: App, task: Task, current_claim: CurrentClaim, clone: Workspace | None) -> None:
    """Whoever comes after this task may be on another machine: done means that they can have it."""
    if not task.ended and home_config(app).text("git_remote"):
        from handoff.engine.workspaces import publish

        fence = task.fence if current_claim.fence is None else current_claim.fence
        folder = clone.tree if clone is not None else _worked_in(task, current_claim.workspace)
        publish.publish(app, task=task, fence=fence, folder=folder, session=current_claim.session)


def _judge(
    app: App, task: Task, current_claim: CurrentClaim, summary: str
) -> tuple[Evidence, Workspace | None, JudgedWork | None]:
    from handoff.engine.proof import evidence
    from handoff.engine.workspaces import task_clones

    clone = None if task.ended else task_clones.of_task(app, task)
    if clone is not None and current_claim.workspace in ("", clone.tree):
        from handoff.engine.workspaces import task_work

        judged = task_work.judge(app, task, clone, summary=summary)
        return judged.evidence, clone, judged
    folder = _worked_in(task, current_claim.workspace)
    run = None
    if task_clones.is_sandboxed(app, project=task.project, session=current_claim.session):
        from handoff.engine.workspaces import task_work

        run = lambda: task_work.run_check(app, task, folder)  # noqa: E731 - two words
    return evidence.gather(app, task, workspace=folder, run=run), None, None


def _worked_in(task: Task, claimed_in: str) -> str:
    """A session that claimed in a worktree of the project has worked there; any other folder says nothing."""
    own = claimed_in not in ("", task.workspace) and os.path.isdir(claimed_in) and name_of(claimed_in) == task.project
    return claimed_in if own else task.workspace


def _refusal(app: App, task: Task, evidence: Evidence, outside: list[str]) -> Refused:
    program = app.settings.program
    if outside:
        shown = "\n".join(f"  {path}" for path in outside[:_SHOWN])
        if len(outside) > _SHOWN:
            shown += f"\n  and {len(outside) - _SHOWN} more"
        return Refused(
            f"'{task.label}' is not done: since it was claimed, these files changed that it does not own:\n{shown}",
            f"If you changed them, take that back. If somebody else did, leave them alone; a person then says:"
            f" {program} done {task.label} --accept-outside WHOSE",
        )
    verdict = evidence.verdict
    tail = f"\n{verdict.tail}" if verdict and verdict.tail else ""
    word = f"`{verdict.command}` is {verdict.word}" if verdict else "its check is red"
    return Refused(f"'{task.label}' is not done: {word}.{tail}", "Fix it and report again; the task is still yours.")
