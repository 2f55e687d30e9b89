"""What was: the journal, sessions over time, and the figures of agents, as tables and small charts."""

from __future__ import annotations

import statistics

from handoff.agents.contract import ENDINGS, UNKNOWN
from handoff.base.clock import stamp, time_of_day
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import figures
from handoff.board.events import journal
from handoff.board.sessions import sessions
from handoff.board.tasks import batches
from handoff.engine.work.tasks import search
from handoff.engine.work.tasks.splitting import score

if TYPE_CHECKING:
    from collections.abc import Iterable

    from handoff.board.events.journal import Event
    from handoff.engine.app import App
    from handoff.engine.work.tasks.search import Hit
    from handoff.engine.work.tasks.splitting.score import AgentScore


LINES = 100
_LONGEST_NUMBER = 18


class JournalPage(Record):
    """Some lines of the journal, or what a search found, and where the older ones begin."""

    words: str
    events: tuple[Event, ...]
    hits: tuple[Hit, ...]
    older: int
    """The line before which the next page begins; 0 when there is none."""
    newest: bool
    unread: int
    trouble: str
    now: float


def read_journal(app: App, *, project: str, words: str, before: str) -> JournalPage:
    """The lines before a line, or the last ones; with words, what has them."""
    number = int(before) if before.isdigit() and len(before) < _LONGEST_NUMBER else 0
    page = JournalPage(
        words=words, events=(), hits=(), older=0, newest=not number, unread=0, trouble="", now=app.clock.now()
    )
    if words.strip():
        try:
            found = search.find(app, words=words, project=project, limit=LINES, before=number)
        except UserError as error:
            return page._replace(trouble=error.message)
        return page._replace(hits=found.hits, older=found.next, unread=found.unread)
    lines = journal.last(app.database, project=project, limit=LINES + 1, before=number or journal.NEWEST)
    events = lines[-LINES:][::-1]
    return page._replace(events=tuple(events), older=events[-1].seq if len(lines) > LINES else 0)


WIDE = 100.0
"""Places are shares of the stretch, in per cent: a bar grows with the window, its name does not."""
_MOST_EVENTS = 5_000
_MOST_BARS = 400
_ROW, _NAMED, _GAP = 26, 36, 12
FIT = "all"
"""The stretch that holds what there is."""
_AIR = 0.03
_SPANS = {"15m": 900.0, "1h": 3600.0, "6h": 6 * 3600.0, "24h": 86_400.0, "7d": 7 * 86_400.0}
_ENDS = {
    "task.finished": "good",
    "task.blocked": "bad",
    "task.expired": "bad",
    "task.released": "dim",
    "task.cancelled": "dim",
    "gate.opened": "warn",
}
_ANSWERED = ("gate.approved", "gate.rejected", "gate.edited", "gate.expired")
_STYLES = {
    "good": "done",
    "bad": "blocked or given up",
    "warn": "asked you",
    "dim": "let go",
    "moving": "at work",
}
_TICKS = 6
_LETTER, _EDGE = 0.82, 1.8
"""How wide a letter and the space around a name are, in per cent of a stretch on a desk."""


class TimelineBar(Record):
    """One session with a task, as it is drawn."""

    label: str
    path: str
    agent: str
    host: str
    began: float
    ended: float | None
    style: str
    x: float = 0.0
    y: int = 0
    wide: float = 0.0
    answered: float | None = None
    """Until when a person was asked, where it ended with a question; now, if that is still open."""
    gap: float = 0.0
    """How wide that time is drawn."""
    named: str = ""
    """Where its name has room on a desk: inside, beside, or nowhere."""

    @property
    def last(self) -> str:
        """The end of its name, which tells it from its neighbours."""
        return self.label.rpartition("/")[2]

    @property
    def words(self) -> str:
        """What a pointer or a screen reader is told."""
        last = time_of_day(self.ended) if self.ended is not None else "now"
        return f"{self.label}: {self.agent}, {time_of_day(self.began)} to {last}, {_STYLES[self.style]}"


class TimelineLane(Record):
    """One agent on one host and its bars; as many rows as it had sessions at once."""

    agent: str
    host: str
    """Empty where all of it ran on one host."""
    y: int
    high: int
    bars: tuple[TimelineBar, ...]


