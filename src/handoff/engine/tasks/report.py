"""A task's journey: taken, kept, reported. Every report is judged on evidence."""

from __future__ import annotations

import os

from handoff.base.errors import HandoffError, Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import outcomes, tasks
from handoff.board.tasks.states import READY
from handoff.engine.fanout import stop_files, views
from handoff.engine.home import find_project, home_config, labels_of, project_name
from handoff.engine.tasks import claims
from handoff.engine.tasks.current import dropping_stale_claim, forget
from handoff.engine.tasks.kinds import BY_KIND
from handoff.store.database import beside_others

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.base.settings import Config
    from handoff.board.sessions.leases import Claim
    from handoff.board.tasks.outcomes import Outcome
    from handoff.board.tasks.tasks import Task
    from handoff.checks.commands import Verdict
    from handoff.engine.app import App
    from handoff.engine.proof.evidence import Evidence
    from handoff.engine.tasks.current import CurrentClaim
    from handoff.engine.workspaces.arrival import JudgedWork, SentBack
    from handoff.git.workspaces.workspaces import Workspace
    from handoff.store.database import Store, Transaction

    AlsoWritten = Callable[[Transaction], None]

_SHOWN = 20
JUDGED = "task.judged"  # in the journal: believed and kept, but not landed yet


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
) -> Claim:
    """Claim a task, the named one or the next; the ticket is written first, so that a killed claim is taken up again."""
    config = home_config(app)
    place = find_project(app, name=project)
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
        claim = claim_as(app, config, who, task=_refuse_phase(app, found), role=role, lease=lease, by_hand=not by_model)
    finally:
        if claim is None:
            claims.drop(app, local_claim.session)
    taken = claim.task
    claims.keep(app, local_claim._replace(fence=claim.fence, key=taken.key, project=taken.project, task=taken.label))
    if not claim.repeated and taken.patterns:
        from handoff.engine.proof.evidence import note_claim

        note_claim(app, taken, workspace=taken.workspace or place.workspace)
    if not claim.repeated and taken.batch is not None:
        from handoff.engine.safety import incidents

        incidents.look(app)  # how everything is before it begins: what passes the guard can be seen by comparing alone
    if not claim.repeated:
        _tell_unfinished(app, taken)
    views.refresh_or_tell(app, place.name, f"You hold {taken.label} with fence {claim.fence}")
    return claim


def _tell_unfinished(app: App, task: Task) -> None:
    """Whoever takes a task over by hand works in their own checkout: what earlier sessions made lies in the task's clone."""
    if not os.path.isdir(os.path.join(app.settings.home, task.project, "workspaces")):
        return  # most projects that are worked on by hand have none: a claim stays quick
    from handoff.engine.workspaces import task_clones

    clone = task_clones.of_task(app, task)
    if clone is None:
        return
    from handoff.base.markdown import number_of, shell_line
    from handoff.engine.workspaces import task_work

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
    stops = stop_files.read_files(app, who.project)
    agents = config.values["max_running_agent"]
    limits = leases.ClaimLimits(
        int(config.number("max_running")), int(config.number("max_running_project")), int(agents.get(who.agent, 0))
    )
    seconds = lease or config.number("lease_seconds")
    if task is not None:
        by_hand = by_hand and bool(stops) and not _client_here(app)
        return leases.claim(app.database, key=task.key, who=who, lease_seconds=seconds, limits=limits, by_hand=by_hand)
    claim = leases.claim_next(
        app.database, who=who, project=who.project, role=role, lease_seconds=seconds, limits=limits
    )
    if claim is None:
        why = leases.why_idle(app.database, who=who, project=who.project, limits=limits)
        raise UserError(f"Nothing to take in project {who.project}: {why}.", f"See: {app.settings.program} task list")
    return claim


def _refuse_phase(app: App, task: Task | None) -> Task | None:
    if task is not None and task.kind == tasks.PLAN:
        raise Refused(
            f"'{task.label}' is for an agent: its session plans a split in a clone of its own.",
            f"Write the manifest yourself instead: {app.settings.program} batch example",
        )
    if task is not None and task.kind in BY_KIND:
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
    waits: str = ""
    """What keeps the work from landing: it is judged and kept, and a person is asked."""
    ticked: str = ""
    """What became of the step of a plan it was made from."""


