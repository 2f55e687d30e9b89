"""Tell the channels what the journal says: at least once, each channel at its own pace, from a cursor that survives us."""

from __future__ import annotations

import os

from handoff.base.errors import ConfigError, HandoffError, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.redaction import redact
from handoff.base.settings import HOME_CONFIG
from handoff.board import gates
from handoff.board.events import channels as rows
from handoff.board.events import journal
from handoff.engine.app import App
from handoff.engine.home import home_config
from handoff.engine.sessions import endpoints
from handoff.engine.sessions.endpoints import GATES
from handoff.notify import apprise_sender, webhooks
from handoff.notify.channels import APPRISE, Channel, read_channels
from handoff.notify.events import NotifiedEvent, class_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Thread
    from typing import Any

    from handoff.board.events.channels import Progress
    from handoff.board.events.journal import Event
    from handoff.notify.webhooks import Sent

_AT_ONCE = 200
_ROUND_SECONDS = 30.0
_KEPT_SECONDS = 3 * 86_400.0
_REFUSALS = 3
_PAUSES = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0)


class Delivery(Record):
    """What one round did for one channel."""

    channel: str
    sent: int = 0
    dropped: int = 0
    trouble: str = ""
    waiting: bool = False
    """Another deliverer is at it, or it is not due yet."""


def channels(app: App) -> tuple[Channel, ...]:
    """The channels of the home's config.toml, checked."""
    found, faults = _usable(app)
    for fault in faults.values():
        raise fault
    return found


def _usable(app: App) -> tuple[tuple[Channel, ...], dict[str, ConfigError]]:
    """The channels that are set up rightly, and what is wrong with the others by name."""
    tables = home_config(app).values["notify"]
    found: list[Channel] = []
    faults: dict[str, ConfigError] = {}
    if tables:
        path = os.path.join(app.settings.home, HOME_CONFIG)
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
        for name, table in tables.items():
            try:
                found += read_channels({name: table}, path=path, text=text, variable=app.settings.get)
            except ConfigError as error:
                faults[name] = error
    return tuple(found), faults


def choose(app: App, name: str = "") -> tuple[Channel, ...]:
    """The named channel, or all; none at all is an error that says how to set one up."""
    found = channels(app)
    if not found:
        raise UserError(
            "No channel is set up.", f"Write [notify.NAME] into {os.path.join(app.settings.home, HOME_CONFIG)}"
        )
    named = tuple(channel for channel in found if name in ("", channel.name))
    if not named:
        raise UserError(f"There is no channel '{name}'.", f"There are: {', '.join(one.name for one in found)}")
    return named


