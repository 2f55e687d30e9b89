"""Move every row of one database to another, empty one, of whatever kind: all or nothing."""

from __future__ import annotations

from handoff.base.errors import Refused
from handoff.base.record import TYPE_CHECKING
from handoff.store.database import POSTGRES, read_sql

if TYPE_CHECKING:
    from typing import Any

    from handoff.store.database import Database, Transaction

_ITS_OWN = (
    "clock",
    "executor",
    "offer",
    "watched",
    "search_mark",
    "transcript",
    "tally",
)  # what is searched and counted is read anew; a clock belongs to its database, a supervisor to the one it works on
_LEASES = {"task": ("lease_until", "held_since")}
_MANY = 500


def tables() -> list[str]:
    """The tables that move, as the schema names them."""
    words = [line.split() for line in read_sql("schema.sql").splitlines() if line.startswith("CREATE TABLE ")]
    return [found[2] for found in words if found[2] not in _ITS_OWN]


def move(source: Database, target: Database) -> dict[str, int]:
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
        ("event", "seq"),
        ("inbox", "key"),
    ):
        transaction.driver.execute(
            f"SELECT setval(pg_get_serial_sequence('{name}', '{column}'), "  # noqa: S608 - names of our own schema
            f"greatest(1, (SELECT coalesce(max({column}), 0) FROM {name})))"
        )
