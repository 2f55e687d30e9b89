"""Holds: an agent or a task that is not started for a while, for no fault of the agent's; why, until when, and what mends it."""

from __future__ import annotations

from handoff.base.clock import stamp
from handoff.base.markdown import end_sentence
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.store.database import fetch_all, fetch_one

if TYPE_CHECKING:
    from handoff.board.sessions.sessions import Session
    from handoff.board.tasks.tasks import Task
    from handoff.store.database import Store, Transaction

AGENT, TASK = "agent", "task"
HELD = "task.held"
LONGEST_SECONDS = 3600.0
PROBE_SECONDS = 3600.0
"""How long one session that tries for all others may take before another one tries."""
EVERYWHERE = ""
FOR_GOOD = 32_503_680_000.0
"""Until a person says otherwise: the year 3000."""
_EVER = float("inf")
_DOUBLINGS = 30


class Hold(Record):
    """An agent on one host, or a task there, that waits.

    `session` of a task made what only its check has not judged yet; that of an agent tries it now, for all others.
    """

    kind: str
    name: str
    host: str
    reason: str
    fix: str
    session: str
    tries: int
    at: float
    until: float

    @property
    def why(self) -> str:
        """Until when, and why."""
        if self.until >= FOR_GOOD:
            return self.reason
        when = "while one session tries it" if self.kind == AGENT and self.session else f"until {stamp(self.until)}"
        return f"{when}: {self.reason}"

    @property
    def words(self) -> str:
        """Why and until when, and what to do about it."""
        return f"{end_sentence(self.why)} {self.fix}" if self.fix else self.why


def hold_agent(
    transaction: Transaction,
    task: Task,
    session: Session,
    *,
    reason: str,
    fix: str,
    at: float,
    until: float,
    back_off: float,
    fault: str,
) -> Hold:
    """The agent's provider refused `session`: nobody else tries it on that host before `until`, or before a growing pause is over.

    The pause is counted from `at`, when it happened: what was over before anybody looked holds nobody. Sessions that were started
    before it was known say nothing new, and only the first is told to people.
    """
    now = transaction.now()
    known = _get(transaction, AGENT, session.agent, session.host)
    if known is not None and session.started_at <= known.at:
        if until > known.until:
            transaction.execute("move_hold", **_subject(known), until=until, since=_EVER)
        return known._replace(until=max(until, known.until))
    tries = known.tries + 1 if known else 1
    until = max(until, at + _pause(tries, back_off))
    if until <= now:
        return Hold(
            kind=AGENT,
            name=session.agent,
            host=session.host,
            reason=reason,
            fix=fix,
            session="",
            tries=tries,
            at=now,
            until=until,
        )
    held = _put(transaction, AGENT, session.agent, session.host, reason=reason, fix=fix, tries=tries, until=until)
    journal.append(
        transaction,
        "agent.held_again" if known else "agent.held",
        project=task.project,
        session=session.id,
        agent=session.agent,
        host=session.host,
        what=f"Agent {session.agent} is not started before {stamp(until)}.",
        reason=reason,
        fix=fix,
        until=stamp(until),
        fault=fault,
    )
    return held


def hold_task(
    transaction: Transaction,
    task: Task,
    *,
    host: str,
    reason: str,
    fix: str,
    back_off: float,
    tries: int = 1,
    made_by: str = "",
) -> Hold:
    """A task waits on this host: it is looked at again after a growing pause, or when a person says so.

    `tries` counts those of which no hold is left, because a session began; `made_by` is the session whose work waits for nothing
    but its check.
    """
    known = _get(transaction, TASK, str(task.key), host)
    tries = max(tries, known.tries + 1 if known else 1)
    until = transaction.now() + _pause(tries, back_off)
    made_by = made_by or (known.session if known else "")
    held = _put(
        transaction, TASK, str(task.key), host, reason=reason, fix=fix, tries=tries, until=until, session=made_by
    )
    if known is None or known.reason != reason:
        journal.append(transaction, HELD, task=task, reason=reason, fix=fix, host=host, until=stamp(until))
    return held


def hold_for_person(transaction: Transaction, task: Task, *, reason: str, fix: str) -> Hold:
    """A person wants a task for themselves: no host starts it until it is given back or taken."""
    held = _put(transaction, TASK, str(task.key), EVERYWHERE, reason=reason, fix=fix, tries=1, until=FOR_GOOD)
    journal.append(transaction, HELD, task=task, reason=reason, fix=fix, host=EVERYWHERE, until="")
    return held