def finish(
    app: App,
    held: CurrentClaim,
    *,
    summary: str = "",
    accept_outside: str = "",
    also: AlsoWritten | None = None,
) -> Finished:
    """Done, if the evidence says so: the check is green here and nothing outside the ownership was changed.

    `also` is written in the same transaction.
    """
    task, summary = held.task, app.clean(summary)
    if accept_outside:
        _refuse_in_client(app, task, accept_outside)
    if held.fence is not None and not task.ended:
        task = _renew(app, task, held)
    if task.kind in BY_KIND and not task.ended:
        return _heard(app, task, held, summary)
    if task.kind == tasks.FAN_IN and not task.ended:
        from handoff.engine.tasks.manifests import whole_check

        whole_check.refuse_unfinished(app, task)
    began = app.clock.now()
    evidence, clone, judged = _judge(app, task, held, summary)
    record = evidence.record()
    if "check" in record:
        record["check"]["judged_at"] = app.clock.now()
    refused = [path for path in evidence.outside if not accept_outside]
    if refused or (evidence.verdict is not None and not evidence.verdict.green):
        with app.database.transaction() as transaction:
            journal.append(transaction, "task.rejected", task=task, session=held.session, **record)
        views.refresh(app, task.project)
        if not refused and evidence.verdict is not None:
            from handoff.engine.proof import faults

            freed = _without_suite(app, task, held.fence, clone, evidence.verdict)
            if freed is not None:
                return finish(app, held._replace(task=freed), summary=summary, accept_outside=accept_outside, also=also)
            faults.refuse_unready(app, task, evidence.verdict, folder=clone.tree if clone else evidence.workspace)
            if clone is not None and judged is not None and (waits := _blame_parts(app, task, held, clone, judged)):
                return Finished(outcomes.Outcome(tasks.get(app.database, key=task.key)), evidence, waits=waits)
        raise evidence.refusal(task, refused, program=app.settings.program)
    if clone is None and task.kind == tasks.FAN_IN and not task.ended:
        whole_check.refuse_not_landed(app, task)
    if clone is not None and judged is not None and (waits := _keep(app, task, held, clone, judged, record, summary)):
        return Finished(outcomes.Outcome(tasks.get(app.database, key=task.key)), evidence, waits=waits)
    trouble = _put_on_record(app, task, evidence, held.session, began) or _carry_records(app, task, record)
    _publish(app, task, held, clone)
    if evidence.outside:
        record["accepted"] = accept_outside
    with dropping_stale_claim(app, held):
        outcome = _write_finished(app.database, task, held, summary, record, also)
    forget(app, held)
    views.refresh_or_tell(app, task.project, f"Task {task.label} is done")
    ticked, why_not = tick_step(app, task, record)
    return Finished(outcome, evidence, trouble or why_not, ticked=ticked)


def _refuse_in_client(app: App, task: Task, reason: str) -> None:
    """A person's word comes from a terminal of theirs: inside a client the model would say it for them."""
    from handoff.base.markdown import shell_line

    client = _client_here(app)
    if client:
        line = shell_line((app.settings.program, "task", "done", task.label, "--accept-outside", reason))
        raise Refused(
            f"Only a person accepts changes outside of what '{task.label}' owns, and this command runs inside {client}.",
            f"Your person types in a terminal of their own: cd {shell_line((task.workspace,))} && {line}",
        )


def _client_here(app: App) -> str:
    """The client that this command runs inside, if it does."""
    from handoff.agents.catalog import client_in
    from handoff.base.process import words_above

    known = sessions.get(app.database, id=app.settings.get("HANDOFF_SESSION") or "-")
    return known.agent if known is not None and known.kind == sessions.AGENT else client_in(words_above())


