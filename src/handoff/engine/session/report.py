"""A task in a person's or a session's hands: taken, reported, given back. What becomes of a report: engine/outcome."""

from __future__ import annotations

import os

from handoff.base.errors import Conflict, HandoffError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import outcomes, tasks
from handoff.board.tasks.states import RUNNING
from handoff.engine.app.home import find_project, home_config, labels_of
from handoff.engine.outcome import kinds
from handoff.engine.place.fanout import files, views
from handoff.engine.session import claims
from handoff.engine.session.current import dropping_stale_claim, forget

if TYPE_CHECKING:
    from handoff.base.settings import Config
    from handoff.board.sessions.leases import Claim
    from handoff.board.tasks.outcomes import Outcome
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.outcome.kinds import CurrentClaim, Finished

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
    by_model: bool = False,
    workspace: str = "",
) -> Claim:
    """Claim a task, the named one or the next; the ticket is written first, so that a killed claim is taken up again."""
    config = home_config(app)
    place = find_project(app, name=project, workspace=workspace)
    local_claim = claims.begin(app, session=session, workspace=place.workspace)
    who = sessions.SessionIdentity(
        id=local_claim.session,
        project=place.name,
        agent=agent,
        workspace=place.workspace,
        host=app.settings.host,
        labels=labels_of(app, said=labels),
    )
    claim: Claim | None = None
    try:
        found = tasks.find(app.database, project=place.name, id=task) if task else None
        claim = claim_as(
            app, config, who, task=refuse_agents_own(app, found), role=role, lease=lease, by_hand=not by_model
        )
    finally:
        if claim is None:
            claims.drop(app, local_claim.session)
    taken = claim.task
    claims.keep(app, local_claim._replace(fence=claim.fence, key=taken.key, project=taken.project, task=taken.label))
    if not claim.repeated and taken.patterns:
        from handoff.engine.place.proof.evidence import note_claim

        note_claim(app, taken, workspace=taken.workspace or place.workspace)
    if not claim.repeated and taken.batch is not None:
        from handoff.engine.safety import incidents

        incidents.look(app)  # how everything is before it begins: what passes the guard can be seen by comparing alone
    if not claim.repeated and not workspace:
        _tell_unfinished(app, taken)
    views.refresh_or_tell(app, place.name, f"You hold {taken.label} with fence {claim.fence}")
    return claim


def _tell_unfinished(app: App, task: Task) -> None:
    """Whoever takes a task over by hand works in their own checkout: what earlier sessions made lies in the task's clone."""
    if not os.path.isdir(os.path.join(app.settings.home, task.project, "workspaces")):
        return  # most projects that are worked on by hand have none: a claim stays quick
    from handoff.engine.place import task_clones

    clone = task_clones.of_task(app, task)
    if clone is None:
        return
    from handoff.base.markdown import number_of, shell_line
    from handoff.engine.place import task_work

    try:
        paths = task_work.made(app, task, clone)
    except HandoffError:
        app.notes.append(f"Earlier sessions of '{task.label}' worked in {clone.tree}, which cannot be read.")
        return
    if paths:
        only = [f"--path={path}" for path in paths] if len(paths) <= _SHOWN else []
        words = ["snapshot", "restore", "--session", clone.name, "--here", *only]
        app.notes.append(
            f"Earlier sessions of '{task.label}' left {number_of(len(paths), 'changed file')} in {clone.tree}, not in your"
            f" checkout. Bring that here: {shell_line([app.settings.program, *words])}"
        )


def claim_as(
    app: App,
    config: Config,
    who: sessions.SessionIdentity,
    *,
    task: Task | None,
    role: str = "",
    lease: float = 0.0,
    by_hand: bool = False,
) -> Claim:
    """Claim this task, or the next one, for a session, within the limits of the settings and unless it is paused.

    A pause is for supervisors and agents: a person who names a task in a terminal of theirs gets it all the same.
    """
    stops = files.read_stop_files(app, who.project)
    agents = config.values["max_running_agent"]
    limits = leases.ClaimLimits(
        int(config.number("max_running")), int(config.number("max_running_project")), int(agents.get(who.agent, 0))
    )
    seconds = lease or config.number("lease_seconds")
    if task is not None:
        by_hand = by_hand and bool(stops)
        if by_hand:
            from handoff.engine.outcome.chain import client_here

            by_hand = not client_here(app)
        return leases.claim(app.database, key=task.key, who=who, lease_seconds=seconds, limits=limits, by_hand=by_hand)
    claim = leases.claim_next(
        app.database, who=who, project=who.project, role=role, lease_seconds=seconds, limits=limits
    )
    if claim is None:
        why = leases.why_idle(app.database, who=who, project=who.project, limits=limits)
        raise UserError(f"Nothing to take in project {who.project}: {why}.", f"See: {app.settings.program} task list")
    return claim


def refuse_agents_own(app: App, task: Task | None) -> Task | None:
    """Refuse what is for a session that handoff starts: a person does it in another way."""
    if task is not None:
        kinds.refuse_person(task, kinds.KINDS[task.kind].by_hand, app.settings.program)
    return task


# --- reporting -------------------------------------------------------------------------------------------


def finish(
    app: App, held: CurrentClaim, *, summary: str = "", accept_outside: str = "", minutes: float | None = None
) -> Finished:
    """Done, if the evidence says so; see engine/outcome/chain.py. The ticket of this folder has served then."""
    from handoff.engine.outcome.chain import Said, report

    try:
        done = report(app, held, Said(app.clean(summary), accept_outside, minutes))
    except Conflict:
        if held.fence is not None and not _is_held(app, held):
            forget(app, held)
        raise
    if done.outcome.task.ended or done.waits:
        forget(app, held)
    return done


def _is_held(app: App, held: CurrentClaim) -> bool:
    task = tasks.get(app.database, key=held.task.key)
    return task.fence == held.fence and task.state == RUNNING


def block(app: App, held: CurrentClaim, *, reason: str) -> Outcome:
    """It cannot go on: the reason is kept for whoever helps."""
    reason = app.clean(reason)
    with dropping_stale_claim(app, held):
        outcome = outcomes.block(app.database, key=held.task.key, reason=reason, fence=held.fence, session=held.session)
    forget(app, held)
    views.refresh_or_tell(app, held.task.project, f"Task {held.task.label} is blocked")
    return outcome


def release(app: App, held: CurrentClaim, *, reason: str = "") -> Task:
    """Give the task back unfinished."""
    from handoff.board.sessions import holds

    reason = app.clean(reason)
    if held.fence is None:
        raise UserError(f"Nobody here holds '{held.task.label}'.", "Nothing was changed.")
    with dropping_stale_claim(app, held), app.database.transaction() as transaction:
        task = leases.release(transaction, key=held.task.key, fence=held.fence, reason=reason)
        holds.release_task(transaction, key=task.key)  # also what a person had kept for themselves
    forget(app, held)
    views.refresh_or_tell(app, task.project, f"Task {task.label} is free")
    return task
