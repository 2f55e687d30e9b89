"""From a report to the branch: judged, decided in one row, carried out by whoever finds that row.

Everything that can say no is asked before the row is written. After it only two things can happen that are no refusal: the
branch has moved (it is planned anew), or something of the person's is in the way (a person is asked).
"""

from __future__ import annotations

import os

from handoff.base.errors import Refused
from handoff.base.light_json import loads
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import forges
from handoff.board.events import journal
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import batches, decisions, outcomes, states, tasks
from handoff.engine.app.home import home_config, project_name
from handoff.engine.outcome.kinds import BRANCH, IN_ORDER, KINDS, Finished, is_judged_later, refuse_person
from handoff.engine.place.fanout import views

if TYPE_CHECKING:
    from typing import Any

    from handoff.board.tasks.outcomes import Outcome
    from handoff.board.tasks.tasks import Task
    from handoff.checks.commands import Verdict
    from handoff.engine.app import App
    from handoff.engine.outcome.kinds import CurrentClaim
    from handoff.engine.place.arrival import JudgedWork, SentBack
    from handoff.engine.place.proof.evidence import Evidence
    from handoff.git.workspaces import Workspace
    from handoff.store.database import Transaction


class Said(Record):
    """What a report says besides that it is done."""

    summary: str = ""
    accept_outside: str = ""
    minutes: float | None = None
    """How long the sessions of a batch took, where its fan-in is told."""
    by_person: bool = False
    """Whether a person says it of a task that nobody held: what is in the way is theirs to see now, and nobody else is asked."""


def report(app: App, held: CurrentClaim, said: Said) -> Finished:
    """Done, if the evidence says so: the check is green here and nothing outside the ownership was changed.

    Raises Refused (the session may mend it), Conflict where the task is in other hands. What was decided before and not carried
    out is carried out now, and not judged again.
    """
    task = held.task
    if said.accept_outside:
        _refuse_in_client(app, task, said.accept_outside)
    if held.fence is None and task.state == states.READY and not is_judged_later(task) and _has_clone(app, task):
        return _held_meanwhile(app, held, said)
    if held.fence is not None and not task.ended:
        task = _renew(app, task, held)
    if is_judged_later(task) and not task.ended:
        return _heard(app, task, held, said.summary)
    remote = "" if task.ended else home_config(app).text("git_remote")
    step, decided = task.baseline_facts.get("step"), None
    if not task.ended and (task.check_command or step or remote or said.minutes is not None or _has_clone(app, task)):
        decided = decisions.of_task(app.database, key=task.key)
    if decided is not None and decided.state == decisions.OPEN:
        from handoff.engine.outcome.carry_out import carry_out

        return carry_out(app, decided)
    if task.kind == tasks.FAN_IN and not task.ended:
        from handoff.engine.outcome import whole_check

        whole_check.refuse_unfinished(app, task)
    began = app.clock.now()
    evidence, clone, judged = _judge(app, task, held, said.summary)
    record = evidence.record()
    if "check" in record:
        record["check"]["judged_at"] = app.clock.now()
    if [path for path in evidence.outside if not said.accept_outside] or not (
        evidence.verdict is None or evidence.verdict.green
    ):
        return _refused(app, task, held, said, evidence, record, clone, judged)
    if clone is None and task.kind == tasks.FAN_IN and not task.ended:
        whole_check.refuse_not_landed(app, task)
    if evidence.outside:
        record["accepted"] = said.accept_outside
    follows = judged is not None or evidence.tree or step or remote or said.minutes is not None
    if task.ended or not follows:
        return Finished(_write_finished(app, task, held, said, record), evidence)
    return _decided(app, task, held, said, evidence, record, clone, judged, began)


