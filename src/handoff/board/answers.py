"""What people answered to a task's gates, for the next session. Light: every baton asks."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.store.database import fetch_all

if TYPE_CHECKING:
    from handoff.store.database import Store

LIMIT = 5


class Answer(Record):
    """One answered question; `answer` is the text as the person wants it, if they changed it."""

    question: str
    state: str
    answered_by: str
    reason: str
    answer: str


def of_task(store: Store, *, key: int) -> list[Answer]:
    """The last answers, in the order they were given."""
    return fetch_all(store, Answer, "list_answers", task=key, limit=LIMIT)[::-1]
