"""Leases: a session claims a task, shows signs of life, gives it back, or is found silent."""

from __future__ import annotations

from handoff.base.clock import stamp
from handoff.base.errors import Conflict, Refused, UserError
from handoff.base.ids import new_id
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal, texts
from handoff.board.sessions import pauses
from handoff.board.sessions.sessions import AGENT, TAB, Session, SessionIdentity, register
from handoff.board.tasks import requirements, states, tasks
from handoff.board.tasks.tasks import Task, stale
from handoff.store.database import beside_others

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from handoff.board.tasks.outcomes import Outcome
    from handoff.store.database import Store, Transaction

LEASE_SECONDS = 900.0
LONGEST_LEASE_SECONDS = 30 * 86_400.0
LAST_ATTEMPT = "; that was attempt "


class ClaimLimits(Record):
    """How many tasks may run at once; 0 is no limit. They are counted inside the claim's own transaction."""

    machine: int = 0
    project: int = 0
    agent: int = 0


class Claim(Record):
    """A task in a session's hands. Every write of the session carries the fence."""

    task: Task
    session: Session
    fence: int
    lease_seconds: float
    repeated: bool = False


def scopes_of(who: SessionIdentity, *, project: str = "", limits: ClaimLimits | None = None) -> tuple[str, ...]:
    """What a claim must have to itself: its session, and each scope that has a limit; everything else is rows."""
    scopes = [f"session:{who.id}"]
    if limits is None:
        return tuple(scopes)
    for kind, name, limit in (
        ("machine", who.host, limits.machine),
        ("project", project, limits.project),
        ("agent", who.agent, limits.agent),
    ):
        if limit:
            scopes.append(f"{kind}:{name}" if name else kind)
    return tuple(scopes)


@beside_others
def claim_next(
    store: Store,
    *,
    who: SessionIdentity,
    project: str = "",
    role: str = "",
    lease_seconds: float = LEASE_SECONDS,
    limits: ClaimLimits | None = None,
) -> Claim | None:
    """Take the ready task that comes next: highest priority, then least often tried, then oldest. None when nothing may start now.

    A phase of a flow is not for tabs: its session is started in the flow's own workspace.
    """
    _check_length(lease_seconds)
    scopes = scopes_of(who, project=project, limits=limits)
    asked = wishes_of(who, project=project, role=role, limits=limits)
    at_once = claim_at_once(store, who=who, asked=asked, lease_seconds=lease_seconds, scopes=scopes)
    if at_once:
        return at_once[0]
    with store.transaction(scopes=scopes) as transaction:
        row = transaction.one(
            "claim_next_task",
            **asked,
            now=transaction.now(),
            lease_seconds=float(lease_seconds),
            lease_now=transaction.lease_now(),
        )
        if row is None:
            return _held_already(transaction, who)
        return _taken(transaction, Task(**row), who=who)


def claim_at_once(
    store: Store, *, who: SessionIdentity, asked: dict[str, Any], lease_seconds: float, scopes: Sequence[str]
) -> list[Claim] | None:
    """A claim in one journey, or none where there is nothing to take; None where it must go step by step."""
    rows = store.at_once(
        "claim_at_once", lambda: {**asked, **_at_once(who), "lease_seconds": float(lease_seconds)}, scopes=scopes
    )
    if not rows:
        return None if rows is None else []
    began = rows[0].pop("began")
    return [claim_of(Task(**rows[0]), who, began=began)]


def has_next(store: Store, *, who: SessionIdentity, project: str = "", limits: ClaimLimits | None = None) -> bool:
    """Whether `claim_next` would find something: a look that takes no turn among the writers."""
    asked = wishes_of(who, project=project, role="", limits=limits)
    rows = store.at_once("look_at_once", lambda: asked)
    if rows is not None:
        return bool(rows)
    with store.transaction(write=False) as transaction:
        return transaction.one("next_task", **asked, now=transaction.now()) is not None


def wishes_of(who: SessionIdentity, *, project: str, role: str, limits: ClaimLimits | None) -> dict[str, Any]:
    """What a session can take, as the statements of a claim ask for it."""
    limits = limits or ClaimLimits()
    return {
        "project": project,
        "session": who.id,
        "agent": who.agent,
        "host": who.host,
        "role": role,
        "max_machine": limits.machine,
        "max_project": limits.project,
        "max_agent": limits.agent,
        "labels": requirements.as_text(who.labels),
        "tab": int(who.kind == TAB),
    }


