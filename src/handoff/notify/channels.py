"""What people are told, the channels as the person set them up, and one event sent once.

A channel says where and which events; its secrets stand elsewhere. An event goes as a signed CloudEvent in the headers of Standard
Webhooks, or through apprise.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import os
import ssl
import stat
from base64 import b64decode
from binascii import Error
from urllib.parse import urlsplit

from handoff.base.clock import stamp
from handoff.base.errors import PACKAGE, ConfigError, MissingPackage, UserError
from handoff.base.light_json import dumps
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


CLASSES: dict[str, str] = {
    "needs-you": "a gate waits for your answer, a session wishes for a path, an agent is refused by its provider, a check cannot run",
    "blocked": "a task or a flow cannot go on",
    "done": "a task or a flow is finished",
    "limit": "an agent waits for its provider's limit",
    "incident": "a session died or strayed, a guard said no, work is late, a default was applied",
}
_KINDS = {
    "gate.opened": "needs-you",
    "gate.delayed": "needs-you",
    "path.wanted": "needs-you",
    "task.held": "needs-you",
    "task.blocked": "blocked",
    "flow.blocked": "blocked",
    "task.finished": "done",
    "flow.done": "done",
    "task.expired": "incident",
    "session.out_of_scope": "incident",
    "batch.delayed": "incident",
    "flow.note_failed": "incident",
}
_LONGEST = 1500


class NotifiedEvent(Record):
    """One line of the journal as it is told. `code` answers the gate it tells of; only channels that may answer get it."""

    id: str
    at: float
    kind: str
    word: str
    project: str
    task: str
    session: str
    body: dict[str, Any]
    code: str = ""
    link: str = ""
    answers: tuple[str, ...] = ()
    """What may be typed as the answer to a gate."""


def class_of(kind: str, body: dict[str, Any]) -> str:
    """Which class an event belongs to; empty for what nobody needs to hear."""
    if kind == "agent.held":  # the first of a row: that it goes on being held calls nobody
        return "limit" if body.get("fault") == "limit" else "needs-you"
    if kind.startswith("incident."):
        return "incident" if body.get("what") else ""  # that one was concluded calls nobody
    if kind in ("gate.approved", "gate.rejected"):
        return "incident" if body.get("by_default") else ""
    return _KINDS.get(kind, "")


def title(event: NotifiedEvent) -> str:
    """One line: who and what."""
    what = {
        "gate.opened": "waits for your answer",
        "gate.delayed": "still waits for your answer",
        "gate.approved": "went on: nobody answered in time",
        "gate.rejected": "is blocked: nobody answered in time",
        "path.wanted": "wishes for a path",
        "task.blocked": "is blocked",
        "flow.blocked": "is blocked",
        "task.finished": "is done",
        "flow.done": "is done",
        "task.expired": "lost its session",
        "task.held": "cannot begin or be judged",
        "session.out_of_scope": "changed files it does not own",
        "batch.delayed": "is late",
        "flow.note_failed": "could not be recorded in git",
        "notify.test": "sends a test",
    }.get(event.kind, "has an incident" if event.kind.startswith("incident.") else event.kind)
    if event.kind == "agent.held":
        return f"agent {event.body.get('agent')} is held until {event.body.get('until')}"
    name = event.task or str(event.body.get("flow") or event.body.get("id") or "")
    return f"{event.project}/{name} {what}" if name else f"{event.project or 'handoff'} {what}"


def text(event: NotifiedEvent, *, program: str) -> str:
    """What a person needs to act: the words of the event, and the commands that answer it."""
    lines = []
    for key in ("question", "what", "fix", "reason", "summary", "path", "outcome"):
        value = event.body.get(key)
        if isinstance(value, str) and value.strip():
            lines.append(value.strip()[:_LONGEST])
    if event.kind in ("gate.opened", "gate.delayed") and event.task:
        where = f" --project {event.project}"
        lines.append(" | ".join(f"{program} answer {event.task} {word}{where}" for word in event.answers))
        if event.code:
            lines.append(f"Once, from anywhere: {program} answer {event.code} {'|'.join(event.answers)}")
        if event.link:
            lines.append(f"Or in a browser: {event.link}")
    elif event.word == "blocked" and event.task:
        lines.append(f"{program} show {event.task} --project {event.project}")
    return "\n".join(lines) or title(event)


APPRISE, WEBHOOK = "apprise", "webhook"
DEFAULT_EVENTS = ("needs-you", "blocked", "limit", "incident")
_KEYS = ("to", "webhook", "secret", "events", "projects", "answers", "page", "timeout")
TIMEOUT_SECONDS, _LONGEST_TIMEOUT = 10.0, 60.0
_OTHERS_MAY_READ = stat.S_IRGRP | stat.S_IROTH
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


class Channel(Record):
    """One place that is told. `address` and `secret` are never shown: `shown` is what people may see."""

    name: str
    kind: str
    address: str
    secret: bytes
    events: tuple[str, ...]
    projects: tuple[str, ...]
    answers: bool
    timeout: float
    page: str = ""
    """The address at which its readers reach this relay: then a gate's notice has a link that answers it, once."""

    @property
    def shown(self) -> str:
        """Scheme and host: the rest of an address may be a secret."""
        scheme, _, rest = self.address.partition("://")
        if self.kind == APPRISE:
            return f"{scheme}://…"
        host = rest.partition("/")[0].rpartition("@")[2]
        return f"{scheme}://{host}/…"

    def wants(self, word: str, project: str) -> bool:
        return word in self.events and (not self.projects or project in self.projects)


