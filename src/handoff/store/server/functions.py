"""Verbs that Postgres does in one call: functions made of the same statements that the board runs one by one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from handoff.base.record import Record
from handoff.store.database import parse_queries, read_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from psycopg import Cursor

    from handoff.store.database import Row

STEP_BY_STEP = "HA001"
"""The state in which a function leaves a verb to the board; nothing was changed."""
WHOLE = frozenset({"claim_at_once"})
"""Functions that never do so: they may be asked inside a transaction."""
# Each statement has its index. On a young database, without statistics, the planner would rather sort the whole queue; and behind a pooler
# these calls have no transaction of their own that could say so.
_PLANS = (
    "plan_cache_mode = force_generic_plan",
    "enable_bitmapscan = off",
    "enable_seqscan = off",
)
_RARE = re.compile(r"/\* rare \*/.*?/\* rare ends \*/", re.DOTALL)
_HEADER = re.compile(r"^-- (takes|gives|asks): (.*)$", re.MULTILINE)


class Function(Record):
    """One of functions.sql: what it takes, what it gives, and how it is asked."""

    name: str
    takes: tuple[tuple[str, str], ...]
    gives: str
    asks: str
    body: str


def load(version: int) -> dict[str, Function]:
    """The functions by name; a server's own carry the version of the schema they are made for."""
    found = {}
    for name, text in parse_queries(read_sql("functions.sql")).items():
        said = dict(_HEADER.findall(text))
        if "gives" not in said:
            continue
        pairs = (pair.strip().partition(" ") for pair in said["takes"].split(","))
        found[name] = Function(
            name=f"{name}_{version}",
            takes=tuple((word, kind) for word, _, kind in pairs),
            gives=said["gives"],
            asks=said.get("asks", "found.*"),
            body=_HEADER.sub("", text),
        )
    return found


def create_words(function: Function, queries: Mapping[str, str], numbers: Mapping[str, object]) -> str:
    """The statement that makes it; plans are kept, because to make one takes longer than to run it."""
    parts = parse_queries(read_sql("functions.sql"))

    def words(match: re.Match[str]) -> str:
        name, _, plain = match[1].partition(" ")
        text = (parts if name in parts else queries)[name].partition("\n")[2].rstrip()
        return _RARE.sub("", text) if plain else text

    body = re.sub(r"\{([a-z]+_[a-z_ ]+)\}", words, function.body)
    body = re.sub(r"\{([a-z]+)\}", lambda match: str(numbers[match[1]]), body)
    body = re.sub(r"/\* postgres: (.*?) \*/", r"\1", body)
    body = re.sub(r"(?<!:):([a-z_]+)", r"v_\1", body)
    body = re.sub(r"^--.*$", "", body, flags=re.MULTILINE).strip()
    takes = ", ".join(f"v_{word} {kind}" for word, kind in function.takes)
    settings = (f"search_path = {numbers['schema']}", f"lock_timeout = '{numbers['patience']}'", *_PLANS)
    return (
        f"CREATE OR REPLACE FUNCTION {function.name}({takes}) RETURNS {function.gives} LANGUAGE plpgsql"
        f" {' '.join(f'SET {one}' for one in settings)} AS"
        f" $body$\n#variable_conflict use_column\n{body}\n$body$"
    )


class KnownColumns:
    """Rows by the names of their columns, for a statement that always gives the same ones: the names are read once."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()

    def __call__(self, cursor: Cursor[Any]) -> Callable[[Sequence[Any]], Row]:
        names = self._names = self._names or tuple(column.name for column in cursor.description or ())
        return lambda values: dict(zip(names, values, strict=True))


def call_words(function: Function, schema: str) -> bytes:
    """The statement that asks it."""
    values = ", ".join(f"%({word})s::{kind}" for word, kind in function.takes)
    return f"SELECT {function.asks} FROM {schema}.{function.name}({values}) AS found".encode()  # noqa: S608 - ours
