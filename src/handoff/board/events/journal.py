"""The journal: what happened, in the order it was committed, only added to."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import texts
from handoff.store.database import fetch_all, fetch_one

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    from handoff.store.database import Store, Transaction

    class Subject(Protocol):
        """What the journal must know of a task."""

        @property
        def key(self) -> int: ...
        @property
        def project(self) -> str: ...
        @property
        def label(self) -> str: ...
        @property
        def batch(self) -> int | None: ...
        @property
        def held_by(self) -> str | None: ...
        @property
        def fence(self) -> int: ...


LIMIT = 1000
CONFLICT_SEEN, CONFLICT_GONE = "conflict.seen", "conflict.gone"
"""While sessions run: git cannot join what two of them have now, and can again."""
DOUBT_SEEN, DOUBT_GONE = "doubt.seen", "doubt.gone"
"""The same of what joins cleanly and may be wrong all the same."""
PATH_ASKED = "path.asked"
"""Another part needs a change in a file of this one."""
PERSON_SAID = "person.said"
"""A person's own words to whoever works on a task."""
PERSON_SAYS = "A person says: "
CLAIMED = "task.claimed"
HEARD = "session.heard"
"""All that was said to a session, up to the line `until`, stands in an answer that it got."""
SAW = "session.saw"
"""Its client went on with that answer, so its next request to the model carries the words of the lines `since` to `until`."""
QUEUED, DELIVERED, SEEN = "queued", "delivered", "seen"
SILENT = "no sign of life"
"""How the reason begins when a task is taken from a session that was not heard."""
NEWEST = 1 << 62
"""The number no line ever has: everything stands before it."""


class Event(Record):
    """One line of the journal. `kind` is a noun and a past: task.claimed."""

    seq: int
    at: float
    kind: str
    project: str
    task: int | None
    task_id: str
    batch: int | None
    session: str
    fence: int
    body: dict[str, Any]


def append(
    transaction: Transaction,
    kind: str,
    /,
    *,
    task: Subject | None = None,
    project: str = "",
    batch: int | None = None,
    session: str = "",
    **body: Any,
) -> None:
    """Add a line inside the transaction that makes it true."""
    transaction.put(
        "add_event",
        at=transaction.now(),
        kind=kind,
        project=task.project if task else project,
        task=task.key if task else None,
        task_id=task.label if task else "",
        batch=task.batch if task else batch,
        session=session or (task.held_by or "" if task else ""),
        fence=task.fence if task else 0,
        body=texts.write(body),
    )


def since(
    store: Store, *, seq: int = 0, project: str = "", limit: int = LIMIT, settled: int | None = None
) -> list[Event]:
    """The lines after `seq`, as far as the journal is settled: no line ever appears behind one that was read.

    Whoever reads in a transaction asks `Database.settled` before it begins, and says what it was.
    """
    settled = store.settled() if settled is None else settled  # before the reading: who wrote up to there has ended
    asked = {"since": seq, "settled": settled, "limit": limit}
    if project:
        return fetch_all(store, event_of, "read_project_events", **asked, project=project)
    return fetch_all(store, event_of, "read_events", **asked)


def mark(store: Store) -> int:
    """Where somebody stands who has read everything that is settled: `since` goes on from there."""
    settled = store.settled()
    with store.transaction(write=False) as transaction:
        row = transaction.one("last_event")
    return min(settled, int(row["seq"])) if row else 0


def last(store: Store, *, project: str = "", limit: int = 20, before: int = NEWEST) -> list[Event]:
    """The end of the journal, or what stands before a line, in order."""
    if project:
        asked = {"project": project, "before": before, "limit": limit}
        return fetch_all(store, event_of, "read_last_project_events", **asked)[::-1]
    return fetch_all(store, event_of, "read_last_events", before=before, limit=limit)[::-1]


def of_task(store: Store, *, key: int, seq: int = 0) -> list[Event]:
    """What happened to one task."""
    return fetch_all(store, event_of, "read_task_events", task=key, since=seq, limit=LIMIT)


