"""The record of what was verified for a commit: its fields, and one line of JSON in `refs/notes/handoff` for each.

One record is one line, and the lines begin with schema and moment: whatever git does to a note (append, `notes merge`
with union or cat_sort_uniq, the copy a rebase makes) leaves whole records, in order of time.
"""

from __future__ import annotations

from handoff.base import light_json
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

SCHEMA = 1
GREEN, RED = "green", "red"
MOST_NAMES = 50
_ID_CHARS = 16


MUTANTS, HIDDEN, QUESTIONS = "mutants", "hidden tests", "questions"
"""Suites that are no command: nobody can run them again from the record alone."""


class Check(Record):
    """One command the orchestrator ran on the tree, and what it said. Counts are None where only the exit code is known."""

    command: str
    verdict: str
    code: int = 0
    folder: str = ""
    suite: str = ""
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    known: int | None = None
    """Failures that were there before and are known."""
    failing: tuple[str, ...] = ()
    """Names of what failed, at most fifty."""
    seconds: float = 0.0


class Note(Record):
    """What was verified for one commit: which work, by whom, on which tree, with which checks, and what came next."""

    ended: str
    began: str
    commit: str
    tree: str
    project: str
    task: str
    flow: str = ""
    workflow: str = ""
    phase: str = ""
    role: str = ""
    cycle: int = 0
    attempt: int = 1
    agent: str = ""
    session: str = ""
    judged: str = "command"
    """By which rule: command, suite, red, green, refactor or none."""
    checks: tuple[Check, ...] = ()
    next: str = ""
    schema: int = SCHEMA

    @property
    def id(self) -> str:
        """The same work on the same tree has the same id, so that writing it again after a crash adds nothing."""
        said = "\0".join(
            (self.project, self.task, self.flow, self.phase, str(self.cycle), str(self.attempt), self.commit, self.tree)
        )
        from hashlib import sha256

        return sha256(said.encode("utf-8", "surrogateescape")).hexdigest()[:_ID_CHARS]


class NoteContent(Record):
    """What a commit's note holds: our records, and lines that are not ours or not of a schema we know."""

    records: tuple[Note, ...] = ()
    foreign: tuple[str, ...] = ()


def encode(note: Note) -> str:
    """The record as one line of JSON without its line end. Fields that say nothing are left out."""
    value: dict[str, Any] = {"schema": note.schema, "ended": note.ended, "id": note.id}
    for name, field in note._asdict().items():
        if name == "checks":
            value[name] = [_plain(check) for check in note.checks]
        elif name not in value and field != "":
            value[name] = field
    return light_json.dumps(value)


def _plain(check: Check) -> dict[str, Any]:
    found = {name: field for name, field in check._asdict().items() if field is not None and field not in ("", ())}
    found["failing"] = list(check.failing[:MOST_NAMES])
    return found if check.failing else {name: field for name, field in found.items() if name != "failing"}


def decode(line: str) -> Note | None:
    """The record a line holds; None when it is not one, or of a schema this program does not know."""
    if not line.startswith("{"):
        return None
    try:
        value = light_json.loads(line)
    except ValueError:
        return None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        return None
    checks = value.get("checks", [])
    if not isinstance(checks, list) or not all(isinstance(check, dict) for check in checks):
        return None
    try:
        read = tuple(Check(**_known(Check, check)) for check in checks)
        return Note(**{**_known(Note, value), "checks": read})
    except (TypeError, ValueError):
        return None


_NUMBERS = frozenset({"schema", "cycle", "attempt", "code", "passed", "failed", "skipped", "known", "seconds"})


def _known(kind: Any, value: dict[str, Any]) -> dict[str, Any]:
    """The fields of this schema with the right kind of value; a field added later is passed over."""
    found: dict[str, Any] = {}
    for name in kind._fields:
        if name not in value or name == "checks":
            continue
        field = value[name]
        if name == "failing":
            right = isinstance(field, list) and all(isinstance(item, str) for item in field)
            field = tuple(field) if right else field
        elif name in _NUMBERS:
            right = isinstance(field, int | float) and not isinstance(field, bool)
        else:
            right = isinstance(field, str)
        if not right:
            raise ValueError(name)
        found[name] = field
    return found


def parse(text: str) -> NoteContent:
    """Every record of a note, each once, and what else stands there."""
    records: dict[str, Note] = {}
    foreign: dict[str, None] = {}
    for line in text.splitlines():
        bare = line.strip()
        if not bare:
            continue
        note = decode(bare)
        if note is None:
            foreign[bare] = None
        else:
            records.setdefault(note.id, note)
    return NoteContent(tuple(records.values()), tuple(foreign))


def with_records(text: str, notes: Iterable[Note]) -> str:
    """The note's text with records added; those it has already are not added again, and nothing is taken away."""
    known = {note.id for note in parse(text).records}
    added = [encode(note) for note in notes if note.id not in known]
    if not added:
        return text
    body = text.rstrip("\n")
    return "\n".join([body, *added] if body else added) + "\n"
