"""What comes of a task when its session is over: the report, else the evidence, else another attempt."""

from __future__ import annotations

import os
from contextlib import suppress

from handoff.agents import folder as folders
from handoff.agents.contract import ENVIRONMENT, FAILED, KILLED, LOST, OK, STOPPED, AgentOutcome
from handoff.base.clock import stamp
from handoff.base.errors import Away, Conflict, HandoffError, Refused
from handoff.base.markdown import first_sentence
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.events.wording import refusal_words
from handoff.board.sessions import holds, leases, sessions
from handoff.board.tasks import decisions, states, tasks
from handoff.engine.app.home import home_config
from handoff.engine.outcome import kinds
from handoff.engine.outcome.carry_out import carry_out
from handoff.engine.outcome.kinds import CurrentClaim
from handoff.engine.place import pulse, task_clones, task_work
from handoff.engine.place.fanout import views
from handoff.engine.place.landing import conflict
from handoff.engine.place.proof import evidence, faults
from handoff.engine.safety import incidents, uncommitted
from handoff.engine.session import report as journey
from handoff.engine.session import spending
from handoff.engine.session.placement import SHARED
from handoff.git.plumbing.untrusted import close_clone, is_clone

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from handoff.board.sessions.leases import Claim
    from handoff.board.tasks.decisions import Decision
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.store.database import Transaction

    T = TypeVar("T")

_AWAY_PAUSE = 0.5
_NOT_REPORTED = "it ended without reporting the task done or blocked"


class ConcludedSession(Record):
    """How a session came out and what that made of its task."""

    session: str
    outcome: AgentOutcome
    task: Task
    outside: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        why = f" ({self.outcome.reason})" if self.outcome.reason else ""
        wait = f", to go on at {stamp(self.outcome.until)}" if self.outcome.until else ""
        label, asks = self.task.label, self.task.state == states.GATED
        stands = f"waits for your answer: handoff answer {label}" if asks else f"is {self.task.state}."
        return f"Session {self.session}: {self.outcome.word}{why}{wait}. Task '{label}' {stands}"


def patiently(app: App, function: Callable[[], T], tell: Callable[[str], None] | None = None) -> T:
    """While the database is away or a disk is full nothing is decided: it is done when they are back, and said once meanwhile."""
    while True:
        try:
            return function()
        except Away as error:
            if tell is not None:
                tell(f"Waiting: {first_sentence(str(error))}")
            tell = None
            app.clock.sleep(_AWAY_PAUSE)


def conclude(app: App, *, claim: Claim, outcome: AgentOutcome) -> ConcludedSession:
    """Turn the end of a session into the task's next state; a repeat after a crash changes nothing.

    A report counts first, then the result, then the exit code. For some kinds of tasks another module decides.
    """
    session, path = claim.session.id, folders.place(app.settings.home, claim.task.project, claim.session.id)
    task, mine = _as_it_is(app, claim)
    facts = folders.get(path, folders.FACTS)
    workspace = str(facts.get("workspace") or task.workspace)
    ended = kinds.EndedSession(
        task=task, fence=claim.fence, session=session, workspace=workspace, outcome=outcome, holds=mine
    )
    _close(app, workspace)
    decide = kinds.decider_of(task) if task.fence == claim.fence else None
    client = outcome if folders.has_started(path) else AgentOutcome(ENVIRONMENT)  # nobody ran who could prove anything
    made_by = session if client.kind == OK else ""
    decided = decide(app, ended) if decide else None
    if decided is not None and (faults.is_attempt(decided) or not mine):
        outcome = decided
    elif mine:
        outcome = _unreported(app, claim, task, decided or outcome, made_by)
    else:
        outcome = _reported(task, claim, outcome)
    outside = () if decide else _out_of_scope(app, task)  # who decides has looked at the fence
    incidents.look(app)  # while the session still counts as at work
    # A flow has a clone of its own, in which nothing is the person's.
    if facts.get("kind") == SHARED and task.kind != tasks.PHASE and os.path.isdir(workspace):
        with suppress(HandoffError):  # a checkout that cannot be read now is looked at by whoever comes next
            uncommitted.look(app, task=task, session=session, workspace=workspace)
    with app.database.transaction() as transaction:
        sessions.end(transaction, id=session, ending=outcome.kind)
        kinds.tell_concluded(transaction, task, session, outcome, outside)
        # a client that worked, well or badly, was served by its provider: an agent that was held may be started again
        if client.kind in (OK, FAILED):
            holds.prove(transaction, claim.session)
        else:
            holds.lapse(transaction, claim.session)  # where this very session has it held again, that stays
        if outcome.kind not in faults.HOLDS_TASK:
            holds.release_task(transaction, key=task.key, since=claim.session.started_at)  # a later one is a person's
    task = tasks.get(app.database, key=task.key)
    task_work.tidy(app, task, running={one.key for one in pulse.listing(app) if one.session != session})
    views.refresh_or_tell(app, task.project, f"Session {session} is over")
    return ConcludedSession(session, outcome, task, outside)