class TimelinePage(Record):
    """A stretch of time."""

    lanes: tuple[TimelineLane, ...]
    high: int
    ticks: tuple[tuple[float, str], ...]
    span: str
    begin: float
    end: float
    spans: tuple[str, ...]
    earlier: str
    later: str
    closer: str
    farther: str
    styles: tuple[tuple[str, str], ...]
    """Each colour and its word."""
    rows: tuple[tuple[TimelineBar, int], ...]
    """The last session of each agent at each task, and how many it had; the newest first."""
    cut: bool
    """Whether there was more than is drawn."""


def read_timeline(app: App, *, project: str, span: str, to: str) -> TimelinePage:
    """The stretch that ends at `to`, or now; without a span, one that holds what there is."""
    now = app.clock.now()
    events = journal.last(app.database, project=project, limit=_MOST_EVENTS)
    drawn = _bars(app, events)
    span = span if span in _SPANS else FIT
    if span == FIT:
        begin, end = _fitted(drawn, now)
    else:
        end = min(float(to), now) if to.isdecimal() and len(to) < 12 else now  # noqa: PLR2004 - a moment in seconds
        begin = end - _SPANS[span]
    wide = end - begin
    every = [bar for bar in drawn if bar.began < end and _last(bar, now) > begin]
    bars = every[-_MOST_BARS:]
    one_host = len({bar.host for bar in bars}) <= 1
    lanes, y = [], 0
    for agent, host in sorted({(bar.agent, bar.host) for bar in bars}):
        mine = [bar for bar in bars if (bar.agent, bar.host) == (agent, host)]
        lane = _lane(agent, "" if one_host else host, mine, y, (begin, end, now))
        lanes.append(lane)
        y += lane.high + _GAP
    step = wide / _TICKS
    named = time_of_day if wide <= _SPANS["24h"] else lambda at: stamp(at)[5:10]
    names = list(_SPANS)
    beside = span if span in _SPANS else next((name for name in names if _SPANS[name] >= wide), names[-1])
    place = names.index(beside)
    return TimelinePage(
        lanes=tuple(lanes),
        high=max(y, _ROW),
        ticks=tuple((round(index * WIDE / _TICKS, 2), named(begin + index * step)) for index in range(_TICKS + 1)),
        span=span,
        begin=begin,
        end=end,
        spans=(FIT, *_SPANS),
        earlier=f"?span={beside}&to={end - wide / 2:.0f}",
        later=f"?span={beside}&to={end + wide / 2:.0f}" if end < now else "",
        rows=_grouped(bars),
        closer=_around(names[place - 1], end - wide / 2, now) if place else "",
        farther=_around(names[place + 1], end - wide / 2, now) if place + 1 < len(names) else "",
        styles=tuple((style, word) for style, word in _STYLES.items() if any(bar.style == style for bar in bars)),
        cut=len(every) > _MOST_BARS or (len(events) == _MOST_EVENTS and events[0].at > begin),
    )


def _fitted(bars: list[TimelineBar], now: float) -> tuple[float, float]:
    """A stretch that holds the sessions of the last week, with a little air; the last hour where there were none."""
    recent = [bar for bar in bars if _last(bar, now) > now - _SPANS["7d"]]
    if not recent:
        return now - _SPANS["1h"], now
    begin, end = min(bar.began for bar in recent), max(_last(bar, now) for bar in recent)
    air = max(30.0, (end - begin) * _AIR)
    return begin - air, min(now, end + air)


def _grouped(bars: list[TimelineBar]) -> tuple[tuple[TimelineBar, int], ...]:
    found: dict[tuple[str, str, str], tuple[TimelineBar, int]] = {}
    for bar in sorted(bars, key=lambda one: one.began):
        name = (bar.path, bar.agent, bar.host)
        found[name] = (bar, found.pop(name, (bar, 0))[1] + 1)
    return tuple(reversed(found.values()))


def _around(span: str, middle: float, now: float) -> str:
    """Another stretch with the same middle; one that would reach beyond now ends now."""
    end = middle + _SPANS[span] / 2
    return f"?span={span}&to={end:.0f}" if end < now else f"?span={span}"


