"""The upkeep of a database: how it fares, its backups, its rows moved to another one all or nothing, roles with no more rights than they need."""

from __future__ import annotations

import os
import shlex
import shutil

from handoff.base.errors import HandoffError, Refused, UserError
from handoff.base.files import locked, names_in, sync_folder
from handoff.base.ids import check_id
from handoff.base.record import TYPE_CHECKING, Record
from handoff.store.database import POSTGRES, read_sql

if TYPE_CHECKING:
    from typing import Any

    from handoff.store.database import Database, Row, Transaction

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


def health(database: Database) -> DatabaseHealth:
    """Ask once; only reads."""
    return _of_server(database) if database.kind == POSTGRES else _of_file(database)


def _of_server(database: Database) -> DatabaseHealth:
    with database.transaction(write=False) as transaction:
        size, oldest = _asked(transaction.driver, _SIZE)[0], _asked(transaction.driver, _OLDEST)
        connections = tuple((row["name"], int(row["number"])) for row in _asked(transaction.driver, _CONNECTIONS))
        tables = tuple(
            TableSize(row["name"], row["rows"], row["bytes"], row["dead"])
            for row in _asked(transaction.driver, _TABLES)
        )
        place = _asked(transaction.driver, _STATEMENTS)
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
            found = _asked(transaction.driver, _SLOWEST.format(place=place))
    except HandoffError:
        raise
    except Exception as error:  # noqa: BLE001 - the driver's own classes; its words are what an operator needs
        return None, str(error).partition("\n")[0]
    return (found[0], "") if found else (None, "pg_stat_statements knows none yet")


def _of_file(database: Database) -> DatabaseHealth:
    with database.transaction(write=False) as transaction:
        pages = _asked(transaction.driver, _PAGES)[0]
        names = [row["name"] for row in _asked(transaction.driver, _NAMES)]
        counts = [_asked(transaction.driver, f"SELECT count(*) AS rows FROM {name}")[0]["rows"] for name in names]  # noqa: S608 - names of our own schema
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


def _asked(driver: Any, text: str) -> list[Row]:
    return [dict(row) for row in driver.execute(text).fetchall()]


_ITS_OWN = (
    "clock",
    "executor",
    "offer",
    "run",
    "watched",
    "search_mark",
    "transcript",
    "tally",
)  # what is searched and counted is read anew; a clock belongs to its database, a supervisor and its runs to the one it works on
_LEASES = {"task": ("lease_until", "held_since")}
_MANY = 500


def tables() -> list[str]:
    """The tables that move, as the schema names them."""
    words = [line.split() for line in read_sql("schema.sql").splitlines() if line.startswith("CREATE TABLE ")]
    return [found[2] for found in words if found[2] not in _ITS_OWN]


def move_rows(source: Database, target: Database) -> dict[str, int]:
    """Copy everything while nobody else can write; how many rows of each table."""
    moved: dict[str, int] = {}
    with source.transaction() as old, target.transaction() as new:
        for name in tables():
            if _rows(new, f"SELECT 1 FROM {name} LIMIT 1"):  # noqa: S608 - names of our own schema
                raise Refused(
                    f"{target.place} is not empty: it has rows in '{name}'.",
                    "Give an empty database; nothing was changed.",
                )
        later = new.lease_now() - old.lease_now()
        for name in tables():
            rows = _rows(old, f"SELECT * FROM {name}")  # noqa: S608 - as above
            for row in rows:
                for column in _LEASES.get(name, ()):
                    if row[column] is not None:
                        row[column] += later
            _insert(new, target.kind, name, rows)
            moved[name] = len(rows)
        if target.kind == POSTGRES:
            _advance_numbers(new)
    return moved


def _rows(transaction: Transaction, text: str) -> list[dict[str, Any]]:
    return [dict(row) for row in transaction.driver.execute(text).fetchall()]


