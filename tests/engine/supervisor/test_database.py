"""A relay moves to another database while an agent works."""

from __future__ import annotations

import os

import pytest

from databases import Place
from handoff.base.errors import Refused, UserError
from handoff.board.events import journal
from handoff.board.sessions import executors, pauses
from handoff.board.tasks import batches, tasks
from handoff.engine.supervisor.database import migrate_database
from handoff.store import upkeep
from relay_ground import Ground


@pytest.fixture
def empty_postgres(postgres_server):
    import psycopg

    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        for schema in ("handoff", "dbos"):
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())
    return postgres_server.url


@pytest.fixture
def ground(repo, tmp_path):
    found = Ground(str(tmp_path / "ground"), repo.path)
    yield found
    found.close()


def test_every_table_but_the_clock_and_the_supervisors_moves():
    assert {"task", "need", "batch", "session", "gate", "pause", "event", "inbox", "measure"} <= set(upkeep.tables())
    assert not {"clock", "executor"} & set(upkeep.tables())


def test_rows_arrive_as_they_were_and_numbers_go_on(ground, empty_postgres):
    ground.add("first")
    ground.add("second", after=("first",))
    ground.add_batch("one", "two")
    before = ground.tasks()
    moved = migrate_database(ground.app, source=ground.app.database_url, target=empty_postgres)
    assert moved.rows["task"] == 5
    there = Place("postgres", empty_postgres)
    store = there.open()
    try:
        assert {task.id: task for task in tasks.listing(store, include_ended=True)} == before
        assert batches.find(store, project="demo", id="night").remaining == 2
        assert [event.kind for event in journal.since(store, seq=0)][:2] == ["task.added", "task.added"]
        assert tasks.add(store, project="demo", id="third", brief="x").key == 6
    finally:
        there.close()
    assert [stop.scope for stop in pauses.listing(ground.app.database)] == ["all"], "nobody goes on in the old one"
    with pytest.raises(Refused, match="not empty"):
        migrate_database(ground.app, source=ground.app.database_url, target=empty_postgres)


def test_a_relay_somebody_works_on_is_not_moved(ground, empty_postgres):
    executors.begin(ground.app.database, id="here:1:x", host="here", boot="b", pid=1, process_start="1")
    with pytest.raises(Refused, match="still works"):
        migrate_database(ground.app, source=ground.app.database_url, target=empty_postgres)
    with pytest.raises(UserError, match="the same"):
        migrate_database(ground.app, source=empty_postgres, target=empty_postgres)


@pytest.mark.slow
def test_an_agent_goes_on_while_its_relay_moves(ground, empty_postgres, monkeypatch):
    ground.add("long", {"run": f"while ! test -e {ground.folder}/go; do sleep 0.1; done"})
    first = ground.supervisor()
    ground.until(lambda: ground.started("long"), "the agent works")
    first.terminate()
    assert first.wait(timeout=60) == 0
    migrate_database(ground.app, source=ground.app.database_url, target=empty_postgres)
    monkeypatch.setenv("HANDOFF_DATABASE_URL", empty_postgres)
    ground.reopen()
    ground.supervisor()
    with open(os.path.join(ground.folder, "go"), "w", encoding="utf-8") as file:
        file.write("go")
    ground.until(ground.done, "it is finished in the new database")
    assert ground.started("long") == 1
    assert ground.tasks()["long"].fence == 1
    assert ground.agents() == []