def _last(bar: TimelineBar, now: float) -> float:
    """When nothing more of a bar is to be seen, the time it waited for an answer included."""
    ended = now if bar.ended is None else bar.ended
    return ended if bar.answered is None else max(ended, bar.answered)


def _bars(app: App, events: list[Event]) -> list[TimelineBar]:
    """Each time a session took a task, until it let it go."""
    found: list[TimelineBar] = []
    at_work: dict[int | None, int] = {}
    asked: dict[int | None, int] = {}
    known: dict[str, tuple[str, str]] = {}
    for event in events:
        if event.kind == "task.claimed":
            if event.session not in known:
                one = sessions.get(app.database, id=event.session)
                known[event.session] = (one.agent or "a person", one.host) if one else ("a person", "")
            if event.task in at_work:  # it was taken over: nobody said that the one before had ended
                index = at_work[event.task]
                found[index] = found[index]._replace(ended=event.at, style="dim")
            at_work[event.task] = len(found)
            bar = TimelineBar(
                label=event.task_id,
                path=f"{event.project}/{event.task_id}",
                agent=known[event.session][0],
                host=known[event.session][1],
                began=event.at,
                ended=None,
                style="moving",
            )
            found.append(bar)
        elif event.kind in _ENDS and event.task in at_work:
            index = at_work.pop(event.task)
            found[index] = found[index]._replace(ended=event.at, style=_ENDS[event.kind])
            if event.kind == "gate.opened":
                asked[event.task] = index
                found[index] = found[index]._replace(answered=app.clock.now())
        elif event.kind in _ANSWERED and event.task in asked:
            index = asked.pop(event.task)
            found[index] = found[index]._replace(answered=event.at)
    return found


def _lane(agent: str, host: str, bars: list[TimelineBar], y: int, stretch: tuple[float, float, float]) -> TimelineLane:
    begin, end, now = stretch
    free: list[float] = []
    placed: list[TimelineBar] = []
    last_in: dict[int, int] = {}

    def share(moment: float) -> float:
        return min(WIDE, max(0.0, (moment - begin) / (end - begin) * WIDE))

    for bar in sorted(bars, key=lambda one: one.began):
        row = next((index for index, until in enumerate(free) if until <= bar.began), len(free))
        free[row : row + 1] = [_last(bar, now)]
        left, right = share(bar.began), share(bar.ended if bar.ended is not None else now)
        gap = share(bar.answered) - right if bar.answered is not None else 0.0
        wide = max(0.4, right - left)
        named = "inside" if wide >= len(bar.last) * _LETTER + _EDGE else "beside"
        before = placed[last_in[row]] if row in last_in else None
        if before and before.named == "beside" and left < _name_ends(before):
            placed[last_in[row]] = before._replace(named="")
        last_in[row] = len(placed)
        drawn = bar._replace(x=round(left, 2), y=y + row * _ROW, wide=round(wide, 2), gap=round(gap, 2), named=named)
        placed.append(drawn._replace(named="") if _name_ends(drawn) > WIDE else drawn)
    high = max(len(free) * _ROW, _NAMED if host else _ROW)
    return TimelineLane(agent, host, y, high, tuple(placed))


def _name_ends(bar: TimelineBar) -> float:
    end = bar.x + bar.wide + bar.gap
    return end + len(bar.last) * _LETTER + _EDGE / 2 if bar.named == "beside" else end


LEAST = 5
"""Below so many sessions no rate is told, and below so many days with a value no chart is drawn: it would say nothing."""
_DAY_SECONDS = 86_400
_DAYS = 30
_CHART_WIDE, _CHART_HIGH = 300.0, 64.0


class ScoreLine(Record):
    """One agent at one kind of work, with its rate where there are enough sessions for one."""

    score: AgentScore
    rate: float | None


class ChartColumn(Record):
    """One column of a chart, as it is drawn: what, how much, and where."""

    label: str
    value: float
    x: float
    y: float
    wide: float
    high: float


class SmallChart(Record):
    """One question and its columns."""

    title: str
    unit: str
    columns: tuple[ChartColumn, ...]
    total: str
    note: str = ""
    most: str = ""
    """How much the highest column stands for."""

    @property
    def is_telling(self) -> bool:
        """Whether there are enough columns to see a course."""
        return sum(one.value > 0 for one in self.columns) >= LEAST


