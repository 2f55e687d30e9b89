"""The database: the only room that knows SQL drivers."""

from __future__ import annotations

import os

from handoff.base.errors import PACKAGE, MissingPackage, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.store.database import is_postgres

if TYPE_CHECKING:
    from handoff.base.clock import Clock
    from handoff.base.settings import Settings
    from handoff.store.database import Database


_SQLITE_PREFIX = "sqlite:///"


def database_url(settings: Settings) -> str:
    """HANDOFF_DATABASE_URL, or the SQLite file in $HANDOFF_HOME."""
    return settings.get("HANDOFF_DATABASE_URL") or _SQLITE_PREFIX + os.path.join(settings.home, "handoff.db")


def file_of(url: str) -> str:
    """The file that a URL of SQLite names; nothing for another."""
    return url.removeprefix(_SQLITE_PREFIX) if url.startswith(_SQLITE_PREFIX) else ""


def open_database(url: str, *, clock: Clock) -> Database:
    """Open what the URL names, create or migrate it where needed."""
    if url.startswith(_SQLITE_PREFIX) and len(url) > len(_SQLITE_PREFIX):
        from handoff.store.sqlite import SqliteDatabase

        return SqliteDatabase(url[len(_SQLITE_PREFIX) :], clock=clock)
    if is_postgres(url):
        try:
            from handoff.store.postgres import PostgresDatabase
        except ImportError as missing:
            if not str(missing.name).startswith("psycopg"):
                raise
            raise MissingPackage(
                "HANDOFF_DATABASE_URL names a Postgres database, but its driver is not installed.",
                f"{PACKAGE}[postgres]",
            ) from missing
        return PostgresDatabase(url, clock=clock)
    shown = url.partition("://")[0] if "://" in url else url
    raise UserError(
        f"'{shown}' is not a database handoff knows.",
        "Set HANDOFF_DATABASE_URL to sqlite:////absolute/path.db or postgresql://user@host/name, or unset it.",
    )
