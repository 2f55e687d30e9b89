"""Connections to Postgres: opened with our settings, and lent to the threads of a process for one transaction at a time."""

from __future__ import annotations

import os
import select
import threading
from typing import TYPE_CHECKING

import psycopg
from psycopg.rows import dict_row

from handoff.base.clock import SystemClock
from handoff.base.errors import Away, UserError
from handoff.store import addresses
from handoff.store.server import locks

if TYPE_CHECKING:
    from handoff.store.database import Row

    Connection = psycopg.Connection[Row]

CONNECT_SECONDS = 10
LOCK_SECONDS = 30
MOST = 2
"""Connections of one process to one database, however many of its threads write; the durable engine has one more."""
_TURN_SECONDS = 0.5
"""A transaction is short: one is waited for before another connection is opened."""
_WAIT_SECONDS = 5.0
_IDLE_SECONDS = 5.0
_SETTINGS = {
    # Every statement has its index. On a young database, without statistics, the planner would rather sort.
    "enable_bitmapscan": "off",
    "jit": "off",
    "search_path": locks.SCHEMA,
    "lock_timeout": f"'{LOCK_SECONDS}s'",
    # A client that died or froze in the middle must not hold a writer's place for ever.
    "idle_in_transaction_session_timeout": "'60s'",
    "client_min_messages": "warning",
    "timezone": "'UTC'",
}
FOR_ALL = "; ".join(f"SET {name} = {value}" for name, value in _SETTINGS.items()).encode()
FOR_ONE = "".join(f"SET LOCAL {name} = {value}; " for name, value in _SETTINGS.items())
"""Behind a pooler, where the next transaction may be on another connection, and another client's on this one."""


def connect(url: str) -> Connection:
    """A new connection, or why there is none."""
    place = addresses.without_password(url)
    try:
        connection = psycopg.connect(
            url,
            autocommit=True,
            row_factory=dict_row,
            connect_timeout=CONNECT_SECONDS,
            application_name="handoff",
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
        )
        row = connection.execute("SELECT pg_backend_pid() AS pid").fetchone()
        # A pooler makes up the number by which it is told to cancel; the server's own is another one.
        if row is not None and row["pid"] != connection.info.backend_pid:
            connection.prepare_threshold = None
        else:
            connection.execute(FOR_ALL)
    except psycopg.ProgrammingError:  # its words quote parts of the address
        raise UserError(
            f"The database address {place} cannot be understood.",
            "It looks like postgresql://user@host/name; in a password write / @ : ? and % as %2F %40 %3A %3F %25.",
        ) from None
    except psycopg.Error as error:
        raise Away(
            f"Cannot reach the database {place}: {words(error, url)}.",
            "Check HANDOFF_DATABASE_URL and that the server runs, or unset it to use the local file.",
        ) from error
    return connection


def is_pooled(connection: Connection) -> bool:
    """Whether something stands between us and the server that gives each transaction another connection."""
    return connection.prepare_threshold is None


def words(error: Exception, url: str) -> str:
    """The first line of what the driver says, without the password."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return addresses.redact(first, url)


def _has_ended(connection: Connection) -> bool:
    """Nobody asked it anything: if there is something to read, it is the server's farewell."""
    look = select.poll()
    look.register(connection.fileno(), select.POLLIN)
    return bool(look.poll(0))


class ConnectionLoans:
    """The connections of this process to one address."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._free: list[tuple[Connection, float]] = []
        self._out = 0
        self._users = 0
        self._clock = SystemClock()
        self._back = threading.Condition()

    def enter(self) -> None:
        """One more handle."""
        with self._back:
            self._users += 1

    def leave(self) -> None:
        """One less; with the last one the connections go."""
        with self._back:
            self._users -= 1
            if self._users <= 0:
                self._close(len(self._free))

    def take(self) -> Connection:
        """One that is free, or a new one; who waits for long is given one too many, because it may hold one itself."""
        with self._back:
            if not self._back.wait_for(lambda: self._free or not self._out, _TURN_SECONDS):
                self._back.wait_for(lambda: self._free or self._out < MOST, _WAIT_SECONDS)
            self._out += 1
            while self._free:
                connection, _ = self._free.pop()
                if not connection.closed and not _has_ended(connection):
                    return connection
                connection.close()
        try:
            return connect(self._url)
        except BaseException:
            self._gone()
            raise

    def give_back(self, connection: Connection) -> None:
        """It is free for others, outside of any transaction."""
        now = self._clock.monotonic()
        with self._back:
            self._out -= 1
            while self._free and now - self._free[0][1] > _IDLE_SECONDS:
                self._close(1)
            if connection.closed or len(self._free) >= MOST:
                connection.close()
            else:
                self._free.append((connection, now))
            self._back.notify()

    def _gone(self) -> None:
        with self._back:
            self._out -= 1
            self._back.notify()

    def _close(self, count: int) -> None:
        for connection, _ in self._free[:count]:
            connection.close()
        del self._free[:count]


_LOANS: dict[tuple[int, str], ConnectionLoans] = {}
_MAKING = threading.Lock()


def lender(url: str) -> ConnectionLoans:
    """The one of this process; a child that was forked has its own."""
    with _MAKING:
        return _LOANS.setdefault((os.getpid(), url), ConnectionLoans(url))
