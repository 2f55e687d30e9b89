"""What a program asked for under a key of its own: the same again gets the same answer, and something else under it is refused."""

from __future__ import annotations

import hashlib

from handoff.base.errors import Conflict
from handoff.base.light_json import dumps, loads
from handoff.base.record import TYPE_CHECKING, Record
from handoff.store.database import fetch_one

if TYPE_CHECKING:
    from typing import Any

    from handoff.store.database import Store, Transaction


class AskedOnce(Record):
    """Who asked under which key, what the request hashes to, and what was answered."""

    caller: str
    name: str
    hash: str
    answer: str
    at: float


def answer_to(store: Store, *, caller: str, name: str, asked: bytes) -> Any:
    """What was answered before; nothing where this is the first time."""
    found = fetch_one(store, AskedOnce, "get_asked_once", caller=caller, name=name)
    if found is None:
        return None
    if found.hash != _hash(asked):
        raise Conflict(f"The key '{name}' was used for another request.", "Give each request a key of its own.")
    return loads(found.answer)


def keep(transaction: Transaction, *, caller: str, name: str, asked: bytes, answer: Any) -> None:
    """In the transaction that does it; refused where somebody was faster with the same key."""
    row = {"caller": caller, "name": name, "hash": _hash(asked), "answer": dumps(answer), "now": transaction.now()}
    if not transaction.execute("add_asked_once", **row):
        raise Conflict(f"The same request is being answered under the key '{name}'.", "Ask again.")


def prune(store: Store, *, before: float) -> int:
    """Forget what was asked long ago."""
    with store.transaction() as transaction:
        return transaction.execute("prune_asked_once", before=before)


def _hash(asked: bytes) -> str:
    return hashlib.sha256(asked).hexdigest()