def _close(app: App, workspace: str) -> None:
    """Nothing of the session runs any more: what it planted for the next git in its clone is put right before anybody's."""
    if is_clone(workspace):
        with suppress(HandoffError):  # whoever uses the clone next says why it cannot be used
            close_clone(workspace, app.settings.environment)


def _as_it_is(app: App, claim: Claim) -> tuple[Task, bool]:
    """The task, and whether the session holds it. Thought dead by a watchdog, it gets its task back if nobody took it."""
    with app.database.transaction() as transaction:
        concluded = any(
            event.kind == "session.concluded" and event.session == claim.session.id
            for event in journal.of_task(transaction, key=claim.task.key)
        )
        if not concluded:
            try:
                return leases.heartbeat(transaction, key=claim.task.key, fence=claim.fence), True
            except Conflict:
                pass
        return tasks.get(transaction, key=claim.task.key), False


def _reported(task: Task, claim: Claim, outcome: AgentOutcome) -> AgentOutcome:
    """The session reported before it ended: what it said is what counts, however its process came out."""
    if task.fence != claim.fence:
        return AgentOutcome(FAILED, "its task was given to another session")
    if task.state in (states.DONE, states.GATED):
        return AgentOutcome(OK, task.result)
    if task.state == states.BLOCKED:
        return AgentOutcome(FAILED, f"blocked: {task.reason}")
    return outcome


def _unreported(app: App, claim: Claim, task: Task, outcome: AgentOutcome, made_by: str) -> AgentOutcome:
    decided = decisions.of_task(app.database, key=task.key)
    if decided is not None:
        outcome = _carried_out(app, decided, outcome)
    else:
        judge = _by_evidence if outcome.kind == OK else _with_refusal
        outcome = judge(app, claim, task, outcome)
        path = folders.place(app.settings.home, task.project, claim.session.id)
        if outcome.kind == FAILED and folders.get(path, folders.FACTS).get("terminal"):
            outcome = AgentOutcome(STOPPED, f"its person left it: {outcome.reason}")
    if outcome.kind == OK:
        return outcome
    asked = _question(app, task, outcome) if task.attempt >= conflict.ATTEMPTS and _settles(app, task) else ""
    with app.database.transaction() as transaction:
        if not faults.is_attempt(outcome):
            outcome = _wait_out(app, transaction, claim, outcome, made_by)
        elif asked:
            gates.ask(transaction, key=task.key, question=asked, fence=claim.fence)
        else:
            held = tasks.get(transaction, key=task.key)
            leases.hand_back(transaction, task=held, reason=outcome.reason or outcome.kind)
        kinds.tell_concluded(transaction, task, claim.session.id, outcome)
    return outcome


def _carried_out(app: App, decided: Decision, outcome: AgentOutcome) -> AgentOutcome:
    """Its work was believed before it ended, however it ended: what was decided then is done now."""
    try:
        done = carry_out(app, decided)
    except Away:
        raise
    except HandoffError as error:
        return AgentOutcome(ENVIRONMENT, f"its work could not be brought in: {error.message}", fix=error.hint)
    return AgentOutcome(OK, done.outcome.task.result or outcome.reason)


def _with_refusal(app: App, claim: Claim, task: Task, outcome: AgentOutcome) -> AgentOutcome:
    """A session whose report was refused and that then gave up failed for that reason, whatever its program said last."""
    if outcome.kind != FAILED:
        return outcome
    events = journal.of_task(app.database, key=task.key)
    refused = [event for event in events if event.kind == "task.rejected" and event.session == claim.session.id]
    return outcome._replace(reason=refusal_words(refused[-1].body)) if refused else outcome


