"""The journal as server-sent events: read once for all who follow, and from any line for whoever comes back."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal
from handoff.engine.app import App
from handoff.engine.sessions import endpoints
from handoff.notify.sending import envelope
from handoff.surfaces.api.reading import event_shape

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import TypeVar

    from handoff.base.settings import Settings
    from handoff.board.events.journal import Event

    _Found = TypeVar("_Found")

MOST = 200
ALIVE_SECONDS = 15.0
"""How often a follower hears that we live, and we ask whether its token still opens something."""
_LOOK_SECONDS = 0.25
_AT_ONCE, _BEHIND = 500, 2_000


class Feed:
    """Everybody who follows. Rows are read on one thread, because a database belongs to the thread that opened it."""

    def __init__(self, settings: Settings, *, alive: float = ALIVE_SECONDS) -> None:
        self._settings, self._alive = settings, alive
        self._app: App | None = None
        self._thread = ThreadPoolExecutor(1, "journal")
        self._followers: set[asyncio.Queue[Event]] = set()
        self._watching: asyncio.Task[None] | None = None

    async def open(self, project: str, after: int | None, token: str) -> AsyncIterator[str] | None:
        """The lines of one stream, from `after` on or from now on; nothing where too many follow already."""
        if len(self._followers) >= MOST:
            return None
        queue: asyncio.Queue[Event] = asyncio.Queue(_BEHIND)
        self._followers.add(queue)
        try:
            last = await self._read(lambda app: journal.mark(app.database))
        except HandoffError:
            self._followers.discard(queue)
            raise
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(last))
        return self._lines(queue, project, last if after is None else after, token)

    async def _lines(self, queue: asyncio.Queue[Event], project: str, seq: int, token: str) -> AsyncIterator[str]:
        source, clock = await self._read(endpoints.source), asyncio.get_running_loop().time
        heard, behind = clock(), True
        try:
            yield ": the journal\n\n"
            while (
                behind or queue in self._followers or not queue.empty()
            ):  # who cannot keep up is let go, and comes back
                found = await (self._since(seq, project) if behind else self._next(queue))
                behind = behind and bool(found)
                for event in found:
                    if event.seq > seq and project in ("", event.project):
                        seq = event.seq
                        yield _line(event, source)
                if clock() - heard >= self._alive:  # however much there is to tell
                    if not await self._read(lambda app: endpoints.caller_of(app, token=token)):
                        return  # withdrawn meanwhile, or over
                    heard = clock()
                    yield ": alive\n\n"
        finally:
            self._followers.discard(queue)

    async def _next(self, queue: asyncio.Queue[Event]) -> list[Event]:
        """What comes next, if anything comes while one waits."""
        try:
            return [await asyncio.wait_for(queue.get(), self._alive)]
        except TimeoutError:
            return []

    async def _watch(self, seq: int) -> None:
        """Read each new line once; end when nobody follows."""
        while self._followers:
            with suppress(HandoffError):  # the database is away: it is asked again
                while found := await self._since(seq, ""):
                    seq = found[-1].seq
                    for event in found:
                        self._hand_out(event)
            await asyncio.sleep(_LOOK_SECONDS)

    def _hand_out(self, event: Event) -> None:
        for queue in list(self._followers):
            try:
                queue.put_nowait(event)
            except asyncio.QueueFull:
                self._followers.discard(queue)

    async def _since(self, seq: int, project: str) -> list[Event]:
        return await self._read(lambda app: journal.since(app.database, seq=seq, project=project, limit=_AT_ONCE))

    async def _read(self, act: Callable[[App], _Found]) -> _Found:
        def on_thread() -> _Found:
            if self._app is None:
                self._app = App(self._settings)
            return act(self._app)

        return await asyncio.get_running_loop().run_in_executor(self._thread, on_thread)


def _line(event: Event, source: str) -> str:
    """CloudEvents 1.0 in JSON; `id` is the number with which a reader comes back."""
    subject = f"{event.project}/{event.task_id}" if event.task_id else event.project
    told = envelope(
        str(event.seq), kind=event.kind, at=event.at, subject=subject, source=source, data=event_shape(event)
    )
    return f"id: {event.seq}\nevent: {told['type']}\ndata: {json.dumps(told)}\n\n"
