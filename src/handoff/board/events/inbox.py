"""The inbox: messages for a supervisor that may not be running."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import texts
from handoff.store.database import fetch_all

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from handoff.store.database import Store

LIMIT = 100


class Message(Record):
    """One message; it is taken once."""

    key: int
    kind: str
    project: str
    task: int | None
    body: str
    created_at: float
    taken_at: float | None
    taken_by: str


def post(
    store: Store, *, kind: str, project: str = "", task: int | None = None, body: Mapping[str, Any] | None = None
) -> Message:
    """Leave a message, in the transaction of what it tells of."""
    with store.transaction(scopes=()) as transaction:
        (row,) = transaction.query(
            "post_inbox",
            kind=kind,
            project=project,
            task=task,
            body=texts.write(dict(body or {})),
            now=transaction.now(),
        )
        return Message(**row)


def unread(store: Store, *, limit: int = LIMIT) -> list[Message]:
    """Messages nobody has taken, the oldest first."""
    return fetch_all(store, Message, "read_inbox", limit=limit)


def take(store: Store, *, key: int, taken_by: str) -> Message | None:
    """Take a message; None when somebody else was faster."""
    with store.transaction(scopes=()) as transaction:
        row = transaction.one("take_inbox", key=key, taken_by=taken_by, now=transaction.now())
    return Message(**row) if row else None
