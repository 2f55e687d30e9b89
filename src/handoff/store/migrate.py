"""The way from an older database to today's: numbered steps, each whole or not at all."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.record import Record

VERSION = 18
"""The schema this program speaks: the number of the newest migration."""


class Migration(Record):
    """One migration: its number, its file's name, its statements."""

    number: int
    name: str
    text: str


def load_steps(folder: str = "") -> list[Migration]:
    """The numbered files of the migrations folder, in order and without gaps."""
    folder = folder or os.path.join(os.path.dirname(__file__), "migrations")
    steps = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".sql"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                steps.append(Migration(int(name[:4]), name, file.read()))
    return steps


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
