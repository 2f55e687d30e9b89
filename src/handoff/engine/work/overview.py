"""What a person asks first: what needs me, what runs, what landed since I looked, what is next. Every surface shows this; a feed keeps it up to
date by the journal."""

from __future__ import annotations

import os
from bisect import bisect_left, insort

from handoff.base.clock import age
from handoff.base.errors import HandoffError
from handoff.base.files import read_text, write_atomic
from handoff.base.ids import on_one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import forges, gates, schedules
from handoff.board.events import incidents, journal
from handoff.board.sessions import executors, expenses, holds, pauses
from handoff.board.tasks import cards, flows, requirements, states
from handoff.board.tasks.tasks import ENTRANT, PHASE
from handoff.engine.app.home import home_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from handoff.board.events.incidents import Incident
    from handoff.board.events.journal import Event
    from handoff.board.forges import TrackedRequest
    from handoff.board.gates import Gate
    from handoff.board.schedules import Schedule
    from handoff.board.sessions.holds import Hold
    from handoff.board.sessions.pauses import Pause
    from handoff.board.tasks.cards import Card
    from handoff.board.tasks.flows import Flow
    from handoff.engine.app import App
    from handoff.store.database import Store, Transaction

SECTIONS = NEEDS, RUNNING, LANDED, NEXT = ("needs you", "running", "landed", "next")
OVER = "over"
"""The section of what was cancelled: nobody is shown it."""
QUIET, ENDED, HELD, PAUSED, INCIDENT, CONFLICT = "quiet", "ended", "held", "paused", "incident", "conflict"
SCHEDULED = "scheduled"
REQUESTED = "requested"
_DAY_SECONDS = 86_400.0
_ENDED_FLOWS = 20
_URGENCY = {states.GATED: 0, INCIDENT: 1, states.BLOCKED: 2, HELD: 3, ENDED: 3, SCHEDULED: 3, CONFLICT: 4, PAUSED: 5}


class OverviewItem(Record):
    """One line: whose it is, how it stands, since when, in which words, and the command that answers it."""

    section: str
    look: str
    """A state of a task, or quiet, ended, held, paused, incident, conflict, scheduled; a done one may be green or landed."""
    address: str
    at: float
    words: str
    command: str
    project: str = ""
    key: int = 0
    """The task, where it is one."""
    agent: str = ""
    attempt: int = 1
    attempts: int = 0
    money: float = 0.0
    session: str = ""
    due: float = 0.0
    """Until when a running one is believed alive without a sign of life."""
    rank: tuple[float, ...] = ()
    """Its place within the section."""

    @property
    def ending(self) -> str:
        """Of one whose session runs no more, as pulse says it: `ended` while somebody concludes it, `left` where nobody does."""
        return "" if self.look != ENDED else "left" if self.section == NEEDS else ENDED


class BatchProgress(Record):
    """How far a batch under way is, part by part."""

    key: int
    project: str
    id: str
    counts: dict[str, int]


class Overview(Record):
    """The rows of one moment, for one project or for all."""

    at: float
    project: str
    since: float
    items: list[OverviewItem]
    batches: list[BatchProgress]
    supervisors: int
    spent: float
    allowed: float
    """US dollars of the last 24 hours, and how many a day may cost; 0 is no limit."""
    unpriced: int
    """Sessions of the last 24 hours whose cost is not known, or not all of it."""

    def of(self, section: str) -> list[OverviewItem]:
        """The lines of a section in their order."""
        return sorted((item for item in self.items if item.section == section), key=lambda item: item.rank)


def look(app: App, *, project: str = "", since: float | None = None) -> Overview:
    """Everything at one moment; `since` is when the person looked last."""
    began = last_look(app, project=project) if since is None else since
    with app.database.transaction(write=False) as transaction:
        facts = facts_of(app, transaction, project=project)
        shown = cards.listing(transaction, project=project, since=began)
        progress = [BatchProgress(*row) for row in cards.of_batches(transaction, project=project)]
    day = expenses.by_agent(app.database, days=1.0)
    return Overview(
        at=facts.now,
        project=project,
        since=began,
        items=[facts.item(card) for card in shown] + facts.others(since=began),
        batches=progress,
        supervisors=facts.supervisors,
        spent=sum(one.money for one in day),
        allowed=home_config(app).number("max_cost_per_day"),
        unpriced=sum(one.unknown for one in day),
    )


def standing(app: App, keys: Iterable[int], *, project: str = "") -> dict[int, OverviewItem]:
    """How these tasks stand, by their keys: every list, page and answer that shows a task's state has it from here."""
    with app.database.transaction(write=False) as transaction:
        facts = facts_of(app, transaction, project=project)
        found = cards.of_keys(transaction, keys)
    return {card.key: facts.item(card) for card in found}