def read_channels(
    tables: Mapping[str, Any], *, path: str, text: str, variable: Callable[[str], str]
) -> tuple[Channel, ...]:
    """The channels of `[notify.NAME]`; what is wrong is an error with file and line, and no secret in it."""
    return tuple(_channel(_Table(name, table, path, text, variable)) for name, table in tables.items())


class _Table:
    """One table of the settings file, with where it stands."""

    def __init__(self, name: str, values: Any, path: str, text: str, variable: Callable[[str], str]) -> None:
        self.name, self.path, self.variable = name, path, variable
        self.lines = text.splitlines()
        if not isinstance(values, dict):
            raise self.fault("a channel is a table", f'Write: [notify.{name}] and below it to = "…"')
        self.values: dict[str, Any] = values

    def fault(self, words: str, hint: str = "", key: str = "") -> ConfigError:
        return ConfigError(f"{self.path}:{self._line(key)}: notify.{self.name}: {words}.", hint)

    def _line(self, key: str) -> int:
        title = f"[notify.{self.name}]"
        head = next((at for at, line in enumerate(self.lines, 1) if line.replace(" ", "").startswith(title)), 1)
        for at in range(head, len(self.lines)):
            line = self.lines[at].strip()
            if not key or line.startswith("["):
                break
            if line.partition("=")[0].strip() == key:
                return at + 1
        return head

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        value = self.values.get(key, list(default))
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fault(f"'{key}' must be a list of texts", key=key)
        return tuple(value)

    def resolved(self, key: str) -> str:
        """A value that may stand in the environment (`env:NAME`) or in a private file (`file:PATH`)."""
        value = self.values.get(key, "")
        if not isinstance(value, str):
            raise self.fault(f"'{key}' must be a text", key=key)
        if value.startswith("env:"):
            found = self.variable(value[4:])
            if not found:
                raise self.fault(f"the environment has no {value[4:]}", f"Set {value[4:]} where handoff runs.", key)
            return found.strip()
        if value.startswith("file:"):
            return self._private(os.path.expanduser(value[5:]), key)
        return value

    def _private(self, path: str, key: str) -> str:
        path = os.path.join(os.path.dirname(self.path), path)
        try:
            with open(path, encoding="utf-8") as file:
                if os.fstat(file.fileno()).st_mode & _OTHERS_MAY_READ:
                    raise self.fault(f"others can read {path}", f"Run: chmod 600 {path}", key)
                return file.read().strip()
        except OSError as error:
            raise self.fault(f"cannot read {path}: {error.strerror}", key=key) from None


