"""The way to the durable engine's tables: one bounded pool of connections, and writing them inside a transaction of ours."""

from __future__ import annotations

import select
import threading
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import pool

from handoff.base.clock import SystemClock
from handoff.base.record import TYPE_CHECKING
from handoff.store import sqlite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from handoff.store.database import Transaction

_SQLITE = "sqlite:///"
_WITH_SUBSEC = (3, 42, 0)
_TURN_SECONDS = 3600.0
_AWAY_PAUSE = 0.5


class DurableTables:
    """Our SQLAlchemy engine for the durable tables, and the way to write them inside a transaction of ours."""

    def __init__(self, url: str) -> None:
        self._migrating = False
        if url.startswith(_SQLITE):
            library: Any = sqlite.library  # type: ignore[attr-defined,unused-ignore]
            self.kind = "sqlite"
            self.plain = sa.create_engine(url, module=library)
            sa.event.listen(self.plain, "connect", _prepare_sqlite(library))
            sa.event.listen(self.plain, "begin", self._begin)
            sa.event.listen(self.plain, "handle_error", _as_busy)
            self._ours = sa.create_engine(
                _SQLITE, module=library, poolclass=pool.NullPool, creator=self._present, skip_autocommit_rollback=False
            )
        else:
            self.kind = "postgres"
            place = sa.make_url(url).set(drivername="postgresql+psycopg")
            self.plain = sa.create_engine(
                place,
                pool_size=1,  # each of its statements is short: runs take turns
                max_overflow=1,  # while it makes its tables it holds a lock on one and works on another
                pool_timeout=_TURN_SECONDS,
                connect_args={
                    "application_name": "handoff-supervisor",
                    "connect_timeout": 10,
                    "prepare_threshold": None,
                },
            )
            sa.event.listen(self.plain, "do_connect", _connect_patiently)
            sa.event.listen(self.plain, "checkout", _refuse_ended)
            self._ours = sa.create_engine(
                "postgresql+psycopg://", poolclass=pool.NullPool, creator=self._present, use_native_hstore=False
            )
        self._joined: _Joined | None = None

    def _begin(self, connection: sa.Connection) -> None:
        if self._migrating:  # Python opens a transaction for rows only: a killed launch would leave half a schema
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    @contextmanager
    def whole_schema(self) -> Iterator[None]:
        """While tables are made or changed: all of it or nothing."""
        self._migrating = self.kind == "sqlite"
        try:
            yield
        finally:
            self._migrating = False
            if isinstance(self.plain.pool, pool.QueuePool):
                self.plain.pool._max_overflow = 0  # noqa: SLF001 - there is no other way to change a pool that is in use

    @contextmanager
    def joined(self, transaction: Transaction) -> Iterator[sa.Connection]:
        """A connection that writes into `transaction` and can neither commit nor roll it back."""
        self._joined = _Joined(transaction.driver, self.kind)
        try:
            with self._ours.connect() as connection:
                yield connection
        finally:
            self._joined = None

    def _present(self) -> Any:
        return self._joined

    def close(self) -> None:
        self.plain.dispose()


def _refuse_ended(raw: Any, *_: Any) -> None:
    """A connection that the server has ended is not lent: seen at its socket, without a question to the server."""
    look = select.poll()
    look.register(raw.fileno(), select.POLLIN)
    if look.poll(0):
        raise sa.exc.DisconnectionError


def _connect_patiently(dialect: Any, record: Any, words: Any, options: Any) -> Any:
    """A run waits for a server that is away, whatever the reason: the engine itself gives up when the socket is missing.

    The supervisor's own thread is told at once, because it tells people.
    """
    del record
    while True:
        try:
            return dialect.connect(*words, **options)
        except dialect.loaded_dbapi.OperationalError:
            if threading.current_thread() is threading.main_thread():
                raise
            SystemClock().sleep(_AWAY_PAUSE)


def _as_busy(context: Any) -> Exception | None:
    """A full disk is met as a busy file: the engine then waits and tries again, where it would give the run up."""
    text = str(context.original_exception)
    if "disk is full" not in text and "disk I/O" not in text:
        return None
    if threading.current_thread() is threading.main_thread():
        return None
    return sa.exc.OperationalError(context.statement, None, RuntimeError(f"database is locked: {text}"))


class _Joined:
    """Our store's open connection, as SQLAlchemy may use it: rows as tuples, no end of the transaction."""

    def __init__(self, raw: Any, kind: str) -> None:
        self._raw = raw
        self._kind = kind

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        if self._kind != "sqlite":
            return self._raw.cursor(*args, **{**kwargs, "row_factory": _as_tuples})
        found = self._raw.cursor()
        found.row_factory = None
        return found

    def commit(self) -> None:
        """The store commits."""

    def rollback(self) -> None:
        """The store rolls back."""

    def close(self) -> None:
        """The store closes."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def _as_tuples(cursor: Any) -> Callable[[Any], tuple[Any, ...]]:
    del cursor
    return tuple


def _prepare_sqlite(library: Any) -> Callable[[Any, Any], None]:
    def prepare(raw: Any, record: Any) -> None:
        del record
        raw.isolation_level = "IMMEDIATE"
        raw.execute("PRAGMA busy_timeout = 30000")
        raw.execute("PRAGMA foreign_keys = ON")
        # The store chose the journal when it made the file: WAL only where the library is free of the reset bug.
        mode = raw.execute("PRAGMA journal_mode").fetchone()[0]
        raw.execute("PRAGMA synchronous = " + ("NORMAL" if mode == "wal" else "FULL"))
        if library.sqlite_version_info < _WITH_SUBSEC:
            raw.create_function("unixepoch", -1, lambda *_: _seconds())

    return prepare


def _seconds() -> float:
    return SystemClock().now()
