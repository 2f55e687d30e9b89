"""Databases of other programs: read, never made, and never written but for copies of ours."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING

try:  # as in sqlite.py: the module behind it costs less to load
    import _sqlite3 as driver
except ImportError:
    import sqlite3 as driver  # type: ignore[no-redef]

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_SAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-"


def read_rows(path: str, sql: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The rows of a query, one by one. What the query cannot find is an error that names the file.

    Without a log beside it the file is opened as one that never changes: else SQLite would lay a log and an index there.
    """
    address = "".join(char if char in _SAFE else "".join(f"%{byte:02X}" for byte in char.encode()) for char in path)
    log = f"{path}-wal"
    way = "mode=ro" if os.path.exists(log) and os.path.getsize(log) else "mode=ro&immutable=1"
    connection = None
    try:
        connection = driver.connect(f"file:{address}?{way}", uri=True, timeout=5.0)
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        yield from connection.execute(sql, values)
    except driver.Error as error:
        raise UserError(
            f"{path} cannot be read: {error}.", "Its program may have changed the form of its database."
        ) from error
    finally:
        if connection is not None:
            connection.close()


def empty_tables(path: str, names: tuple[str, ...]) -> None:
    """Leave no row in these tables of a copy, as far as it has them."""
    connection = None
    try:
        connection = driver.connect(path, timeout=5.0, isolation_level=None)
        known = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for name in names:
            if name in known:
                connection.execute(f"DELETE FROM {name}")  # noqa: S608 - names of ours
    except driver.Error as error:
        raise UserError(
            f"{path} cannot be read: {error}.", "It is a copy of what a session left: remove it."
        ) from error
    finally:
        if connection is not None:
            connection.close()
