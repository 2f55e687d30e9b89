"""How far each channel has read the journal: one row a channel, taken by one deliverer at a time."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.store.database import fetch_all, fetch_one

if TYPE_CHECKING:
    from handoff.store.database import Store

ON, GONE = "on", "gone"
HELD_SECONDS = 120.0
_NEW_LOOKS_BACK = 600.0
_KEPT = ("seq", "state", "next_at", "tries", "sent", "dropped", "sent_at", "trouble")


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
        due = row["state"] == ON and row["next_at"] <= transaction.now() and row["busy_until"] <= transaction.now()
        return due and last is not None and last["seq"] > row["seq"]


def take(store: Store, *, name: str, place: str, force: bool = False) -> Progress | None:
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


def keep(store: Store, held: Progress, *, now: Progress, done: bool) -> Progress | None:
    """Write down how far it got; None when somebody else has taken over. `done` lets the next one come."""
    with store.transaction() as transaction:
        until = 0.0 if done else transaction.now() + HELD_SECONDS
        row = transaction.one(
            "keep_channel",
            name=held.name,
            mark=held.busy_until,
            until=until,
            **{field: getattr(now, field) for field in _KEPT},
        )
    return Progress(**row) if row else None


def listing(store: Store) -> dict[str, Progress]:
    """Every channel that was ever delivered to, by name."""
    return {progress.name: progress for progress in fetch_all(store, Progress, "list_channels")}


def last_seq(store: Store) -> int:
    """How far the journal goes."""
    return fetch_one(store, _seq, "last_event") or 0


def _seq(*, seq: int) -> int:
    return seq
