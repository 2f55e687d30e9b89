"""Outcomes: how a task ends or gets stuck, and what follows in the same transaction."""

from __future__ import annotations

from handoff.base.errors import Conflict, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal, texts
from handoff.board.tasks import batches, questions, races, states, tasks
from handoff.board.tasks.tasks import AGENTS, ENTRANT, FAN_IN, MODEL, PARTS, SUB_TASK, TASK, TRIED, Task, stale
from handoff.store.database import beside_others, fetch_all

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from typing import Any

    from handoff.store.database import Row, Store, Transaction


_UNDONE = "landing_undone"
"""In the evidence of a task: it has landed, and that was taken back."""


class Outcome(Record):
    """What a report changed: the task, who became ready by it, the fan-in it opened. A repeat changes nothing."""

    task: Task
    woken: tuple[Task, ...] = ()
    stranded: tuple[Task, ...] = ()
    fan_in: Task | None = None
    repeated: bool = False


@beside_others
def finish(
    store: Store,
    *,
    key: int,
    fence: int | None = None,
    summary: str = "",
    evidence: Mapping[str, Any] | None = None,
    session: str = "",
) -> Outcome:
    """Done. With a fence: by the session that holds it; without: by a person, while nobody works on it.

    A session that was thought dead may still finish as long as nobody else has taken the task: no finished work is
    done twice. Stops do not matter here.
    """
    texts.check(summary, "summary")
    values: dict[str, Any] = {"key": key, "result": summary, "evidence": texts.write(dict(evidence or {}))}
    if fence is not None:
        said = {**values, "fence": fence, "session": session}
        rows = store.at_once("finish_at_once", lambda: {**said, "body": texts.write({"summary": summary})})
        if rows:
            return Outcome(Task(**rows[0]))
    with store.transaction(scopes=None if fence is None else ()) as transaction:
        values["now"] = transaction.now()
        row: Row | None
        if fence is None:
            row = transaction.one("finish_free_task", **values)
            transaction.execute("withdraw_gate", task=key, now=transaction.now())
        else:
            row = transaction.one("finish_held_task", **values, fence=fence, lease_now=transaction.lease_now())
        if row is None:
            task = tasks.get(transaction, key=key)
            if task.state == states.DONE and fence in (None, task.fence):
                return Outcome(task, repeated=True)
            raise stale(task, fence)
        task = Task(**row)
        _free_session(transaction, task)
        journal.append(transaction, "task.finished", task=task, session=session, summary=summary)
        # Asked behind the write: whoever began to wait for this task until then is found.
        others = transaction.one("list_followers", key=key) or {}
        if others["stranded"] or task.counted or task.kind in (FAN_IN, ENTRANT):
            transaction.require_alone()  # rare, and it reaches far
        restored = _restore_stranded(transaction, task) if others["stranded"] else []
        woken = _meet(transaction, task) if others["waiting"] else []
        fan_in = batches.count_out(transaction, task) or batches.arrive_late(transaction, task)
        if task.kind == FAN_IN and task.batch is not None:
            end_batch(transaction, key=task.batch, state=batches.DONE, summary=summary)
        _end_race(transaction, task)
        decided = _decide_race(transaction, task)
        woken += [*(decided.woken if decided else ())]
        fan_in = fan_in or (decided.fan_in if decided else None)
        return Outcome(task, tuple({other.key: other for other in (*restored, *woken)}.values()), fan_in=fan_in)


def block(store: Store, *, key: int, reason: str, fence: int | None = None, session: str = "") -> Outcome:
    """It cannot go on. A blocked sub-task counts as closed, so that the fan-in is reached and can tell of it."""
    reason = texts.check(reason.strip(), "reason")
    if not reason:
        raise UserError("Say why the task is blocked.", "For example: handoff task block 'the API key is missing'")
    with store.transaction() as transaction:
        task = tasks.get(transaction, key=key)
        if task.state == states.BLOCKED and fence in (None, task.fence):
            return Outcome(task, repeated=True)
        task = let_go(transaction, task, state=states.BLOCKED, fence=fence, reason=reason)
        journal.append(transaction, "task.blocked", task=task, session=session, reason=reason)
        return after_block(transaction, task)


