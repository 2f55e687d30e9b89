"""Do what was decided about finished work. Every step may be repeated after any death; the last one writes all rows or none.

In this order: the branch, the records on its commits, the documents and the step of a plan, what others fetch, the rows. What
can be lost comes before the rows, what only tidies up after them.
"""

from __future__ import annotations

import os
from contextlib import nullcontext, suppress

from handoff.base.errors import HandoffError
from handoff.base.files import locked, make_folder
from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import leases
from handoff.board.tasks import batches, decisions, outcomes, states, tasks
from handoff.engine.app.home import home_config
from handoff.engine.features import plan_steps
from handoff.engine.outcome import kinds
from handoff.engine.outcome.kinds import Finished
from handoff.engine.place import arrival, brought_home, publish, task_clones
from handoff.engine.place.fanout import views
from handoff.engine.place.landing.members import target_of
from handoff.engine.place.proof import git_notes
from handoff.engine.place.proof.evidence import Evidence
from handoff.git.landing.target import InTheWay, Landing
from handoff.git.snapshots.restore import tree_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

    from handoff.board.tasks.decisions import Decision
    from handoff.board.tasks.outcomes import Outcome
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.place.arrival import LandingPlan
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.workspaces import Workspace
    from handoff.store.database import Transaction

JUDGED = "task.judged"  # in the journal: believed and kept, but not landed yet
PLANNED = "refs/handoff/decided/"
"""In the store: the tip that a branch is to have, which nothing else points at yet."""
_TRIES = 5
_PATIENCE_SECONDS = 1800.0
_LOCKS = 97  # files, not one for each task there ever was


class GateAnswer(Record):
    """A person's yes to the gate that a decision waits at."""

    by: str
    reason: str = ""
    text: str = ""


# --- what is written down before ---------------------------------------------------------------------------------


def notes_of(task: Task, evidence: Evidence, *, session: str, began: float) -> list[dict[str, Any]]:
    """The record of a green check on exactly a commit; work that is not committed says nothing about one."""
    verdict = evidence.verdict
    if verdict is None or not verdict.green or not evidence.tree:
        return []
    work = git_notes.work_of(task, session=session)
    return [git_notes.note_of(evidence.workspace, evidence.head, evidence.tree, work, verdict, began)]


def plan_documents(store: SnapshotRepo, task: Task, clone: Workspace, intent: dict[str, Any]) -> None:
    """What the session wrote in a feature's documents comes home with its work."""
    intent["documents"] = brought_home.plan_home(store, task.workspace, clone)
    intent["record"]["documents"] = [one["path"] for one in intent["documents"]]


def plan_landing(store: SnapshotRepo, top: str, task: Task, plan: LandingPlan, intent: dict[str, Any]) -> None:
    """Put into the intent where the work lands."""
    intent["record"].update(plan.record)
    intent["landing"] = plan.landing._asdict() if plan.landing is not None else {}
    intent["landed_notes"] = []
    if plan.landing is None:
        return
    new = plan.landing.new
    store.point(f"{PLANNED}{task.key}", new)
    own = intent["notes"][:1]
    if plan.exact and own:
        intent["landed_notes"] = [{**own[0], "repository": top, "commit": new}]
    elif plan.verdict is not None and plan.verdict.green:
        words = f"land {', '.join(plan.landing.members)}"
        work = git_notes.RecordedWork(project=task.project, task=words, next="done")
        tree = tree_of(store, new)
        intent["landed_notes"] = [git_notes.note_of(top, new, tree, work, plan.verdict, plan.landing.time)]


def forget_plan(store: SnapshotRepo, task: Task, intent: dict[str, Any], unplanned: dict[str, Any]) -> None:
    """Nothing lands yet: the branch may move before a person says yes, and then it is planned anew."""
    intent["record"] = unplanned
    for name in ("landing", "landed_notes"):
        intent.pop(name)
    store.git("update-ref", "-d", f"{PLANNED}{task.key}")


def ask(
    transaction: Transaction, task: Task, decision: Decision, intent: dict[str, Any], error: arrival.NotLanded
) -> Decision:
    """Something of the person's keeps the work from landing: the decision waits for their word at a gate."""
    record = intent["record"]
    said = {"summary": intent["summary"], "onto": intent["onto"]}
    journal.append(transaction, JUDGED, task=task, session=decision.session, **said, **record)
    question = f"{error.message}\n{error.hint}"
    gates.ask(transaction, key=task.key, question=question, fence=decision.fence or None, on_yes=states.DONE)
    return decisions.move(transaction, decision, state=decisions.WAITING, intent=intent)


