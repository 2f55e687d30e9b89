"""Tokens: what a program shows to be let in. Only what a token hashes to is kept, so nobody can read one out of the rows.

What a program asked for under a key of its own is kept too: the same again gets the same answer, and something else is refused."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from handoff.base.clock import stamp
from handoff.base.errors import Conflict, UserError
from handoff.base.ids import check_id
from handoff.base.light_json import dumps, loads
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.store.database import fetch_all, fetch_one

if TYPE_CHECKING:
    from typing import Any

    from handoff.store.database import Store, Transaction

READ, ANSWER, STEER = "read", "answer", "steer"
SCOPES = (READ, ANSWER, STEER)
"""What a token may do; each may also do what stands before it."""
MARK = "t-"
"""How a token begins: sessions' tokens and the person's own begin in other ways."""
_NOTED_SECONDS = 600.0


class Token(Record):
    """A token as the board knows it. `project` is the only one it may see, empty for all; `until` is when it ends."""

    id: str
    name: str
    scope: str
    project: str
    hash: str
    made_at: float
    made_by: str
    until: float | None
    used_at: float | None
    withdrawn_at: float | None
    withdrawn_by: str

    def state(self, now: float) -> str:
        """In a word."""
        if self.withdrawn_at is not None:
            return "withdrawn"
        return "expired" if self.until is not None and self.until <= now else "good"


class MadeToken(Record):
    """A fresh token and its secret, which is shown once and kept nowhere."""

    token: Token
    secret: str


def may(scope: str, wanted: str) -> bool:
    """Whether a token of this scope may do what needs the other."""
    return SCOPES.index(scope) >= SCOPES.index(wanted)


def make(store: Store, *, name: str, scope: str, project: str, by: str, seconds: float | None = None) -> MadeToken:
    """A token of that name; a name is free again when its token was withdrawn or has expired."""
    check_id(name, "token")
    if scope not in SCOPES:
        raise UserError(f"There is no scope '{scope}'.", f"There are: {', '.join(SCOPES)}")
    id, secret = f"{MARK}{secrets.token_hex(6)}", secrets.token_hex(24)
    with store.transaction() as transaction:
        now = transaction.now()
        for other in fetch_all(transaction, Token, "list_tokens"):
            if other.name == name and other.state(now) == "good":
                raise Conflict(
                    f"There is a token '{name}' already.", f"Take another name, or: handoff token withdraw {name}"
                )
        until = None if seconds is None else now + seconds
        (row,) = transaction.query(
            "add_token", id=id, name=name, scope=scope, project=project, hash=_hash(secret), now=now, by=by, until=until
        )
        journal.append(
            transaction,
            "token.made",
            project=project,
            session=by,
            token=name,
            scope=scope,
            until=stamp(until) if until else "",
        )
    return MadeToken(Token(**row), f"{id}.{secret}")


def listing(store: Store, *, include_ended: bool = False) -> list[Token]:
    """Tokens that open something, or all there ever were, in the order they were made."""
    with store.transaction(write=False) as transaction:
        found = fetch_all(transaction, Token, "list_tokens")
        return [one for one in found if include_ended or one.state(transaction.now()) == "good"]


def withdraw(store: Store, *, name: str, by: str) -> Token:
    """Make a token worthless at once, by its name or its id."""
    with store.transaction() as transaction:
        now = transaction.now()
        named = [one for one in fetch_all(transaction, Token, "list_tokens") if name in (one.name, one.id)]
        good = [one for one in named if one.state(now) == "good"]
        if not good:
            ended = (
                f"The token '{name}' is {named[-1].state(now)} already." if named else f"There is no token '{name}'."
            )
            raise UserError(ended, "See: handoff token list --all")
        (row,) = transaction.query("withdraw_token", id=good[-1].id, by=by, now=now)
        journal.append(transaction, "token.withdrawn", project=row["project"], session=by, token=row["name"])
        return Token(**row)


def check(store: Store, given: str) -> Token | None:
    """The token somebody shows, if it opens something now. When it was used last is noted every ten minutes."""
    id, _, secret = given.partition(".")
    with store.transaction(write=False) as transaction:
        found = fetch_one(transaction, Token, "get_token", id=id) if id.startswith(MARK) else None
        now = transaction.now()
    right = hmac.compare_digest(_hash(secret), found.hash if found else _hash(""))
    if found is None or not right or not secret or found.state(now) != "good":
        return None
    if found.used_at is None or found.used_at < now - _NOTED_SECONDS:
        with store.transaction() as transaction:
            transaction.execute("use_token", id=id, now=now)
    return found


def _hash(secret: str) -> str:
    """Enough for a secret of 192 random bits: nobody tries them all."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


# --- asked once --------------------------------------------------------------------------------------------------


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
    if found.hash != _hash_of(asked):
        raise Conflict(f"The key '{name}' was used for another request.", "Give each request a key of its own.")
    return loads(found.answer)


def keep_answer(transaction: Transaction, *, caller: str, name: str, asked: bytes, answer: Any) -> None:
    """In the transaction that does it; refused where somebody was faster with the same key."""
    row = {"caller": caller, "name": name, "hash": _hash_of(asked), "answer": dumps(answer), "now": transaction.now()}
    if not transaction.execute("add_asked_once", **row):
        raise Conflict(f"The same request is being answered under the key '{name}'.", "Ask again.")


def prune_answers(store: Store, *, before: float) -> int:
    """Forget what was asked long ago."""
    with store.transaction() as transaction:
        return transaction.execute("prune_asked_once", before=before)


def _hash_of(asked: bytes) -> str:
    return hashlib.sha256(asked).hexdigest()
