"""What the board may ask of a database, and where its statements are written."""

from __future__ import annotations

import os

from handoff.base.errors import Conflict, UserError
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Protocol, Self, TypeVar

    Row = dict[str, Any]
    T = TypeVar("T")

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


SQLITE, POSTGRES = "sqlite", "postgres"
PATIENCE_SECONDS = 120.0
_NAME_MARK = "-- name: "


def fetch_all(store: Store, kind: Callable[..., T], name: str, /, **values: Any) -> list[T]:
    """What a named query gives back, each row made into a record; in an open transaction it is a part of that one."""
    with store.transaction(write=False) as transaction:
        return [kind(**row) for row in transaction.query(name, **values)]


def fetch_one(store: Store, kind: Callable[..., T], name: str, /, **values: Any) -> T | None:
    """The first of it, or nothing."""
    with store.transaction(write=False) as transaction:
        row = transaction.one(name, **values)
    return kind(**row) if row else None


class OpenTransaction:
    """What a transaction is on either database: named queries, and a block inside it that leaves the ending to the outer one."""

    __slots__ = ("_database", "_write")

    def __init__(self, database: Any, *, write: bool) -> None:
        self._database = database
        self._write = write

    def query(self, name: str, /, **values: Any) -> list[Row]:
        rows: list[Row] = self._database.run(name, values).fetchall()
        return rows

    def one(self, name: str, /, **values: Any) -> Row | None:
        rows = self.query(name, **values)
        return rows[0] if rows else None

    def execute(self, name: str, /, **values: Any) -> int:
        return int(self._database.run(name, values).rowcount)

    def execute_many(self, name: str, /, rows: Sequence[Mapping[str, Any]]) -> None:
        self._database.run_many(name, rows)

    @property
    def driver(self) -> Any:
        return self._database.connection

    def transaction(self, *, write: bool = True) -> Self:
        assert self._write or not write, "a reading transaction cannot become a writing one"  # noqa: S101 - our own misuse
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The outer block commits."""


class TransactionBlock:
    """`with database.transaction()`: begin, then commit or roll back."""

    __slots__ = ("_database", "_write")

    def __init__(self, database: Any, *, write: bool) -> None:
        self._database = database
        self._write = write

    def __enter__(self) -> Transaction:
        begun: Transaction = self._database.begin(write=self._write)
        return begun

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._database.commit()
        else:
            self._database.rollback()


def busy_conflict(place: str) -> Conflict:
    """Others have kept the database to themselves for longer than anybody waits."""
    return Conflict(
        f"Another process has kept {place} busy for minutes.", "Look for a hung handoff process; nothing was changed."
    )


def upgrade_conflict(place: str) -> Conflict:
    """The schema is no longer the one this process began with."""
    return Conflict(f"{place} was upgraded while this process ran.", "Start the command again.")


def unfit(error: Exception) -> UserError:
    """A value no column can hold, such as a number of thirty digits or a path that is not UTF-8."""
    if isinstance(error, UnicodeEncodeError):
        return UserError(f"A text is not UTF-8: {error.object!r:.80}.", "Use a name or a text in UTF-8.")
    return UserError(f"A value does not fit into the database: {error}.", "Use a smaller number or a plainer text.")


def load_queries() -> dict[str, str]:
    """The text of queries.sql by name. A plain split: start-up counts."""
    return parse_queries(read_sql("queries.sql"))


class Statements(dict[str, str]):
    """The statements of one kind of database: those both understand, and once one is asked for, those of this kind alone."""

    def __init__(self, kind: str) -> None:
        super().__init__(load_queries())
        self._own = f"words_{kind}.sql"

    def __missing__(self, name: str) -> str:
        self.update(parse_queries(read_sql(self._own)))
        return {**self}[name]


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