def claim(
    store: Store,
    *,
    key: int,
    who: SessionIdentity,
    lease_seconds: float = LEASE_SECONDS,
    limits: ClaimLimits | None = None,
    by_hand: bool = False,
) -> Claim:
    """Take one named task, or say why it cannot be had. A person who does it `by_hand` is not stopped by a person's pause."""
    limits = limits or ClaimLimits()
    with store.transaction() as transaction:
        held = _held_already(transaction, who)
        if held is not None and held.task.key == key:
            return held
        if held is not None:
            raise Conflict(
                f"Session {who.id} still holds '{held.task.label}'.",
                f"Finish it, or give it back: handoff task release {held.task.label} --session {who.id} --fence {held.fence}",
            )
        task = tasks.get(transaction, key=key)
        _refuse_unready(transaction, task, by_hand=by_hand)
        requirements.refuse_lacking(transaction, key=key, name=task.label, labels=who.labels)
        agent = who.agent or ("" if who.kind == TAB else task.agent)  # who works on it, not who was to
        _refuse_over_limit(transaction, task, who._replace(agent=agent), limits)
        return _take(transaction, key=key, agent=agent, who=who, lease_seconds=lease_seconds)


@beside_others
def heartbeat(store: Store, *, key: int, fence: int, lease_seconds: float = 0.0) -> Task:
    """A sign of life renews the lease. A session that was thought dead gets its task back if nobody took it."""
    if lease_seconds != 0:  # 0 keeps the length it has
        _check_length(lease_seconds)
    said = {"key": key, "fence": fence, "lease_seconds": float(lease_seconds)}
    rows = store.at_once("renew_at_once", lambda: said)
    if rows:
        return Task(**rows[0])
    with store.transaction(scopes=()) as transaction:
        lease_now, now = transaction.lease_now(), transaction.now()
        row = transaction.one(
            "renew_lease", key=key, fence=fence, lease_seconds=float(lease_seconds), lease_now=lease_now, now=now
        )
        if row is not None:
            return Task(**row)
        row = transaction.one(
            "revive_task", key=key, fence=fence, lease_seconds=float(lease_seconds), lease_now=lease_now, now=now
        )
        if row is None:
            raise stale(tasks.get(transaction, key=key), fence)
        task = Task(**row)
        transaction.execute("give_session_task", id=task.held_by, task=key, fence=fence, now=now)
        journal.append(transaction, "task.revived", task=task)
        return task


def hold_for_report(transaction: Transaction, task: Task, *, host: str) -> Task:
    """A person reports a task done that nobody holds: nobody takes it while that is carried out."""
    row = transaction.one(
        "claim_task",
        key=task.key,
        session=new_id("person"),
        host=host,
        agent=task.held_agent,
        lease_seconds=LEASE_SECONDS,
        lease_now=transaction.lease_now(),
        now=transaction.now(),
    )
    if row is None:
        raise stale(tasks.get(transaction, key=task.key), None)
    return Task(**row)


def release(store: Store, *, key: int, fence: int, reason: str = "") -> Task:
    """Give a task back unfinished; the next session gets it as it is."""
    from handoff.board.tasks import outcomes  # a claim and a heartbeat need none of it

    with store.transaction() as transaction:
        task = outcomes.let_go(
            transaction, tasks.get(transaction, key=key), state=states.READY, fence=fence, reason=reason
        )
        journal.append(transaction, "task.released", task=task, reason=reason)
        return task


def drop_check(store: Store, *, key: int, fence: int) -> Task | None:
    """A check that says nothing about a running task judges it no more; None where the fence is another's."""
    with store.transaction() as transaction:
        row = transaction.one("drop_check", key=key, fence=fence)
    return Task(**row) if row else None


def widen(store: Store, *, key: int, fence: int | None, owns: Sequence[str]) -> Task:
    """A running task owns more from now on; only the holder of the fence can have that."""
    with store.transaction(scopes=()) as transaction:
        said = {"key": key, "fence": fence or 0, "owns": texts.write(list(owns)), "now": transaction.now()}
        row = transaction.one("widen_task", **said)
        if row is None:
            raise stale(tasks.get(transaction, key=key), fence)
        return Task(**row)


