"""The page kept up to date: what changed is drawn once for all viewers of equal rights, six times a second at most."""

from __future__ import annotations

import asyncio
import json
import secrets
from concurrent.futures import ThreadPoolExecutor

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.place.transcripts import LastWords
from handoff.engine.work import review
from handoff.engine.work.overview import INCIDENT, LANDED, NEEDS, NEXT, PAUSED, RUNNING, OverviewFeed
from handoff.surfaces.page.access import READ, STEER
from handoff.surfaces.page.drawing import draw
from handoff.surfaces.vocabulary import LOOKS, bar_counts, finished_words, fold

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from handoff.board.gates import Gate
    from handoff.engine.app import App
    from handoff.engine.outcome.reviews import ReviewedFile
    from handoff.engine.work.overview import OverviewItem
    from handoff.engine.work.review import TaskReview


# Now: what needs you first, then what runs, what landed, what is next. The overview every surface shows, as cards.

MOST = 40
"""Cards of a section; the board has all of them."""
_HEARD = 40


class GateReview(Record):
    """What there is to go by before a yes or a no."""

    question: str
    more: str
    subject: str
    open_ended: bool
    offered: tuple[str, ...]
    checks: tuple[str, ...]
    weakened: tuple[str, ...]
    files: tuple[tuple[str, int, int, bool], ...]
    trouble: str


class NowCard(Record):
    """One card: whose it is, how it stands, and what can be done about it."""

    id: str
    look: str
    names: tuple[tuple[str, str], ...]
    """Each name and its path below /task/, empty where it is no task."""
    at: float
    words: str
    command: str
    of: tuple[str, ...]
    """What a button acts on: the project, a slash, and the name its command takes."""
    acts: tuple[str, ...] = ()
    project: str = ""
    """Where several are shown."""
    agent: str = ""
    attempt: int = 1
    attempts: int = 0
    money: float = 0.0
    due: float = 0.0
    fix: str = ""
    gate: GateReview | None = None

    @property
    def word(self) -> str:
        return LOOKS[self.look].word


class BatchBar(Record):
    """A batch under way and how far its parts are."""

    name: str
    path: str
    counts: dict[str, int]


class NowView(Record):
    """All of the page at one moment; equal ones look the same."""

    project: str
    program: str
    minute: int
    """The minute in which it is drawn: ages are told in minutes."""
    seq: int
    """How far the journal has been read."""
    needs: tuple[NowCard, ...]
    running: tuple[NowCard, ...]
    landed: tuple[NowCard, ...]
    next: tuple[NowCard, ...]
    batches: tuple[BatchBar, ...]
    totals: dict[str, int]
    finished: str
    """What became of what is finished, counted."""
    supervisors: int
    spent: float
    allowed: float
    paused: bool
    """Whether nothing of it is taken: the project is stopped, or everything."""

    @property
    def now(self) -> float:
        return self.minute * 60.0