def after_block(transaction: Transaction, task: Task) -> Outcome:
    """What follows when a task is blocked, whoever blocked it."""
    stranded = _strand(transaction, task)
    fan_in: Task | None = None
    for closed in (task, *stranded):
        fan_in = batches.count_out(transaction, closed) or fan_in
        if closed.state == states.CANCELLED:
            _end_race(transaction, closed)
        decided = _decide_race(transaction, closed)
        fan_in = fan_in or (decided.fan_in if decided else None)
    return Outcome(task, stranded=tuple(stranded), fan_in=fan_in)


def cancel(store: Store, *, key: int, reason: str = "", session: str = "") -> Outcome:
    """A person takes a task back, also from a session that works on it: its next write is refused."""
    with store.transaction() as transaction:
        task = tasks.get(transaction, key=key)
        if task.state == states.CANCELLED:
            return Outcome(task, repeated=True)
        if task.ended:
            raise Conflict(f"Task '{task.label}' is already {task.state}.", f"See: handoff show {task.label}")
        task = _move(transaction, task, state=states.CANCELLED, reason=reason, ended_at=transaction.now())
        journal.append(transaction, "task.cancelled", task=task, session=session, reason=reason)
        outcome = after_block(transaction, task)
        if task.kind == FAN_IN and task.batch is not None:
            end_batch(transaction, key=task.batch, state=batches.CANCELLED)
        return outcome


def cancel_batch(store: Store, *, key: int, reason: str = "") -> batches.Batch:
    """Take a whole batch back: what is finished stays finished, the rest and the fan-in are cancelled."""
    with store.transaction() as transaction:
        end_batch(transaction, key=key, state=batches.CANCELLED)
        for task in tasks.of_batch(transaction, batch=key):
            if not task.ended:
                cancel(transaction, key=task.key, reason=reason or "its batch was cancelled")
        return batches.get(transaction, key=key)


def end_batch(transaction: Transaction, *, key: int, state: str, summary: str = "") -> None:
    """The batch is over: its figures are written with it."""
    batch = batches.end(transaction, key=key, state=state)
    if batch is not None and state == batches.DONE:
        batches.record_measure(transaction, batch=batch, summary=summary)


def retry(store: Store, *, key: int, session: str = "") -> Outcome:
    """A person lets a blocked task try again, and with it what was blocked because of it."""
    with store.transaction() as transaction:
        task = tasks.get(transaction, key=key)
        if task.state == states.DONE and is_undone(task):
            return Outcome(_do_again(transaction, task, session=session))
        if task.state != states.BLOCKED:
            landed = task.state == states.DONE and texts.read(task.evidence, {}).get("landed")
            raise Conflict(
                f"Task '{task.label}' is {task.state}; only a blocked task can be tried again.",
                f"Take its landing back first: handoff undo {task.label}"
                if landed
                else f"See: handoff show {task.label}",
            )
        _waive_cancelled(transaction, task)
        racing = races.entrants_of(transaction, task)
        if racing:
            return _race_again(transaction, task, racing, session=session)
        task = _unblock(transaction, task, session=session)
        return Outcome(task, woken=tuple(_restore_stranded(transaction, task)))


def mark_landing(store: Store, *, keys: Sequence[int], landed: str, undone: bool, session: str = "") -> list[Task]:
    """The landing of some tasks was taken back, or is there again: they say so from now on."""
    found = []
    with store.transaction() as transaction:
        for task in in_landing(transaction, keys=keys, landed=landed, undone=not undone):
            known = {name: value for name, value in texts.read(task.evidence, {}).items() if name != _UNDONE}
            evidence = texts.write({**known, _UNDONE: True} if undone else known)
            (row,) = transaction.query("put_evidence", key=task.key, evidence=evidence, now=transaction.now())
            found.append(Task(**row))
            kind = "task.undone" if undone else "task.landed_again"
            journal.append(transaction, kind, task=found[-1], session=session, commit=landed)
    return found


