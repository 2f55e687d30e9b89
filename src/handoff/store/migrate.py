"""A new database gets `schema.sql`; an older one comes to it by numbered steps, all of them or none."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.record import Record

VERSION = 25
"""The schema this program speaks, which is the one of `schema.sql`: the number of the newest migration."""
OLDEST = 18
"""The oldest schema that has steps to today's."""


class Migration(Record):
    """One migration: its number, its file's name, its statements."""

    number: int
    name: str
    text: str


def load_steps() -> list[Migration]:
    """The numbered files of the migrations folder (`0019_words.sql`), in order: from `OLDEST` to today."""
    folder = os.path.join(os.path.dirname(__file__), "migrations")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else ()
    return [Migration(int(name[:4]), name, _read(folder, name)) for name in names if name.endswith(".sql")]


def steps_from(found: int, place: str, steps: list[Migration] | None = None) -> list[Migration]:
    """What brings a database of schema `found` (0: a new one) to today's."""
    if 0 < found < OLDEST:
        raise UserError(
            f"{place} was written by an early handoff (schema {found}; this one begins at {OLDEST}).",
            "Use another HANDOFF_HOME or HANDOFF_DATABASE_URL. The old one is left as it is.",
        )
    first = [] if found else [Migration(VERSION, "schema.sql", _read(os.path.dirname(__file__), "schema.sql"))]
    reached = found or VERSION
    return [*first, *(step for step in steps or load_steps() if step.number > reached)]


def _read(folder: str, name: str) -> str:
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def statements(text: str) -> list[str]:
    """The single statements of a schema text; our texts have no semicolon inside a statement."""
    lines = [line.partition("--")[0] for line in text.splitlines()]
    return [part.strip() for part in "\n".join(lines).split(";") if part.strip()]


def refuse_newer(found: int, known: int, place: str) -> None:
    """An old program must not touch what it does not understand."""
    if found > known:
        raise UserError(
            f"{place} was written by a newer handoff (schema {found}; this one knows {known}).",
            "Run: handoff upgrade. Until then use another HANDOFF_HOME or HANDOFF_DATABASE_URL.",
        )
