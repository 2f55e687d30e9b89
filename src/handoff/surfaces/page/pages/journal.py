"""Journal: what happened, the newest first, paged by the number of a line and never by counting; and one search over all."""

from __future__ import annotations

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.engine.work.tasks import search

if TYPE_CHECKING:
    from handoff.board.events.journal import Event
    from handoff.engine.app import App
    from handoff.engine.work.tasks.search import Hit

LINES = 100
_LONGEST = 18


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


def read(app: App, *, project: str, words: str, before: str) -> JournalPage:
    """The lines before a line, or the last ones; with words, what has them."""
    number = int(before) if before.isdigit() and len(before) < _LONGEST else 0
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
