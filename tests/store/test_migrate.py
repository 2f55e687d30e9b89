"""The way from an older database to today's, on both databases, raced and interrupted."""

from __future__ import annotations

import glob
import os
import sqlite3

import psycopg
import pytest

from handoff.base.clock import SystemClock
from handoff.base.errors import Conflict, UserError
from handoff.board.tasks import decisions, tasks
from handoff.store import database as store
from handoff.store import migrate
from handoff.store.migrate import Migration
from handoff.store.postgres import PostgresDatabase, in_postgres_words
from handoff.store.sqlite import SqliteDatabase

NEXT = Migration(migrate.VERSION + 1, "next.sql", "ALTER TABLE task ADD COLUMN colour TEXT NOT NULL DEFAULT 'red';")
BROKEN = NEXT._replace(text=NEXT.text + "\nALTER TABLE ghost ADD COLUMN x TEXT;")
CHANGED = "was upgraded while"


def reopen(place, *more):
    steps = [*migrate.load_steps(), *more]
    if place.kind == "sqlite":
        opened = SqliteDatabase(place.url.removeprefix("sqlite:///"), clock=SystemClock(), steps=steps)
    else:
        opened = PostgresDatabase(place.url, clock=SystemClock(), steps=steps)
    place._opened.append(opened)
    return opened


def raw(place, statement):
    if place.kind == "sqlite":
        connection = sqlite3.connect(place.url.removeprefix("sqlite:///"))
        rows = connection.execute(statement).fetchall()
        connection.commit()
        connection.close()
        return rows
    with psycopg.connect(place.url) as connection:
        connection.execute("SET search_path TO handoff")
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def set_version(place, number):
    raw(
        place,
        f"PRAGMA user_version = {number}"
        if place.kind == "sqlite"
        else f"UPDATE schema_version SET version = {number}",
    )


def colours(place):
    return raw(place, "SELECT id, colour FROM task ORDER BY key")


def backups(place):
    return glob.glob(place.url.removeprefix("sqlite:///") + ".backup-*")


def make_oldest(place):
    """A database as the oldest handoff that can be upgraded made it, with one task."""
    with open(os.path.join(os.path.dirname(__file__), f"schema-{migrate.OLDEST}.sql"), encoding="utf-8") as file:
        made = migrate.statements(file.read())
    if place.kind == "sqlite":
        path = place.url.removeprefix("sqlite:///")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        connection = sqlite3.connect(path)
        for statement in (*made, f"PRAGMA user_version = {migrate.OLDEST}"):
            connection.execute(statement)
        connection.commit()
        connection.close()
        return
    with psycopg.connect(place.url) as connection:
        connection.execute("CREATE SCHEMA handoff")
        connection.execute("SET search_path TO handoff")
        for statement in made:
            connection.execute(in_postgres_words(statement))
        connection.execute("CREATE TABLE schema_version (version BIGINT NOT NULL)")
        connection.execute(f"INSERT INTO schema_version VALUES ({migrate.OLDEST})".encode())


def test_the_steps_are_numbered_without_gaps_and_the_last_is_today():
    numbers = [step.number for step in migrate.load_steps()]
    assert numbers == list(range(migrate.OLDEST + 1, migrate.VERSION + 1))


def without_blanks(rows):
    """SQLite keeps the words a table was made with and writes a later column's behind them."""
    return [(kind, name, "".join((text or "").split())) for kind, name, text in rows]


@pytest.mark.parametrize("begin", [make_oldest, lambda _place: None], ids=["oldest", "new"])
def test_schema_sql_is_what_the_migrations_add_up_to(place, begin):
    begin(place)
    place.open()
    if place.kind == "sqlite":
        today = sqlite3.connect(":memory:")
        today.executescript(store.read_sql("schema.sql"))
        everything = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
        wanted = without_blanks(today.execute(everything).fetchall())
        today.close()
        assert without_blanks(raw(place, everything)) == wanted
        return
    columns = "table_name, column_name, data_type, is_nullable, column_default, is_identity"
    facts = (
        (
            f"SELECT {columns} FROM information_schema.columns WHERE table_schema = '%s' AND table_name <> 'schema_version'"
            " AND table_name NOT LIKE '%_words'"
        ),
        (
            "SELECT tablename, indexname, replace(indexdef, '%s.', '') FROM pg_indexes WHERE schemaname = '%s'"
            " AND tablename NOT LIKE '%_words'"
        ),
    )
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS today CASCADE")
        connection.execute("CREATE SCHEMA today")
        connection.execute("SET search_path TO today")
        for statement in migrate.statements(store.read_sql("schema.sql")):
            connection.execute(in_postgres_words(statement))
        for fact in facts:
            made, wanted = (
                sorted(connection.execute(fact.replace("%s", name)).fetchall(), key=str)
                for name in ("handoff", "today")
            )
            assert made == wanted
            assert made
        connection.execute("DROP SCHEMA today CASCADE")


def test_a_newer_database_is_refused_and_left_alone(place):
    place.open().close()
    set_version(place, migrate.VERSION + 7)
    with pytest.raises(UserError, match=f"newer handoff .schema {migrate.VERSION + 7}; this one knows") as caught:
        place.open()
    assert "handoff upgrade" in caught.value.hint
    set_version(place, migrate.VERSION)
    assert tasks.listing(place.open()) == []


def test_an_older_database_is_migrated_with_its_rows_and_a_backup(place):
    old = place.open()
    tasks.add(old, project="shop", id="login", brief="x")
    reopen(place, NEXT)
    assert colours(place) == [("login", "red")]
    if place.kind == "sqlite":
        (backup,) = backups(place)
        connection = sqlite3.connect(backup)
        assert connection.execute("SELECT id FROM task").fetchall() == [("login",)]
        assert connection.execute("PRAGMA user_version").fetchone() == (migrate.VERSION,)
        connection.close()
    with pytest.raises(Conflict, match=CHANGED):
        tasks.add(old, project="shop", id="too-old", brief="x")


