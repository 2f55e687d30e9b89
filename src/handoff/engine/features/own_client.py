"""What a person's own client keeps of its conversations in a folder: nobody tells handoff of them, and what was said there is not lost."""

from __future__ import annotations

import os

from handoff.agents.history import entries as form
from handoff.agents.history.facts import facts
from handoff.agents.history.sessions import stored_sessions
from handoff.agents.history.stores.table import COPY, STORES, read_entries
from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING
from handoff.base.redaction import secret_values
from handoff.engine.features.recall import PastSession

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from handoff.agents.history.entries import HistoryEntry
    from handoff.agents.history.stores.table import StoredSession
    from handoff.engine.app import App

_LOOKED_AT = 3
_TICK = 1.0
"""A record's times may be whole seconds."""


def last(app: App, *, folder: str, since: float, about: str, client: str = "", session: str = "") -> PastSession | None:
    """The newest conversation since a moment, unless it was begun with a text of ours about something else.

    Never `session` itself, and for a client only its own, because what was said to one vendor goes to another only where the
    person sees it."""
    for stored in _since(app, folder, since, client):
        if stored.id == session:
            continue
        past = _past(app, stored, read_entries(stored))
        if past is not None and (not past.facts.handed or about in past.facts.handed):
            return past
    return None


def during(app: App, *, folder: str, since: float, until: float) -> PastSession | None:
    """What was said and done between two moments, with the person's last word before them: it led there.

    Of several conversations at once it is the one in which most was done."""
    found = [
        past
        for stored in _since(app, folder, since, "")
        if (past := _past(app, stored, _between(read_entries(stored), since - _TICK, until + _TICK))) is not None
    ]
    return max(
        found, key=lambda one: len(one.facts.runs) + len(one.facts.files) + len(one.facts.statements), default=None
    )


def _since(app: App, folder: str, since: float, client: str) -> list[StoredSession]:
    if client and client not in STORES:
        return []
    found = stored_sessions(folder, app.settings.environment, clients=(client,) if client else ())
    return [one for one in found if one.state != COPY and not one.trouble and one.at >= since - _TICK][:_LOOKED_AT]


def _between(entries: Iterable[HistoryEntry], since: float, until: float) -> Iterator[HistoryEntry]:
    before: HistoryEntry | None = None
    at = 0.0
    for entry in entries:
        at = entry.at or at  # what has no time of its own happened with the one before it
        if at and at < since:
            before = entry if entry.role == form.PERSON and entry.kind in (form.SAY, form.STEER) else before
        elif at <= until:
            if before is not None:
                yield before
                before = None
            yield entry


def _past(app: App, stored: StoredSession, entries: Iterable[HistoryEntry]) -> PastSession | None:
    """The facts with paths as the folder has them; None where nothing was said, or a store cannot be read: that takes nothing from a text."""
    try:
        known = facts(entries, secrets=secret_values(app.settings.environment))
    except HandoffError:
        return None
    if not known.instructions and not known.statements:
        return None
    inside = os.path.join(stored.folder, "")
    files = tuple(one._replace(path=one.path.removeprefix(inside)) for one in known.files)
    return PastSession(stored.id[:13], stored.client, known.at or stored.at, known._replace(files=files))
