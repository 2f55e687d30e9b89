"""The page kept up to date: what changed is drawn once for all viewers of equal rights, six times a second at most."""

from __future__ import annotations

import asyncio
import json
import secrets
from concurrent.futures import ThreadPoolExecutor

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.features.overview import OverviewFeed
from handoff.surfaces.page.access import READ, STEER
from handoff.surfaces.page.drawing import draw
from handoff.surfaces.page.pages.now import NowReader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from handoff.engine.app import App
    from handoff.surfaces.page.pages.now import NowView

EVERY_SECONDS = 0.16
"""With drawing and sending, the oldest news of a packet is about a fifth of a second old."""
BEAT_SECONDS = 10.0
"""A viewer hears at least this often, or knows that it is not live any more."""
MOST_VIEWERS = 1000
FRAGMENTS = ("head", "needs", "running", "landed", "next")
_DAY_SECONDS = 86_400.0
_RELOAD_SECONDS = 1800.0


class LivePage:
    """One reading of the rows for everybody who looks. Nothing is read while nobody does."""

    def __init__(self, open_app: Callable[[], App], *, project: str) -> None:
        self._open_app, self._project = open_app, project
        self._thread = ThreadPoolExecutor(1, "page")  # the rows belong to the thread that opened them
        self.epoch = secrets.token_hex(4)
        self.version = 0
        self.viewers = 0
        self.view: NowView | None = None
        self.trouble = ""
        self._app: App | None = None
        self._drawn: dict[tuple[str, str], str] = {}
        self._changed: dict[tuple[str, str], int] = {}
        self._looked = self._loaded = -_RELOAD_SECONDS
        self._told = (0, "")
        self._news: asyncio.Event | None = None
        self._packets: dict[tuple[str, int, int], str] = {}

    @property
    def at(self) -> str:
        """How far a page that is drawn now has come."""
        return f"{self.epoch}-{self.version}"

    async def fresh(self) -> NowView:
        """What there is, at most a moment old."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._look)
        assert self.view is not None  # noqa: S101 - a failed look raises
        return self.view

    async def events(self, of: str, rights: str, since: str) -> AsyncIterator[str]:
        """What a viewer gets: at first all that changed after `since`, then whatever changes, and a beat.

        The first page gets its parts as they are now; every other one is told that there is news, and asks for itself.
        """
        self.viewers += 1
        try:
            if self._news is None:
                self._news = asyncio.Event()
                asyncio.get_running_loop().create_task(self._watch())
            epoch, _, number = since.partition("-")
            if epoch != self.epoch or not number.isdigit():
                yield "event: reload\ndata: {}\n\n"
                return
            seen, told = int(number), ""
            yield "retry: 2000\n\n"
            while True:
                if self.trouble != told:
                    told = self.trouble
                    yield f"event: trouble\ndata: {json.dumps(told)}\n\n"
                news = self._news
                if self.version > seen:
                    yield self._packet(rights, seen) if of == "now" else f"id: {self.at}\nevent: news\ndata: {{}}\n\n"
                    seen = self.version
                try:
                    await asyncio.wait_for(news.wait(), BEAT_SECONDS)
                except TimeoutError:
                    yield "event: beat\ndata: {}\n\n"
        finally:
            self.viewers -= 1

    def _packet(self, rights: str, seen: int) -> str:
        """The fragments that changed after `seen`, made once for all who have seen as much."""
        key = (rights, seen, self.version)
        if key not in self._packets:
            if len(self._packets) > len(FRAGMENTS):
                self._packets.clear()
            named = {
                name: self._drawn[name, rights] for name in FRAGMENTS if self._changed.get((name, rights), 0) > seen
            }
            self._packets[key] = f"id: {self.at}\ndata: {json.dumps(named)}\n\n"
        return self._packets[key]

    async def _watch(self) -> None:
        """Look again and again while somebody looks on."""
        loop = asyncio.get_running_loop()
        while self.viewers:
            try:
                await loop.run_in_executor(self._thread, self._look)
            except HandoffError as error:
                self.trouble = error.message
            except Exception as error:  # noqa: BLE001 - a page that stands still must say so
                self.trouble = f"{type(error).__name__}: {error}"
            else:
                self.trouble = ""
            if (self.version, self.trouble) != self._told and self._news is not None:
                self._told = (self.version, self.trouble)
                news, self._news = self._news, asyncio.Event()
                news.set()
            await asyncio.sleep(EVERY_SECONDS)
        self._news = None

    def _look(self) -> None:
        """In the thread of the rows: take in what happened, draw what changed."""
        if self._app is None:
            self._app = self._open_app()
        clock = self._app.clock
        if self.view is not None and clock.monotonic() - self._looked < EVERY_SECONDS / 2:
            return
        if clock.monotonic() - self._loaded >= _RELOAD_SECONDS:  # what landed more than a day ago makes room
            since = clock.now() - _DAY_SECONDS
            self._reader = NowReader(self._app, OverviewFeed(self._app, project=self._project, since=since))
            self._loaded = clock.monotonic()
        self._looked = clock.monotonic()
        view = self._reader.look()
        if view == self.view:
            return
        seq, self.view = self.view.seq if self.view else -1, view
        fresh = {(name, rights): fragment(name, view, rights) for name in FRAGMENTS for rights in (READ, STEER)}
        changed = [key for key, html in fresh.items() if self._drawn.get(key) != html]
        if changed or view.seq != seq:
            self._drawn = fresh
            self._changed.update(dict.fromkeys(changed, self.version + 1))
            self.version += 1

    def close(self) -> None:
        """End the thread; its rows go with it."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def fragment(name: str, view: NowView, rights: str, csrf: str = "") -> str:
    """One part of the page; a script puts the viewer's own word into its forms."""
    return draw(f"now/{name}.html", view=view, steers=rights == STEER, csrf=csrf, back="/")