def _insert(transaction: Transaction, kind: str, name: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    columns = list(rows[0])
    holes = ", ".join(["%s" if kind == POSTGRES else "?"] * len(columns))
    text = f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({holes})"  # noqa: S608 - names of our own schema
    cursor = transaction.driver.cursor()
    for start in range(0, len(rows), _MANY):
        cursor.executemany(text, [tuple(row[column] for column in columns) for row in rows[start : start + _MANY]])


def _advance_numbers(transaction: Transaction) -> None:
    """New rows get numbers behind those that came along."""
    for name, column in (
        ("task", "key"),
        ("batch", "key"),
        ("gate", "key"),
        ("flow", "key"),
        ("decision", "key"),
        ("request", "key"),
        ("remark", "key"),
        ("event", "seq"),
        ("inbox", "key"),
    ):
        transaction.driver.execute(
            f"SELECT setval(pg_get_serial_sequence('{name}', '{column}'), "  # noqa: S608 - names of our own schema
            f"greatest(1, (SELECT coalesce(max({column}), 0) FROM {name})))"
        )


def roles_script(*, owner: str, app: str) -> str:
    """The SQL that makes both roles, and may be run again; names are checked, so nothing in them can end a word."""
    text = read_sql("roles.sql")
    return text.replace("{owner}", check_id(owner, "role")).replace("{app}", check_id(app, "role"))


def apply_roles(database: Database, text: str) -> None:
    """Run the script with the rights of whoever is connected: all of it or nothing."""
    with database.transaction() as transaction:
        transaction.driver.execute(text.encode())


_SHOWN = 3


DAILY = "daily-"
_BESIDE = ("", "-wal", "-shm", "-journal")


def backups(place: str, kind: str = "") -> list[str]:
    """The backups of a database file, or those of one kind, newest first."""
    folder, name = os.path.split(place)
    found = [os.path.join(folder, one) for one in names_in(folder) if one.startswith(f"{name}.backup-{kind}")]
    whole = [one for one in found if not one.endswith(".tmp") and os.path.getsize(one)]
    return sorted(whole, key=os.path.getmtime, reverse=True)


_NO_BACKUP = "There is no backup beside it. "


def restore(place: str, moment: str) -> tuple[str, str]:
    """Put the newest backup in the place of a database file; which it was, and where the old file lies now."""
    there = backups(place)
    if not there:
        raise UserError(f"There is no backup beside {place}.", way_back(place).removeprefix(_NO_BACKUP))
    aside = f"{place}.damaged-{moment}"
    temp = f"{place}.{os.getpid()}.restored"
    shutil.copyfile(there[0], temp)
    os.chmod(temp, 0o600)
    with locked(f"{place}.lock", what="the database"):
        for end in _BESIDE:  # a log of the old file would be read into the new one
            if os.path.lexists(place + end):
                os.rename(place + end, aside + end)
        os.rename(temp, place)
    sync_folder(os.path.dirname(place) or ".")
    return there[0], aside


def documents(place: str) -> list[str]:
    """The documents of live tasks in the projects beside the database, as `project/queue/task.md`."""
    home = os.path.dirname(place)
    found = []
    for project in names_in(home):
        queue = os.path.join(home, project, "queue")
        found += [f"{project}/queue/{name}" for name in names_in(queue) if name.endswith(".md")]
    return found


def way_back(place: str) -> str:
    """What to do about a database that cannot be used, naming only what is there."""
    there = backups(place)
    if there:
        return f"Stop what works with it (handoff work --stop), then put the newest backup, {there[0]}, in its place: handoff database restore"
    home = os.path.dirname(place)
    projects = dict.fromkeys(one.partition("/")[0] for one in documents(place))
    queues = " ".join(shlex.quote(os.path.join(home, one, "queue")) for one in projects)
    words = f"{_NO_BACKUP}Bring it back from one of your own"
    if queues:
        return f"{words}, or begin anew: move the documents away ({queues}) and write the tasks down again from them."
    return f"{words}, or move it away and begin anew."


def refuse_wiped(place: str) -> None:
    """Refuse to take an empty file for a new database where there was one before."""
    found, there = documents(place), backups(place)
    if not found and not there:
        return
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    documented = (
        f"the documents of {len(found)} task{'' if len(found) == 1 else 's'} ({', '.join(found[:_SHOWN])}{more})"
    )
    what = documented if found else f"{len(there)} backup{'s' if len(there) > 1 else ''}"
    raise UserError(f"{place} is empty or was wiped: beside it lie {what}. Nothing was changed.", way_back(place))
