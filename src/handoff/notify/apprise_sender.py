"""One event through apprise: Slack, Discord, mail, ntfy and a hundred other services."""

from __future__ import annotations

from handoff.base.errors import PACKAGE, MissingPackage, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.notify.events import text, title
from handoff.notify.webhooks import AGAIN, SENT, Sent

if TYPE_CHECKING:
    from handoff.notify.channels import Channel
    from handoff.notify.events import NotifiedEvent


def send(channel: Channel, event: NotifiedEvent, *, program: str) -> Sent:
    """Send it once. Apprise says only whether it went, and logs addresses: its log is kept silent."""
    try:
        import apprise
    except ImportError:
        raise MissingPackage(
            f"The channel '{channel.name}' needs the package 'apprise'.", f"{PACKAGE}[notify]"
        ) from None
    apprise.logger.disabled = True
    place = apprise.Apprise()
    if not place.add(channel.address):
        raise UserError(f"Apprise does not understand the address of the channel '{channel.name}'.", _HELP)
    if place.notify(title=title(event), body=text(event, program=program)):
        return Sent(SENT)
    return Sent(AGAIN, f"{channel.shown} did not take it")


_HELP = "Its forms are listed in the documentation of apprise."
