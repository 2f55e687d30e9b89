"""Tell the channels what the journal says: at least once, each channel at its own pace, from a cursor that survives us."""

from __future__ import annotations

import os

from handoff import __version__
from handoff.base.errors import ConfigError, HandoffError, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.redaction import redact
from handoff.base.settings import HOME_CONFIG
from handoff.board import gates
from handoff.board.events import journal, texts
from handoff.board.sessions import sessions
from handoff.board.tasks import tasks
from handoff.engine.app import App
from handoff.engine.app.home import home_config
from handoff.engine.session import endpoints
from handoff.engine.session.endpoints import GATES
from handoff.notify import telemetry
from handoff.notify.channels import (
    AGAIN,
    APPRISE,
    Channel,
    NotifiedEvent,
    Sent,
    class_of,
    post,
    read_channels,
    send_by_apprise,
)
from handoff.store.database import without_password

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Thread
    from typing import Any

    from handoff.board.events.journal import Event, Progress
    from handoff.notify.telemetry import Span, TracedTask

_AT_ONCE = 200
_ROUND_SECONDS = 30.0
_KEPT_SECONDS = 3 * 86_400.0
_REFUSALS = 3
TRACES = "@traces"
"""The row that says how far the journal is told as traces; no channel of the settings can have that name."""
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
            "No channel is set up.",
            f"Write [notify.NAME] into {os.path.join(app.settings.home, HOME_CONFIG)}. How: handoff help docs/howto/gates.md",
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
        return [f"Nobody got this notice: {error.message} {error.hint}".strip()]


class Teller:
    """Delivers beside a supervisor's own work: at most one round at a time, and never in its way."""

    def __init__(self, app: App, tell: Callable[[str], None]) -> None:
        self._settings, self._tell = app.settings, tell
        self._threads: dict[str, Thread] = {}
        self._said: dict[str, list[str]] = {}
        self._rounds = {"notify": deliver_or_tell}
        if telemetry.place(app.settings.get):
            self._rounds["traces"] = trace_or_tell  # a collector that hangs keeps no person waiting

    def start_round(self) -> None:
        """Begin a round, unless the last one still runs."""
        import threading

        for name in self._rounds:
            if name not in self._threads or not self._threads[name].is_alive():
                self._threads[name] = threading.Thread(target=self._round, args=(name,), name=name, daemon=True)
                self._threads[name].start()

    def _round(self, name: str) -> None:
        app = App(self._settings)
        try:
            said = self._rounds[name](app)
        finally:
            app.close()
        for words in said:
            if words not in self._said.get(name, ()):  # a trouble is told once, not every round
                self._tell(words)
        self._said[name] = said


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
    held = journal.take_channel(app.database, name=channel.name, place=_place(channel), force=True)
    if held is not None:
        fresh = (
            held._replace(state=journal.CHANNEL_ON, next_at=0.0, tries=0, trouble="") if sent.how == "sent" else held
        )
        journal.keep_progress(app.database, held, now=fresh, done=True)
    return sent


class ChannelStatus(Record):
    """A channel as `status` shows it."""

    channel: Channel
    progress: Progress | None
    behind: int


def status(app: App) -> list[ChannelStatus]:
    """Each channel with how far it has come."""
    known, last = journal.list_channels(app.database), journal.last_seq(app.database)
    found = []
    for channel in choose(app):
        progress = known.get(channel.name)
        found.append(ChannelStatus(channel, progress, last - progress.seq if progress else 0))
    return found


# --- one channel -------------------------------------------------------------------------------------------------


def _serve(app: App, channel: Channel) -> Delivery:
    place = _place(channel)
    news = journal.has_news(app.database, name=channel.name, place=place)
    held = journal.take_channel(app.database, name=channel.name, place=place) if news else None
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
            kept = journal.keep_progress(app.database, held, now=told, done=False)
            if kept is None:
                return Delivery(channel.name, told.sent - before.sent, told.dropped - before.dropped, waiting=True)
            held = at = kept
            if told.seq < event.seq or app.clock.monotonic() - started > _ROUND_SECONDS:
                return _end(app, channel, before, held, at)
        kept = journal.keep_progress(app.database, held, now=at, done=False)
        if kept is None:
            return Delivery(channel.name, waiting=True)
        held = kept
    return _end(app, channel, before, held, held)