def mark_landed(store: Store, *, keys: Sequence[int], landed: str, onto: str, session: str = "") -> None:
    """A person landed the kept work of some finished tasks: they say so from now on."""
    with store.transaction() as transaction:
        for key in keys:
            task = tasks.get(transaction, key=key)
            known = {name: value for name, value in texts.read(task.evidence, {}).items() if name != _UNDONE}
            if task.state != states.DONE or not known.get("branch"):
                continue
            parts = [*dict.fromkeys([*known.get("parts", ()), str(known.get("commit", ""))])]
            evidence = texts.write({**known, "landed": landed, "onto": onto, "parts": parts})
            (row,) = transaction.query("put_evidence", key=key, evidence=evidence, now=transaction.now())
            journal.append(transaction, "task.landed", task=Task(**row), session=session, commit=landed)


def in_landing(store: Store, *, keys: Sequence[int], landed: str, undone: bool) -> list[Task]:
    """Those of some tasks that are done, and the fan-in that brought them in this landing: with it or with it taken back."""
    with store.transaction(write=False) as transaction:
        named = [task for key in keys if (task := tasks.look_up(transaction, key=key)) is not None]
        batch_keys = dict.fromkeys(task.batch for task in named if task.batch is not None)
        joiners = [batches.get(transaction, key=key).fan_in for key in batch_keys]
        fan_ins = [tasks.get(transaction, key=key) for key in joiners if key is not None and key not in keys]
    found = [*named, *(one for one in fan_ins if texts.read(one.evidence, {}).get("landed") == landed)]
    return [one for one in found if one.state == states.DONE and is_undone(one) == undone]


def is_undone(task: Task) -> bool:
    """Whether its landing was taken back."""
    return _UNDONE in texts.read(task.evidence, {})


def _do_again(transaction: Transaction, task: Task, *, session: str) -> Task:
    """A task whose landing was taken back is ready again; the parts of a batch landed together."""
    if task.kind != TASK:
        raise Conflict(
            f"Task '{task.label}' landed with its batch, and that was taken back as a whole.",
            "Bring it all again: handoff undo. Or start the batch anew: handoff batch run MANIFEST",
        )
    values = {"key": task.key, "reason": "its landing was taken back", "counted": task.counted}
    (row,) = transaction.query("send_back_task", **values, now=transaction.now())
    journal.append(transaction, "task.retried", task=Task(**row), session=session, reason=values["reason"])
    return Task(**row)


def reopen(transaction: Transaction, task: Task, *, reason: str, session: str = "") -> Task:
    """Finished work that its request must be mended for is to be gone on with."""
    (row,) = transaction.query(
        "send_back_task", key=task.key, reason=reason, counted=task.counted, now=transaction.now()
    )
    found = Task(**row)
    journal.append(transaction, "task.retried", task=found, session=session, reason=reason)
    return found


def put_evidence(transaction: Transaction, task: Task, **facts: object) -> Task:
    """A finished task with more that is known of its work."""
    evidence = texts.write({**texts.read(task.evidence, {}), **facts})
    (row,) = transaction.query("put_evidence", key=task.key, evidence=evidence, now=transaction.now())
    return Task(**row)


def send_back(store: Store, *, key: int, reason: str, session: str = "") -> Outcome:
    """A finished part does not fit with the others: it is to be done again, and its fan-in waits for it."""
    reason = texts.check(reason.strip(), "reason")
    with store.transaction() as transaction:
        task = tasks.get(transaction, key=key)
        batch = batches.get(transaction, key=task.batch) if task.batch is not None else None
        if task.state != states.DONE or task.kind not in PARTS or batch is None or batch.state == batches.DONE:
            raise Conflict(
                f"Task '{task.label}' is {task.state}; only a finished part of a batch that has not landed can be sent back.",
                f"See: handoff show {task.label}",
            )
        counted = 0 if batches.count_in(transaction, task) else task.counted
        values = {"key": key, "reason": reason, "counted": counted, "now": transaction.now()}
        (row,) = transaction.query("send_back_task", **values)
        found = Task(**row)
        journal.append(transaction, "task.sent_back", task=found, session=session, reason=reason)
        won = races.facts_of(found).get("key")
        for one in races.entrants_of(transaction, found):
            if one.key == won and one.state == states.DONE:  # what it won with is its own to mend
                send_back(transaction, key=one.key, reason=reason, session=session)
        return Outcome(found)