class MetricsPage(Record):
    """The agents and the charts of a project, or of all."""

    scores: tuple[ScoreLine, ...]
    charts: tuple[SmallChart, ...]
    endings: tuple[tuple[str, int], ...]
    factor: float
    samples: int


def read_figures(app: App, *, project: str) -> MetricsPage:
    """The last thirty days."""
    today = int(app.clock.now() // _DAY_SECONDS)
    first = today - _DAYS + 1
    past = figures.past_since(app.database, moment=float(first * _DAY_SECONDS), project=project)
    done = _by_day(((at, 1.0) for at, state, _ in past.ended if state == "done"), first)
    again = _by_day(((at, 1.0) for at, state, attempt in past.ended if state == "done" and attempt > 1), first)
    waits: dict[int, list[float]] = {}
    for at, seconds in past.answers:
        waits.setdefault(int(at // _DAY_SECONDS), []).append(seconds / 60)
    waited = [statistics.median(waits.get(day, [0.0])) for day in range(first, today + 1)]
    cost = _by_day(((at, money) for at, _, money, _ in past.expenses), first)
    silent = ", ".join(sorted({agent for _, agent, _, known in past.expenses if not known}))
    measures = batches.list_measures(app.database, project=project)[::-1]
    labels = [stamp(float(day * _DAY_SECONDS))[:10] for day in range(first, today + 1)]
    calibration = batches.calibration(app.database, project=project)
    endings: dict[str, int] = {}
    for word, number in past.endings:
        shown = ENDINGS.get(word, ENDINGS[UNKNOWN])
        endings[shown] = endings.get(shown, 0) + number
    return MetricsPage(
        scores=tuple(
            ScoreLine(one, one.first_try / one.tries if one.tries >= LEAST else None)
            for one in score.score(app, project=project)
        ),
        charts=(
            _chart("Tasks done a day", "", zip(labels, done, strict=True), f"{sum(done):.0f} in {_DAYS} days"),
            _chart(
                "Of these, not at the first try",
                "",
                zip(labels, again, strict=True),
                f"{sum(again):.0f} in {_DAYS} days",
            ),
            _chart(
                "Median time until you answered",
                "min",
                zip(labels, waited, strict=True),
                f"{len(past.answers)} answers",
            ),
            _chart(
                "Cost a day",
                "$",
                zip(labels, cost, strict=True),
                f"${sum(cost):.2f} in {_DAYS} days",
                note=f"without sessions whose cost is unknown: {silent}" if silent else "",
            ),
            _chart(
                "Speed-up of batches",
                "×",
                [(stamp(one.at)[:10], one.speedup) for one in measures],
                f"{len(measures)} batches",
                note="time of all sessions by time on the clock",
            ),
        ),
        endings=tuple(endings.items()),
        factor=calibration.factor,
        samples=calibration.samples,
    )


def _by_day(found: Iterable[tuple[float, float]], first: int) -> list[float]:
    sums = [0.0] * _DAYS
    for at, amount in found:
        day = int(at // _DAY_SECONDS) - first
        if 0 <= day < _DAYS:
            sums[day] += amount
    return sums


def _chart(title: str, unit: str, points: Iterable[tuple[str, float]], total: str, note: str = "") -> SmallChart:
    shown = list(points)
    most = max((value for _, value in shown), default=0.0) or 1.0
    step = _CHART_WIDE / max(1, len(shown))
    columns = tuple(
        ChartColumn(
            label=label,
            value=value,
            x=round(index * step + step * 0.1, 2),
            y=round(_CHART_HIGH - max(value * _CHART_HIGH / most, 1.5 if value else 0.0), 2),
            wide=round(step * 0.8, 2),
            high=round(max(value * _CHART_HIGH / most, 1.5 if value else 0.0), 2),
        )
        for index, (label, value) in enumerate(shown)
    )
    tallest = f"{most:.2f}".rstrip("0").rstrip(".")
    told = f"${tallest}" if unit == "$" else f"{tallest}{unit}" if unit == "×" else f"{tallest} {unit}".rstrip()
    return SmallChart(
        title=title, unit=unit, columns=columns, total=total, note=note, most=told if any(v for _, v in shown) else ""
    )
