"""Move a relay to another database while its agents go on: the next supervisor attaches to them there."""

from __future__ import annotations

from handoff.base.errors import Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import executors, pauses
from handoff.store.addresses import password_of
from handoff.store.drivers import open_database
from handoff.store.moving import move

if TYPE_CHECKING:
    from handoff.engine.app import App


class MovedRows(Record):
    """What has come along, and from where to where (without passwords)."""

    source: str
    target: str
    rows: dict[str, int]


def refuse_password(url: str) -> None:
    """An address from a command line must not hold a password."""
    if password_of(url):
        raise Refused(
            "A password in a command line can be read by everybody on this machine.",
            "Leave it out: it is taken from PGPASSWORD or from ~/.pgpass.",
        )


def migrate_database(app: App, *, source: str, target: str) -> MovedRows:
    """Copy every row, then stop claims in the old database, so that nobody goes on there by mistake."""
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
            rows = move(old, new)
        finally:
            new.close()
        pauses.pause(old, reason=f"moved to {new.place}")
        return MovedRows(old.place, new.place, rows)
    finally:
        old.close()