# --- carried out -------------------------------------------------------------------------------------------------


def carry_on(app: App) -> list[str]:
    """Carry out what somebody on this machine has decided and died over; the tasks and flows that go on by it."""
    done = []
    for decision in decisions.open_on(app.database, host=app.settings.host):
        if not os.path.isdir(os.path.join(app.settings.home, decision.project)):
            continue  # another home of this machine
        with suppress(HandoffError):  # somebody is at it, or it is told to whoever looks at the task
            if decision.flow is not None:
                done.append(kinds.carry_on_flow(app, decision.flow, patience=0.0))
            else:
                done.append(carry_out(app, decision, patience=0.0).outcome.task.label)
    return [name for name in done if name]


def carry_out(
    app: App,
    decision: Decision,
    *,
    answer: GateAnswer | None = None,
    patience: float = _PATIENCE_SECONDS,
) -> Finished:
    """Do all of it; a second one who comes meanwhile waits and finds it done."""
    key = decision.task or 0
    if decision.flow is not None:
        kinds.carry_on_flow(app, decision.flow, patience=patience)
        return Finished(outcomes.Outcome(tasks.get(app.database, key=key), repeated=True), _told_of({}))
    with alone(app, key, patience=patience):
        task = tasks.get(app.database, key=key)
        live = decisions.of_task(app.database, key=task.key)
        if live is None or live.key != decision.key:
            return Finished(outcomes.Outcome(task, repeated=True), _told_of(loads(task.evidence or "{}")))
        return carry(app, task, live, answer=answer)


def alone(app: App, key: int, *, patience: float = _PATIENCE_SECONDS) -> AbstractContextManager[None]:
    """One at a time for a task: who dies lets go. It is taken before the turn at the branch."""
    folder = os.path.join(app.settings.home, "locks")
    make_folder(folder, mode=0o700)
    return locked(os.path.join(folder, f"outcome-{key % _LOCKS}"), what="this work", patience=patience)


def carry(
    app: App, task: Task, decision: Decision, *, evidence: Evidence | None = None, answer: GateAnswer | None = None
) -> Finished:
    """The same for who is alone with it; with the `evidence` that it was decided by, at the branch's turn already."""
    if decision.fence and answer is None:
        leases.heartbeat(app.database, key=task.key, fence=decision.fence)
    intent = decision.intent
    if intent.get("lands"):
        turn: arrival.Turn = arrival.turn if evidence is None else lambda _: nullcontext()
        try:
            decision, intent = _land(app, task, decision, intent, waited=answer is not None, turn=turn)
        except arrival.NotLanded as error:
            if answer is not None or intent["by_person"]:
                if answer is None:
                    _withdraw(app, task)
                raise
            with app.database.transaction() as transaction:
                ask(transaction, task, decision, intent, error)
            views.refresh_or_tell(app, task.project, f"Task {task.label} waits for a person")
            told = evidence or _told_of(intent["record"])
            return Finished(outcomes.Outcome(tasks.get(app.database, key=task.key)), told, waits=error.message)
    record = intent["record"]
    trouble = _write_notes(app, task, intent)
    if intent.get("documents"):
        store = task_clones.snapshot_store_of_project(app, task).store
        brought_home.take_home(store, task.workspace, intent["documents"])
    ticked, why_not = _tick(app, intent)
    if home_config(app).text("git_remote"):
        fence = decision.fence or task.fence
        publish.publish(app, task=task, fence=fence, folder=intent["folder"], session=intent["session"])
    outcome = _write_rows(app, task, decision, intent, answer)
    views.refresh_or_tell(app, task.project, f"Task {task.label} is done")
    return Finished(outcome, evidence or _told_of(record), trouble or why_not, ticked=ticked)


def _withdraw(app: App, task: Task) -> None:
    with app.database.transaction() as transaction:
        transaction.execute("withdraw_decision", task=task.key, now=transaction.now())


