"""queries.sql: every statement is named, explained, used and understood by both databases."""

from __future__ import annotations

import os
import re
import sqlite3

import psycopg

import handoff
from databases import KINDS
from handoff.store import database as store
from handoff.store import migrate
from handoff.store.postgres import in_postgres_words

PACKAGE = os.path.dirname(handoff.__file__)


def _used_names():
    found = set()
    for room in ("board", "store"):
        for folder, _, names in os.walk(os.path.join(PACKAGE, room)):
            for name in names:
                if name.endswith(".py"):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        found |= set(re.findall(r'"([a-z]+(?:_[a-z]+)+)"', file.read()))
    return found


def test_every_query_has_a_verb_a_noun_and_a_line_of_meaning():
    text = store.read_sql("queries.sql")
    names = re.findall(r"^-- name: (.*)$", text, re.MULTILINE)
    assert len(names) == len(set(names)) == len(store.load_queries())
    for name, statement in store.load_queries().items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", name), name
        assert re.match(r"-- [a-z]", statement), name
        assert ";" not in statement.partition("\n")[2], name


def test_every_query_is_used():
    own = {name for kind in KINDS for name in store.parse_queries(store.read_sql(f"words_{kind}.sql"))}
    inside = set(re.findall(r"\{([a-z_]+)\}", store.read_sql("queries.sql")))
    assert (set(store.load_queries()) | own) - _used_names() - inside == set()


def test_what_only_one_database_understands_has_the_same_names_and_a_line_of_meaning():
    texts = [store.parse_queries(store.read_sql(f"words_{kind}.sql")) for kind in KINDS]
    assert {name for name in texts[0] if not name.startswith("make_")} == set(texts[1]) - {"allow_bitmaps"}
    for text in texts:
        assert all(re.match(r"-- [a-z]", statement) for statement in text.values())
    assert store.Statements("sqlite")["search_events"] != store.Statements("postgres")["search_events"]


def test_both_databases_understand_every_query(place):
    if place.kind == "sqlite":
        connection = sqlite3.connect(":memory:")
        for statement in migrate.statements(store.read_sql("schema.sql")):
            connection.execute(statement)
        for text in store.load_queries().values():
            connection.execute("EXPLAIN " + text, dict.fromkeys(re.findall(r":([a-z_]+)", text)))
        connection.close()
        return
    place.open()
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute("SET search_path TO handoff")
        for name, text in store.load_queries().items():
            order: list[str] = []
            typed = re.sub(
                r"%\(([a-z_]+)\)s",
                lambda match, order=order: f"${(order.append(match[1]) or len(order))}",
                in_postgres_words(text).decode(),
            )
            connection.execute(f"PREPARE {name} AS {typed}".encode())
