"""What a host does for several sessions at once: claims and signs of life, each in one statement; and tabs that open by themselves."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.board.sessions import holds, leases, pauses
from handoff.board.sessions.sessions import AGENT, Session, SessionIdentity, start_line
from handoff.board.tasks.tasks import Task
from handoff.store.database import beside_others, fetch_all

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from handoff.board.sessions.leases import Claim, ClaimLimits
    from handoff.store.database import Store, Transaction


class Holding(Record):
    """Who holds a running task, and with which fence."""

    key: int
    fence: int
    held_by: str
    state: str


def holdings(store: Store, *, host: str) -> dict[int, Holding]:
    """The running tasks of a host by their keys."""
    return {held.key: held for held in fetch_all(store, Holding, "list_holdings", host=host)}


@beside_others
def renew(store: Store, *, host: str, beats: Sequence[tuple[int, int]]) -> set[int]:
    """Signs of life of sessions of a host, by task and fence; the tasks whose leases were renewed.

    One that is missing is another's by now, or was taken for dead: `leases.heartbeat` tells which.
    """
    said = {"host": host, "beats": f",{','.join(f'{key}:{fence}' for key, fence in beats)},"}
    rows = store.at_once("renew_host_at_once", lambda: said)
    if rows is None:
        with store.transaction(scopes=()) as transaction:
            moments = {"lease_now": transaction.lease_now(), "now": transaction.now()}
            rows = transaction.query("renew_leases", **said, **moments)
    return {row["key"] for row in rows}


@beside_others
def claim(
    store: Store,
    *,
    who: Sequence[SessionIdentity],
    project: str = "",
    lease_seconds: float = leases.LEASE_SECONDS,
    limits: ClaimLimits | None = None,
) -> list[Claim]:
    """Take the tasks that come next, one for each of these sessions of one agent on one host, as far as there are any and limits allow.

    The sessions are new: none of them holds anything.
    """
    limits = limits or leases.ClaimLimits()
    first = who[0]
    scopes = leases.scopes_of(first, project=project, limits=limits)
    said: dict[str, Any] = {"project": project, "lease_seconds": lease_seconds, "limits": limits}
    if len(who) == 1 and (alone := _one_by_one(store, who, scopes=scopes, **said)) is not None:
        return alone
    with store.transaction(scopes=scopes) as transaction:
        some = _one_by_one(transaction, who, scopes=(), **said)
        if some is not None:
            return some
        found: list[Claim] = []
        most = _most(transaction, who, project=project, limits=limits)
        one_by_one = bool(limits.project and not project)  # each may be the last of another project
        while len(found) < most:
            asked = who[len(found) : len(found) + 1 if one_by_one else most]
            taken = _take(transaction, asked, project=project, lease_seconds=lease_seconds, limits=limits)
            found += taken
            if len(taken) < len(asked) or not one_by_one:
                break
        return found


def _one_by_one(
    store: Store,
    who: Sequence[SessionIdentity],
    *,
    project: str,
    lease_seconds: float,
    limits: ClaimLimits,
    scopes: Sequence[str],
) -> list[Claim] | None:
    """Each claim in one journey: alone on any server, several behind a pooler, where each statement of one for all is a journey."""
    found: list[Claim] = []
    for one in who:
        asked = leases.wishes_of(one, project=project, role="", limits=limits)
        taken = leases.claim_at_once(store, who=one, asked=asked, lease_seconds=lease_seconds, scopes=scopes)
        if taken is None:
            return None
        found += taken
        if not taken:
            break
    return found


def _most(transaction: Transaction, who: Sequence[SessionIdentity], *, project: str, limits: ClaimLimits) -> int:
    first = who[0]
    most = len(who)
    if most > 1 and any(limits):
        running = leases.count_running(transaction, first, project)
        bounded = limits._asdict() if project else {**limits._asdict(), "project": 0}
        most = min([most, *(limit - running[scope] for scope, limit in bounded.items() if limit)])
    if most > 1 and holds.is_known(transaction, agent=first.agent, host=first.host):
        return 1  # it tries for all others
    return most


def _take(
    transaction: Transaction, who: Sequence[SessionIdentity], *, project: str, lease_seconds: float, limits: ClaimLimits
) -> list[Claim]:
    first, now = who[0], transaction.now()
    wanted = leases.wishes_of(first, project=project, role="", limits=limits)
    wanted.update(session="", most=len(who), width=len(first.id), names="".join(one.id for one in who))
    rows = transaction.query(
        "claim_next_tasks", **wanted, now=now, lease_seconds=float(lease_seconds), lease_now=transaction.lease_now()
    )
    taken = sorted((Task(**row) for row in rows), key=lambda task: (-task.priority, task.attempt, task.key))
    known = {one.id: one for one in who}
    found = [leases.claim_of(task, known[task.held_by or ""], began=now) for task in taken]
    if found:
        if first.kind == AGENT:
            holds.probe(transaction, agent=taken[0].held_agent, host=first.host, session=found[0].session.id)
        for claim in found:
            transaction.put("put_session", **_row(claim.session, now))
            start_line(transaction, claim.session)
            journal.append(transaction, "task.claimed", task=claim.task)
    return found


def _row(session: Session, now: float) -> dict[str, object]:
    said = session._asdict()
    for name in ("started_at", "seen_at", "ended_at", "ending"):
        del said[name]
    return {**said, "now": now}


def without_tab(store: Store, *, host: str, most: int) -> list[Task]:
    """Ready tasks that nobody has paused and that had no tab since they became ready; as many as there is room for.

    Tasks of a project that a supervisor of this host serves are left to it.
    """
    with store.transaction(write=False) as transaction:
        row = transaction.one("count_tabs", host=host) or {"count": 0}
        room = max(0, most - int(row["count"]))
        if not room:
            return []
        moments = {"now": transaction.now(), "lease_now": transaction.lease_now()}
        found = fetch_all(transaction, Task, "list_without_tab", host=host, limit=room, **moments)
        return [task for task in found if pauses.pause_of(transaction, task, by_itself=True) is None]


def take_tab(store: Store, task: Task, *, host: str) -> bool:
    """Whether it is ours to open a tab for this task now; whoever else asks gets a no."""
    with store.transaction() as transaction:
        transaction.execute("prune_tabs")
        return bool(transaction.execute("add_tab", task=task.key, fence=task.fence, host=host, now=transaction.now()))
