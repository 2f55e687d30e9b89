"""Postgres: the same rows for many machines. The only importer of psycopg."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any

import psycopg
from psycopg import errors

from handoff.base.errors import Away, HandoffError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.store import migrate, server
from handoff.store.database import (
    PATIENCE_SECONDS,
    POSTGRES,
    Contended,
    OpenTransaction,
    Statements,
    TransactionBlock,
    busy_conflict,
    unfit,
    upgrade_conflict,
    weakness,
    without_password,
)
from handoff.store.server import LOCK_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from handoff.base.clock import Clock
    from handoff.store.database import Row

_IN_THE_WAY = (errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable, errors.UndefinedFunction)
_SHORTEST_LOOK, _LONGEST_LOOK = 0.005, 0.5
# Words have their own tables: what they are made of is said by the index of words (board/events/index.py). Nobody waits for
# them to be written, so they go into the index at once: a list of those still to come would be read by every search.
_WORDS = tuple(
    statement
    for table, key in (("event_words", "seq"), ("transcript_words", "key"))
    for statement in (
        f"CREATE TABLE IF NOT EXISTS {table} ({key} BIGINT PRIMARY KEY, words tsvector NOT NULL)",
        f"CREATE INDEX IF NOT EXISTS {table}_found ON {table} USING gin (words) WITH (fastupdate = off)",
    )
)


class PostgresTransaction(OpenTransaction):
    """One transaction on one connection; see `database.Transaction`."""

    __slots__ = ("_now",)

    def __init__(self, database: PostgresDatabase, now: float, *, write: bool, scopes: Sequence[str] | None) -> None:
        super().__init__(database, write=write, scopes=scopes)
        self._now = now

    def put(self, name: str, /, **values: Any) -> None:
        self._database.run_later(name, values)

    def at_once(
        self, name: str, values: Callable[[], dict[str, Any]], /, *, scopes: Sequence[str] = ()
    ) -> list[Row] | None:
        """Behind a pooler, where each statement is a journey, for functions that leave nothing to the board: what would end
        one would end the whole transaction. Without a pooler statements go together, and one for several is quicker."""
        if name not in server.NEVER_STEP_BY_STEP or not server.is_pooled(self._database.connection):
            return None
        self.transaction(scopes=scopes)
        rows: list[Row] = self._database.call(name, values, scopes=scopes)
        return rows

    @property
    def driver(self) -> Any:
        self._database.flush()
        return self._database.connection

    def now(self) -> float:
        return self._now

    def lease_now(self) -> float:
        """The server has one clock for all hosts; no host's own clock plays a part."""
        return self._now


