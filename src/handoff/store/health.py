"""How a database fares: its size, what is dead in it, who keeps it open, what is slow. Each kind is asked in its own words."""

from __future__ import annotations

import os

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.store.database import POSTGRES

if TYPE_CHECKING:
    from typing import Any

    from handoff.store.database import Database, Row

_TABLES = """SELECT schemaname || '.' || relname AS name, pg_total_relation_size(relid) AS bytes, n_live_tup AS rows, n_dead_tup AS dead
FROM pg_stat_user_tables WHERE schemaname IN (current_schema(), 'dbos') ORDER BY bytes DESC, name"""
_SIZE = "SELECT pg_database_size(current_database()) AS bytes, current_setting('max_connections')::int AS most"
_OLDEST = """SELECT extract(epoch FROM clock_timestamp() - xact_start)::double precision AS seconds, pid, application_name AS name, state
FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
ORDER BY xact_start LIMIT 1"""
_CONNECTIONS = """SELECT coalesce(nullif(application_name, ''), 'without a name') AS name, count(*) AS number FROM pg_stat_activity
WHERE datname = current_database() GROUP BY 1 ORDER BY number DESC, name"""
_STATEMENTS = """SELECT quote_ident(nspname) AS place FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
WHERE extname = 'pg_stat_statements'"""
_SLOWEST = """SELECT left(regexp_replace(query, '[[:space:]]+', ' ', 'g'), 200) AS query, calls, mean_exec_time / 1000 AS seconds
FROM {place}.pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
ORDER BY total_exec_time DESC LIMIT 1"""
_PAGES = """SELECT (SELECT page_count FROM pragma_page_count) AS pages, (SELECT page_size FROM pragma_page_size) AS page,
(SELECT freelist_count FROM pragma_freelist_count) AS free"""
_NAMES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%words%' AND name NOT LIKE 'sqlite%' ORDER BY name"


class TableSize(Record):
    """A table: how many rows it has, and on Postgres how large it is with its indexes and how many dead rows wait for vacuum."""

    name: str
    rows: int
    bytes: int | None = None
    dead: int | None = None


class DatabaseHealth(Record):
    """How a database fares. What one kind does not have is empty there."""

    bytes: int
    tables: tuple[TableSize, ...]
    log_bytes: int = 0
    """SQLite: the write-ahead log beside the file."""
    free_bytes: int = 0
    """SQLite: pages of the file that hold nothing and are used again first."""
    connections: tuple[tuple[str, int], ...] = ()
    most_connections: int = 0
    oldest: Row | None = None
    """Postgres: the transaction that is open longest; until it ends, nothing that died since is cleared away."""
    slowest: Row | None = None
    unknown: str = ""
    """Why the slowest statement is not known."""


def look(database: Database) -> DatabaseHealth:
    """Ask once; only reads."""
    return _of_server(database) if database.kind == POSTGRES else _of_file(database)


def _of_server(database: Database) -> DatabaseHealth:
    with database.transaction(write=False) as transaction:
        size, oldest = _rows(transaction.driver, _SIZE)[0], _rows(transaction.driver, _OLDEST)
        connections = tuple((row["name"], int(row["number"])) for row in _rows(transaction.driver, _CONNECTIONS))
        tables = tuple(
            TableSize(row["name"], row["rows"], row["bytes"], row["dead"]) for row in _rows(transaction.driver, _TABLES)
        )
        place = _rows(transaction.driver, _STATEMENTS)
    slowest, unknown = (
        _slowest(database, place[0]["place"]) if place else (None, "the extension pg_stat_statements is not there")
    )
    return DatabaseHealth(
        bytes=int(size["bytes"]),
        tables=tables,
        connections=connections,
        most_connections=int(size["most"]),
        oldest=oldest[0] if oldest else None,
        slowest=slowest,
        unknown=unknown,
    )


def _slowest(database: Database, place: str) -> tuple[Row | None, str]:
    """In a transaction of its own: an extension without its library, or a role without the right, must spoil nothing else."""
    try:
        with database.transaction(write=False) as transaction:
            found = _rows(transaction.driver, _SLOWEST.format(place=place))
    except HandoffError:
        raise
    except Exception as error:  # noqa: BLE001 - the driver's own classes; its words are what an operator needs
        return None, str(error).partition("\n")[0]
    return (found[0], "") if found else (None, "pg_stat_statements knows none yet")


def _of_file(database: Database) -> DatabaseHealth:
    with database.transaction(write=False) as transaction:
        pages = _rows(transaction.driver, _PAGES)[0]
        names = [row["name"] for row in _rows(transaction.driver, _NAMES)]
        counts = [_rows(transaction.driver, f"SELECT count(*) AS rows FROM {name}")[0]["rows"] for name in names]  # noqa: S608 - names of our own schema
    try:
        log = os.stat(f"{database.place}-wal").st_size
    except OSError:
        log = 0
    tables = sorted(
        (TableSize(name, count) for name, count in zip(names, counts, strict=True)), key=lambda one: -one.rows
    )
    return DatabaseHealth(
        bytes=pages["pages"] * pages["page"],
        tables=tuple(tables),
        log_bytes=log,
        free_bytes=pages["free"] * pages["page"],
    )


def _rows(driver: Any, text: str) -> list[Row]:
    return [dict(row) for row in driver.execute(text).fetchall()]