def _refused(
    app: App,
    task: Task,
    held: CurrentClaim,
    said: Said,
    evidence: Evidence,
    record: dict[str, Any],
    clone: Workspace | None,
    judged: JudgedWork | None,
) -> Finished:
    """Not believed: raises why. Where it is not the session's doing, it is judged without a suite that says nothing, or parts go back."""
    with app.database.transaction() as transaction:
        journal.append(transaction, "task.rejected", task=task, session=held.session, **record)
    views.refresh(app, task.project)
    outside = [path for path in evidence.outside if not said.accept_outside]
    if not outside and evidence.verdict is not None:
        from handoff.engine.place.proof import faults

        freed = _without_suite(app, task, held.fence, clone, evidence.verdict)
        if freed is not None:
            return report(app, held._replace(task=freed), said)
        faults.refuse_unready(app, task, evidence.verdict, folder=clone.tree if clone else evidence.workspace)
        if clone is not None and judged is not None and (waits := _blame_parts(app, task, held, clone, judged)):
            return Finished(outcomes.Outcome(tasks.get(app.database, key=task.key)), evidence, waits=waits)
    raise evidence.refusal(task, outside, program=app.settings.program)


def _has_clone(app: App, task: Task) -> bool:
    from handoff.engine.place import task_clones

    return task_clones.of_task(app, task) is not None


def _held_meanwhile(app: App, held: CurrentClaim, said: Said) -> Finished:
    """A ready task that a person reports done is theirs until that is judged: no session begins it beside the landing."""
    with app.database.transaction() as transaction:
        task = leases.hold_for_report(transaction, held.task, host=app.settings.host)
    try:
        mine = held._replace(task=task, fence=task.fence, session=task.held_by or "")
        return report(app, mine, said._replace(by_person=True))
    except BaseException:
        now = tasks.get(app.database, key=task.key)
        if now.state == states.RUNNING and now.fence == task.fence:
            with app.database.transaction() as transaction:
                outcomes.let_go(transaction, task, state=states.READY, fence=task.fence, reason=held.task.reason)
        raise


def _decided(
    app: App,
    task: Task,
    held: CurrentClaim,
    said: Said,
    evidence: Evidence,
    record: dict[str, Any],
    clone: Workspace | None,
    judged: JudgedWork | None,
    began: float,
) -> Finished:
    """Keep the work, plan where it goes, write that down in one row, and carry it out."""
    from contextlib import ExitStack

    from handoff.engine.outcome import carry_out, reviews
    from handoff.engine.place import arrival, task_clones, task_work

    if held.fence is not None:
        _renew(app, task, held)  # a check may take long: whoever was replaced lands nothing
    intent: dict[str, Any] = {
        "session": "" if said.by_person else held.session,
        "by_person": said.by_person or held.fence is None,
        "summary": said.summary,
        "record": record,
        "minutes": said.minutes,
        "step": task.baseline_facts.get("step") or {},
        "notes": carry_out.notes_of(task, evidence, session=held.session, began=began),
        "folder": clone.tree if clone is not None else _worked_in(app, task, held.workspace),
    }
    with ExitStack() as turn:
        turn.enter_context(carry_out.alone(app, task.key))
        if clone is not None and judged is not None:
            record.update(task_work.keep(app, task, clone, judged))
            intent["onto"] = clone.target
            snapshot_store = task_clones.snapshot_store_of_project(app, task)
            if KINDS[task.kind].documents:
                carry_out.plan_documents(snapshot_store.store, task, clone, intent)
            asked = forges.of_task(app.database, task=task.key)
            on_request = asked is not None and asked.ref == clone.target  # that branch is ours: people look at it there
            mode = tasks.AUTO if on_request else _landing_mode(app, task)
            if mode != tasks.BRANCH and _lands(app, task):
                turn.enter_context(arrival.turn(snapshot_store))
                unplanned = dict(record)
                try:
                    intent["lands"] = True
                    plan = arrival.plan(app, snapshot_store, task, judged.member, onto=intent["onto"])
                    top = snapshot_store.place.source.top
                    carry_out.plan_landing(snapshot_store.store, top, task, plan, intent)
                    if mode == tasks.REVIEW and intent["landing"] and not intent["by_person"]:
                        carry_out.forget_plan(snapshot_store.store, task, intent, unplanned)
                        intent["risk"] = reviews.risk_of(snapshot_store.store.git, judged.member)
                        _ask_for_review(app, task, intent)
                except arrival.SentBack as error:
                    if held.fence is None or said.by_person:
                        raise
                    waits = _send_back(app, task, held, error)
                    return Finished(outcomes.Outcome(tasks.get(app.database, key=task.key)), evidence, waits=waits)
                except arrival.NotLanded as error:
                    if held.fence is None or said.by_person:
                        raise
                    with app.database.transaction() as transaction:
                        decision = _add(app, transaction, task, held, intent)
                        carry_out.ask(transaction, task, decision, intent, error)
                    reviews.stop_or_resume(app, task.project)
                    views.refresh_or_tell(app, task.project, f"Task {task.label} waits for a person")
                    waits = error.message
                    return Finished(outcomes.Outcome(tasks.get(app.database, key=task.key)), evidence, waits=waits)
        with app.database.transaction() as transaction:
            decision = _add(app, transaction, task, held, intent)
        return carry_out.carry(app, tasks.get(app.database, key=task.key), decision, evidence=evidence)