def _end(app: App, channel: Channel, before: Progress, held: Progress, now: Progress) -> Delivery:
    journal.keep_progress(app.database, held, now=now, done=True)
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
    state = journal.CHANNEL_GONE if sent.how == "gone" else at.state
    return at._replace(tries=tries, next_at=now + pause, trouble=sent.trouble, state=state)


def _happened(app: App, channel: Channel, event: Event) -> NotifiedEvent | None:
    word = class_of(event.kind, event.body)
    if not word or not channel.wants(word, event.project):
        return None
    code, answers = "", tuple[str, ...]()
    if event.kind in ("gate.opened", "gate.delayed") and event.task is not None:
        gate = gates.of_task(app.database, key=event.task)
        if gate is None or gate.state != gates.OPEN:
            return None  # answered meanwhile: nobody needs to be called
        code, answers = gate.code if channel.answers else "", gate.answers
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
        answers=answers,
    )


def _send(app: App, channel: Channel, event: NotifiedEvent) -> Sent:
    try:
        if channel.kind == APPRISE:
            return send_by_apprise(channel, event, program=app.settings.program)
        return post(channel, event, source=endpoints.source(app), now=app.clock.now())
    except HandoffError as error:
        return Sent(AGAIN, f"{error.message} {error.hint}".strip())


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


# --- traces ------------------------------------------------------------------------------------------------------


def trace_or_tell(app: App) -> list[str]:
    """Send what the journal says of tasks as spans, where the standard variables ask for it; what went wrong, never an error."""
    place = telemetry.place(app.settings.get)
    if not place:
        return []
    try:
        if not journal.has_news(app.database, name=TRACES, place=_digest(place)):
            return []
        exporter = telemetry.open_exporter(app.settings.get)
        held = journal.take_channel(app.database, name=TRACES, place=_digest(place))
        trouble = _trace(app, exporter, held, place.partition("?")[0]) if held is not None else ""
    except HandoffError as error:
        trouble = f"{error.message} {error.hint}".strip()
    return [f"Traces: {trouble}"] if trouble else []


def _trace(app: App, exporter: Any, held: Progress, place: str) -> str:
    """From one of a relay's machines at a time: the row is taken. Spans that are sent again have the ids they had."""
    while events := journal.since(app.database, seq=held.seq, limit=_AT_ONCE):
        found = _ended_spans(app, events)
        now, trouble = held._replace(seq=events[-1].seq, tries=0, next_at=0.0, sent=held.sent + len(found)), ""
        if found and not telemetry.send(exporter, found, version=__version__):
            shown = without_password(place) if "://" in place else place
            trouble = f"the collector at {shown} did not take them; it is tried again."
            pause = _PAUSES[min(held.tries, len(_PAUSES) - 1)]
            if held.taken_at - events[-1].at > _KEPT_SECONDS:
                now = now._replace(sent=held.sent, dropped=held.dropped + len(found))
            else:
                now = held._replace(tries=held.tries + 1, next_at=held.taken_at + pause)
        kept = journal.keep_progress(app.database, held, now=now._replace(trouble=trouble), done=bool(trouble))
        if kept is None or trouble:
            return trouble
        held = kept
    journal.keep_progress(app.database, held, now=held, done=True)
    return ""


def _ended_spans(app: App, events: Sequence[Event]) -> list[tuple[TracedTask, Span]]:
    """What these lines bring to an end."""
    first, last = events[0].seq, events[-1].seq
    found: list[tuple[TracedTask, Span]] = []
    for key in dict.fromkeys(event.task for event in events if event.task is not None):
        row = tasks.look_up(app.database, key=key)
        lines = [
            one._replace(body=_clean(one.body)) for one in journal.of_task(app.database, key=key) if one.seq <= last
        ]
        task = telemetry.TracedTask(
            key=key,
            project=lines[0].project,
            name=lines[0].task_id,
            created=row.created_at if row else lines[0].at,
            evidence=_clean(texts.read(row.evidence, {})) if row else {},
            batch=lines[0].batch,
        )
        found += [(task, _placed(app, one)) for one in telemetry.spans_of(task, lines) if one.closed_by >= first]
    return sorted(found, key=lambda one: one[1].closed_by)


def _placed(app: App, span: Span) -> Span:
    """A session's span tells its agent and its machine."""
    row = sessions.get(app.database, id=str(span.about["session"])) if "session" in span.about else None
    return span._replace(about={**span.about, "agent": row.agent, "host": row.host}) if row else span
