"""Timeline: sessions as bars over time, a lane for each agent; bars are links, and so are zoom and pan."""

from __future__ import annotations

from handoff.base.clock import stamp, time_of_day
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.board.sessions import sessions

if TYPE_CHECKING:
    from handoff.board.events.journal import Event
    from handoff.engine.app import App

WIDE = 1000.0
_LINES = 5_000
_MOST = 400
_ROW = 22
_SPANS = {"1h": 3600.0, "6h": 6 * 3600.0, "24h": 86_400.0, "7d": 7 * 86_400.0}
_ENDS = {
    "task.finished": "good",
    "task.blocked": "bad",
    "task.expired": "bad",
    "task.released": "dim",
    "task.cancelled": "dim",
    "gate.opened": "warn",
}
_TICKS = 6


class TimelineBar(Record):
    """One session with a task, as it is drawn."""

    label: str
    path: str
    agent: str
    began: float
    ended: float | None
    style: str
    x: float = 0.0
    y: int = 0
    wide: float = 0.0

    @property
    def words(self) -> str:
        """What a pointer or a screen reader is told."""
        last = time_of_day(self.ended) if self.ended is not None else "now"
        return f"{self.label}: {self.agent or 'a session'}, {time_of_day(self.began)} to {last}"


class TimelineLane(Record):
    """One agent and its bars; as many rows as it had sessions at once."""

    agent: str
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
    cut: bool
    """Whether there was more than is drawn."""


def read(app: App, *, project: str, span: str, to: str) -> TimelinePage:
    """The stretch that ends at `to`, or now."""
    span = span if span in _SPANS else "6h"
    now, wide = app.clock.now(), _SPANS[span]
    end = min(float(to), now) if to.isdecimal() and len(to) < 12 else now  # noqa: PLR2004 - a moment in seconds
    begin = end - wide
    events = journal.last(app.database, project=project, limit=_LINES)
    bars = [bar for bar in _bars(app, events) if bar.began < end and (bar.ended or now) > begin]
    lanes, y = [], 0
    for agent in sorted({bar.agent for bar in bars[-_MOST:]}):
        lane = _lane(agent, [bar for bar in bars[-_MOST:] if bar.agent == agent], y, begin, end, now)
        lanes.append(lane)
        y += lane.high + 14
    step = wide / _TICKS
    named = time_of_day if wide <= _SPANS["24h"] else lambda at: stamp(at)[5:10]
    return TimelinePage(
        lanes=tuple(lanes),
        high=max(y, _ROW),
        ticks=tuple((round(index * WIDE / _TICKS, 1), named(begin + index * step)) for index in range(_TICKS + 1)),
        span=span,
        begin=begin,
        end=end,
        spans=tuple(_SPANS),
        earlier=f"?span={span}&to={end - wide / 2:.0f}",
        later=f"?span={span}&to={end + wide / 2:.0f}" if end < now else "",
        cut=len(bars) > _MOST or (len(events) == _LINES and events[0].at > begin),
    )


def _bars(app: App, events: list[Event]) -> list[TimelineBar]:
    """Each time a session took a task, until it let it go."""
    found: list[TimelineBar] = []
    at_work: dict[int | None, int] = {}
    agents: dict[str, str] = {}
    for event in events:
        if event.kind == "task.claimed":
            if event.session not in agents:
                known = sessions.get(app.database, id=event.session)
                agents[event.session] = known.agent if known and known.agent else "a person"
            if event.task in at_work:  # it was taken over: nobody said that the one before had ended
                index = at_work[event.task]
                found[index] = found[index]._replace(ended=event.at, style="dim")
            at_work[event.task] = len(found)
            bar = TimelineBar(
                label=event.task_id,
                path=f"{event.project}/{event.task_id}",
                agent=agents[event.session],
                began=event.at,
                ended=None,
                style="moving",
            )
            found.append(bar)
        elif event.kind in _ENDS and event.task in at_work:
            index = at_work.pop(event.task)
            found[index] = found[index]._replace(ended=event.at, style=_ENDS[event.kind])
    return found


def _lane(agent: str, bars: list[TimelineBar], y: int, begin: float, end: float, now: float) -> TimelineLane:
    free: list[float] = []
    placed = []
    for bar in sorted(bars, key=lambda one: one.began):
        last = bar.ended if bar.ended is not None else now
        row = next((index for index, until in enumerate(free) if until <= bar.began), len(free))
        free[row : row + 1] = [last]
        left = max(0.0, (bar.began - begin) / (end - begin) * WIDE)
        right = min(WIDE, (last - begin) / (end - begin) * WIDE)
        placed.append(bar._replace(x=round(left, 1), y=y + row * _ROW, wide=round(max(3.0, right - left), 1)))
    return TimelineLane(agent, y, max(1, len(free)) * _ROW, tuple(placed))