def deliver(app: App) -> list[Delivery]:
    """One round. Channels are served beside each other: one that hangs or is set up wrongly keeps no other waiting."""
    found, faults = _usable(app)
    wrong = [Delivery(name, trouble=fault.message) for name, fault in faults.items()]
    if len(found) < 2:  # noqa: PLR2004 - no thread for a single one
        return [*(_serve(app, channel) for channel in found), *wrong]
    import threading

    told: dict[str, Delivery] = {}

    def serve(channel: Channel) -> None:
        own = App(app.settings, app.clock)
        try:
            told[channel.name] = _serve(own, channel)
        except HandoffError as error:
            told[channel.name] = Delivery(channel.name, trouble=error.message)
        finally:
            own.close()

    threads = [threading.Thread(target=serve, args=(channel,), daemon=True) for channel in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [*(told[channel.name] for channel in found), *wrong]


def deliver_or_tell(app: App) -> list[str]:
    """A round beside other work: what went wrong, in words, and never an error."""
    try:
        return [f"channel {told.channel}: {told.trouble}" for told in deliver(app) if told.trouble]
    except HandoffError as error:
        return [f"Nobody was told: {error.message} {error.hint}".strip()]


class Teller:
    """Delivers beside a supervisor's own work: at most one round at a time, and never in its way."""

    def __init__(self, app: App, tell: Callable[[str], None]) -> None:
        self._settings, self._tell = app.settings, tell
        self._thread: Thread | None = None
        self._said: list[str] = []

    def start_round(self) -> None:
        """Begin a round, unless the last one still runs."""
        if self._thread is not None and self._thread.is_alive():
            return
        import threading

        self._thread = threading.Thread(target=self._round, name="notify", daemon=True)
        self._thread.start()

    def _round(self) -> None:
        app = App(self._settings)
        try:
            said = deliver_or_tell(app)
        finally:
            app.close()
        for words in said:
            if words not in self._said:  # a trouble is told once, not every round
                self._tell(words)
        self._said = said


def try_out(app: App, channel: Channel) -> Sent:
    """Send a test now, whatever state the channel is in; one that was given up is taken up again if it goes."""
    name = f"test-{os.urandom(6).hex()}"
    event = NotifiedEvent(
        id=name,
        at=app.clock.now(),
        kind="notify.test",
        word="done",
        project="handoff",
        task="",
        session="",
        body={"summary": "A test."},
    )
    sent = _send(app, channel, event)
    held = rows.take(app.database, name=channel.name, place=_place(channel), force=True)
    if held is not None:
        fresh = held._replace(state=rows.ON, next_at=0.0, tries=0, trouble="") if sent.how == "sent" else held
        rows.keep(app.database, held, now=fresh, done=True)
    return sent


class ChannelStatus(Record):
    """A channel as `status` shows it."""

    channel: Channel
    progress: Progress | None
    behind: int


def status(app: App) -> list[ChannelStatus]:
    """Each channel with how far it has come."""
    known, last = rows.listing(app.database), rows.last_seq(app.database)
    found = []
    for channel in choose(app):
        progress = known.get(channel.name)
        found.append(ChannelStatus(channel, progress, last - progress.seq if progress else 0))
    return found


# --- one channel -------------------------------------------------------------------------------------------------


def _serve(app: App, channel: Channel) -> Delivery:
    place = _place(channel)
    news = rows.has_news(app.database, name=channel.name, place=place)
    held = rows.take(app.database, name=channel.name, place=place) if news else None
    if held is None:
        return Delivery(channel.name, waiting=True)
    started, before = app.clock.monotonic(), held
    while events := journal.since(app.database, seq=held.seq, limit=_AT_ONCE):
        at = held
        for event in events:
            told = _tell(app, channel, event, at)
            if told is None:  # nobody wants to hear of it
                at = at._replace(seq=event.seq)
                continue
            kept = rows.keep(app.database, held, now=told, done=False)
            if kept is None:
                return Delivery(channel.name, told.sent - before.sent, told.dropped - before.dropped, waiting=True)
            held = at = kept
            if told.seq < event.seq or app.clock.monotonic() - started > _ROUND_SECONDS:
                return _end(app, channel, before, held, at)
        kept = rows.keep(app.database, held, now=at, done=False)
        if kept is None:
            return Delivery(channel.name, waiting=True)
        held = kept
    return _end(app, channel, before, held, held)


def _end(app: App, channel: Channel, before: Progress, held: Progress, now: Progress) -> Delivery:
    rows.keep(app.database, held, now=now, done=True)
    return Delivery(channel.name, now.sent - before.sent, now.dropped - before.dropped, now.trouble)


def _tell(app: App, channel: Channel, event: Event, at: Progress) -> Progress | None:
    """What the channel's row says after this event; a row that still stands before it means: again, later."""
    happened = _happened(app, channel, event)
    if happened is None:
        return None
    sent = _send(app, channel, happened)
    now = at.taken_at  # by the database's clock: hosts need not agree on the time
    if sent.how == "sent":
        return at._replace(seq=event.seq, tries=0, next_at=0.0, trouble="", sent=at.sent + 1, sent_at=now)
    tries = at.tries + 1
    given_up = (sent.how == "refused" and tries >= _REFUSALS) or now - event.at > _KEPT_SECONDS
    if given_up:
        return at._replace(seq=event.seq, tries=0, next_at=0.0, dropped=at.dropped + 1, trouble=sent.trouble)
    pause = max(_PAUSES[min(tries, len(_PAUSES)) - 1], min(sent.wait, _PAUSES[-1]))
    state = rows.GONE if sent.how == "gone" else at.state
    return at._replace(tries=tries, next_at=now + pause, trouble=sent.trouble, state=state)


def _happened(app: App, channel: Channel, event: Event) -> NotifiedEvent | None:
    word = class_of(event.kind, event.body)
    if not word or not channel.wants(word, event.project):
        return None
    code = ""
    if event.kind in ("gate.opened", "gate.delayed") and event.task is not None:
        gate = gates.of_task(app.database, key=event.task)
        if gate is None or gate.state != gates.OPEN:
            return None  # answered meanwhile: nobody needs to be called
        code = gate.code if channel.answers else ""
    return NotifiedEvent(
        id=str(event.seq),
        at=event.at,
        kind=event.kind,
        word=word,
        project=event.project,
        task=event.task_id,
        session=event.session,
        body=_clean(event.body),
        code=code,
        link=f"{channel.page}{GATES}?code={code}" if channel.page and code else "",
    )


def _send(app: App, channel: Channel, event: NotifiedEvent) -> Sent:
    try:
        if channel.kind == APPRISE:
            return apprise_sender.send(channel, event, program=app.settings.program)
        return webhooks.post(channel, event, source=endpoints.source(app), now=app.clock.now())
    except HandoffError as error:
        return webhooks.Sent(webhooks.AGAIN, f"{error.message} {error.hint}".strip())


def _clean(value: Any) -> Any:
    """What looks like a secret stays on this machine."""
    if isinstance(value, str):
        return redact(value)[0]
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list) else value


def _place(channel: Channel) -> str:
    """Where a channel leads, without saying it: when this changes, old troubles are forgotten."""
    return _digest(f"{channel.kind} {channel.address}")


def _digest(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
