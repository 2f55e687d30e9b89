"""What the board may ask of a database, and where its statements are written."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Protocol

    Row = dict[str, Any]
else:  # only the type checker needs them, and importing `typing` takes as long as talking to the database
    Row, Protocol = dict, object

SQLITE, POSTGRES = "sqlite", "postgres"
PATIENCE_SECONDS = 120.0
_NAME_MARK = "-- name: "


class Transaction(Protocol):
    """One transaction: named queries in, rows out. It commits when its block ends well and rolls back otherwise."""

    def query(self, name: str, /, **values: Any) -> list[Row]: ...

    def one(self, name: str, /, **values: Any) -> Row | None: ...

    def execute(self, name: str, /, **values: Any) -> int: ...

    def execute_many(self, name: str, /, rows: Sequence[Mapping[str, Any]]) -> None: ...

    def now(self) -> float:
        """The database's wall clock, for what people read."""

    def lease_now(self) -> float:
        """The clock leases are judged by: no jump of a host's wall clock moves it."""

    @property
    def driver(self) -> Any:
        """The driver's own connection: the durable engine writes its rows in this same transaction."""

    def transaction(self, *, write: bool = True) -> AbstractContextManager[Transaction]:
        """This same transaction, so that a verb works alone and as a part of a larger one."""


class Store(Protocol):
    """Anything a verb can open a transaction on: a database, or a transaction that is already open."""

    def transaction(self, *, write: bool = True) -> AbstractContextManager[Transaction]: ...


class Database(Protocol):
    """An open database. It belongs to the thread that opened it; several threads open several."""

    kind: str
    place: str
    """Where it is, safe to show: no password."""
    shift: float
    """Seconds added to the database's clock as this handle sees it: scripts and tests move time, they do not wait."""

    def transaction(self, *, write: bool = True) -> AbstractContextManager[Transaction]:
        """One writer at a time, on both databases. A reader (`write=False`) sees one moment; it must be short,
        because with SQLite's rollback journal a writer waits for it."""

    def change_mark(self) -> int:
        """A number that changes when another process has committed something."""

    def wait_for_change(self, seconds: float) -> bool:
        """Return when another connection has committed something, or after `seconds` with False."""

    def weakness(self) -> str:
        """What is wrong with the way to it, in a person's words; nothing when all is well."""

    def close(self) -> None: ...


def unfit(error: Exception) -> UserError:
    """A value no column can hold, such as a number of thirty digits or a path that is not UTF-8."""
    if isinstance(error, UnicodeEncodeError):
        return UserError(f"A text is not UTF-8: {error.object!r:.80}.", "Use a name or a text in UTF-8.")
    return UserError(f"A value does not fit into the database: {error}.", "Use a smaller number or a plainer text.")


def load_queries() -> dict[str, str]:
    """The text of queries.sql by name. A plain split: start-up counts."""
    return parse_queries(read_sql("queries.sql"))


def parse_queries(text: str) -> dict[str, str]:
    """Named queries of one text: `-- name: verb_noun`, one line of meaning, the statement."""
    found: dict[str, str] = {}
    for part in text.split(_NAME_MARK)[1:]:
        name, _, statement = part.partition("\n")
        found[name] = statement
    return found


def read_sql(name: str) -> str:
    """One of the SQL files beside this module."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()
