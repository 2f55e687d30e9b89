"""Search: one question over briefs, reports, notes, decisions, documents, the journal and what sessions said."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from handoff.base.errors import HandoffError, UserError
from handoff.base.files import read_text
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import figures
from handoff.board.events import index, journal, wording
from handoff.board.events.index import cut, excerpt, read_query
from handoff.board.sessions import sessions
from handoff.board.tasks import tasks
from handoff.engine.app import App
from handoff.engine.app.home import find_project
from handoff.engine.features.status import workspace_of
from handoff.engine.place import transcripts
from handoff.feature import folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from handoff.board.events.index import TranscriptPart, WordQuery
    from handoff.board.events.journal import Event
    from handoff.board.sessions.sessions import Session

DOCUMENT = "document"
KINDS = (index.BRIEF, index.REPORT, index.NOTE, index.DECISION, DOCUMENT, index.JOURNAL, index.TRANSCRIPT)
LIMIT, MOST = 20, 500
_DOCUMENTS = {"SESSION.md": index.NOTE, "DECISIONS.md": index.DECISION}
_OF_ONE_DOCUMENT = 3
_PATIENCE_SECONDS = 1.0
_QUIET_SECONDS = 10.0
_SESSIONS = 20
_TRANSCRIPT_BYTES = 4_000_000
_RUNNING_BYTES = 100_000
_FOLLOWERS: dict[str, threading.Thread] = {}


class Hit(Record):
    """One place where the words stand: what it is, whose, when, and the command that shows more."""

    kind: str
    project: str
    task: str
    who: str
    at: float
    text: str
    look: str
    seq: int
    event: str = ""

    @property
    def about(self) -> str:
        """Whose it is in words: a task, else what happened, else the project."""
        return self.task or wording.NAMES.get(self.event, self.event) or self.project


class SearchResult(Record):
    """Hits, the newest first. `next` is what to give as `before` for more; `unread` lines are not in the index yet."""

    hits: tuple[Hit, ...]
    next: int = 0
    unread: int = 0


def find(
    app: App, *, words: str, project: str = "", kinds: Sequence[str] = (), limit: int = LIMIT, before: int = 0
) -> SearchResult:
    """Look for words in a project, or in all where none is named."""
    query = read_query(words)
    for kind in kinds:
        if kind not in KINDS:
            raise UserError(f"There is no kind '{kind}'.", f"There are: {', '.join(KINDS)}")
    limit = max(1, min(limit, MOST))
    hits = [] if before else [*_in_running(app, query, project, kinds), *_in_documents(app, query, project, kinds)]
    lost, more, below = 0, False, before or journal.NEWEST
    if app.has_rows:
        _catch_up(app)
        rows = [kind for kind in kinds if kind not in (DOCUMENT, index.TRANSCRIPT)]
        found: list[Hit] = []
        if rows or not kinds:
            lines, lost = index.events(
                app.database, query, project=project, kinds=rows, before=below, limit=limit + 1
            )  # fmt: skip
            found += [_of_event(app, event, brief, query) for event, brief in lines]
        if not kinds or index.TRANSCRIPT in kinds:
            parts = index.transcripts(app.database, query, project=project, before=below, limit=limit + 1)
            found += [_of_transcript(app, part, query) for part in _first_of_each(parts)]
        found.sort(key=lambda hit: hit.seq, reverse=True)
        more = len(found) > limit
        hits += found[:limit]
    here = find_project(app).name if hits else ""
    hits = [hit._replace(look=hit.look.removesuffix(f" --project {here}")) for hit in hits]
    shown = tuple(hit._replace(text=app.clean(hit.text, tell=False)) for hit in hits)
    return SearchResult(shown, shown[-1].seq if more else 0, lost)


# --- the index -----------------------------------------------------------------------------------------------


def _catch_up(app: App, *, patience: float = _PATIENCE_SECONDS) -> None:
    """Let the index read what was written since, for as long as somebody waits gladly."""
    until = app.clock.monotonic() + patience
    while index.step(app.database) == index.STEP and app.clock.monotonic() < until:
        continue
    for session in sessions.unread(app.database, host=app.settings.host, limit=_SESSIONS):
        if app.clock.monotonic() < until:
            _read_session(app, session)


def _read_session(app: App, session: Session) -> None:
    said: list[str] = []
    with suppress(UserError):  # an agent the settings know no more
        said = transcripts.transcript(app, session=session.id, limit=_TRANSCRIPT_BYTES)
    index.add_transcript(
        app.database,
        cut("\n".join(said)),
        session=session.id,
        project=session.project,
        task=session.task,
        agent=session.agent,
        host=session.host,
        at=session.ended_at,
    )


def follow_beside(app: App) -> None:
    """Let the index follow in a thread of its own, unless it does already: a supervisor need not wait for it."""
    running = _FOLLOWERS.get(app.settings.home)
    if running is None or not running.is_alive():
        thread = threading.Thread(target=_follow, args=(App(app.settings),), name="search", daemon=True)
        _FOLLOWERS[app.settings.home] = thread
        thread.start()


def _follow(app: App) -> None:
    try:
        figures.catch_up(app.database)  # figures follow the same journal, also where nobody asks for them
        _catch_up(app, patience=_QUIET_SECONDS)
    except HandoffError:
        return  # the database is away, or cannot search: whoever searches is told
    finally:
        app.close()


# --- what is found -------------------------------------------------------------------------------------------


def _of_event(app: App, event: Event, brief: str, query: WordQuery) -> Hit:
    program = app.settings.program
    other = f" --project {event.project}" if event.project else ""
    task = event.task_id if event.task is not None else ""
    look = f"{program} show {task}{other}" if task else f"{program} log{other}"
    return Hit(
        kind=index.kind_of(event),
        project=event.project,
        task=task,
        who=event.session,
        at=event.at,
        text=excerpt(brief or index.told(event) or wording.name(event), query),
        look=look,
        seq=event.seq,
        event=event.kind,
    )


def _first_of_each(parts: Sequence[TranscriptPart]) -> list[TranscriptPart]:
    return list({part.session: part for part in reversed(parts)}.values())


def _of_transcript(app: App, part: TranscriptPart, query: WordQuery) -> Hit:
    label = ""
    if part.task is not None and (task := tasks.look_up(app.database, key=part.task)):
        label = task.label
    look = f"{app.settings.program} session log {part.session}"
    text = f"said on {part.host}; look there"
    if part.host == app.settings.host:
        text = "its words are gone"
        with suppress(UserError):
            said = transcripts.transcript(app, session=part.session, limit=_TRANSCRIPT_BYTES)
            text = excerpt(_line(said, query), query) if said else text
    return Hit(
        kind=index.TRANSCRIPT,
        project=part.project,
        task=label,
        who=f"{part.agent} {part.session}",
        at=part.at,
        text=text,
        look=look,
        seq=part.seq,
    )


def _in_running(app: App, query: WordQuery, project: str, kinds: Sequence[str]) -> Iterator[Hit]:
    """What sessions say that still run on this machine: the end of it is read as it is, the index comes when they end."""
    if not app.has_rows or (kinds and index.TRANSCRIPT not in kinds):
        return
    here = [one for one in sessions.at_work(app.database, project=project) if one.host in ("", app.settings.host)]
    for session in here[-_SESSIONS:][::-1]:
        said: list[str] = []
        with suppress(UserError):  # a person's tab, or an agent the settings know no more
            said = transcripts.transcript(app, session=session.id, limit=_RUNNING_BYTES)
        if said and query.matches(cut("\n".join(said))):
            task = tasks.look_up(app.database, key=session.task) if session.task is not None else None
            yield Hit(
                kind=index.TRANSCRIPT,
                project=session.project,
                task=task.label if task else "",
                who=f"{session.agent} {session.id}",
                at=session.seen_at,
                text=excerpt(_line(said, query), query),
                look=f"{app.settings.program} session log {session.id}",
                seq=0,
                event="runs",
            )


def _line(lines: Sequence[str], query: WordQuery) -> str:
    """The line with all of it, else the first with something of it."""
    some = ""
    for line in lines:
        words = cut(line)
        if query.matches(words):
            return line
        if not some and any(query._replace(phrases=(one,)).matches(words) for one in query.phrases):
            some = line
    return some or " ".join(lines)


def _in_documents(app: App, query: WordQuery, project: str, kinds: Sequence[str]) -> Iterator[Hit]:
    """Documents are files: they are read as they are now, in the checkout where somebody asks."""
    workspace = workspace_of(app)
    here = find_project(app).name if workspace is not None else ""
    if workspace is None or project not in ("", here):
        return
    for name in folder.all_names(workspace):
        for document in (*folder.DOCUMENTS, "DECISIONS.md"):
            kind = _DOCUMENTS.get(document, DOCUMENT)
            path = os.path.join(workspace.features, name, document)
            if (kinds and kind not in kinds) or not os.path.isfile(path):
                continue
            lines = [line for line in read_text(path).splitlines() if line.strip()]
            found = [line for line in lines if query.matches(cut(line))][-_OF_ONE_DOCUMENT:]
            if not found and query.matches(cut("\n".join(lines))):
                found = [_line(lines, query)]
            for line in reversed(found):
                yield Hit(
                    kind=kind,
                    project=here,
                    task=name,
                    who=document,
                    at=os.stat(path).st_mtime,
                    text=excerpt(line, query),
                    look=os.path.relpath(path, app.settings.here),
                    seq=0,
                )