def let_go(transaction: Transaction, task: Task, *, state: str, fence: int | None, reason: str = "") -> Task:
    """Move a task on to a state in which nobody holds it, for the session with the fence or for a person."""
    if fence is None:
        if task.state == states.RUNNING or not states.may_move(task.state, state):
            raise stale(task, None)
        return _move(transaction, task, state=state, reason=reason)
    if state != states.GATED:  # what waits for a person's yes is asked about at that gate
        transaction.execute("withdraw_decision", task=task.key, now=transaction.now())
    row = transaction.one(
        "let_go_task",
        key=task.key,
        state=state,
        fence=fence,
        reason=reason,
        now=transaction.now(),
        lease_now=transaction.lease_now(),
    )
    if row is None:
        raise stale(task, fence)
    freed = Task(**row)
    _free_session(transaction, task)
    return freed


def _move(transaction: Transaction, task: Task, *, state: str, reason: str, ended_at: float | None = None) -> Task:
    row = transaction.one(
        "move_task",
        key=task.key,
        seen=task.state,
        fence=task.fence,
        state=state,
        reason=reason,
        blocked_by=None,
        ended_at=ended_at,
        result=task.result,
        now=transaction.now(),
    )
    if row is None:
        raise stale(tasks.get(transaction, key=task.key), None)
    _free_session(transaction, task)
    transaction.execute("withdraw_decision", task=task.key, now=transaction.now())
    if task.state == states.GATED:
        transaction.execute("withdraw_gate", task=task.key, now=transaction.now())
    return Task(**row)


# --- races -------------------------------------------------------------------------------------------------------


def _decide_race(transaction: Transaction, entrant: Task) -> Outcome | None:
    """Whoever ends a race as the last decides it in the same breath: won, a question to a person, or nobody."""
    ended = races.end_of(transaction, entrant) if entrant.kind == ENTRANT else None
    if ended is None:
        return None
    part, result = ended
    if not result.best:
        return block(transaction, key=part.key, reason=f"nobody won: {result.why}")
    if len(result.best) > 1:
        (row,) = transaction.query("gate_race", key=part.key, now=transaction.now())
        asked = races.question(part, result)
        questions.put(transaction, Task(**row), question=asked, on_yes=states.DONE)
        return None
    (winner,) = result.best
    return finish(transaction, key=part.key, summary=winner.result, evidence=races.record(winner, result))


def _end_race(transaction: Transaction, part: Task) -> None:
    """A part is over: nobody runs for it any more. Who won is written down with it."""
    racing = races.entrants_of(transaction, part) if part.kind == SUB_TASK else []
    if not racing:
        return
    race = races.facts_of(part) if part.state == states.DONE else {}
    winner = next((one for one in racing if one.key == race.get("key")), None)
    if winner is not None:
        took = {"busy_seconds": winner.busy_seconds, "started_at": winner.started_at, "agent": winner.held_agent}
        transaction.execute("take_race", key=part.key, **took)
        journal.append(transaction, "race.won", task=part, winner=winner.id, reason=race["why"])
    said = f"the race for '{part.label}' is over" + (f": {winner.id} won" if winner else "")
    for one in racing:
        if not one.ended:
            cancel(transaction, key=one.key, reason=said)


def _race_again(transaction: Transaction, part: Task, racing: list[Task], *, session: str) -> Outcome:
    """A part that nobody won is raced again by those who were stopped; by everybody where a person wanted none of them."""
    gate = transaction.one("last_gate_of", task=part.key)
    none_wanted = gate is not None and gate["state"] == "rejected"
    reason = part.reason
    part = _unblock(transaction, part, session=session)
    woken = []
    for one in racing:
        if one.state == states.BLOCKED:
            woken.append(_unblock(transaction, one, session=session))
        elif one.state == states.DONE and none_wanted:
            woken.append(send_back(transaction, key=one.key, reason=reason, session=session).task)
    if not woken:
        _decide_race(transaction, racing[-1])
    return Outcome(tasks.get(transaction, key=part.key), woken=tuple(woken))


