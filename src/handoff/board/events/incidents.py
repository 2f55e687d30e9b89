"""Incidents: what a guard refused or the watcher noticed, each told once, with its evidence and what fixes it."""

from __future__ import annotations

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal, texts
from handoff.store.database import fetch_all

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from handoff.store.database import Store, Transaction

REFUSED = "refused"
FIXED, SEEN = "fixed", "seen"
LIMIT = 1000


class IncidentReport(Record):
    """Something to be told. `mark` is made of what happened: the same mark is the same incident."""

    mark: str
    kind: str
    what: str
    fix: str
    project: str = ""
    session: str = ""
    place: str = ""
    at: float = 0.0  # when it happened, if that is known; else now
    evidence: dict[str, Any] = {}  # noqa: RUF012 - never changed
    fixed: dict[str, Any] = {}  # noqa: RUF012 - what the watcher must see so that it counts as fixed


class Incident(Record):
    """An incident as the board knows it."""

    id: str
    at: float
    kind: str
    project: str
    session: str
    place: str
    what: str
    fix: str
    evidence: dict[str, Any]
    fixed: dict[str, Any]
    resolved_at: float | None
    resolved: str


class Watched(Record):
    """What the watcher saw last at a place; version 0 is never."""

    version: int
    facts: dict[str, Any]


def identity(*parts: str) -> str:
    """A short name made of what happened."""
    from hashlib import sha256

    return "i-" + sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def tell(transaction: Transaction, reports: Sequence[IncidentReport]) -> int:
    """Write incidents and their journal lines in the transaction that makes them known; how many were new."""
    told = 0
    for report in reports:
        name = identity(report.mark)
        body = {
            "what": _clean(report.what),
            "fix": _clean(report.fix),
            "evidence": report.evidence,
            "fixed": report.fixed,
        }
        fresh = transaction.execute(
            "add_incident",
            id=name,
            at=report.at or transaction.now(),
            kind=report.kind,
            project=_clean(report.project),
            session=_clean(report.session),
            place=_clean(report.place),
            body=texts.write(body),
        )
        if fresh:
            told += 1
            journal.append(
                transaction,
                f"incident.{report.kind}",
                project=_clean(report.project),
                session=_clean(report.session),
                incident=name,
                what=body["what"],
                fix=body["fix"],
                evidence=report.evidence,
            )
    return told


def resolve(transaction: Transaction, *, id: str, how: str) -> bool:
    """An incident is fixed, or somebody has seen it."""
    rows = transaction.query("resolve_incident", id=id, how=how, now=transaction.now())
    for row in rows:
        journal.append(
            transaction, f"incident.{how}", project=row["project"], session=row["session"], incident=row["id"]
        )
    return bool(rows)


def listing(
    store: Store, *, project: str = "", session: str = "", include_ended: bool = False, limit: int = LIMIT
) -> list[Incident]:
    """Open incidents, or all of them, newest first."""
    asked = {"project": project, "session": session, "include_ended": int(include_ended), "limit": limit}
    return fetch_all(store, _incident, "list_incidents", **asked)


def find(store: Store, *, id: str) -> Incident:
    """The incident of that id, or of that beginning of one."""
    found = fetch_all(store, _incident, "find_incidents", start=id.replace("%", "").replace("_", "") + "%")
    exact = [one for one in found if one.id == id] or found
    if len(exact) != 1:
        raise UserError(f"There is no incident '{id}'.", "See them all: handoff incident list --all")
    return exact[0]


def count(store: Store, *, project: str = "") -> int:
    """How many incidents nobody has resolved."""
    with store.transaction(write=False) as transaction:
        row = transaction.one("count_incidents", project=project)
        return int(row["open"]) if row else 0


def of_place(transaction: Transaction, *, place: str) -> list[Incident]:
    """The open incidents of one place, oldest first."""
    return fetch_all(transaction, _incident, "list_place_incidents", place=place)


def get_watched(transaction: Transaction, *, place: str) -> Watched:
    """What the watcher saw last."""
    row = transaction.one("get_watched", place=place)
    return Watched(int(row["version"]), texts.read(row["facts"], {})) if row else Watched(0, {})


def put_watched(transaction: Transaction, *, place: str, before: Watched, facts: dict[str, Any]) -> bool:
    """Remember a look; False if somebody else has looked since `before`, and then nothing of ours counts."""
    text = texts.write(facts)
    if not before.version:
        return bool(transaction.execute("add_watched", place=place, facts=text))
    return bool(transaction.execute("set_watched", place=place, version=before.version, facts=text))


def _clean(text: str) -> str:
    """A text both databases can keep, whatever a session wrote."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def _incident(*, body: str, **row: Any) -> Incident:
    return Incident(**{"what": "", "fix": "", "evidence": {}, "fixed": {}, **texts.read(body, {}), **row})