class PostgresDatabase:
    """The schema `handoff` in the database the URL names, created or migrated when opened."""

    kind = POSTGRES

    def __init__(self, url: str, *, clock: Clock, steps: list[migrate.Migration] | None = None) -> None:
        self._url = url
        self.place = without_password(url)
        self.clock = clock
        self.shift = 0.0
        self._later: list[tuple[bytes, Mapping[str, Any]]] = []
        self._line = -1
        self._steps = steps
        self._version = steps[-1].number if steps else migrate.VERSION
        self._texts = Statements(POSTGRES)
        self._queries: dict[str, bytes] = {}
        self._functions: dict[str, tuple[bytes, server.KnownColumns]] = {}
        self._held: server.Connection | None = None
        self._lender = server.lender(url)
        self._lender.enter()
        try:
            found = self._found_version()
            migrate.refuse_newer(found, self._version, self.place)
            if found != self._version:
                self._bring_up_to_date()
        except BaseException as error:
            self.close()
            if isinstance(error, psycopg.Error):
                raise self._explained(error) from error
            raise
        finally:
            self._give_back()

    # --- opening ------------------------------------------------------------------------------

    @property
    def connection(self) -> server.Connection:
        """The driver's own connection, for what must share a transaction; lent until the transaction ends."""
        if self._held is None:
            self._held = self._lender.take()
        return self._held

    def _give_back(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            self._lender.give_back(held)

    def weakness(self) -> str:
        found = self.connection
        encrypted, host = found.pgconn.ssl_in_use, found.info.host
        self._give_back()
        return weakness(self._url, host=host, encrypted=encrypted)

    def _words(self, error: Exception) -> str:
        return server.reason(error, self._url)

    def _found_version(self) -> int:
        try:
            row = self.connection.execute(f"SELECT version FROM {server.SCHEMA}.schema_version".encode()).fetchone()  # noqa: S608 - ours
        except (errors.UndefinedTable, errors.InvalidSchemaName):
            return 0
        return int(row["version"]) if row else 0

    def _bring_up_to_date(self) -> None:
        connection = self.connection
        with connection.transaction():
            connection.execute(server.FOR_ONE.encode())
            # The first processes of a new database race for its schema; this lock outlives neither commit nor crash.
            connection.execute(f"SELECT pg_advisory_xact_lock({server.BOARD}, 0)".encode())
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {server.SCHEMA}".encode())
            connection.execute(
                f"SELECT pg_advisory_xact_lock({server.BOARD}, hashtext('{server.SCHEMA}'))".encode()
            )  # no writer of the older version is in the middle of something
            connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")
            row = connection.execute("SELECT version FROM schema_version").fetchone()
            found = int(row["version"]) if row else 0
            migrate.refuse_newer(found, self._version, self.place)
            for step in migrate.steps_from(found, self.place, self._steps):
                for statement in migrate.statements(step.text):
                    connection.execute(in_postgres_words(statement))
            journal = connection.execute("SELECT to_regclass('event') AS journal").fetchone()
            for statement in _WORDS if journal and journal["journal"] else ():
                connection.execute(statement.encode())
            if journal and journal["journal"]:
                self._make_functions(connection)
            connection.execute("DELETE FROM schema_version")
            connection.execute("INSERT INTO schema_version VALUES (%s)", [self._version])

    def _make_functions(self, connection: psycopg.Connection[Row]) -> None:
        old = connection.execute(
            "SELECT oid::regprocedure::text AS name FROM pg_proc"
            " WHERE pronamespace = current_schema()::regnamespace AND proname LIKE '%\\_at\\_once\\_%'"
        ).fetchall()
        for row in old:
            connection.execute(f"DROP FUNCTION {row['name']}".encode())
        numbers = {
            "board": server.BOARD,
            "scope": server.SCOPE,
            "line": server.LINE,
            "schema": server.SCHEMA,
            "version": self._version,
            "patience": f"{LOCK_SECONDS}s",
        }
        for function in server.load_functions(self._version).values():
            connection.execute(server.create_statement(function, self._texts, numbers).encode())

    # --- transactions -------------------------------------------------------------------------

    def transaction(self, *, write: bool = True, scopes: Sequence[str] | None = None) -> TransactionBlock:
        return TransactionBlock(self, write=write, scopes=scopes)

    def begin(self, *, write: bool, scopes: Sequence[str] | None = None) -> PostgresTransaction:
        """All locks of a writer that are not rows, in one message and in one order for all."""
        self._later.clear()
        deadline = self.clock.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                settings = server.FOR_ONE if server.is_pooled(self.connection) else ""
                begin = (
                    server.begin_writing(scopes, settings=settings)
                    if write
                    else server.begin_reading(settings=settings)
                )
                facts = self._last_row(begin)
                break
            except (errors.LockNotAvailable, errors.DeadlockDetected) as error:
                self.rollback()
                if self.clock.monotonic() > deadline:
                    raise busy_conflict(self.place) from error
            except psycopg.Error as error:
                self.rollback()
                raise self._explained(error) from error
        if facts is None or facts["version"] != self._version:
            self.rollback()
            raise upgrade_conflict(self.place)
        return PostgresTransaction(self, float(facts["now"]) + self.shift, write=write, scopes=scopes)

    def commit(self) -> None:
        try:
            self._send(lambda: self.connection.execute("COMMIT"))
            self._give_back()
        except psycopg.Error as error:
            self.rollback()
            raise self._explained(error) from error
        except UnicodeEncodeError as error:
            self.rollback()
            raise unfit(error) from error

    def rollback(self) -> None:
        self._later.clear()
        if self._held is not None and not self._held.closed:
            try:
                self._held.execute("ROLLBACK")
            except psycopg.Error:  # the server rolls back what it no longer hears of
                self._held.close()
        self._give_back()

    def run(self, name: str, values: Mapping[str, Any]) -> Any:
        """One named query."""
        return self._run(lambda: self.connection.execute(self._text(name), values))

    def run_many(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """One named query for each of the rows."""
        self._run(lambda: self.connection.cursor().executemany(self._text(name), rows))

    def run_later(self, name: str, values: Mapping[str, Any]) -> None:
        """One named query whose answer nobody reads: it goes with the next message, which saves a journey to the server."""
        self._later.append((self._text(name), values))

    def flush(self) -> None:
        """Send what was put off."""
        if self._later:
            self._run(lambda: None)

    def _send(self, act: Callable[[], Any]) -> Any:
        if not self._later:
            return act()
        later, self._later = self._later, []
        with nullcontext() if server.is_pooled(self.connection) else self.connection.pipeline():
            for text, values in later:
                self.connection.execute(text, values)
            return act()

    def _run(self, act: Callable[[], Any]) -> Any:
        try:
            return self._send(act)
        except (psycopg.DataError, UnicodeEncodeError) as error:
            raise unfit(error) from error
        except psycopg.Error as error:
            raise self._explained(error) from error

    def _last_row(self, statements: bytes) -> Row | None:
        cursor = self.connection.execute(statements)
        while cursor.nextset():
            pass
        return cursor.fetchone()

    def _text(self, name: str) -> bytes:
        text = self._queries.get(name)
        if text is None:
            text = self._queries[name] = in_postgres_words(self._texts[name])
        return text

    def _explained(self, error: Exception) -> Exception:
        if isinstance(error, HandoffError):
            return error
        if isinstance(error, errors.DeadlockDetected | errors.SerializationFailure):
            return Contended(
                f"Another process stood in the way in {self.place}.", "Run the command again; nothing was changed."
            )
        if isinstance(error, errors.LockNotAvailable):
            return busy_conflict(self.place)
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return Away(
                f"The database {self.place} did not answer: {self._words(error)}.",
                "Run the command again: what was written before is not written twice.",
            )
        if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
            return UserError(
                f"The database {self.place} refused: {self._words(error)}.",
                "Its owner brings it up to date with: handoff database migrate. Roles are made by: handoff database roles",
            )
        return error

    def at_once(
        self, name: str, values: Callable[[], dict[str, Any]], /, *, scopes: Sequence[str] = ()
    ) -> list[Row] | None:
        try:
            return self._ask(name, values, scopes)
        except (psycopg.DataError, UnicodeEncodeError) as error:
            raise unfit(error) from error
        except psycopg.Error as error:
            if error.sqlstate == server.STEP_BY_STEP or isinstance(error, _IN_THE_WAY):
                return None
            raise self._explained(error) from error
        finally:
            self._give_back()

    def call(self, name: str, values: Callable[[], dict[str, Any]], /, *, scopes: Sequence[str] = ()) -> Any:
        """One function in the transaction that is open."""
        return self._run(lambda: self._ask(name, values, scopes))

    def _ask(self, name: str, values: Callable[[], dict[str, Any]], scopes: Sequence[str]) -> list[Row]:
        if not self._functions:
            known = server.load_functions(self._version)
            self._functions = {
                name: (server.call_statement(function, server.SCHEMA), server.KnownColumns())
                for name, function in known.items()
            }
        taken = server.locks_of(scopes)
        said = {
            **values(),
            # As texts: the driver takes longer to make an array of a list than the server to read one.
            "numbers": f"{{{','.join(map(str, taken))}}}",
            "whole": f"{{{','.join('f' if mode else 't' for mode in taken.values())}}}",
            "shift": self.shift,
        }
        words, columns = self._functions[name]
        return self.connection.cursor(row_factory=columns).execute(words, said).fetchall()

    def settled(self) -> int:
        """Writers side by side end in any order: behind the first line one of them may still write, nothing is settled."""
        return self._look(server.SETTLED)

    def change_mark(self) -> int:
        return self.settled()

    def wait_for_change(self, seconds: float) -> bool:
        """Ask for one number: often while something happens, seldom when nothing does.

        A hint from the server to each listener with each line cost four fifths of the commits.
        """
        deadline = self.clock.monotonic() + seconds
        pause = _SHORTEST_LOOK
        while True:
            if self._look(server.LAST_LINE) != self._line:
                line = self.settled()  # a number is taken before its line is committed
                if line != self._line:
                    self._line = line
                    return True
            left = deadline - self.clock.monotonic()
            if left <= 0:
                return False
            self.clock.sleep(min(pause, left))
            pause = min(pause * 2, _LONGEST_LOOK)

    def _look(self, statements: bytes) -> int:
        """The least number that the statements give."""
        try:
            cursor = self.connection.execute(statements)
            found = [cursor.fetchone()]
            while cursor.nextset():
                found.append(cursor.fetchone())
        except psycopg.Error as error:
            raise self._explained(error) from error
        finally:
            self._give_back()
        return min(int(row["line"]) for row in found if row and row["line"] is not None)

    def close(self) -> None:
        self.rollback()
        self._lender.leave()


def in_postgres_words(statement: str) -> bytes:
    """Our SQL text as psycopg wants it: named parameters, the one type whose word differs, and what is for Postgres alone."""
    text = re.sub(r"/\* postgres: (.*?) \*/", r"\1", statement)
    text = text.replace("INTEGER PRIMARY KEY AUTOINCREMENT", "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY")
    return re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", text.replace("%", "%%")).encode()
