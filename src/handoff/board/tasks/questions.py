"""The row of a gate, written by whoever puts a task behind one, and what people answered. What an answer means is `board.gates`.

And messages for a person or a supervisor that may not be running."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal, texts
from handoff.board.tasks import states
from handoff.store.database import fetch_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from handoff.board.tasks.tasks import Task
    from handoff.store.database import Row, Store, Transaction

_CODE_BYTES = 13  # 104 bits: a code is its own proof
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def put(
    transaction: Transaction,
    task: Task,
    *,
    question: str,
    on_yes: str = states.READY,
    due_at: float | None = None,
    fallback: str = "",
    subject: str = "",
    choices: Sequence[str] | None = None,
    cap: str = "",
) -> Row:
    """Ask a person about a task that stands behind its gate already; without `choices` only yes and no answer."""
    (row,) = transaction.query(
        "add_gate",
        task=task.key,
        question=question,
        on_yes=on_yes,
        due_at=due_at,
        now=transaction.now(),
        fallback=fallback,
        subject=subject,
        code=_new_code(),
        choices="" if choices is None else texts.write(list(choices)),
        cap=cap,
    )
    offered: dict[str, Any] = {} if choices is None else {"choices": list(choices)}
    journal.append(
        transaction, "gate.opened", task=task, question=question, gate=row["key"], fallback=fallback, **offered
    )
    return row


def _new_code() -> str:
    """Letters and digits a person can type."""
    number = int.from_bytes(os.urandom(_CODE_BYTES))
    found = ""
    while number:
        number, rest = divmod(number, len(_LETTERS))
        found += _LETTERS[rest]
    return found


_LAST_ANSWERS = 5


class Answer(Record):
    """One answered question; `answer` is what the person said to an open question, or the text as they changed it."""

    question: str
    state: str
    answered_by: str
    reason: str
    answer: str
    choices: str


def answers_of(store: Store, *, key: int) -> list[Answer]:
    """The last answers, in the order they were given."""
    return fetch_all(store, Answer, "list_answers", task=key, limit=_LAST_ANSWERS)[::-1]


# --- messages ----------------------------------------------------------------------------------------------------

MESSAGES = 100


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


def post_message(
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


def unread_messages(store: Store, *, limit: int = MESSAGES) -> list[Message]:
    """Messages nobody has taken, the oldest first."""
    return fetch_all(store, Message, "read_inbox", limit=limit)


def take_message(store: Store, *, key: int, taken_by: str) -> Message | None:
    """Take a message; None when somebody else was faster."""
    with store.transaction(scopes=()) as transaction:
        row = transaction.one("take_inbox", key=key, taken_by=taken_by, now=transaction.now())
    return Message(**row) if row else None
