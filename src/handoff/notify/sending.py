"""One event sent once: as a signed CloudEvent in the headers of Standard Webhooks, or through apprise."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import ssl
from urllib.parse import urlsplit

from handoff.base.clock import stamp
from handoff.base.errors import PACKAGE, MissingPackage, UserError
from handoff.base.light_json import dumps
from handoff.base.record import TYPE_CHECKING, Record
from handoff.notify.channels import Channel, NotifiedEvent, text, title

if TYPE_CHECKING:
    from typing import Any

SENT, AGAIN, REFUSED, GONE = "sent", "again", "refused", "gone"
_OK, _SERVER, _GONE = range(200, 300), 500, 410
_PASSING = (408, 425, 429)
_READ = 4096
_LONGEST = 4000


class Sent(Record):
    """How it went: sent; again (later, it may go); refused (this event will never go); gone (nobody listens there)."""

    how: str
    trouble: str = ""
    wait: float = 0.0
    """Seconds the receiver asked us to wait."""


def cloud_event(event: NotifiedEvent, *, source: str) -> dict[str, Any]:
    """CloudEvents 1.0, structured JSON. `source` and `id` together are the same in every repeat."""
    data: dict[str, Any] = {"class": event.word, "project": event.project}
    for name in ("task", "session"):
        if getattr(event, name):
            data[name] = getattr(event, name)
    data.update({key: _short(value) for key, value in event.body.items() if key not in data})
    if event.code:
        data["answer_code"] = event.code
    if event.link:
        data["answer_url"] = event.link
    subject = f"{event.project}/{event.task}" if event.task else event.project
    return envelope(event.id, kind=event.kind, at=event.at, subject=subject, source=source, data=data)


def envelope(id: str, *, kind: str, at: float, subject: str, source: str, data: dict[str, Any]) -> dict[str, Any]:
    """What CloudEvents wants to know of every event."""
    return {
        "specversion": "1.0",
        "id": id,
        "source": source,
        "type": f"handoff.{kind}",
        "subject": subject or "handoff",
        "time": stamp(at),
        "datacontenttype": "application/json",
        "data": data,
    }


def _short(value: Any) -> Any:
    return value if not isinstance(value, str) or len(value) <= _LONGEST else value[:_LONGEST] + "…"


def signature(secret: bytes, *, id: str, timestamp: int, body: bytes) -> str:
    """`v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`."""
    signed = f"{id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()


def post(channel: Channel, event: NotifiedEvent, *, source: str, now: float) -> Sent:
    """Send it once. No redirect is followed, nothing of the answer is believed but its status."""
    body = dumps(cloud_event(event, source=source), ascii_only=False).encode()
    parts = urlsplit(channel.address)
    moment = int(now)
    headers = {
        "Content-Type": "application/cloudevents+json; charset=utf-8",
        "User-Agent": "handoff",
        "webhook-id": event.id,
        "webhook-timestamp": str(moment),
        "webhook-signature": signature(channel.secret, id=event.id, timestamp=moment, body=body),
    }
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection = _connection(parts.scheme, parts.hostname or "", parts.port, channel.timeout)
        try:
            connection.request("POST", target, body=body, headers=headers)
            answer = connection.getresponse()
            answer.read(_READ)
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Sent(AGAIN, f"no answer from {channel.shown}: {type(error).__name__}")
    return _judge(answer.status, answer.getheader("Retry-After") or "", channel.shown)


def _connection(scheme: str, host: str, port: int | None, timeout: float) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, port, timeout=timeout)


def _judge(status: int, retry_after: str, place: str) -> Sent:
    if status in _OK:
        return Sent(SENT)
    words = f"{place} answered {status}"
    if status == _GONE:
        return Sent(GONE, words)
    if status >= _SERVER or status in _PASSING:
        return Sent(AGAIN, words, float(retry_after) if retry_after.isdigit() else 0.0)
    return Sent(REFUSED, words)


def send_by_apprise(channel: Channel, event: NotifiedEvent, *, program: str) -> Sent:
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