def _reopen_race(transaction: Transaction, entrant: Task) -> None:
    """One more runs: a part that has asked, or that nobody had won, waits for it; one that is won needs nobody."""
    part = races.part_of(transaction, entrant)
    if part is None or part.state == states.WAITING:
        return
    if part.ended:
        raise Conflict(f"The race for '{part.label}' is over: it is {part.state}.", f"See: handoff show {part.label}")
    if part.state == states.BLOCKED:
        _unblock(transaction, part)
    else:
        _move(transaction, part, state=states.WAITING, reason="")


def _unblock(transaction: Transaction, task: Task, *, session: str = "", needed: str = "") -> Task:
    if task.kind == ENTRANT:
        _reopen_race(transaction, task)
    counted = 0 if batches.count_in(transaction, task) else task.counted
    values = begin_anew(task)
    (row,) = transaction.query("retry_task", key=task.key, counted=counted, now=transaction.now(), **values)
    found = Task(**row)
    journal.append(transaction, "task.retried", task=found, session=session, needed=needed)
    return batches.ask_about_missing(transaction, found) if found.kind == FAN_IN else found


def _restore_stranded(transaction: Transaction, task: Task) -> list[Task]:
    """Bring back what was blocked because of `task`, unless its batch has gone on without it."""
    restored = []
    for victim in fetch_all(transaction, Task, "list_victims", blocked_by=task.key):
        if victim.batch is not None and batches.get(transaction, key=victim.batch).state != batches.OPEN:
            continue
        restored.append(_unblock(transaction, victim, needed=task.label))
    return restored


def _free_session(transaction: Transaction, task: Task) -> None:
    if task.held_by:
        transaction.put("free_session", id=task.held_by, task=task.key, fence=task.fence, now=transaction.now())


# --- who works on it, and who goes on when that one has used up its attempts or is held --------------------------

_ATTEMPT = "attempt"


def agent_words(task: Task) -> str:
    """Who works on it and who would go on, for people; empty where it may be anybody."""
    facts = task.baseline_facts
    tried = facts.get(TRIED, {})
    rest = [name for name in _order(task, facts) if not _is_used_up(task, tried, name)]
    used = [name for name in tried if _is_used_up(task, tried, name)]
    found = [task.agent, *(f"then {name}" for name in rest), *(f"{name} has used up its attempts" for name in used)]
    return ", ".join(filter(None, found))


def begin_anew(task: Task) -> dict[str, Any]:
    """A person lets a task try again: it begins with the first agent, and nobody has tried it yet."""
    facts = task.baseline_facts
    first = (facts.get(AGENTS) or [task.agent])[0]
    model = facts.get(TRIED, {}).get(first, facts).get(MODEL, "")
    if TRIED not in facts:
        return {"agent": task.agent, "baseline": task.baseline}
    fresh = {name: value for name, value in facts.items() if name not in (TRIED, MODEL)}
    return {"agent": first, "baseline": texts.write(fresh | ({MODEL: model} if model else {}))}


def next_agent(transaction: Transaction, task: Task) -> str:
    """Who goes on when the attempts of the present agent are used up: one that can start now before one that is held or works nowhere."""
    facts = task.baseline_facts
    left = [name for name in _order(task, facts) if not _is_used_up(task, facts.get(TRIED, {}), name)]
    if not left:
        return ""
    held = {
        row["name"] for row in transaction.query("list_holds", now=transaction.now()) if row["host"] == task.held_host
    }
    served = {row["name"] for row in transaction.query("list_offers") if row["kind"] == "agent"}
    return min(left, key=lambda name: (name in held, name not in served))


