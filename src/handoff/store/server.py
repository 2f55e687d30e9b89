"""What only Postgres needs: connections shared by a process's threads, locks that are no rows, verbs done in one call."""

from __future__ import annotations

import os
import re
import select
import threading
from zlib import crc32

import psycopg
from psycopg.rows import dict_row

from handoff.base.clock import SystemClock
from handoff.base.errors import Away, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.store.database import parse_queries, read_sql, redact, without_password

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from psycopg import Cursor

    from handoff.store.database import Row

    Connection = psycopg.Connection[Row]

SCHEMA = "handoff"
BOARD, SCOPE, LINE = 20310, 20311, 20312
"""Numbers of ours. In one lock, the last stands above the 40 bits of a line's number."""
_LAST = "CASE WHEN is_called THEN last_value ELSE 0 END"
# One message, several statements: the facts are read after the locks were given, not when they were asked for.
_FACTS = "SELECT version, extract(epoch FROM clock_timestamp())::float8 AS now"
# A writer also shows, by a lock nobody waits for, behind which line of the journal its own will stand: see `settled`.
_SHOWN = f"{_FACTS}, pg_advisory_xact_lock_shared(({LINE}::bigint << 40) + {_LAST}) FROM schema_version, event_seq_seq"
LAST_LINE = f"SELECT {_LAST} AS line FROM {SCHEMA}.event_seq_seq".encode()  # noqa: S608 - ours
# In this order: who takes its lock after the first look writes behind the line that was seen there.
SETTLED = f"""SELECT {_LAST} AS line FROM {SCHEMA}.event_seq_seq;
SELECT min(((classid::bigint & 255) << 32) + objid::bigint) AS line FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> 8 = {LINE}
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())""".encode()  # noqa: S608 - a number of ours


def begin_reading(*, settings: str = "") -> bytes:
    """One moment, for all that is read; `settings` are for this transaction alone."""
    return f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {settings}{_FACTS} FROM schema_version".encode()


def begin_writing(scopes: Sequence[str] | None, *, settings: str = "") -> bytes:
    """Alone, or beside others with these scopes."""
    alone = scopes is None
    taken = [f"pg_advisory_xact_lock{'' if alone else '_shared'}({BOARD}, hashtext('{SCHEMA}'))"]
    taken += [f"pg_advisory_xact_lock{mode}({SCOPE}, {number})" for number, mode in locks_of(scopes).items()]
    # A verb beside others is a few statements that find their rows by key or in one order: to plan each anew takes longer than to run it.
    plans = "" if alone else "SET LOCAL plan_cache_mode = force_generic_plan; "
    return f"BEGIN; {settings}{plans}SELECT {', '.join(taken)}; {_SHOWN}".encode()


def locks_of(scopes: Sequence[str] | None) -> dict[int, str]:
    """`kind:name` keeps out who names the same, `kind` everybody who names one of that kind; in the order they are taken in."""
    locks: dict[int, str] = {}
    for scope in scopes or ():
        kind, _, name = scope.partition(":")
        if name:
            locks.setdefault(_number(kind), "_shared")
        locks[_number(scope)] = ""
    return dict(sorted(locks.items()))


def _number(scope: str) -> int:
    """Two scopes with one number wait for each other without need, and nothing worse."""
    return crc32(scope.encode("utf-8", "surrogateescape")) - 2**31


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
    "search_path": SCHEMA,
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
    place = without_password(url)
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
            f"Cannot reach the database {place}: {reason(error, url)}.",
            "Check HANDOFF_DATABASE_URL and that the server runs, or unset it to use the local file.",
        ) from error
    return connection


def is_pooled(connection: Connection) -> bool:
    """Whether something stands between us and the server that gives each transaction another connection."""
    return connection.prepare_threshold is None


def reason(error: Exception, url: str) -> str:
    """The first line of what the driver says, without the password."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return redact(first, url)


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


STEP_BY_STEP = "HA001"
"""The state in which a function leaves a verb to the board; nothing was changed."""
NEVER_STEP_BY_STEP = frozenset({"claim_at_once"})
"""Functions that never do so: they may be asked inside a transaction."""
# Each statement has its index. On a young database, without statistics, the planner would rather sort the whole queue; and behind a pooler
# these calls have no transaction of their own that could say so.
_PLANS = ("plan_cache_mode = force_generic_plan", "enable_bitmapscan = off", "enable_seqscan = off")
_RARE = re.compile(r"/\* rare \*/.*?/\* rare ends \*/", re.DOTALL)
_HEADER = re.compile(r"^-- (takes|gives|asks): (.*)$", re.MULTILINE)


class Function(Record):
    """One of functions.sql: what it takes, what it gives, and how it is asked."""

    name: str
    takes: tuple[tuple[str, str], ...]
    gives: str
    asks: str
    body: str


def load_functions(version: int) -> dict[str, Function]:
    """The functions by name; a server's own carry the version of the schema they are made for."""
    found = {}
    for name, text in parse_queries(read_sql("functions.sql")).items():
        said = dict(_HEADER.findall(text))
        if "gives" not in said:
            continue
        pairs = (pair.strip().partition(" ") for pair in said["takes"].split(","))
        found[name] = Function(
            name=f"{name}_{version}",
            takes=tuple((word, kind) for word, _, kind in pairs),
            gives=said["gives"],
            asks=said.get("asks", "found.*"),
            body=_HEADER.sub("", text),
        )
    return found


def create_statement(function: Function, queries: Mapping[str, str], numbers: Mapping[str, object]) -> str:
    """The statement that makes it; plans are kept, because to make one takes longer than to run it."""
    parts = parse_queries(read_sql("functions.sql"))

    def words(match: re.Match[str]) -> str:
        name, _, plain = match[1].partition(" ")
        text = (parts if name in parts else queries)[name].partition("\n")[2].rstrip()
        return _RARE.sub("", text) if plain else text

    body = re.sub(r"\{([a-z]+_[a-z_ ]+)\}", words, function.body)
    body = re.sub(r"\{([a-z]+)\}", lambda match: str(numbers[match[1]]), body)
    body = re.sub(r"/\* postgres: (.*?) \*/", r"\1", body)
    body = re.sub(r"(?<!:):([a-z_]+)", r"v_\1", body)
    body = re.sub(r"^--.*$", "", body, flags=re.MULTILINE).strip()
    takes = ", ".join(f"v_{word} {kind}" for word, kind in function.takes)
    settings = (f"search_path = {numbers['schema']}", f"lock_timeout = '{numbers['patience']}'", *_PLANS)
    return (
        f"CREATE OR REPLACE FUNCTION {function.name}({takes}) RETURNS {function.gives} LANGUAGE plpgsql"
        f" {' '.join(f'SET {one}' for one in settings)} AS"
        f" $body$\n#variable_conflict use_column\n{body}\n$body$"
    )


class KnownColumns:
    """Rows by the names of their columns, for a statement that always gives the same ones: the names are read once."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()

    def __call__(self, cursor: Cursor[Any]) -> Callable[[Sequence[Any]], Row]:
        names = self._names = self._names or tuple(column.name for column in cursor.description or ())
        return lambda values: dict(zip(names, values, strict=True))


def call_statement(function: Function, schema: str) -> bytes:
    """The statement that asks it."""
    values = ", ".join(f"%({word})s::{kind}" for word, kind in function.takes)
    return f"SELECT {function.asks} FROM {schema}.{function.name}({values}) AS found".encode()  # noqa: S608 - ours
