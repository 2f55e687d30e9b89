"""Postgres: what is missing or lost is said in words, without passwords."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import psycopg
import pytest

from databases import Place, empty
from handoff.base.clock import SystemClock
from handoff.base.errors import UserError
from handoff.board.tasks import tasks
from handoff.store import open_database
from handoff.store.postgres import in_postgres_words


@pytest.fixture
def server(postgres_server):
    found = Place("postgres", postgres_server.url)
    empty(found.url)
    yield found
    found.close()


def test_a_server_that_is_not_there_is_an_error_without_the_password(tmp_path):
    with pytest.raises(UserError, match="Cannot reach the database") as caught:
        open_database(f"postgresql://ann:secret@/board?host={tmp_path}", clock=SystemClock())
    assert "secret" not in caught.value.message + caught.value.hint
    assert "postgresql://ann@/board" in caught.value.message
    assert "HANDOFF_DATABASE_URL" in caught.value.hint


MISSING = """
import sys
sys.modules["psycopg"] = None
from handoff.base.clock import SystemClock
from handoff.base.errors import UserError
from handoff.store import open_database
try:
    open_database("postgresql://localhost/board", clock=SystemClock())
except UserError as error:
    print(error.hint)
"""


def test_without_the_driver_the_error_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip().endswith("pip install 'handoff-relay[postgres]'"), done.stderr


def end_connections(url):
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE application_name = 'handoff' AND pid <> pg_backend_pid()"
        )


def test_a_connection_that_was_lost_meanwhile_is_replaced_and_one_lost_at_work_is_an_error_once(server):
    database = server.open()
    tasks.add(database, project="shop", id="before", brief="x")
    end_connections(server.url)
    assert tasks.add(database, project="shop", id="after", brief="x").generation == 1

    def lose():
        with database.transaction() as transaction:
            end_connections(server.url)
            transaction.query("list_pauses")

    with pytest.raises(UserError, match="did not answer") as caught:
        lose()
    assert "not written twice" in caught.value.hint
    assert tasks.add(database, project="shop", id="last", brief="x").generation == 1


def test_many_threads_of_a_process_share_two_connections(server):
    database = server.open()
    seen: list[int] = []

    def work(me):
        mine = server.open()
        for number in range(10):
            tasks.add(mine, project="shop", id=f"task-{me}-{number}", brief="x")
        mine.close()

    threads = [threading.Thread(target=work, args=(me,)) for me in range(12)]
    with psycopg.connect(server.url, autocommit=True) as other:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            row = other.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'handoff'").fetchone()
            seen.append(row[0] if row else 0)
            time.sleep(0.01)
    assert max(seen) <= 2
    assert tasks.count(database) == 120


def test_the_tables_live_in_their_own_schema(server):
    server.open()
    with psycopg.connect(server.url) as raw:
        found = raw.execute("SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_name = 'task'")
        assert found.fetchall() == [("handoff",)]


def test_our_words_become_postgres_words():
    assert in_postgres_words("SELECT :a, b::int, 5 % 2 WHERE c = :long_name") == (
        b"SELECT %(a)s, b::int, 5 %% 2 WHERE c = %(long_name)s"
    )
    assert b"IDENTITY" in in_postgres_words("key INTEGER PRIMARY KEY AUTOINCREMENT")


@pytest.mark.parametrize("url", ["mysql://ann:secret@host/x", "sqlite:///", "nonsense", ""])
def test_another_url_is_refused_without_showing_it_whole(url):
    with pytest.raises(UserError, match="not a database handoff knows") as caught:
        open_database(url, clock=SystemClock())
    assert "secret" not in caught.value.message
