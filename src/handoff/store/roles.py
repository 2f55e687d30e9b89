"""Roles with no more rights than they need: one that owns the tables, one that works with the rows."""

from __future__ import annotations

from handoff.base.ids import check_id
from handoff.base.record import TYPE_CHECKING
from handoff.store.database import read_sql

if TYPE_CHECKING:
    from handoff.store.database import Database


def script(*, owner: str, app: str) -> str:
    """The SQL that makes both roles, and may be run again; names are checked, so nothing in them can end a word."""
    text = read_sql("roles.sql")
    return text.replace("{owner}", check_id(owner, "role")).replace("{app}", check_id(app, "role"))


def apply(database: Database, text: str) -> None:
    """Run the script with the rights of whoever is connected: all of it or nothing."""
    with database.transaction() as transaction:
        transaction.driver.execute(text.encode())