def facts_of(app: App, store: Store, *, project: str) -> Facts:
    """What there is beside the tasks, at one moment."""
    with store.transaction(write=False) as transaction:
        asked = {one.gate.task: one.gate for one in gates.listing(transaction, project=project)}
        alive = [one for one in executors.listing(transaction) if executors.lives(one, host=app.settings.host)]
        bound = {name: offer[requirements.PROJECT] for name, offer in requirements.offers(transaction).items()}
        serving = [one for one in alive if not project or project in (bound.get(one.id) or [project])]
        return Facts(
            now=transaction.now(),
            program=app.settings.program,
            every=not project,
            ending=lambda card: _ending_of(app, card),
            gates=asked,
            ranks=_ranks(transaction, asked, project),
            holds=holds.listing(transaction),
            stops=[
                one for one in pauses.listing(transaction) if one.scope == pauses.ALL or project in ("", one.project)
            ],
            incidents=incidents.listing(transaction, project=project),
            conflicts=journal.live_conflicts(transaction, project=project),
            flows=flows.listing(transaction, project=project, include_ended=True, limit=_ENDED_FLOWS),
            requests=forges.live_requests(transaction, project=project),
            supervisors=len(serving),
            schedules=schedules.listing(transaction, project=project),
        )


def _ranks(transaction: Transaction, asked: dict[int, Gate], project: str) -> dict[int, tuple[float, ...]]:
    if not asked:
        return {}
    from handoff.board.tasks import decisions  # late: mostly nothing is asked

    reviewed = {one.task: one for one in decisions.in_review(transaction, project=project)}
    return {key: decisions.review_rank(reviewed.get(key), gate.opened_at) for key, gate in asked.items()}


def _ending_of(app: App, card: Card) -> str:
    if not card.held_agent:
        return ""  # a person's own, in a tab
    from handoff.engine.place import pulse

    return pulse.ending_of(app, project=card.project, session=card.held_by or "")