def _landing_mode(app: App, task: Task) -> str:
    """Whether it lands by itself, after a person's yes, or not: as its task says, else its batch, else the project's settings."""
    config = home_config(app)
    batch = batches.get(app.database, key=task.batch) if task.batch is not None else None
    wanted = str(loads(batch.manifest).get("land", "")) if batch is not None else ""
    own = str(task.baseline_facts.get(tasks.LANDING, ""))
    if task.is_from_inside and own == tasks.AUTO:
        own = ""  # what a session wrote lands no sooner than what a person wrote
    wanted = own or (wanted if wanted in tasks.LANDINGS else "")
    return wanted or str(config.values["landing_project"].get(task.project, "")) or config.text("landing")


def _ask_for_review(app: App, task: Task, intent: dict[str, Any]) -> None:
    """Work that could land waits for a person who looks at it."""
    from handoff.engine.place.arrival import NotLanded

    intent["review"] = True
    branch, record, program = intent["onto"].removeprefix("refs/heads/"), intent["record"], app.settings.program
    changed = len(record.get("changed", ()))
    question = f"Land '{task.label}' on {branch}? It is green and changes {number_of(changed, 'file')}."
    look = f"See it: git diff {branch}...{record['branch']}. " if record.get("branch") else ""
    if task.kind == tasks.FAN_IN and task.batch is not None:
        parts = [part for part in tasks.of_batch(app.database, batch=task.batch) if part.kind == tasks.SUB_TASK]
        done = number_of(sum(part.state == states.DONE for part in parts), "finished part")
        question, look = f"Land batch '{task.label}' on {branch}? It joins {done} and is green.", ""
    comment = f"{program} task comment {task.label} FILE:LINE TEXT"
    raise NotLanded(
        question,
        f"{look}Yes lands it. No sends it back: the next session reads your reason and your comments on its lines ({comment}).",
    )


def _lands(app: App, task: Task) -> bool:
    """Whether the work lands when it is believed: a part waits for its fan-in, unless the person said that parts land in order."""
    where = KINDS[task.kind].lands
    if where != IN_ORDER or task.batch is None:
        return where == BRANCH
    batch = batches.get(app.database, key=task.batch)
    # Most say nothing of it, and the words of a large batch are long to read.
    return batches.LAND_IN_ORDER in batch.manifest and bool(loads(batch.manifest).get("land") == batches.LAND_IN_ORDER)


def _add(
    app: App, transaction: Transaction, task: Task, held: CurrentClaim, intent: dict[str, Any]
) -> decisions.Decision:
    """The row. The sign of life in the same transaction: nobody gives the task away beside it."""
    if held.fence is not None:
        leases.heartbeat(transaction, key=task.key, fence=held.fence)
    host = app.settings.host
    return decisions.add(transaction, task, fence=held.fence or 0, session=held.session, host=host, intent=intent)


def _write_finished(app: App, task: Task, held: CurrentClaim, said: Said, record: dict[str, Any]) -> Outcome:
    """A report that has no effect but rows: no file, no branch, no note follows from it."""
    values: dict[str, Any] = {
        "fence": held.fence,
        "summary": said.summary,
        "evidence": record,
        "session": held.session,
    }
    if not record.get("accepted"):
        outcome = outcomes.finish(app.database, key=task.key, **values)
    else:
        from handoff.engine.outcome.carry_out import waive

        with app.database.transaction() as transaction:
            waive(transaction, task, held.session, record)
            outcome = outcomes.finish(transaction, key=task.key, **values)
    views.refresh_or_tell(app, task.project, f"Task {task.label} is done")
    return outcome


