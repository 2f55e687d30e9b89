"""The relay's database as its operator sees it: what it is and how safe the way to it, its tables, its roles, the move to another one."""

from __future__ import annotations

import os

from handoff.base.clock import stamp
from handoff.base.errors import Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import executors, pauses
from handoff.engine.work.workers import need_engine
from handoff.store import file_of, open_database, upkeep
from handoff.store.database import POSTGRES, password_of
from handoff.store.migrate import VERSION
from handoff.store.sqlite import SqliteDatabase
from handoff.store.upkeep import move_rows

if TYPE_CHECKING:
    from handoff.engine.app import App
    from handoff.store.upkeep import DatabaseHealth

_DAY_SECONDS, _KEPT_BACKUPS = 86_400.0, 3


class DatabaseStatus(Record):
    """Where the relay's rows are, and what is wrong with the way there."""

    kind: str
    place: str
    schema: int
    weakness: str
    health: DatabaseHealth | None = None


class MovedRows(Record):
    """What has come along, and from where to where (without passwords)."""

    source: str
    target: str
    rows: dict[str, int]


def look(app: App, *, closely: bool = False) -> DatabaseStatus:
    """Open the database and say what it is; the address is shown without its password. `closely`: also how it fares."""
    database = app.database
    fares = upkeep.health(database) if closely else None
    return DatabaseStatus(database.kind, database.place, VERSION, database.weakness(), fares)


def watch(app: App) -> None:
    """Look through the file before anybody works with it; refuse a damaged one."""
    if isinstance(app.database, SqliteDatabase):
        app.database.examine()


def back_up(app: App) -> str:
    """Once a day a copy of the rows beside the file, the newest three of them; its name, or nothing where none was due."""
    database = app.database
    if not isinstance(database, SqliteDatabase):
        return ""
    newest = next(iter(upkeep.backups(database.place, upkeep.DAILY)), "")
    if newest and app.clock.now() - os.path.getmtime(newest) < _DAY_SECONDS:
        return ""
    return database.back_up(kept=_KEPT_BACKUPS)


def restore(app: App) -> tuple[str, str]:
    """The newest backup in the place of the database file; the old one stays beside it."""
    place = file_of(app.database_url)
    if not place:
        raise UserError("Only the SQLite file has backups of ours.", "Use those of your Postgres server.")
    return upkeep.restore(place, stamp(app.clock.now()).replace(":", ""))


def migrate(app: App) -> DatabaseStatus:
    """Make or bring up to date every table of the relay and of its engine, so that a role without that right can work."""
    found = look(app)
    if found.kind == POSTGRES:  # a file belongs to one machine, whose supervisor makes the tables itself
        need_engine(app)
        from handoff.engine.supervisor import durable

        durable.migrate(app.database_url)
    return found


def grant(app: App, *, owner: str, user: str, execute: bool = False) -> str:
    """The script that makes the two roles; with `execute` it is also run, by whoever the address names."""
    if owner == user:
        raise UserError("The two roles must have two names.", "For example: --owner handoff-owner --app handoff-app")
    text = upkeep.roles_script(owner=owner, app=user)
    if execute:
        if app.database.kind != POSTGRES:
            raise UserError(
                f"{app.database.place} is a file: it has no roles.", "Name a Postgres in HANDOFF_DATABASE_URL."
            )
        upkeep.apply_roles(app.database, text)
    return text


def refuse_password(url: str) -> None:
    """An address from a command line must not hold a password."""
    if password_of(url):
        raise Refused(
            "A password in a command line can be read by everybody on this machine.",
            "Leave it out: it is taken from PGPASSWORD or from ~/.pgpass.",
        )


def migrate_database(app: App, *, source: str, target: str) -> MovedRows:
    """Copy every row, then stop claims in the old database, so that nobody goes on there by mistake. Agents go on: the next
    supervisor attaches to them there."""
    if source == target:
        raise UserError("Both addresses are the same.", "Give the old database first, then the new one.")
    old = open_database(app.encrypted(source), clock=app.clock)
    try:
        working = [one for one in executors.listing(old) if one.state == executors.ALIVE and one.lease_left > 0]
        if working:
            raise Refused(
                f"Supervisor {working[0].id} still works on {old.place}.",
                f"End it first: {app.settings.program} work --stop. Its agents go on.",
            )
        new = open_database(app.encrypted(target), clock=app.clock)
        try:
            rows = move_rows(old, new)
        finally:
            new.close()
        pauses.pause(old, reason=f"moved to {new.place}")
        return MovedRows(old.place, new.place, rows)
    finally:
        old.close()