@beside_others
def _write_finished(
    store: Store, task: Task, held: CurrentClaim, summary: str, record: dict[str, Any], also: AlsoWritten | None
) -> Outcome:
    """The last word on it, with all that belongs to it; who finishes something else meanwhile is not waited for."""
    said: dict[str, Any] = {"fence": held.fence, "summary": summary, "evidence": record, "session": held.session}
    if also is None and not record.get("accepted"):
        return outcomes.finish(store, key=task.key, **said)
    with store.transaction(scopes=None if held.fence is None or also is not None else ()) as transaction:
        if record.get("accepted"):
            why = {"reason": record["accepted"], "outside": record["outside"]}
            journal.append(transaction, "task.waived", task=task, session=held.session, **why)
        if also is not None:
            also(transaction)
        return outcomes.finish(transaction, key=task.key, **said)


def tick_step(app: App, task: Task, record: dict[str, Any]) -> tuple[str, str]:
    """One list, not two: the step of a plan that a task was made from is ticked when its check was green. Words, or why not."""
    made_from = task.baseline_facts.get("step")
    if not made_from or not (record.get("check") or {}).get("green"):
        return "", ""
    from handoff.engine.features import plan_steps

    try:
        return plan_steps.tick(app, made_from=made_from, head=str(record.get("landed") or record.get("head") or "")), ""
    except HandoffError as error:
        return "", f"The task is done, but its step is not ticked: {error.message}"


def _keep(
    app: App, task: Task, held: CurrentClaim, clone: Workspace, judged: JudgedWork, record: dict[str, Any], summary: str
) -> str:
    """Put the judged work where it belongs. What keeps it from landing is told, and asked of a person: no session can move that."""
    from handoff.engine.workspaces import arrival, task_work

    if held.fence is not None and not task.ended:
        _renew(app, task, held)  # a check may take long: whoever was replaced lands nothing
    try:
        record.update(task_work.keep(app, task, clone, judged))
    except arrival.SentBack as error:
        if held.fence is None:
            raise
        return _send_back(app, task, held, error)
    except arrival.NotLanded as error:
        if held.fence is None:
            raise
        from handoff.board import gates
        from handoff.board.tasks.states import DONE

        with dropping_stale_claim(app, held), app.database.transaction() as transaction:
            journal.append(
                transaction, JUDGED, task=task, session=held.session, summary=summary, onto=clone.target, **record
            )
            question = f"{error.message}\n{error.hint}"
            gates.ask(transaction, key=task.key, question=question, fence=held.fence, on_yes=DONE)
        forget(app, held)
        views.refresh_or_tell(app, task.project, f"Task {task.label} waits for a person")
        return error.message
    return ""


def _without_suite(app: App, task: Task, fence: int | None, clone: Workspace | None, red: Verdict) -> Task | None:
    """A fan-in whose suite says nothing about the batch, to be judged without it."""
    if clone is None or task.kind != tasks.FAN_IN:
        return None
    from handoff.engine.tasks.manifests import whole_check

    return whole_check.drop(app, task, fence=fence, clone=clone, verdict=red)


def _blame_parts(app: App, task: Task, held: CurrentClaim, clone: Workspace, judged: JudgedWork) -> str:
    """A fan-in that has changed nothing answers for nothing: parts that make it red go back; what that is said with."""
    if task.kind != tasks.FAN_IN or held.fence is None:
        return ""
    from handoff.engine.workspaces import arrival
    from handoff.engine.workspaces.landing import conflict

    laid = conflict.of_workspace(clone)  # who settles a conflict may write nothing else
    if judged.member.touches and laid is None:
        return ""
    error = arrival.blame_parts(app, task, judged.member, onto=clone.target, laid=laid)
    return _send_back(app, task, held, error) if error is not None else ""


def _send_back(app: App, task: Task, held: CurrentClaim, error: SentBack) -> str:
    """The culprits are to be done again, with the evidence in their batons; their fan-in is free and waits for them."""
    with dropping_stale_claim(app, held), app.database.transaction() as transaction:
        outcomes.let_go(transaction, task, state=READY, fence=held.fence, reason=error.message.partition("\n")[0])
        for key, reason in error.culprits.items():
            outcomes.send_back(transaction, key=key, reason=reason, session=held.session)
    forget(app, held)
    views.refresh_or_tell(app, task.project, f"Parts of {task.label} are sent back")
    return error.message


