"""Agents and Metrics: what the rows say of the past, as tables and small charts."""

from __future__ import annotations

import statistics

from handoff.agents.contract import ENDINGS, UNKNOWN
from handoff.base.clock import stamp
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import figures
from handoff.board.tasks import metrics
from handoff.engine.work.tasks.splitting import score

if TYPE_CHECKING:
    from collections.abc import Iterable

    from handoff.engine.app import App
    from handoff.engine.work.tasks.splitting.score import AgentScore

LEAST = 5
"""Below so many sessions no rate is told, and below so many days with a value no chart is drawn: it would say nothing."""
_DAY_SECONDS = 86_400
_DAYS = 30
_WIDE, _HIGH = 300.0, 64.0


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


def scores(app: App, *, project: str) -> list[ScoreLine]:
    """Which agent does which kind of work well here, by evidence."""
    return [
        ScoreLine(one, one.first_try / one.tries if one.tries >= LEAST else None)
        for one in score.score(app, project=project)
    ]


def read(app: App, *, project: str) -> MetricsPage:
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
    measures = metrics.listing(app.database, project=project)[::-1]
    labels = [stamp(float(day * _DAY_SECONDS))[:10] for day in range(first, today + 1)]
    calibration = metrics.calibration(app.database, project=project)
    endings: dict[str, int] = {}
    for word, number in past.endings:
        shown = ENDINGS.get(word, ENDINGS[UNKNOWN])
        endings[shown] = endings.get(shown, 0) + number
    return MetricsPage(
        scores=tuple(scores(app, project=project)),
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
    step = _WIDE / max(1, len(shown))
    columns = tuple(
        ChartColumn(
            label=label,
            value=value,
            x=round(index * step + step * 0.1, 2),
            y=round(_HIGH - max(value * _HIGH / most, 1.5 if value else 0.0), 2),
            wide=round(step * 0.8, 2),
            high=round(max(value * _HIGH / most, 1.5 if value else 0.0), 2),
        )
        for index, (label, value) in enumerate(shown)
    )
    tallest = f"{most:.2f}".rstrip("0").rstrip(".")
    told = f"${tallest}" if unit == "$" else f"{tallest}{unit}" if unit == "×" else f"{tallest} {unit}".rstrip()
    return SmallChart(
        title=title, unit=unit, columns=columns, total=total, note=note, most=told if any(v for _, v in shown) else ""
    )