def pass_on(transaction: Transaction, task: Task, agent: str, *, spent: bool) -> Task | None:
    """Let `agent` go on, with its own count of attempts and its own model; None when the task has moved meanwhile."""
    facts = task.baseline_facts
    tried = dict(facts.get(TRIED, {}))
    tried[task.agent] = {_ATTEMPT: task.attempt + spent, MODEL: facts.get(MODEL, "")}
    before = tried.pop(agent, {})
    facts |= {TRIED: tried, MODEL: before.get(MODEL, "")}
    row = transaction.one(
        "pass_on_task",
        key=task.key,
        fence=task.fence,
        seen=task.state,
        lease_until=task.lease_until or 0.0,
        before=task.agent,
        agent=agent,
        attempt=before.get(_ATTEMPT, 1),
        baseline=texts.write(facts),
        now=transaction.now(),
        lease_now=transaction.lease_now(),
    )
    return Task(**row) if row else None


def leave_held(store: Store, *, held: Container[str], able: Sequence[str], project: str = "") -> list[Task]:
    """Ready tasks whose agent is held go on with the next one that can start; where there is none they wait."""
    found = []
    for task in tasks.listing(store, project=project, state=states.READY):
        facts = task.baseline_facts if task.agent in held else {}
        tried = facts.get(TRIED, {})
        free = [name for name in _order(task, facts) if name in able and name not in held]
        agent = next((name for name in free if not _is_used_up(task, tried, name)), "")
        if not agent:
            continue
        with store.transaction() as transaction:
            passed = pass_on(transaction, task, agent, spent=False)
            if passed is not None:
                why = f"{task.agent} is held"
                journal.append(transaction, "task.edited", task=passed, agent=agent, reason=why)
                found.append(passed)
    return found


def _order(task: Task, facts: dict[str, Any]) -> list[str]:
    """The others of its list, those behind the present one first."""
    names: list[str] = facts.get(AGENTS) or []
    here = names.index(task.agent) if task.agent in names else -1
    return [name for name in (*names[here + 1 :], *names[: max(here, 0)]) if name != task.agent]


def _is_used_up(task: Task, tried: dict[str, Any], name: str) -> bool:
    return bool(tried.get(name, {}).get(_ATTEMPT, 0) > task.max_attempts)


# --- needs: what becomes ready when a task is done, and what is stuck when it is not -----------------------------


def _meet(transaction: Transaction, task: Task) -> list[Task]:
    """`task` is done: count it off for everybody who waits for it, and wake those who wait for nothing else."""
    if not transaction.query("lock_dependents", needs=task.key):
        return []
    transaction.execute("lower_open_needs", needs=task.key)
    transaction.execute("meet_needs", needs=task.key)
    woken = fetch_all(transaction, Task, "wake_dependents", needs=task.key, now=transaction.now())
    for other in woken:
        journal.append(transaction, "task.readied", task=other, needed=task.label)
    return woken


def _strand(transaction: Transaction, task: Task) -> list[Task]:
    """`task` will not be done: block what waits for it, and what waits for that.

    Outside a batch only a cancelled task strands others: a blocked one is expected back. Inside a batch the
    fan-in has to be reached, so the sub-tasks that cannot start are blocked with the one they need. Who runs in a race
    strands nobody: the end of the race says what becomes of its part.
    """
    reason = f"it needs '{task.label}', which is {task.state}"
    victims: list[Task] = []
    edge = [task.key] if task.kind != ENTRANT else []
    while edge:
        for dependent in transaction.query("list_dependents", needs=edge.pop()):
            if dependent["state"] != states.WAITING:
                continue
            candidate = transaction.one("get_task", key=dependent["key"])
            if candidate is None or (task.state == states.BLOCKED and candidate["kind"] not in PARTS):
                continue
            row = transaction.one(
                "block_victim", key=candidate["key"], reason=reason, blocked_by=task.key, now=transaction.now()
            )
            if row is not None:
                victims.append(Task(**row))
                if victims[-1].kind != ENTRANT:
                    edge.append(victims[-1].key)
                journal.append(transaction, "task.blocked", task=victims[-1], reason=reason)
    return victims


def _waive_cancelled(transaction: Transaction, task: Task) -> None:
    """A person says: go on without the needs that were cancelled."""
    for need in transaction.query("list_needs", task=task.key):
        if need["state"] == states.CANCELLED and not need["met"]:
            transaction.execute("waive_need", task=task.key, needs=need["key"])
            transaction.execute("lower_one_need", key=task.key)