class Facts(Record):
    """What is known beside the cards, to say of each what it means for a person."""

    now: float
    program: str
    every: bool
    ending: Callable[[Card], str]
    """Whether the session of a running card is over: see pulse."""
    gates: dict[int, Gate]
    ranks: dict[int, tuple[float, ...]]
    """In which order to look at the gates."""
    holds: list[Hold]
    stops: list[Pause]
    incidents: list[Incident]
    conflicts: list[Event]
    flows: list[Flow]
    requests: list[TrackedRequest]
    supervisors: int
    schedules: list[Schedule]

    def item(self, card: Card) -> OverviewItem:
        """A task as a line."""
        section, shown, at, words, command = self._meaning(card)
        urgency = float(_URGENCY.get(shown, 0))
        rank: tuple[float, ...] = (float(card.key),)
        if section == NEEDS:
            rank = (urgency, *self.ranks.get(card.key, (at,))) if shown == states.GATED else (urgency, at)
        elif section == LANDED:
            rank = (-at,)
        elif section == NEXT:
            rank = (float(card.state == states.WAITING), -float(card.priority), float(card.key))
        return OverviewItem(
            section=section,
            look=shown,
            address=self.address(card.project, card.label),
            at=at,
            words=" ".join(words.split()),
            command=command,
            project=card.project,
            key=card.key,
            agent=card.held_agent if card.state in (states.RUNNING, *states.ENDED) else card.agent,
            attempt=card.attempt,
            attempts=card.max_attempts,
            money=card.money,
            session=card.held_by or "",
            due=(card.seen_at or card.changed_at) + card.lease_seconds if card.state == states.RUNNING else 0.0,
            rank=rank,
        )

    def _meaning(self, card: Card) -> tuple[str, str, float, str, str]:
        name = card.label
        gate = self.gates.get(card.key)
        if card.state == states.GATED and gate is not None:
            return (
                NEEDS,
                states.GATED,
                gate.opened_at,
                self.question(gate),
                self.run(gate.command(name), "", card.project),
            )
        if card.state == states.BLOCKED and card.kind == ENTRANT:  # where all of them are, the part itself asks
            return OVER, states.BLOCKED, card.changed_at, card.reason, self.run("show", name, card.project)
        if card.state in (states.GATED, states.BLOCKED):
            verb = f"retry {card.scope}" if card.kind == PHASE else f"retry {name}"
            return NEEDS, states.BLOCKED, card.changed_at, card.reason, self.run(verb, "", card.project)
        if card.state == states.RUNNING:
            if ending := self.ending(card):
                return self._over(card, ending)
            silent = self.now - (card.seen_at or card.changed_at)
            if card.lease_seconds and silent > card.lease_seconds / 2:
                left = max(0.0, card.lease_seconds - silent)
                then = f"given up in {age(left)}" if left else "the next supervisor looks after it"
                words = f"quiet {age(silent)}, {then}"
                return RUNNING, QUIET, card.changed_at, words, self.run("show", name, card.project)
            return RUNNING, states.RUNNING, card.changed_at, "", self.run("show", name, card.project)
        if card.ended_at is not None:
            shown = card.outcome or card.state
            section = LANDED if card.state == states.DONE and card.kind != ENTRANT else OVER
            return section, shown, card.ended_at, card.title, self.run("show", name, card.project)
        held = next((one for one in self.holds if one.kind == holds.TASK and one.name == str(card.key)), None)
        if card.state == states.READY and held is not None:
            # The command stands beside it: what says the same is left out.
            same = f": {self.program} retry {name}"
            fix = ". ".join(one for one in held.fix.split(". ") if not one.endswith(same) or ", then" in one)
            return NEEDS, HELD, held.at, held._replace(fix=fix).words, self.run("retry", name, card.project)
        stopped = card.state == states.READY and any(self._stops(stop, card) for stop in self.stops)
        return (
            NEXT,
            PAUSED if stopped else card.state,
            card.changed_at,
            card.title,
            self.run("show", name, card.project),
        )

    def _over(self, card: Card, ending: str) -> tuple[str, str, float, str, str]:
        """A task whose session runs no more: it is being judged, or a person has to say that it is."""
        if ending == ENDED:
            words = "its session has ended, its work is being judged"
            return RUNNING, ENDED, card.changed_at, words, self.run("show", card.label, card.project)
        words = "its session has ended and no supervisor looks after it"
        return NEEDS, ENDED, card.changed_at, words, self.run("session stop", card.held_by or "", "")

    def question(self, gate: Gate) -> str:
        """What is asked, until when, and what counts if nobody answers."""
        if gate.due_at is None:
            return gate.asked
        left = gate.due_at - self.now
        limit = f"within {age(left)}" if left > 0 else "its time is up"
        return f"{gate.asked} ({limit}{f', else {gate.fallback}' if gate.fallback else ''})"

    def _stops(self, stop: Pause, card: Card) -> bool:
        if stop.scope == pauses.ALL or (stop.scope == pauses.PROJECT and stop.project == card.project):
            return True
        names = {pauses.TASK: (card.id, card.label), pauses.BATCH: (card.scope,)}.get(stop.scope, ())
        return stop.project == card.project and stop.name in names

    def others(self, *, since: float) -> list[OverviewItem]:
        """What is no task: incidents, agents that are held, conflicts of what runs, what is paused, flows that stand still or have ended."""
        found = [
            self._plain(INCIDENT, one.id, one.at, one.what, self.run("show", one.id, ""), one.project)
            for one in self.incidents
        ]
        found += [
            self._plain(HELD, one.name, one.at, self._held(one), self.run("agent retry", one.name, ""))
            for one in self.holds
            if one.kind == holds.AGENT
        ]
        found += self._in_conflict()
        for request in self.requests:
            show = self.run("log", "", request.project)
            item = self._plain(REQUESTED, request.branch, request.made_at, request.words, show, request.project)
            found.append(item if request.facts.get("trouble") else item._replace(section=NEXT))
        for stop in self.stops:
            by = f"by {stop.paused_by}" if stop.paused_by else "by a stop file"
            words = f"nothing new starts, {by}" + (f": {stop.reason}" if stop.reason else "")
            back = stop.way_back.replace("handoff", self.program, 1)
            found.append(self._plain(PAUSED, stop.words.replace("'", ""), stop.at, words, back, stop.project))
        for flow in self.flows:
            if flow.ended_at is None and flow.state in (flows.BLOCKED, flows.PAUSED):
                found += self._standing(flow)
            elif flow.state == flows.DONE and (flow.ended_at or 0.0) >= since:
                found.append(self._ended(flow))
        return [*found, *map(self._recurring, self.schedules)]

    def _recurring(self, one: Schedule) -> OverviewItem:
        """When work that recurs comes next; what could not be made needs a person."""
        if one.trouble:
            command = self.run("schedule run", one.name, one.project)
            return self._plain(
                SCHEDULED, self.address(one.project, one.name), one.next_at, one.trouble, command, one.project
            )
        when = "is due" if one.next_at <= self.now else f"in {age(one.next_at - self.now)}"
        words = "paused" if one.state == schedules.PAUSED else f"{when}, by {one.cron} ({one.timezone})"
        command = self.run("schedule list", "", one.project)
        item = self._plain(SCHEDULED, self.address(one.project, one.name), one.next_at, words, command, one.project)
        return item._replace(section=NEXT, rank=(2.0, one.next_at, float(one.key)))

    def _in_conflict(self) -> list[OverviewItem]:
        """Two tasks in a line, with their files. Nobody has to act: it is settled when they land."""
        pairs: dict[tuple[str, str, str], list[Event]] = {}
        for event in self.conflicts:
            pairs.setdefault((event.project, event.task_id, str(event.body.get("other", ""))), []).append(event)
        found = []
        for (project, label, other), events in pairs.items():
            paths = ", ".join(on_one_line(str(event.body.get("path", ""))) for event in events)
            words = f"git cannot join {paths}{'' if other else ' with the branch'}; settled when the work lands"
            address = self.address(project, label) + (f" and {other}" if other else "")
            command = self.run("show", label, project)
            found.append(self._plain(CONFLICT, address, events[0].at, words, command, project))
        return found

    def _held(self, one: Hold) -> str:
        """Why, and when it goes on by itself; the command stands beside it."""
        trying = "one session tries it now" if one.session else f"tried again in {age(max(0.0, one.until - self.now))}"
        return f"{one.reason.rstrip('. ')}; {trying}"

    def _standing(self, flow: Flow) -> list[OverviewItem]:
        shown, verb = (states.BLOCKED, "retry") if flow.state == flows.BLOCKED else (PAUSED, "resume")
        if shown == states.BLOCKED and flow.task is not None:
            return []  # its phase says so itself
        command = self.run(verb, flow.id, flow.project)
        return [self._plain(shown, self.address(flow.project, flow.id), flow.changed_at, flow.reason, command)]

    def _ended(self, flow: Flow) -> OverviewItem:
        at = flow.ended_at or flow.changed_at
        command = self.run("show", flow.id, flow.project)
        item = self._plain(cards.GREEN, self.address(flow.project, flow.id), at, flow.request, command, flow.project)
        return item._replace(section=LANDED, rank=(-at,))

    def _plain(self, shown: str, address: str, at: float, words: str, command: str, project: str = "") -> OverviewItem:
        return OverviewItem(
            section=NEEDS,
            look=shown,
            address=address,
            at=at,
            words=" ".join(words.split()),
            command=command,
            project=project,
            rank=(float(_URGENCY.get(shown, 0)), at),
        )

    def address(self, project: str, label: str) -> str:
        return f"{project}/{label}" if self.every else label

    def run(self, verb: str, name: str, project: str) -> str:
        """The command for a person who stands in the project, or anywhere."""
        where = f"--project {project}" if self.every and project else ""
        return " ".join(word for word in (self.program, verb, name, where) if word)