def of_batch(store: Store, *, key: int, seq: int = 0, limit: int = LIMIT) -> list[Event]:
    """What happened to a batch and its parts: the last lines after `seq`, in order."""
    return fetch_all(store, event_of, "read_batch_events", batch=key, since=seq, limit=limit)[::-1]


def live_conflicts(store: Store, *, project: str = "") -> list[Event]:
    """What was seen and is not gone: files in which the work of a running task and another's, or the branch's, cannot be joined."""
    found: dict[tuple[frozenset[int], str], Event] = {}
    for event in fetch_all(store, event_of, "read_conflicts_of_running"):
        place = frozenset((event.task or 0, int(event.body.get("key", 0)))), str(event.body.get("path", ""))
        if event.kind == CONFLICT_GONE:
            found.pop(place, None)
        elif project in ("", event.project):
            found.setdefault(place, event)  # both are told; one line is enough
    return list(found.values())


def event_of(*, body: str, **row: Any) -> Event:
    """The line that a row holds."""
    return Event(**row, body=texts.read(body, {}))


class SpokenWords(Record):
    """What a person said to whoever works on a task, and how far it got."""

    seq: int
    at: float
    by: str
    to: str
    """The session that ran then; nothing where it was said to the next one."""
    text: str
    state: str = QUEUED
    session: str = ""
    """Who got it."""

    @property
    def standing(self) -> str:
        """How far it got, in words."""
        if self.state == DELIVERED:
            return f"delivered to {self.session}, not seen yet"
        return f"seen by {self.session}" if self.state == SEEN else "queued"


class HeardWords(Record):
    """What one answer gives to a session, and of which lines of the journal it is."""

    told: tuple[str, ...] = ()
    since: int = 0
    until: int = 0


def hear(store: Store, *, session: str, task: Subject | None = None, project: str = "") -> HeardWords:
    """What a session has not heard yet, of its task or without one; marked in the same transaction, so nobody gives it twice."""

    def read(at: Store) -> list[Event]:
        return of_task(at, key=task.key) if task is not None else of_client(at, project=project, session=session)

    if not _said(read(store), unheard=True):  # as a rule: nobody need wait for a writer
        return HeardWords()
    with store.transaction() as transaction:
        events = read(transaction)
        found = _said(events, unheard=True)
        if found:
            append(transaction, HEARD, task=task, project=project, session=session, until=events[-1].seq)
    seqs = [seq for seq, _ in found]
    return HeardWords(tuple(text for _, text in found), min(seqs), events[-1].seq) if found else HeardWords()


def of_client(store: Store, *, project: str, session: str) -> list[Event]:
    """What was said to a client's session that holds no task."""
    return fetch_all(store, event_of, "read_client_events", project=project, session=session)


def messages(events: Sequence[Event]) -> list[SpokenWords]:
    """What a person said among these lines, oldest first, each with how far it got."""
    found: list[SpokenWords] = []
    for event in events:
        body = event.body
        until = int(body.get("until", event.seq)) if event.kind in (HEARD, SAW) else event.seq
        if event.kind == PERSON_SAID:
            by = str(body.get("by") or event.session)
            to, text = str(body.get("to", "")), str(body.get("text", ""))
            found.append(SpokenWords(seq=event.seq, at=event.at, by=by, to=to, text=text))
        elif event.kind in (HEARD, CLAIMED):
            found = [
                one._replace(state=DELIVERED, session=event.session)
                if one.seq <= until and (one.state == QUEUED or (one.state == DELIVERED and event.kind == CLAIMED))
                else one  # whoever claims it begins with all of them: also those that an ended session never showed to have seen
                for one in found
            ]
        elif event.kind == SAW:
            since = int(body.get("since", until))
            found = [
                one._replace(state=SEEN) if since <= one.seq <= until and one.session == event.session else one
                for one in found
            ]
    return found


def said_to(session: str, events: Sequence[Event]) -> list[SpokenWords]:
    """What a person said to a session, of what happened to its task."""
    return [one for one in messages(events) if session in (one.to, one.session)]


def said_in(events: Sequence[Event]) -> list[str]:
    """What a person said to whoever works on a task, and what of others' work still holds for it; a person's words first."""
    return [text for _, text in _said(events)]