def _question(app: App, task: Task, outcome: AgentOutcome) -> str:
    """What a person is asked where sessions could not settle a conflict, with the commands that settle it by hand."""
    names = [task_clones.work_name(part) for part in task_clones.parts(app, task)]
    by_hand = task_clones.join_by_hand(task_clones.snapshot_store_of_project(app, task), names)
    return conflict.question(task, outcome.reason or outcome.kind, by_hand=by_hand, program=app.settings.program)


def _settles(app: App, task: Task) -> bool:
    """Whether the task is to settle a conflict: the more sessions fail at it, the likelier the briefs contradict."""
    clone = task_clones.of_task(app, task) if task.kind == tasks.FAN_IN else None
    return clone is not None and conflict.of_workspace(clone) is not None


def _wait_out(app: App, transaction: Transaction, claim: Claim, outcome: AgentOutcome, made_by: str) -> AgentOutcome:
    """No fault of the agent's: its provider is waited for, or this machine. What stays unexplained is put to a person."""
    task = claim.task
    path = folders.place(app.settings.home, task.project, claim.session.id)
    if outcome.kind == ENVIRONMENT and not folders.has_started(path) and spending.ask(app, transaction, claim):
        return outcome
    count = _unexplained(transaction, task) if outcome.kind in faults.UNEXPLAINED else 1
    if count >= faults.ASK_AFTER:
        asked = faults.question(outcome, task=task.label, count=count)
        gates.ask(transaction, key=task.key, question=asked, fence=claim.fence)
        holds.release_task(transaction, key=task.key)
        return outcome
    leases.release(transaction, key=task.key, fence=claim.fence, reason=outcome.reason)
    agent, program = claim.session.agent, app.settings.program
    if outcome.kind == STOPPED and outcome.fix:
        again = f"{program} session start {task.label} --agent {agent} --in terminal"
        return outcome._replace(fix=f"{outcome.fix} To start it again: {again}")
    if outcome.kind in (STOPPED, LOST) or (outcome.kind == KILLED and count == 1):
        return outcome  # nothing to wait for: a power cut is over when somebody reads of it
    reason, back_off = outcome.why, home_config(app).number("back_off_seconds")
    fix = faults.fix_for(outcome, agent=agent, task=task.label, program=program)
    if outcome.kind in faults.HOLDS_AGENT:
        held = holds.hold_agent(
            transaction,
            task,
            claim.session,
            reason=reason,
            fix=fix,
            at=outcome.at or transaction.now(),
            until=outcome.until,
            back_off=back_off,
            fault=outcome.kind,
        )
    else:
        held = holds.hold_task(
            transaction,
            task,
            host=app.settings.host,
            reason=reason,
            fix=fix,
            back_off=back_off,
            tries=count,
            made_by=made_by,
        )
    return outcome._replace(until=held.until, fix=held.fix)


def _unexplained(transaction: Transaction, task: Task) -> int:
    """How many sessions in a row, with this one, ended and nobody can say why; a person's word begins anew."""
    count = 1
    for event in reversed(journal.of_task(transaction, key=task.key)):
        if event.kind in ("gate.approved", "task.retried"):
            break
        if event.kind == "session.concluded":
            if event.body.get("outcome") not in faults.UNEXPLAINED:
                break
            count += 1
    return count


def _by_evidence(app: App, claim: Claim, task: Task, outcome: AgentOutcome) -> AgentOutcome:
    """A client that cannot report is judged by the task's check; one that could and did not has not finished."""
    if not task.check_command and folders.has_started(folders.place(app.settings.home, task.project, claim.session.id)):
        return AgentOutcome(FAILED, _NOT_REPORTED)
    held = CurrentClaim(task, claim.fence, claim.session.id)
    try:
        journey.finish(app, held, summary=outcome.reason or task_work.JUDGED)
    except faults.GroundFault as error:
        return AgentOutcome(ENVIRONMENT, error.message, fix=error.hint)
    except (Refused, Conflict) as error:
        return AgentOutcome(FAILED, first_sentence(error.message))
    return outcome


def _out_of_scope(app: App, task: Task) -> tuple[str, ...]:
    """What lies changed outside the ownership now that nothing of the session runs any more."""
    clone = task_clones.of_task(app, task)
    try:
        if clone is not None:
            return task_work.changes(app, task_clones.snapshot_store_of_project(app, task), clone).outside
        return evidence.out_of_scope(app, task) if task.patterns else ()
    except HandoffError:
        return ()
