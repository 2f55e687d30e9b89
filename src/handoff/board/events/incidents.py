"""Incidents: what a guard refused or the watcher noticed, each told once, with its evidence and what mends it."""

from __future__ import annotations

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal, texts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from handoff.store.database import Row, Store, Transaction

REFUSED = "refused"
MENDED, SEEN = "mended", "seen"
MOST = 1000


class Report(Record):
    """Something to be told. `mark` is made of what happened: the same mark is the same incident."""

    mark: str
    kind: str
    what: str
    mend: str
    project: str = ""
    session: str = ""
    place: str = ""
    at: float = 0.0  # when it happened, if that is known; else now
    evidence: dict[str, Any] = {}  # noqa: RUF012 - never changed
    mended: dict[str, Any] = {}  # noqa: RUF012 - what the watcher must see so that it counts as mended


class Incident(Record):
    """An incident as the board knows it."""

    id: str
    at: float
    kind: str
    project: str
    session: str
    place: str
    what: str
    mend: str
    evidence: dict[str, Any]
    mended: dict[str, Any]
    settled_at: float | None
    settled: str


class Watched(Record):
    """What the watcher saw last at a place; version 0 is never."""

    version: int
    facts: dict[str, Any]


def identity(*parts: str) -> str:
    """A short name made of what happened."""
    from hashlib import sha256

    return "i-" + sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def tell(transaction: Transaction, reports: Sequence[Report]) -> int:
    """Write incidents and their journal lines in the transaction that makes them known; how many were new."""
    told = 0
    for report in reports:
        name = identity(report.mark)
        body = {
            "what": _clean(report.what), "mend": _clean(report.mend), "evidence": report.evidence,
            "mended": report.mended,
        }  # fmt: skip
        fresh = transaction.execute(
            "add_incident", id=name, at=report.at or transaction.now(), kind=report.kind, project=_clean(report.project),
            session=_clean(report.session), place=_clean(report.place), body=texts.write(body),
        )  # fmt: skip
        if fresh:
            told += 1
            journal.append(
                transaction, f"incident.{report.kind}", project=_clean(report.project), session=_clean(report.session),
                incident=name, what=body["what"], mend=body["mend"], evidence=report.evidence,
            )  # fmt: skip
    return told


def settle(transaction: Transaction, *, id: str, how: str) -> bool:  # noqa: A002 - the word people use
    """An incident is mended, or somebody has seen it."""
    rows = transaction.query("settle_incident", id=id, how=how, now=transaction.now())
    for row in rows:
        journal.append(
            transaction, f"incident.{how}", project=row["project"], session=row["session"], incident=row["id"]
        )
    return bool(rows)


def listing(
    store: Store, *, project: str = "", session: str = "", every: bool = False, most: int = MOST
) -> list[Incident]:
    """Open incidents, or all of them, newest first."""
    with store.transaction(write=False) as transaction:
        rows = transaction.query("list_incidents", project=project, session=session, every=int(every), most=most)
        return [_incident(row) for row in rows]


def find(store: Store, *, id: str) -> Incident:  # noqa: A002 - the word people use
    """The incident of that id, or of that beginning of one."""
    with store.transaction(write=False) as transaction:
        rows = transaction.query("find_incidents", start=id.replace("%", "").replace("_", "") + "%")
    exact = [row for row in rows if row["id"] == id]
    if len(exact or rows) != 1:
        raise UserError(f"There is no incident '{id}'.", "See them all: handoff incidents --all")
    return _incident((exact or rows)[0])


def count(store: Store, *, project: str = "") -> int:
    """How many incidents nobody has settled."""
    with store.transaction(write=False) as transaction:
        row = transaction.one("count_incidents", project=project)
        return int(row["open"]) if row else 0


def of_place(transaction: Transaction, *, place: str) -> list[Incident]:
    """The open incidents of one place, oldest first."""
    return [_incident(row) for row in transaction.query("list_place_incidents", place=place)]


def watched(transaction: Transaction, *, place: str) -> Watched:
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


def _incident(row: Row) -> Incident:
    body = texts.read(str(row["body"]), {})
    return Incident(
        row["id"], row["at"], row["kind"], row["project"], row["session"], row["place"], body.get("what", ""),
        body.get("mend", ""), body.get("evidence", {}), body.get("mended", {}), row["settled_at"], row["settled"],
    )  # fmt: skip
