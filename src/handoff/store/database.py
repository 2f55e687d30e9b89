"""What the board may ask of a database, where its statements are written, and what the address of a server says."""

from __future__ import annotations

import os

from handoff.base.errors import Conflict, UserError
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

    Row = dict[str, Any]
    T = TypeVar("T")
    Words = ParamSpec("Words")

    class Transaction(Protocol):
        """One transaction: named queries in, rows out. It commits when its block ends well and rolls back otherwise."""

        def query(self, name: str, /, **values: Any) -> list[Row]: ...

        def one(self, name: str, /, **values: Any) -> Row | None: ...

        def execute(self, name: str, /, **values: Any) -> int: ...

        def execute_many(self, name: str, /, rows: Sequence[Mapping[str, Any]]) -> None: ...

        def put(self, name: str, /, **values: Any) -> None:
            """A write whose answer nobody waits for: it may travel with the next statement, or with the end of the block."""

        def now(self) -> float:
            """The database's wall clock, for what people read."""

        def lease_now(self) -> float:
            """The clock leases are judged by: no jump of a host's wall clock moves it."""

        @property
        def driver(self) -> Any:
            """The driver's own connection: the durable engine writes its rows in this same transaction."""

        def transaction(
            self, *, write: bool = True, scopes: Sequence[str] | None = None
        ) -> AbstractContextManager[Transaction]:
            """This same transaction, so that a verb works alone and as a part of a larger one."""

        def settled(self) -> int:
            """As `Database.settled`."""

        def at_once(
            self, name: str, values: Callable[[], dict[str, Any]], /, *, scopes: Sequence[str] = ()
        ) -> list[Row] | None:
            """Never: the transaction has begun."""

        def require_alone(self) -> None:
            """What follows must not be done beside others: the verb is made again, alone (see `beside_others`)."""

    class Store(Protocol):
        """Anything a verb can open a transaction on: a database, or a transaction that is already open."""

        def transaction(
            self, *, write: bool = True, scopes: Sequence[str] | None = None
        ) -> AbstractContextManager[Transaction]: ...

        def settled(self) -> int: ...

        def at_once(
            self, name: str, values: Callable[[], dict[str, Any]], /, *, scopes: Sequence[str] = ()
        ) -> list[Row] | None: ...

    class Database(Protocol):
        """An open database. It belongs to the thread that opened it; several threads open several."""

        kind: str
        place: str
        """Where it is, safe to show: no password."""
        shift: float
        """Seconds added to the database's clock as this handle sees it: scripts and tests move time, they do not wait."""

        def transaction(
            self, *, write: bool = True, scopes: Sequence[str] | None = None
        ) -> AbstractContextManager[Transaction]:
            """A writer is alone, on both databases, unless it names its `scopes`: then it works beside others on Postgres,
            which has row locks, and keeps out only who names one of the same scopes (`machine:here`; `machine` is all of
            them). A reader (`write=False`) sees one moment; it must be short, because with SQLite's rollback journal a
            writer waits for it."""

        def settled(self) -> int:
            """The line of the journal up to which no other can appear any more: writers side by side end in any order."""

        def at_once(
            self, name: str, values: Callable[[], dict[str, Any]], /, *, scopes: Sequence[str] = ()
        ) -> list[Row] | None:
            """A whole verb in one journey to the server (functions.sql); None where it must go step by step.

            What it takes is made only where there is such a journey."""

        def change_mark(self) -> int:
            """A number that changes when another process has committed something."""

        def wait_for_change(self, seconds: float) -> bool:
            """Return when another connection has committed something, or after `seconds` with False."""

        def weakness(self) -> str:
            """What is wrong with the way to it, in a person's words; nothing when all is well."""

        def close(self) -> None: ...


SQLITE, POSTGRES = "sqlite", "postgres"
PATIENCE_SECONDS = 120.0
EVERY_LINE = 2**62
_NAME_MARK = "-- name: "
_REPEATS = 10


class Contended(Conflict):
    """Two writers stood in each other's way and this one was rolled back: nothing was changed, and a repeat will do."""


class MustBeAlone(Exception):
    """A verb that began beside others has found something that must be done alone."""


class _Alone:
    """A store whose writers are alone, whatever their verbs say."""

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    def transaction(
        self, *, write: bool = True, scopes: Sequence[str] | None = None
    ) -> AbstractContextManager[Transaction]:
        del scopes
        return self._store.transaction(write=write)

    def settled(self) -> int:
        return self._store.settled()

    def at_once(
        self, name: str, values: Callable[[], dict[str, Any]], /, *, scopes: Sequence[str] = ()
    ) -> list[Row] | None:
        """Never: it is for who works beside others."""


