"""The index of words: texts and questions are cut into words here, the same for every database; the index follows the journal in small
steps, so that nobody who writes a line waits for it. What it has not read yet is looked through line by line: a search misses nothing.
"""

from __future__ import annotations

import re
import unicodedata

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.store.database import POSTGRES, fetch_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from handoff.board.events.journal import Event
    from handoff.store.database import Database, Transaction

# A word is letters and digits. Chinese and Japanese write no blanks: there each character is a word.
_WORD = re.compile(
    "[\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]|[^\\W_\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_ASKED = re.compile(r'"([^"]*)(?:"|$)|(\S+)')
_LONGEST_WORD = 100
_MOST_ASKED = 32
_SHORTEST_BEGINNING = 2
_SHOWN, _BEFORE = 160, 50
POSITIONS, REPEATED, _VECTOR_BYTES = 16_000, 255, 500_000
"""How many words one row of the index has at most, how often one of them counts, how long they are: the limits of Postgres."""


class Phrase(Record):
    """Words that must stand one after the other; with `begins` the last one may go on."""

    words: tuple[str, ...]
    begins: bool = False


class WordQuery(Record):
    """What somebody looks for: every phrase must be there."""

    phrases: tuple[Phrase, ...]

    def matches(self, words: Sequence[str]) -> bool:
        """Whether all of it is among these words."""
        line = f" {' '.join(words)} "
        return all(f" {' '.join(one.words)}{'' if one.begins else ' '}" in line for one in self.phrases)

    def for_sqlite(self, marks: Iterable[Sequence[str]] = ()) -> str:
        """The same for FTS5; of each of `marks` one must be there too."""
        groups = [" OR ".join(f'"{mark}"' for mark in group) for group in marks if group]
        asked = [f'"{" ".join(one.words)}"{" *" if one.begins else ""}' for one in self.phrases]
        return " AND ".join([*(f"({group})" for group in groups), *asked])

    def for_postgres(self, marks: Iterable[Sequence[str]] = ()) -> str:
        """The same as a tsquery."""
        groups = [" | ".join(f"'{mark}'" for mark in group) for group in marks if group]
        asked = [
            " <-> ".join([f"'{word}'" for word in one.words]) + (":*" if one.begins else "") for one in self.phrases
        ]
        return " & ".join(f"({part})" for part in [*groups, *asked])


def cut(text: str) -> list[str]:
    """The words of a text, in order: small letters, without accents."""
    text = text.lower()
    if not text.isascii():
        text = "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))
    return [word[:_LONGEST_WORD] for word in _WORD.findall(text)]


def read_query(text: str) -> WordQuery:
    """What a person asks for: words that must all be there, "words in a row", and begin* for the beginning of a word."""
    phrases = []
    for quoted, bare in _ASKED.findall(text):
        begins = bare.endswith("*") and len(bare) > 1
        words = tuple(cut(quoted or bare))
        if begins and words and len(words[-1]) < _SHORTEST_BEGINNING:
            raise UserError(f"'{bare}' is too short a beginning.", "Give at least two letters before the *.")
        if words:
            phrases.append(Phrase(words, begins))
    if not phrases:
        raise UserError("Say which words to look for.", 'For example: handoff search login "sign-in link"')
    if sum(len(one.words) for one in phrases) > _MOST_ASKED:
        raise UserError(f"Look for at most {_MOST_ASKED} words at once.", "The rarest ones are enough.")
    return WordQuery(tuple(phrases))


def as_vector(words: Sequence[str]) -> str:
    """Words as the text of a tsvector, each with its places."""
    places: dict[str, list[int]] = {}
    size = 0
    for place, word in enumerate(words[:POSITIONS], 1):
        if word not in places:
            size += len(word.encode())
            if size > _VECTOR_BYTES:
                break
        found = places.setdefault(word, [])
        if len(found) < REPEATED:
            found.append(place)
    return " ".join(f"'{word}':{','.join(map(str, found))}" for word, found in places.items())


def excerpt(text: str, query: WordQuery) -> str:
    """The part of a text around the first word that was asked for, in one line."""
    flat = " ".join(text.split())
    low = flat.lower()
    found = [at for one in query.phrases if (at := low.find(one.words[0])) >= 0]
    start = max(0, min(found, default=0) - _BEFORE)
    start = flat.rfind(" ", 0, start) + 1 if start else 0
    part = flat[start : start + _SHOWN]
    return f"{'…' if start else ''}{part}{'…' if start + _SHOWN < len(flat) else ''}"


BRIEF, REPORT, NOTE, DECISION, JOURNAL, TRANSCRIPT = "brief", "report", "note", "decision", "journal", "transcript"
_KINDS = {
    **dict.fromkeys(("task.added", "task.edited"), BRIEF),
    **dict.fromkeys(("task.finished", "task.reported", "task.blocked", "task.rejected", "task.sent_back"), REPORT),
    **dict.fromkeys(("note.added", "path.asked", "path.wanted", "comment.added"), NOTE),
    **dict.fromkeys(("gate.opened", "gate.approved", "gate.rejected"), DECISION),
}
STEP = 500
_MOST_PIECES = 50
_MARK = "journal"
LOOK_THROUGH = 5_000
"""Lines the index does not know that a search looks through itself, the newest first."""


class TranscriptPart(Record):
    """A piece of what a session said, as the index knows it."""

    key: int
    session: str
    part: int
    project: str
    task: int | None
    agent: str
    host: str
    at: float
    seq: int


def kind_of(event: Event) -> str:
    """Under which kind a line of the journal is found."""
    return _KINDS.get(event.kind, JOURNAL)


def told(event: Event) -> str:
    """What a line of the journal tells, without the names of its fields."""
    return " ".join(_texts_in(event.body))


def words_of(event: Event, brief: str = "") -> list[str]:
    """The words under which a line is found; a line that tells of a brief is found by the brief."""
    return cut(f"{event.kind} {event.task_id} {event.session} {told(event)} {brief}")


def _texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _texts_in(inner)]
    return [text for inner in value for text in _texts_in(inner)] if isinstance(value, list | tuple) else []


# --- writing -------------------------------------------------------------------------------------------------


def step(database: Database, *, limit: int = STEP) -> int:
    """Read some more lines of the journal; how many. Words are cut before the lock is taken, which is held for milliseconds."""
    settled = database.settled()
    with database.transaction(write=False) as transaction:
        mark = transaction.one("get_search_mark", name=_MARK)
        events = journal.since(transaction, seq=int(mark["seq"]), limit=limit, settled=settled) if mark else []
        rows = [
            {"key": event.seq, "words": _row(database, event.project, kind_of(event), words)}
            for event in events
            for words in [words_of(event, brief_of(transaction, event))]
        ]
    if mark is None:
        _begin(database)
        return step(database, limit=limit)
    if events:
        with database.transaction() as transaction:
            asked = {"name": _MARK, "before": mark["seq"], "seq": events[-1].seq}
            if transaction.execute("move_search_mark", **asked):  # else another process has just read them
                transaction.execute_many("add_event_words", rows)
    return len(events)


def _begin(database: Database) -> None:
    with database.transaction() as transaction:
        if database.kind != POSTGRES:  # there the owner of the tables makes them, with all others
            transaction.execute("make_event_words")
            transaction.execute("make_transcript_words")
        transaction.execute("add_search_mark", name=_MARK)


def brief_of(transaction: Transaction, event: Event) -> str:
    """Title and brief of the task that a line tells of, if it tells of a brief and the task was not forgotten."""
    row = transaction.one("get_task", key=event.task) if kind_of(event) == BRIEF else None
    return f"{row['title']}\n{row['brief']}" if row else ""


def add_transcript(database: Database, words: Sequence[str], *, piece: int = POSITIONS - 2, **whose: Any) -> None:
    """Put what a session said into the index, in pieces; a session that said nothing is known from then on too.

    `whose` are the columns of the session: session, project, task, agent, host, at.
    """
    pieces = [words[start : start + piece] for start in range(0, len(words), piece)][-_MOST_PIECES:]
    texts = [_row(database, whose["project"], TRANSCRIPT, one) for one in pieces or [()]]
    with database.transaction() as transaction:
        last = transaction.one("last_event")
        for part, text in enumerate(texts):
            row = transaction.one("add_transcript", part=part, seq=last["seq"] if last else 0, **whose)
            if row is not None and pieces:
                transaction.execute("add_transcript_words", key=row["key"], words=text)


def _row(database: Database, project: str, kind: str, words: Sequence[str]) -> str:
    marked = [_project_mark(project), f"s={kind}", *words]
    return as_vector(marked) if database.kind == POSTGRES else " ".join(marked)


def _project_mark(project: str) -> str:
    return f"p={project.encode().hex()}"


# --- reading -------------------------------------------------------------------------------------------------


def events(
    database: Database,
    query: WordQuery,
    *,
    project: str,
    kinds: Sequence[str],
    before: int,
    limit: int,
    look_through: int = LOOK_THROUGH,
) -> tuple[list[tuple[Event, str]], int]:
    """Lines with these words and the brief each tells of, newest first; and how many lines nobody looked at yet."""
    asked = _asked(database, query, project, kinds)
    with database.transaction(write=False) as transaction:
        mark = transaction.one("get_search_mark", name=_MARK)
        read = int(mark["seq"]) if mark else 0
        fresh, lost = _unread(transaction, read, project, before, look_through)
        hits = _matching(transaction, fresh, query, project, kinds)
        if len(hits) < limit:
            _allow(database, transaction)
            below = min(before, read + 1)
            known = fetch_all(transaction, journal.event_of, "search_events", query=asked, before=below, limit=limit)
            hits += _matching(transaction, known, query, project, kinds)
    return hits[:limit], lost


def _unread(transaction: Transaction, read: int, project: str, before: int, most: int) -> tuple[list[Event], int]:
    """The newest lines the index does not know, and how many more of them there are."""
    last = transaction.one("last_event")
    if last is None or min(int(last["seq"]) + 1, before) <= read + 1:
        return [], 0
    lines = journal.last(transaction, project=project, limit=most, before=before)
    found = [one for one in reversed(lines) if one.seq > read]
    if len(found) < most:
        return found, 0
    (row,) = transaction.query("count_unread_events", since=read)
    return found, max(0, int(row["count"]) - most)


def _matching(
    transaction: Transaction, found: Sequence[Event], query: WordQuery, project: str, kinds: Sequence[str]
) -> list[tuple[Event, str]]:
    """Those that really have the words as they are now: a brief may have been written anew."""
    hits = []
    for event in found:
        brief = brief_of(transaction, event)
        wanted = project in ("", event.project) and (not kinds or kind_of(event) in kinds)
        if brief and transaction.one("get_newer_brief", task=event.task, seq=event.seq):
            continue  # it is found once, where it was written last
        if wanted and query.matches(words_of(event, brief)):
            hits.append((event, brief))
    return hits


def transcripts(database: Database, query: WordQuery, *, project: str, before: int, limit: int) -> list[TranscriptPart]:
    """Pieces of transcripts with these words, newest first."""
    with database.transaction(write=False) as transaction:
        _allow(database, transaction)
        asked = _asked(database, query, project, (TRANSCRIPT,))
        return fetch_all(transaction, TranscriptPart, "search_transcripts", query=asked, before=before, limit=limit)


def _allow(database: Database, transaction: Transaction) -> None:
    if database.kind == POSTGRES:
        transaction.execute("allow_bitmaps")


def _asked(database: Database, query: WordQuery, project: str, kinds: Sequence[str]) -> str:
    marks = [[_project_mark(project)] if project else [], [f"s={kind}" for kind in kinds]]
    return query.for_postgres(marks) if database.kind == POSTGRES else query.for_sqlite(marks)