def _renew(app: App, task: Task, held: CurrentClaim) -> Task:
    with dropping_stale_claim(app, held):
        renewed = leases.heartbeat(app.database, key=task.key, fence=held.fence or 0)
    if renewed.state != task.state:  # thought dead, and back: its files offered the task to others
        views.refresh(app, task.project)
    return renewed


def _heard(app: App, task: Task, held: CurrentClaim, summary: str) -> Finished:
    """A phase of a flow is judged when its session is over; that it was reported is written down, and nothing follows."""
    from handoff.engine.proof.evidence import Evidence

    if held.fence is None and task.kind == tasks.PLAN:
        raise Refused(
            f"'{task.label}' is done when you have answered what it proposes.",
            f"End it: {app.settings.program} cancel {task.label}",
        )
    if held.fence is None:
        raise Refused(
            f"'{task.label}' is a phase of a flow: it is done when its check says so.",
            f"Do it now: {app.settings.program} flow step {task.scope}. Or pass it over: flow step {task.scope} --skip REASON",
        )
    with app.database.transaction() as transaction:
        journal.append(transaction, "task.reported", task=task, session=held.session, summary=summary)
    return Finished(outcomes.Outcome(task), Evidence(head="", changed=(), outside=(), verdict=None))


def _put_on_record(app: App, task: Task, evidence: Evidence, session: str, began: float) -> str:
    """A note on the commit, before the row: a killed report is made again and finds the same note."""
    if not evidence.tree:
        return ""
    from handoff.engine.proof import git_notes

    return git_notes.record_finished(app, task, evidence, session=session, began=began)


def _carry_records(app: App, task: Task, record: dict[str, Any]) -> str:
    """What was recorded of parts before they landed goes to the commits they became."""
    if not record.get("landed") or len(record.get("parts", ())) < 1 or task.batch is None:
        return ""
    from handoff.engine.proof import git_notes

    return git_notes.carry(app, task.workspace, list(dict.fromkeys(record["parts"])), landed=str(record["landed"]))


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


def _publish(app: App, task: Task, held: CurrentClaim, clone: Workspace | None) -> None:
    """Whoever comes after this task may be on another machine: done means that they can have it."""
    if not task.ended and home_config(app).text("git_remote"):
        from handoff.engine.workspaces import publish

        fence = task.fence if held.fence is None else held.fence
        folder = clone.tree if clone is not None else _worked_in(app, task, held.workspace)
        publish.publish(app, task=task, fence=fence, folder=folder, session=held.session)


def _judge(
    app: App, task: Task, held: CurrentClaim, summary: str
) -> tuple[Evidence, Workspace | None, JudgedWork | None]:
    from handoff.engine.proof import evidence
    from handoff.engine.workspaces import task_clones

    clone = None if task.ended else task_clones.of_task(app, task)
    if clone is not None and held.workspace in ("", clone.tree):
        from handoff.engine.workspaces import task_work

        judged = task_work.judge(app, task, clone, summary=summary)
        return judged.evidence, clone, judged
    if clone is None and not task.ended and task_clones.has_lost_its_clone(app, task, session=held.session):
        name, program = task_clones.name_of(task), app.settings.program
        raise Refused(
            f"'{task.label}' cannot be judged: the workspace {name} its session worked in is gone.",
            f"Bring it back: {program} workspace revive {name}. Or give the task back: {program} task release {task.label}",
        )
    folder = _worked_in(app, task, held.workspace)
    sandboxed = task.is_from_inside or task_clones.is_sandboxed(app, project=task.project, session=held.session)
    return evidence.gather(app, task, workspace=folder, sandboxed=sandboxed), None, None


def _worked_in(app: App, task: Task, claimed_in: str) -> str:
    """A session that claimed in a worktree of the project has worked there; any other folder says nothing."""
    own = (
        claimed_in not in ("", task.workspace)
        and os.path.isdir(claimed_in)
        and project_name(app, claimed_in) == task.project
    )
    return claimed_in if own else task.workspace