def _land(
    app: App,
    task: Task,
    decision: Decision,
    intent: dict[str, Any],
    *,
    waited: bool,
    turn: arrival.Turn,
) -> tuple[Decision, dict[str, Any]]:
    """Move the branch as it was planned; where it has moved on meanwhile, plan anew, and write that down first."""
    snapshot_store = task_clones.snapshot_store_of_project(app, task)
    target = target_of(app, snapshot_store)
    target.finish()
    planned = "landing" in intent and not waited
    for _ in range(_TRIES):
        try:
            if planned and (not intent["landing"] or arrival.move(snapshot_store, target, _landing(intent))):
                snapshot_store.store.git("update-ref", "-d", f"{PLANNED}{task.key}")
                return decision, intent
        except InTheWay as error:
            member = task_clones.kept_member(snapshot_store, task)
            raise arrival.in_the_way(app, snapshot_store, task, member, error, onto=intent["onto"]) from None
        with turn(snapshot_store):
            member = task_clones.kept_member(snapshot_store, task)
            intent["lands"] = True
            plan = arrival.plan(app, snapshot_store, task, member, onto=intent["onto"], waited=waited)
            plan_landing(snapshot_store.store, snapshot_store.place.source.top, task, plan, intent)
            with app.database.transaction() as transaction:
                decision = decisions.move(transaction, decision, state=decision.state, intent=intent)
            planned = True
    raise arrival.NotLanded(
        f"'{task.label}' has not landed: {intent['onto'].removeprefix('refs/heads/')} does not hold still.",
        f"Its work is judged and kept. Try again: {app.settings.program} answer {task.label} yes",
    )


def _landing(intent: dict[str, Any]) -> Landing:
    values = intent["landing"]
    return Landing(**values)._replace(members=tuple(values["members"]))


def _write_notes(app: App, task: Task, intent: dict[str, Any]) -> str:
    """The records on the commits, also those of parts on the commits they became; what went wrong, or nothing."""
    written = [git_notes.put(app, note) for note in (*intent["notes"], *intent.get("landed_notes", ()))]
    trouble = next(filter(None, written), "")
    record = intent["record"]
    if record.get("landed") and record.get("parts") and task.batch is not None:
        parts, landed = list(dict.fromkeys(record["parts"])), str(record["landed"])
        trouble = git_notes.carry(app, task.workspace, parts, landed=landed) or trouble
    return trouble


def _tick(app: App, intent: dict[str, Any]) -> tuple[str, str]:
    """One list, not two: the step of a plan that a task was made from is ticked when its check was green. Words, or why not."""
    record = intent["record"]
    if not intent["step"] or not (record.get("check") or {}).get("green"):
        return "", ""
    try:
        head = str(record.get("landed") or record.get("head") or "")
        return plan_steps.tick(app, made_from=intent["step"], head=head), ""
    except HandoffError as error:
        return "", f"The task is done, but its step is not ticked: {error.message}"


def _write_rows(app: App, task: Task, decision: Decision, intent: dict[str, Any], answer: GateAnswer | None) -> Outcome:
    """All that follows from it, in one transaction: the task, who waits for it, its batch or race, the gate, the decision."""
    record, session, summary = intent["record"], intent["session"], intent["summary"]
    with app.database.transaction() as transaction:
        waive(transaction, task, session, record)
        if intent.get("minutes") is not None and task.batch is not None:
            batch = batches.get(transaction, key=task.batch)  # said here, it wins over what was measured
            batches.record_measure(transaction, batch=batch, summary=summary, session_minutes=float(intent["minutes"]))
        decisions.move(transaction, decision, state=decisions.DONE)
        if answer is not None:
            told = {"answered_by": answer.by, "reason": answer.reason, "answer": answer.text}
            return gates.approve(transaction, key=task.key, **told, summary=summary, evidence=record)
        fence = decision.fence or None
        return outcomes.finish(
            transaction, key=task.key, fence=fence, summary=summary, evidence=record, session=session
        )


def waive(transaction: Transaction, task: Task, session: str, record: dict[str, Any]) -> None:
    """A person has accepted what lies outside the ownership: the journal says so."""
    if record.get("accepted"):
        why = {"reason": record["accepted"], "outside": record["outside"]}
        journal.append(transaction, "task.waived", task=task, session=session, **why)


def _told_of(record: dict[str, Any]) -> Evidence:
    """The evidence of work that was judged before, as far as it was written down."""
    changed = tuple(record.get("changed", ()))
    return Evidence(
        head=str(record.get("head", "")), changed=changed, outside=tuple(record.get("outside", ())), verdict=None
    )