class NowReader:
    """Makes cards of the lines that a feed keeps; reviews of gates and last words are read once, until they change."""

    def __init__(self, app: App, feed: OverviewFeed) -> None:
        self._app, self._feed = app, feed
        self._words = LastWords(app)
        self._reviews: dict[int, GateReview] = {}

    def look(self) -> NowView:
        """Take in what has happened."""
        feed = self._feed
        feed.look()
        sections = {section: feed.of(section) for section in (NEEDS, RUNNING, LANDED, NEXT)}
        asked = {gate.key for gate in feed.facts.gates.values()}
        self._reviews = {key: one for key, one in self._reviews.items() if key in asked}
        return NowView(
            project=feed.project,
            program=self._app.settings.program,
            minute=int(feed.now // 60) + 1,
            seq=feed.events[-1].seq if feed.events else 0,
            needs=tuple(self._need(group) for group in fold(sections[NEEDS])[:MOST]),
            running=tuple(self._card(item, self._said(item)) for item in sections[RUNNING][:_HEARD]),
            landed=tuple(self._card(item, item.words) for item in sections[LANDED][:MOST]),
            next=tuple(self._card(item, item.words) for item in sections[NEXT][:MOST]),
            batches=tuple(
                BatchBar(
                    one.id if feed.project else f"{one.project}/{one.id}",
                    f"{one.project}/{one.id}",
                    bar_counts(one.counts),
                )
                for one in feed.batches
            ),
            finished=finished_words(sections[LANDED]),
            totals={section: len(items) for section, items in sections.items()},
            supervisors=feed.facts.supervisors,
            spent=round(feed.spent, 2),
            allowed=feed.allowed,
            paused=any(one.scope == "all" or (one.scope == "project" and feed.project) for one in feed.facts.stops),
        )

    def _said(self, item: OverviewItem) -> str:
        heard = self._words.hear(project=item.project, session=item.session, agent=item.agent)
        return item.words or heard

    def _label(self, item: OverviewItem) -> str:
        return item.address if self._feed.project else item.address.removeprefix(f"{item.project}/")

    def _card(self, item: OverviewItem, words: str) -> NowCard:
        label = self._label(item)
        return NowCard(
            id=f"c-{item.key}" if item.key else f"c-{item.look}-{item.address}".replace("/", "-").replace(" ", "-"),
            look=item.look,
            names=((label, f"{item.project}/{label}" if item.key else ""),),
            project="" if self._feed.project else item.project,
            at=item.at,
            words=words,
            command=item.command,
            of=(f"{item.project}/{label}",),
            agent=item.agent,
            attempt=item.attempt,
            attempts=item.attempts,
            money=round(item.money, 2),
            due=item.due,
            acts=("cancel",) if item.look in ("ready", "waiting") else (),
        )

    def _need(self, group: Sequence[OverviewItem]) -> NowCard:
        first = group[0]
        card = self._card(first, first.words)
        gate = self._feed.facts.gates.get(first.key)
        if first.look == "gated" and gate is not None:
            reviewed = self._review(first.key, gate)
            return card._replace(gate=reviewed, acts=("yes", "no", *(("edit",) if reviewed.subject else ())))
        if first.look == "blocked" or (first.look == "held" and first.key):
            if len(group) > 1:  # perhaps of several projects
                one = len({item.project for item in group}) == 1
                cards = [(item, self._card(item, "").names[0]) for item in group]
                names = tuple((name if one else item.address, path) for item, (name, path) in cards)
                card = card._replace(names=names, project=card.project if one else "")
            return card._replace(acts=("retry", "cancel"), of=self._meant(group, "retry"))
        if first.look == PAUSED:
            return card._replace(acts=("resume",), of=self._meant(group, "resume"))
        if first.look == "held":
            return card._replace(acts=("agent",), of=(f"/{first.address}",))
        if first.look == INCIDENT:
            fix = next((one.fix for one in self._feed.facts.incidents if one.id == first.address), "")
            return card._replace(acts=("seen",), of=(f"/{first.address}",), fix=fix)
        return card

    def _meant(self, group: Sequence[OverviewItem], verb: str) -> tuple[str, ...]:
        """What goes on, as its command says: of a phase the flow it belongs to, of a project nothing more."""
        found = []
        for item in group:
            words = [*item.command.split(), ""]
            name = words[words.index(verb) + 1] if verb in words else self._label(item)
            found.append(f"{item.project}/{'' if name.startswith('--') else name}")
        return tuple(dict.fromkeys(found))

    def _review(self, task: int, gate: Gate) -> GateReview:
        if gate.key not in self._reviews:
            try:
                found: TaskReview | None = review.review(self._app, key=task)
            except HandoffError:
                found = None  # pruned meanwhile: the next look does not show it any more
            self._reviews[gate.key] = _as_card(gate, found)
        return self._reviews[gate.key]


def _as_card(gate: Gate, found: TaskReview | None) -> GateReview:
    files: tuple[ReviewedFile, ...] = found.files if found else ()
    return GateReview(
        question=gate.asked,
        more=gate.question.partition("\n")[2].strip("\n"),
        subject=gate.subject,
        open_ended=gate.open_ended,
        offered=gate.offered,
        checks=found.checks if found else (),
        weakened=found.weakened if found else (),
        files=tuple((one.path, one.added, one.removed, one.is_test) for one in files),
        trouble=found.trouble if found else "",
    )


# --- now ----------------------------------------------------------------------------------------------------

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
