"""The relay's database as its operator sees it: what it is and how safe the way to it, its tables, its roles."""

from __future__ import annotations

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.store import health, roles
from handoff.store.database import POSTGRES
from handoff.store.migrate import VERSION

if TYPE_CHECKING:
    from handoff.engine.app import App
    from handoff.store.health import DatabaseHealth


class DatabaseStatus(Record):
    """Where the relay's rows are, and what is wrong with the way there."""

    kind: str
    place: str
    schema: int
    weakness: str
    health: DatabaseHealth | None = None


def look(app: App, *, closely: bool = False) -> DatabaseStatus:
    """Open the database and say what it is; the address is shown without its password. `closely`: also how it fares."""
    database = app.database
    fares = health.look(database) if closely else None
    return DatabaseStatus(database.kind, database.place, VERSION, database.weakness(), fares)


def migrate(app: App) -> DatabaseStatus:
    """Make or bring up to date every table of the relay and of its engine, so that a role without that right can work."""
    found = look(app)
    if found.kind == POSTGRES:  # a file belongs to one machine, whose supervisor makes the tables itself
        from handoff.engine.supervisor import durable  # dbos is an extra; `show` works without it

        durable.migrate(app.database_url)
    return found


def grant(app: App, *, owner: str, user: str, execute: bool = False) -> str:
    """The script that makes the two roles; with `execute` it is also run, by whoever the address names."""
    if owner == user:
        raise UserError("The two roles must have two names.", "For example: --owner handoff-owner --app handoff-app")
    text = roles.script(owner=owner, app=user)
    if execute:
        if app.database.kind != POSTGRES:
            raise UserError(
                f"{app.database.place} is a file: it has no roles.", "Name a Postgres in HANDOFF_DATABASE_URL."
            )
        roles.apply(app.database, text)
    return text