@beside_others
def hand_back(store: Store, *, task: Task, reason: str, charged: bool = True) -> Outcome | None:
    """The session of `task` is gone: another attempt, or blocked when they are used up; as it was, where that is not `charged`.

    Nothing happens when the session has shown a sign of life, or another watchdog has been here, since `task` was read.
    """
    from handoff.board.tasks import outcomes  # as above

    with store.transaction(scopes=()) as transaction:
        values = {
            "key": task.key,
            "fence": task.fence,
            "lease_until": task.lease_until,
            "now": transaction.now(),
            "lease_now": transaction.lease_now(),
        }
        row = transaction.one("free_expired_task", **values, reason=reason, charged=int(charged))
        if row is not None:
            freed = Task(**row)
            _end_session(transaction, freed, reason)
            how: dict[str, Any] = {} if charged else {"charged": False}
            journal.append(transaction, "task.expired", task=freed, reason=reason, attempt=freed.attempt, **how)
            return outcomes.Outcome(freed)
        if task.attempt < task.max_attempts or not charged:
            return None
        transaction.require_alone()  # what waits for it learns of it
        passed = _passed_on(transaction, task, reason)
        if passed is not None:
            return outcomes.Outcome(passed)
        used_up = f"{reason.rstrip('.')}{LAST_ATTEMPT}{task.attempt} of {task.max_attempts}"
        if listed := task.baseline_facts.get(tasks.AGENTS):
            used_up += f" with {task.agent}, and each of {', '.join(listed)} has tried"
        row = transaction.one("block_expired_task", **values, reason=used_up)
        if row is None:
            return None
        blocked = Task(**row)
        _end_session(transaction, blocked, reason)
        journal.append(transaction, "task.blocked", task=blocked, reason=used_up)
        return outcomes.after_block(transaction, blocked)


def _passed_on(transaction: Transaction, task: Task, reason: str) -> Task | None:
    """The next agent of its list has the task, with attempts of its own; None where there is none."""
    from handoff.base.markdown import number_of  # as above
    from handoff.board.tasks import outcomes

    agent = outcomes.next_agent(transaction, task)
    passed = outcomes.pass_on(transaction, task, agent, spent=True) if agent else None
    if passed is not None:
        _end_session(transaction, passed, reason)
        tries = number_of(task.max_attempts, "attempt")
        said = f"{reason.rstrip('.')}; {task.agent} has used up its {tries}, {agent} goes on"
        journal.append(transaction, "task.expired", task=passed, reason=said, attempt=passed.attempt, agent=agent)
    return passed


def why_idle(store: Store, *, who: SessionIdentity, project: str = "", limits: ClaimLimits | None = None) -> str:
    """Why `claim_next` found nothing, in a person's words."""
    limits = limits or ClaimLimits()
    with store.transaction(write=False) as transaction:
        stops = [stop for stop in pauses.listing(transaction) if stop.scope == pauses.ALL or stop.project == project]
        if stops:
            return f"{stops[0].words} is stopped: {stops[0].reason or 'no reason given'}"
        running, now = count_running(transaction, who, project), transaction.now()
        for scope, limit in limits._asdict().items():
            if limit and running[scope] >= limit:
                return f"the limit of {limit} running tasks for this {scope} is reached"
        counts = tasks.count_ready(transaction, project=project)
        lacking = requirements.lacking(transaction, project=project, labels=who.labels)
        unserved = requirements.unserved(transaction, project=project, limit=1)
        held = transaction.one("get_hold", kind="agent", name=who.agent, host=who.host)
    if held is not None and who.kind != TAB and held["until"] > now:
        return f"agent {who.agent} is held until {stamp(held['until'])}: {held['reason']}"
    if not counts["ready"]:
        return "no task is ready"
    if not counts["due"]:
        return "the ready tasks are to start later"
    if unserved:
        return f"no host at work has what '{unserved[0].task}' needs: {unserved[0].words}"
    if lacking:
        return f"the ready tasks need a host with {', '.join(lacking)}, or are for another agent or role, or at a limit"
    return "the ready tasks are for another agent or role, or at a limit, or stopped"


def _take(transaction: Transaction, *, key: int, agent: str, who: SessionIdentity, lease_seconds: float) -> Claim:
    _check_length(lease_seconds)
    (row,) = transaction.query(
        "claim_task",
        key=key,
        session=who.id,
        host=who.host,
        agent=agent,
        lease_seconds=float(lease_seconds),
        lease_now=transaction.lease_now(),
        now=transaction.now(),
    )
    return _taken(transaction, Task(**row), who=who)