def beside_others(verb: Callable[Concatenate[Store, Words], T]) -> Callable[Concatenate[Store, Words], T]:
    """A verb that works beside other writers: made again when it was rolled back for one, or when it must be alone after all.

    In a transaction that is already open the outer verb decides.
    """

    def whole(store: Store, /, *words: Words.args, **named: Words.kwargs) -> T:
        if hasattr(store, "require_alone"):  # only a transaction has it
            return verb(store, *words, **named)
        for left in range(_REPEATS, -1, -1):
            try:
                return verb(store, *words, **named)
            except MustBeAlone:
                store = _Alone(store)
            except Contended:
                if not left:
                    raise
        raise AssertionError  # the last repeat returns or raises

    whole.__name__, whole.__doc__ = verb.__name__, verb.__doc__
    return whole


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

    __slots__ = ("_database", "_scopes", "_write")

    def __init__(self, database: Any, *, write: bool, scopes: Sequence[str] | None = None) -> None:
        self._database = database
        self._write = write
        self._scopes = scopes

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

    def put(self, name: str, /, **values: Any) -> None:
        self._database.run(name, values)

    @property
    def driver(self) -> Any:
        return self._database.connection

    def transaction(self, *, write: bool = True, scopes: Sequence[str] | None = None) -> Self:
        assert self._write or not write, "a reading transaction cannot become a writing one"  # noqa: S101 - our own misuse
        if write and (scopes is None or not set(scopes) <= set(self._scopes or ())):
            self.require_alone()
        return self

    def require_alone(self) -> None:
        if self._scopes is not None:
            raise MustBeAlone

    def settled(self) -> int:
        alone = self._write and self._scopes is None
        assert alone, "ask the database before the transaction"  # noqa: S101 - our own misuse
        return EVERY_LINE

    def at_once(
        self, name: str, values: Callable[[], dict[str, Any]], /, *, scopes: Sequence[str] = ()
    ) -> list[Row] | None:
        """Never: the transaction has begun."""
        del name, values, scopes
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The outer block commits."""


class TransactionBlock:
    """`with database.transaction()`: begin, then commit or roll back."""

    __slots__ = ("_database", "_scopes", "_write")

    def __init__(self, database: Any, *, write: bool, scopes: Sequence[str] | None = None) -> None:
        self._database = database
        self._write = write
        self._scopes = scopes

    def __enter__(self) -> Transaction:
        begun: Transaction = self._database.begin(write=self._write, scopes=self._scopes)
        return begun

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if kind is None:
            self._database.commit()
            return
        self._database.rollback()
        explain = getattr(
            self._database, "explained", None
        )  # rows are read after their query was run: a damaged page is met late
        if error is not None and explain is not None and (explained := explain(error)) is not error:
            raise explained from error


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
        if "{" in statement:  # {other_query}: written once, used in two
            before, _, rest = statement.partition("{")
            other, _, after = rest.partition("}")
            if other in found:
                statement = before + found[other].partition("\n")[2].rstrip() + after
        found[name] = statement
    return found


def read_sql(name: str) -> str:
    """One of the SQL files beside this module."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


_POSTGRES = ("postgresql://", "postgres://")
_VERIFIED = ("verify-ca", "verify-full")
_LOOPBACK = ("localhost", "::1", "127.")


def is_postgres(url: str) -> bool:
    return url.startswith(_POSTGRES)


def password_of(url: str) -> str:
    """The password in the address, wherever it stands; nothing when there is none."""
    login, at, _ = url.partition("://")[2].rpartition("@")
    password = login.partition(":")[2] if at else ""
    return password or _option(url, "password")


def without_password(url: str) -> str:
    """The address as it may be shown: no password, no options."""
    scheme, _, rest = url.partition("://")
    login, at, place = rest.rpartition("@")
    return f"{scheme}://{login.partition(':')[0]}{at}{place}".partition("?")[0]


def redact(text: str, url: str) -> str:
    """A driver's words without the password, as it was written or as it was meant."""
    password = password_of(url)
    if password:
        from urllib.parse import unquote

        for secret in sorted({password, unquote(password)}, key=len, reverse=True):
            text = text.replace(secret, "[redacted]")
    return text


def with_options(url: str, **options: str) -> str:
    """The address with these options added; those it names itself stay as they are."""
    from urllib.parse import quote

    for name, value in options.items():
        if value and not _option(url, name):
            sign = "" if url.endswith(("?", "&")) else "&" if "?" in url else "?"
            url += f"{sign}{name}={quote(value)}"
    return url


def weakness(url: str, *, host: str, encrypted: bool) -> str:
    """What is wrong with the way to the server, in a person's words; nothing on this machine or when all is well."""
    if not host or host.startswith("/") or host.startswith(_LOOPBACK):
        return ""
    if not encrypted:
        return f"The connection to {host} is not encrypted: whoever is on the way can read and change the relay's rows."
    if _option(url, "sslmode") not in _VERIFIED:
        return f"The connection to {host} is encrypted, but nobody has verified that it is the right server."
    return ""


def _option(url: str, name: str) -> str:
    for pair in url.partition("?")[2].split("&"):
        key, _, value = pair.partition("=")
        if key == name:
            return value
    return ""