def _channel(table: _Table) -> Channel:
    if not table.name or not _NAME_CHARS.issuperset(table.name):
        raise table.fault("a channel's name has small letters, digits, '-' and '_'")
    unknown = [key for key in table.values if key not in _KEYS]
    if unknown:
        raise table.fault(f"unknown key '{unknown[0]}'", f"Known keys: {', '.join(_KEYS)}.", unknown[0])
    if ("to" in table.values) == ("webhook" in table.values):
        raise table.fault("name one place", 'Either to = "an apprise address" or webhook = "https://…".')
    events, projects = table.texts("events", DEFAULT_EVENTS), table.texts("projects", ())
    for word in events:
        if word not in CLASSES:
            raise table.fault(f"there is no event '{word}'", f"There are: {', '.join(CLASSES)}.", "events")
    answers = table.values.get("answers", False)
    if not isinstance(answers, bool):
        raise table.fault("'answers' must be true or false", key="answers")
    timeout = table.values.get("timeout", TIMEOUT_SECONDS)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= _LONGEST_TIMEOUT:
        raise table.fault("'timeout' is a number of seconds up to 60", key="timeout")
    apprise = "to" in table.values
    return Channel(
        name=table.name,
        kind=APPRISE if apprise else WEBHOOK,
        address=_address(table) if apprise else _webhook(table),
        secret=b"" if apprise else _secret(table),
        events=events,
        projects=projects,
        answers=answers,
        timeout=timeout,
        page=_page(table, answers=answers),
    )


def _page(table: _Table, *, answers: bool) -> str:
    """A link answers a gate for whoever has it: it goes where codes go, and beyond this machine not in the clear."""
    address = table.resolved("page").rstrip("/")
    if not address:
        return ""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise table.fault(
            "'page' is the address of the relay's port", 'For example: page = "https://relay.example"', "page"
        )
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise table.fault("a link that answers must not travel in the clear", "Use https://, or the loopback.", "page")
    if not answers:
        raise table.fault("'page' makes links that answer, and 'answers' is not true", "Write: answers = true", "page")
    return address


def _address(table: _Table) -> str:
    """Apprise addresses are mostly secrets: one that stands in the file needs a file nobody else can read."""
    address = table.resolved("to")
    if "://" not in address:
        raise table.fault("'to' is no address", 'For example: to = "env:MY_SLACK_ADDRESS"', "to")
    if address == table.values["to"] and os.path.exists(table.path) and os.stat(table.path).st_mode & _OTHERS_MAY_READ:
        raise table.fault(
            "the address stands in a file that others can read",
            f'Run: chmod 600 {table.path}. Or write to = "env:NAME" or "file:PATH".',
            "to",
        )
    return address


def _webhook(table: _Table) -> str:
    address = table.resolved("webhook")
    if not address.startswith(("https://", "http://")):
        raise table.fault("a webhook begins with https:// or http://", key="webhook")
    return address


def _secret(table: _Table) -> bytes:
    if "secret" not in table.values:
        raise table.fault("a webhook needs a secret to sign with", 'Write secret = "env:NAME" or secret = "file:PATH".')
    value = table.values["secret"]
    if not isinstance(value, str) or not value.startswith(("env:", "file:")):
        raise table.fault(
            "a secret does not stand in this file", 'Write secret = "env:NAME" or secret = "file:PATH".', "secret"
        )
    text = table.resolved("secret")
    if len(text) < 16:  # noqa: PLR2004 - what can be guessed signs nothing
        raise table.fault("the secret is shorter than 16 characters", "Make one: openssl rand -hex 32", "secret")
    if text.startswith("whsec_"):
        try:
            return b64decode(text[6:], validate=True)
        except Error:
            raise table.fault("what follows whsec_ is not base64", key="secret") from None
    return text.encode()


SENT, AGAIN, REFUSED, GONE = "sent", "again", "refused", "gone"
_OK, _SERVER, _GONE = range(200, 300), 500, 410
_PASSING = (408, 425, 429)
_READ = 4096
_LONGEST_VALUE = 4000


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
    return value if not isinstance(value, str) or len(value) <= _LONGEST_VALUE else value[:_LONGEST_VALUE] + "…"


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
        raise UserError(
            f"Apprise does not understand the address of the channel '{channel.name}'.",
            "Its forms are listed in the documentation of apprise.",
        )
    if place.notify(title=title(event), body=text(event, program=program)):
        return Sent(SENT)
    return Sent(AGAIN, f"{channel.shown} did not take it")
