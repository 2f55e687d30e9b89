"""The overview kept up to date by the journal: what a line tells of is read anew, and nothing else."""

from __future__ import annotations

from bisect import bisect_left, insort

from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal
from handoff.board.sessions import expenses
from handoff.board.tasks import cards, states
from handoff.engine.features import overview

if TYPE_CHECKING:
    from collections.abc import Iterable

    from handoff.board.events.journal import Event
    from handoff.engine.app import App
    from handoff.engine.features.overview import OverviewItem

SLOW_SECONDS = 2.0
"""How often signs of life, money and supervisors are looked at: they are no lines of the journal."""
_PLAIN = ("task.", "session.")
_WHOLE = ("claims.", "project.", "tasks.")
_LAST = 200


class OverviewFeed:
    """What a board shows of one project, or of all; `look` takes in what has happened since."""

    def __init__(self, app: App, *, project: str = "", since: float | None = None) -> None:
        self.app, self.project = app, project
        self.since = overview.last_look(app, project=project) if since is None else since
        self.items: dict[str, OverviewItem] = {}
        self.order: dict[str, list[tuple[tuple[float, ...], str]]] = {}
        self.events: list[Event] = []
        self.news = 0
        """How often anything has changed: who draws compares it."""
        self._slow_at = 0.0
        self.reload()

    def reload(self) -> None:
        """Everything anew."""
        self._seq = journal.mark(self.app.database)
        shown = journal.last(self.app.database, project=self.project, limit=_LAST)
        self.events = [event for event in shown if event.seq <= self._seq]
        found = overview.look(self.app, project=self.project, since=self.since)
        self.facts = overview.facts_of(self.app, self.app.database, project=self.project)
        self.batches, self.spent, self.allowed = found.batches, found.spent, found.allowed
        self.items, self.order = {}, {section: [] for section in overview.SECTIONS}
        self._put(found.items)
        for section in self.order.values():
            section.sort()
        self.news += 1

    @property
    def now(self) -> float:
        """The database's moment of the last look, carried on by our own clock."""
        return self.facts.now

    def of(self, section: str) -> list[OverviewItem]:
        """The lines of a section in their order."""
        return [self.items[name] for _, name in self.order.get(section, ())]

    def look(self) -> bool:
        """Take in what has happened; False when nothing has."""
        fresh = journal.since(self.app.database, seq=self._seq, project=self.project)
        if fresh:
            self._seq = fresh[-1].seq
            self.events = [*self.events, *fresh][-_LAST:]
        if any(event.kind.startswith(_WHOLE) for event in fresh):
            self.reload()
            return True
        keys = {event.task for event in fresh if event.task is not None}
        slow = self.app.clock.monotonic() - self._slow_at >= SLOW_SECONDS
        if slow or any(not event.kind.startswith(_PLAIN) for event in fresh):
            self._take_facts(slow=slow)
        self._put(self.facts.item(card) for card in cards.of_keys(self.app.database, keys))
        if fresh and not slow and self.batches:
            self._take_batches()
        self.news += bool(fresh) or slow
        return bool(fresh) or slow

    def _take_facts(self, *, slow: bool) -> None:
        store = self.app.database
        self.facts = overview.facts_of(self.app, store, project=self.project)
        for name in [name for name, item in self.items.items() if not item.key]:
            self._drop(name)
        self._put(self.facts.others(since=self.since))
        self._take_batches()
        if slow:
            self._slow_at = self.app.clock.monotonic()
            running = cards.listing(store, project=self.project, state=states.RUNNING)
            self._put(self.facts.item(card) for card in running)
            self.spent = expenses.of_a_day(store)

    def _take_batches(self) -> None:
        rows = cards.of_batches(self.app.database, project=self.project)
        self.batches = [overview.BatchProgress(*row) for row in rows]

    def _put(self, items: Iterable[OverviewItem]) -> None:
        for item in items:
            name = str(item.key) if item.key else f"{item.look} {item.address}"
            if self.items.get(name) == item:
                continue
            self._drop(name)
            if item.section in self.order:
                self.items[name] = item
                insort(self.order[item.section], (item.rank, name))

    def _drop(self, name: str) -> None:
        old = self.items.pop(name, None)
        if old is not None:
            line = self.order[old.section]
            at = bisect_left(line, (old.rank, name))
            if at < len(line) and line[at][1] == name:
                del line[at]
