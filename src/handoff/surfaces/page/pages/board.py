"""Board: every task by how it stands, filtered by words in the address; what waits says after what."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks import cards
from handoff.engine.place.transcripts import last_words
from handoff.engine.work import overview
from handoff.surfaces.vocabulary import LOOKS, matches

if TYPE_CHECKING:
    from handoff.engine.app import App
    from handoff.engine.work.overview import OverviewItem

MOST = 200
"""Lines of a column; words in the filter bring the others."""
_DAY_SECONDS = 86_400.0
_SPANS = {"day": 1, "week": 7, "month": 30}


class BoardLine(Record):
    """One task on the board."""

    item: OverviewItem
    path: str
    label: str
    """Its name without the project, which stands beside it where several are shown."""
    after: tuple[str, ...]
    words: str
    """What it is about; of one that runs, what its agent said last."""


class BoardColumn(Record):
    """One section with its lines, and how many there are in all."""

    title: str
    lines: tuple[BoardLine, ...]
    total: int


class BoardPage(Record):
    """What the board shows for a filter."""

    columns: tuple[BoardColumn, ...]
    words: str
    state: str
    span: str
    states: tuple[str, ...]
    now: float

    @property
    def total(self) -> int:
        return sum(column.total for column in self.columns)


def read(app: App, *, project: str, words: str, state: str, span: str) -> BoardPage:
    """The rows of one moment, filtered."""
    span = span if span in _SPANS else "day"
    found = overview.look(app, project=project, since=app.clock.now() - _SPANS[span] * _DAY_SECONDS)
    every = sorted({item.look for item in found.items if item.section in overview.SECTIONS})
    columns = []
    for section in overview.SECTIONS:
        items = [one for one in found.of(section) if matches(one, words) and state in ("", one.look)]
        lines = tuple(_line(app, item, project) for item in items[:MOST])
        columns.append(BoardColumn(section, lines, len(items)))
    return BoardPage(
        columns=tuple(columns),
        words=words,
        state=state if state in LOOKS else "",
        span=span,
        states=tuple(every),
        now=found.at,
    )


def _line(app: App, item: OverviewItem, project: str) -> BoardLine:
    label = item.address if project else item.address.removeprefix(f"{item.project}/")
    after = tuple(cards.after(app.database, key=item.key)) if item.look == "waiting" else ()
    words = item.words
    if item.section == overview.RUNNING and not words:
        words = last_words(app, project=item.project, session=item.session, agent=item.agent)
    return BoardLine(
        item=item, path=f"{item.project}/{label}" if item.key else "", label=label, after=after, words=words
    )