def _said(events: Sequence[Event], *, unheard: bool = False) -> list[tuple[int, str]]:
    """The same with the line of each, or only what its session has not heard."""
    found: dict[str, tuple[int, str]] = {}
    for event in events:
        place = "".join(str(event.body.get(name, "")) for name in ("path", "other", "what"))
        text = str(event.body.get("text", "")).strip()
        line = event.seq, " ".join(text.split())
        if event.kind in (HEARD, CLAIMED) and unheard:  # whoever claims it reads all of it in the baton
            until = int(event.body.get("until", event.seq))
            found = {name: one for name, one in found.items() if one[0] > until}
        elif event.kind == PERSON_SAID:
            found[str(event.seq)] = (event.seq, f"{PERSON_SAYS}{text}")
        elif event.kind in (CONFLICT_SEEN, DOUBT_SEEN, PATH_ASKED):
            found[text if event.kind == PATH_ASKED else place] = line
        elif event.kind in (CONFLICT_GONE, DOUBT_GONE) and found.pop(place, None) is None and unheard:
            found[place] = line
    return sorted(found.values(), key=lambda one: not one[1].startswith(PERSON_SAYS))


# --- how far each channel has read it: one row a channel, taken by one deliverer at a time -----------------------

CHANNEL_ON, CHANNEL_GONE = "on", "gone"
HELD_SECONDS = 120.0
_NEW_LOOKS_BACK = 600.0
_KEPT_FIELDS = ("seq", "state", "next_at", "tries", "sent", "dropped", "sent_at", "trouble")


class Progress(Record):
    """A channel's row. `busy_until` is the mark of who delivers: with another mark in the row, somebody took over."""

    name: str
    place: str
    seq: int
    state: str
    busy_until: float
    next_at: float
    tries: int
    sent: int
    dropped: int
    sent_at: float | None
    trouble: str

    @property
    def taken_at(self) -> float:
        """When the deliverer last wrote this row, by the database's clock."""
        return self.busy_until - HELD_SECONDS


def has_news(store: Store, *, name: str, place: str) -> bool:
    """Whether there may be something to deliver: a look that writes nothing."""
    with store.transaction(write=False) as transaction:
        row, last = transaction.one("get_channel", name=name), transaction.one("last_event")
        if row is None or row["place"] != place:
            return True
        due = (
            row["state"] == CHANNEL_ON
            and row["next_at"] <= transaction.now()
            and row["busy_until"] <= transaction.now()
        )
        return due and last is not None and last["seq"] > row["seq"]


def take_channel(store: Store, *, name: str, place: str, force: bool = False) -> Progress | None:
    """Become the one who delivers to this channel; None when another is at it, it is not due, or nobody listens there.

    A new channel begins with what happened in the last minutes; one whose place has changed begins afresh there.
    """
    with store.transaction() as transaction:
        now = transaction.now()
        row = transaction.one("get_channel", name=name)
        if row is None:
            found = transaction.one("seq_before", moment=now - _NEW_LOOKS_BACK)
            transaction.execute("add_channel", name=name, place=place, seq=found["seq"] if found else 0)
        elif row["place"] != place:
            transaction.execute("renew_channel", name=name, place=place)
        taken = transaction.one("take_channel", name=name, now=now, until=now + HELD_SECONDS, force=1 if force else 0)
    return Progress(**taken) if taken else None


def keep_progress(store: Store, held: Progress, *, now: Progress, done: bool) -> Progress | None:
    """Write down how far it got; None when somebody else has taken over. `done` lets the next one come."""
    with store.transaction() as transaction:
        until = 0.0 if done else transaction.now() + HELD_SECONDS
        row = transaction.one(
            "keep_channel",
            name=held.name,
            mark=held.busy_until,
            until=until,
            **{field: getattr(now, field) for field in _KEPT_FIELDS},
        )
    return Progress(**row) if row else None


def list_channels(store: Store) -> dict[str, Progress]:
    """Every channel that was ever delivered to, by name."""
    return {progress.name: progress for progress in fetch_all(store, Progress, "list_channels")}


def last_seq(store: Store) -> int:
    """How far the journal goes."""
    return fetch_one(store, _seq, "last_event") or 0


def _seq(*, seq: int) -> int:
    return seq