def test_what_was_decided_before_is_carried_over_and_is_still_to_be_carried_out(place):
    make_oldest(place)
    (step,) = [one for one in migrate.load_steps() if one.number == migrate.OLDEST + 1]
    for statement in migrate.statements(step.text):
        raw(place, statement if place.kind == "sqlite" else in_postgres_words(statement))
    set_version(place, step.number)
    decided = "project, task, fence, session, host, state, body, made_at, ended_at"
    raw(place, f"INSERT INTO decision ({decided}) VALUES ('shop', 7, 3, 's1', 'here', 'open', '{{}}', 1.0, NULL)")
    raw(place, f"INSERT INTO decision ({decided}) VALUES ('shop', 8, 1, 's2', 'here', 'done', '{{}}', 1.0, 2.0)")
    texts = "project, id, workflow, text, prompts, request, feature, repository, workspace, branch, base, head, phase"
    for id, task, pending, ended in (
        ("spec", "9", '{"phase": "spec"}', "NULL"), ("bare", "NULL", '{"phase": "baseline"}', "NULL"),
        ("still", "10", "", "NULL"), ("over", "11", '{"phase": "red"}', "3.0"),
    ):  # fmt: skip
        raw(
            place,
            f"INSERT INTO flow ({texts}, max_cycles, task, state, agents, gates, pending, created_at, changed_at, ended_at)"
            f" VALUES ('shop', '{id}', 'tdd', '', '{{}}', '', '', '', '', '', '', '', 'red', 5, {task}, 'running', '{{}}', '[]',"
            f" '{pending}', 1.0, 2.0, {ended})",
        )
    database = place.open()
    kept = raw(place, "SELECT task, flow, fence, session, host, state, body FROM decision ORDER BY key")
    flows = dict(raw(place, "SELECT id, key FROM flow"))
    assert kept[:2] == [(7, None, 3, "s1", "here", "open", "{}"), (8, None, 1, "s2", "here", "done", "{}")]
    assert sorted(kept[2:], key=str) == [
        (9, flows["spec"], 0, "", "", "open", '{"phase": "spec"}'),
        (None, flows["bare"], 0, "", "", "open", '{"phase": "baseline"}'),
    ]
    assert {one.flow for one in decisions.open_on(database, host="here")} == {None, flows["spec"], flows["bare"]}
    assert decisions.of_flow(database, key=flows["bare"]).intent == {"phase": "baseline"}
    assert decisions.of_task(database, key=7).fence == 3


def test_a_database_of_an_early_schema_is_refused_and_left_alone(place):
    tasks.add(place.open(), project="shop", id="login", brief="x")
    set_version(place, migrate.OLDEST - 1)
    with pytest.raises(UserError, match=f"early handoff .schema {migrate.OLDEST - 1}; this one begins at") as caught:
        place.open()
    assert "HANDOFF_HOME" in caught.value.hint
    set_version(place, migrate.VERSION)
    assert [task.id for task in tasks.listing(place.open())] == ["login"]


def test_a_migration_that_fails_changes_nothing(place):
    old = place.open()
    tasks.add(old, project="shop", id="login", brief="x")
    with pytest.raises((sqlite3.Error, psycopg.Error)):
        reopen(place, BROKEN)
    assert tasks.add(old, project="shop", id="next", brief="x").state == "ready"
    with pytest.raises((sqlite3.Error, psycopg.Error), match="colour"):
        colours(place)


RACE = """
import sys
from handoff.base.clock import SystemClock
from handoff.board.tasks import tasks
from handoff.store import migrate
from handoff.store import open_database
from handoff.store.migrate import Migration
url, name, mode = sys.argv[1:]
if url.startswith("sqlite"):
    from handoff.store.sqlite import SqliteDatabase as driver
    where = url.removeprefix("sqlite:///")
else:
    from handoff.store.postgres import PostgresDatabase as driver
    where = url
print("ready", flush=True)
sys.stdin.readline()
if mode == "first":
    tasks.add(driver(where, clock=SystemClock()), project="shop", id=name, brief="x")
else:
    step = Migration(migrate.VERSION + 1, "next.sql", "ALTER TABLE task ADD COLUMN colour TEXT NOT NULL DEFAULT 'red';")
    database = driver(where, clock=SystemClock(), steps=[*migrate.load_steps(), step])
    with database.transaction(write=False) as look:
        assert look.query("list_projects")
"""


@pytest.mark.parametrize("mode", ["first", "older"])
def test_eight_processes_may_open_a_new_or_an_older_database_at_once(place, mode):
    if mode == "older":
        tasks.add(place.open(), project="shop", id="login", brief="x")
    racers = [place.start(RACE, f"task-{number}", mode, stdin=-1) for number in range(8)]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n", racer.stderr.read()
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    for racer in racers:
        _, errors = racer.communicate(timeout=60)
        assert racer.returncode == 0, errors
    if mode == "first":
        assert sorted(task.id for task in tasks.listing(place.open())) == [f"task-{number}" for number in range(8)]
    else:
        assert colours(place) == [("login", "red")]
        assert place.kind == "postgres" or len(backups(place)) == 1


def test_the_lock_of_a_migration_is_freed_by_its_death(place):
    """The lock file stays, but nobody holds it."""
    place.open().close()
    if place.kind == "sqlite":
        assert os.path.exists(place.url.removeprefix("sqlite:///") + ".lock")
    reopen(place, NEXT)
    assert colours(place) == []