def _taken(transaction: Transaction, task: Task, *, who: SessionIdentity) -> Claim:
    where = who._replace(project=who.project or task.project, workspace=who.workspace or task.workspace)
    session = register(transaction, who=where, task=task.key, fence=task.fence)
    if who.kind == AGENT:
        from handoff.board.sessions import holds  # a tab needs none of it

        holds.probe(transaction, agent=task.held_agent, host=who.host, session=who.id)
    journal.append(transaction, "task.claimed", task=task)
    return Claim(task, session, task.fence, task.lease_seconds)


def _at_once(who: SessionIdentity) -> dict[str, Any]:
    """What a claim in one call must know of the session beside what it wants."""
    probe_seconds = 0.0
    if who.kind == AGENT:
        from handoff.board.sessions import holds  # as below

        probe_seconds = holds.PROBE_SECONDS
    return {
        "kind": who.kind,
        "own_project": who.project,
        "workspace": who.workspace,
        "boot": who.boot,
        "pid": who.pid,
        "process_start": who.process_start,
        "started": texts.write({"kind": who.kind, "host": who.host}),
        "probe_seconds": probe_seconds,
    }


def claim_of(task: Task, who: SessionIdentity, *, began: float) -> Claim:
    """The claim of a task that was just handed to `who`."""
    said = who._asdict()
    del said["labels"]
    said.update(project=who.project or task.project, workspace=who.workspace or task.workspace)
    told: dict[str, Any] = {"started_at": began, "seen_at": task.changed_at, "ended_at": None, "ending": ""}
    return Claim(task, Session(**said, task=task.key, fence=task.fence, **told), task.fence, task.lease_seconds)


def _check_length(lease_seconds: float) -> None:
    if not 0 < lease_seconds <= LONGEST_LEASE_SECONDS:
        raise UserError(
            f"A lease must be some seconds long, not {lease_seconds:g}.",
            f"Choose at most {LONGEST_LEASE_SECONDS:.0f} seconds; a heartbeat extends it.",
        )


def _held_already(transaction: Transaction, who: SessionIdentity) -> Claim | None:
    """A session asks again, perhaps because it died before it heard the answer: it gets the same one."""
    row = transaction.one("get_session", id=who.id)
    if row is None or row["task"] is None:
        return None
    session = Session(**row)
    found = transaction.one(
        "renew_lease",
        key=session.task,
        fence=session.fence,
        lease_seconds=0.0,
        lease_now=transaction.lease_now(),
        now=transaction.now(),
    )
    if found is None or found["held_by"] != who.id:
        return None
    task = Task(**found)
    return Claim(task, session, session.fence, task.lease_seconds, repeated=True)


def _refuse_unready(transaction: Transaction, task: Task, *, by_hand: bool) -> None:
    if task.state == states.WAITING:
        open_needs = [need["id"] for need in transaction.query("list_needs", task=task.key) if not need["met"]]
        what = ", ".join(open_needs) or "the sub-tasks of its batch"
        raise Conflict(f"Task '{task.label}' waits for {what}.", f"See: handoff show {task.label}")
    if task.state != states.READY:
        raise stale(task, None)
    if task.not_before > transaction.now():
        raise Refused(f"Task '{task.label}' is to start later.", f"See: handoff show {task.label}")
    stop = pauses.pause_of(transaction, task, by_hand=by_hand)
    if stop is not None:
        words = stop.words[:1].upper() + stop.words[1:]
        raise Refused(f"{words} is stopped: {stop.reason or 'no reason given'}.", f"Go on with: {stop.way_back}")


def _refuse_over_limit(transaction: Transaction, task: Task, who: SessionIdentity, limits: ClaimLimits) -> None:
    running = count_running(transaction, who, task.project)
    for scope, limit in limits._asdict().items():
        if limit and running[scope] >= limit:
            raise Refused(
                f"'{task.label}' cannot start: {'1 task runs' if limit == 1 else f'{limit} tasks run'} already, the most for this {scope}.",
                "Wait for one to end, or raise max_running in the configuration.",
            )


def count_running(transaction: Transaction, who: SessionIdentity, project: str) -> dict[str, int]:
    """How many tasks run on this machine, in this project, with this agent."""
    values = {"host": who.host, "project": project, "agent": who.agent, "tab": int(who.kind == TAB)}
    return dict(transaction.one("count_running", **values) or {})


def _end_session(transaction: Transaction, task: Task, ending: str) -> None:
    if task.held_by:
        transaction.execute("end_session", id=task.held_by, ending=ending, now=transaction.now())
