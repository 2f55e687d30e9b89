"""Now: what needs you first, then what runs, what landed, what is next. The overview every surface shows, as cards."""

from __future__ import annotations

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.clients import review
from handoff.engine.features.overview import INCIDENT, LANDED, NEEDS, NEXT, PAUSED, RUNNING
from handoff.engine.workspaces.transcripts import LastWords
from handoff.surfaces.vocabulary import LOOKS, bar_counts, fold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.board.gates import Gate
    from handoff.engine.app import App
    from handoff.engine.clients.review import ReviewedFile, TaskReview
    from handoff.engine.features.overview import OverviewFeed, OverviewItem

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
                names = tuple((item.address, self._card(item, "").names[0][1]) for item in group)
                card = card._replace(names=names, project="")
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