def last_look(app: App, *, project: str) -> float:
    """When a person looked last; a day ago if nobody ever did."""
    path = _looked(app, project)
    try:
        return float(read_text(path))
    except (HandoffError, ValueError):
        return app.clock.now() - _DAY_SECONDS


def note_look(app: App, overview: Overview) -> None:
    """A person has seen it: what landed before is not new any more."""
    try:
        write_atomic(_looked(app, overview.project), f"{overview.at:.3f}\n", sync=False)
    except HandoffError:
        return  # a home that may not be written: then it stays new


def _looked(app: App, project: str) -> str:
    return os.path.join(app.settings.home, project, ".looked")


SLOW_SECONDS = 2.0
"""How often signs of life, money and supervisors are looked at: they are no lines of the journal."""
_PLAIN = ("task.", "session.")
_WHOLE = ("claims.", "project.", "tasks.")
_LAST = 200


class OverviewFeed:
    """What a board shows of one project, or of all; `look` takes in what has happened since."""

    def __init__(self, app: App, *, project: str = "", since: float | None = None) -> None:
        self.app, self.project = app, project
        self.since = last_look(app, project=project) if since is None else since
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
        found = look(self.app, project=self.project, since=self.since)
        self.facts = facts_of(self.app, self.app.database, project=self.project)
        self.batches, self.spent, self.allowed = found.batches, found.spent, found.allowed
        self.items, self.order = {}, {section: [] for section in SECTIONS}
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
        held = {one.name for one in self.facts.holds if one.kind == holds.TASK}  # a hold comes or goes with such a line
        if slow or any(
            not event.kind.startswith(_PLAIN) or event.kind == holds.HELD or str(event.task) in held for event in fresh
        ):
            self._take_facts(slow=slow)
        self._put(self.facts.item(card) for card in cards.of_keys(self.app.database, keys))
        if fresh and not slow and self.batches:
            self._take_batches()
        self.news += bool(fresh) or slow
        return bool(fresh) or slow

    def _take_facts(self, *, slow: bool) -> None:
        store = self.app.database
        self.facts = facts_of(self.app, store, project=self.project)
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
        self.batches = [BatchProgress(*row) for row in rows]

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