def probe(transaction: Transaction, *, agent: str, host: str, session: str) -> None:
    """A session of an agent is claimed whose pause is over: it tries for all others, which wait for how it fares."""
    now = transaction.now()
    until = now + PROBE_SECONDS
    transaction.put("probe_hold", kind=AGENT, name=agent, host=host, session=session, now=now, until=until)


def prove(store: Store, session: Session) -> bool:
    """A session that began after the hold was answered by its provider: the agent may be started again."""
    with store.transaction() as transaction:
        return _drop(transaction, session.agent, host=session.host, since=session.started_at)


def lapse(store: Store, session: Session) -> None:
    """A session that tried for all others ended without proving anything: the next one may try."""
    with store.transaction() as transaction:
        which = {"kind": AGENT, "name": session.agent, "host": session.host}
        transaction.execute("move_hold", **which, until=transaction.now(), since=session.started_at)


def release_agent(store: Store, *, agent: str) -> bool:
    """A person says that it works again, on all hosts; False when it was not held."""
    with store.transaction() as transaction:
        return _drop(transaction, agent, host="", since=_EVER)


def try_task(store: Store, *, key: int) -> bool:
    """A person says that the ground of a task is mended: it is looked at now; False when it was not held."""
    with store.transaction() as transaction:
        which = {"kind": TASK, "name": str(key), "host": ""}
        return bool(transaction.execute("move_hold", **which, until=transaction.now(), since=_EVER))


def release_task(store: Store, *, key: int, since: float = _EVER) -> bool:
    """A task has begun, or is over: what held it before that moment holds it no more; False when it was not held."""
    with store.transaction() as transaction:
        return bool(transaction.execute("drop_hold", kind=TASK, name=str(key), host="", since=since))


def of_agent(store: Store, *, agent: str, host: str) -> Hold | None:
    """Why an agent is not started on a host, if it is not."""
    return fetch_one(store, Hold, "get_hold", kind=AGENT, name=agent, host=host)


def of_task(store: Store, *, key: int, host: str) -> Hold | None:
    """Why a task is not started on a host, or was not until the time in it."""
    return fetch_one(store, Hold, "get_hold", kind=TASK, name=str(key), host=host)


def is_known(transaction: Transaction, *, agent: str, host: str) -> bool:
    """Whether an agent is held on a host, or was and has not proved itself since."""
    return _get(transaction, AGENT, agent, host) is not None


def listing(store: Store) -> list[Hold]:
    """Everything that is held now, the newest last."""
    with store.transaction(write=False) as transaction:
        return fetch_all(transaction, Hold, "list_holds", now=transaction.now())


def prune(store: Store) -> int:
    """Forget the holds of tasks that have ended."""
    with store.transaction() as transaction:
        return transaction.execute("prune_holds")


def _get(transaction: Transaction, kind: str, name: str, host: str) -> Hold | None:
    row = transaction.one("get_hold", kind=kind, name=name, host=host)
    return Hold(**row) if row else None


def _put(
    transaction: Transaction,
    kind: str,
    name: str,
    host: str,
    *,
    reason: str,
    fix: str,
    tries: int,
    until: float,
    session: str = "",
) -> Hold:
    now = transaction.now()
    held = Hold(
        kind=kind, name=name, host=host, reason=reason, fix=fix, session=session, tries=tries, at=now, until=until
    )
    values = held._asdict()
    del values["at"]
    transaction.execute("put_hold", **values, now=now)
    return held


def _drop(transaction: Transaction, agent: str, *, host: str, since: float) -> bool:
    gone = bool(transaction.execute("drop_hold", kind=AGENT, name=agent, host=host, since=since))
    if gone:
        journal.append(transaction, "agent.released", agent=agent, host=host)
    return gone


def _pause(tries: int, back_off: float) -> float:
    """Twice as long each time, up to an hour; a longer first pause stays as it was chosen."""
    return min(back_off * 2.0 ** min(tries - 1, _DOUBLINGS), max(LONGEST_SECONDS, back_off))


def _subject(held: Hold) -> dict[str, str]:
    return {"kind": held.kind, "name": held.name, "host": held.host}