def _refuse_in_client(app: App, task: Task, reason: str) -> None:
    """A person's word comes from a terminal of theirs: inside a client the model would say it for them."""
    from handoff.base.markdown import shell_line

    client = client_here(app)
    if client:
        line = shell_line((app.settings.program, "task", "done", task.label, "--accept-outside", reason))
        raise Refused(
            f"Only a person accepts changes outside of what '{task.label}' owns, and this command runs inside {client}.",
            f"Your person types in a terminal of their own: cd {shell_line((task.workspace,))} && {line}",
        )


def client_here(app: App) -> str:
    """The client that this command runs inside, if it does."""
    from handoff.agents.catalog import client_in
    from handoff.base.process import words_above

    known = sessions.get(app.database, id=app.settings.get("HANDOFF_SESSION") or "-")
    if known is not None and known.kind == sessions.AGENT:
        return known.agent
    return client_in(words_above(), app.settings.environment)


def _without_suite(app: App, task: Task, fence: int | None, clone: Workspace | None, red: Verdict) -> Task | None:
    """A fan-in whose suite says nothing about the batch, to be judged without it."""
    if clone is None or task.kind != tasks.FAN_IN:
        return None
    from handoff.engine.outcome import whole_check

    return whole_check.drop(app, task, fence=fence, clone=clone, verdict=red)


def _blame_parts(app: App, task: Task, held: CurrentClaim, clone: Workspace, judged: JudgedWork) -> str:
    """A fan-in that has changed nothing answers for nothing: parts that make it red go back; what that is said with."""
    if task.kind != tasks.FAN_IN or held.fence is None:
        return ""
    from handoff.engine.place import arrival
    from handoff.engine.place.landing import conflict

    laid = conflict.of_workspace(clone)  # who settles a conflict may write nothing else
    if judged.member.touches and laid is None:
        return ""
    error = arrival.blame_parts(app, task, judged.member, onto=clone.target, laid=laid)
    return _send_back(app, task, held, error) if error is not None else ""


def _send_back(app: App, task: Task, held: CurrentClaim, error: SentBack) -> str:
    """The culprits are to be done again, with the evidence in their batons; their fan-in is free and waits for them."""
    with app.database.transaction() as transaction:
        reason = error.message.partition("\n")[0]
        outcomes.let_go(transaction, task, state=states.READY, fence=held.fence, reason=reason)
        for key, why in error.culprits.items():
            outcomes.send_back(transaction, key=key, reason=why, session=held.session)
    views.refresh_or_tell(app, task.project, f"Parts of {task.label} are sent back")
    return error.message


def _renew(app: App, task: Task, held: CurrentClaim) -> Task:
    renewed = leases.heartbeat(app.database, key=task.key, fence=held.fence or 0)
    if renewed.state != task.state:  # thought dead, and back: its files offered the task to others
        views.refresh(app, task.project)
    return renewed


def _heard(app: App, task: Task, held: CurrentClaim, summary: str) -> Finished:
    """What is judged when its session is over: that it was reported is written down, and nothing follows."""
    from handoff.engine.place.proof.evidence import Evidence

    if held.fence is None:
        refuse_person(task, KINDS[task.kind].called_done, app.settings.program)
    with app.database.transaction() as transaction:
        journal.append(transaction, "task.reported", task=task, session=held.session, summary=summary)
    return Finished(outcomes.Outcome(task), Evidence(head="", changed=(), outside=(), verdict=None))


def _judge(
    app: App, task: Task, held: CurrentClaim, summary: str
) -> tuple[Evidence, Workspace | None, JudgedWork | None]:
    from handoff.engine.place import task_clones
    from handoff.engine.place.proof import evidence

    clone = None if task.ended else task_clones.of_task(app, task)
    if clone is not None and held.workspace in ("", clone.tree):
        from handoff.engine.place import task_work

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
