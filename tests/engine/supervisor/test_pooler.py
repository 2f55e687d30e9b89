"""A whole relay behind PgBouncer in transaction mode: supervisor, durable runs, sessions; and how many connections it holds."""

from __future__ import annotations

import tempfile

import psycopg
import pytest

from databases import empty, quick_folder
from handoff.base.clock import SystemClock
from pooler import Pooler
from sandbox import Cli

MOST = 3


@pytest.fixture
def pooler(postgres_server):
    empty(postgres_server.url)
    with psycopg.connect(postgres_server.url, autocommit=True) as raw:
        raw.execute("DROP SCHEMA IF EXISTS dbos CASCADE")
    with tempfile.TemporaryDirectory(prefix="pb-", dir=quick_folder(), ignore_cleanup_errors=True) as folder:
        found = Pooler(folder, postgres_server.url.partition("host=")[2], connections=10)
        yield found
        found.stop()


@pytest.mark.slow
def test_a_supervisor_with_several_sessions_works_behind_a_pooler_with_three_connections(repo, pooler, tmp_path):
    cli = Cli(repo.path, HANDOFF_DATABASE_URL=pooler.url)
    script = tmp_path / "agent.toml"
    script.write_text('[[act]]\nrun = "sleep 1"\n')
    names = [f"task-{number}" for number in range(3)]
    for name in names:
        cli("dump", "--task", name, "--next", "x", "--check", "true")
    cli("work", "--agent", "scripted", "--detach", "--max", "4", "--", str(script))
    clock, deadline, seen = SystemClock(), SystemClock().monotonic() + 60, []
    try:
        with psycopg.connect(
            pooler.url.replace("/postgres?", "/pgbouncer?"), autocommit=True, prepare_threshold=None
        ) as admin:
            while any("done" not in cli("show", name).out for name in names):
                assert clock.monotonic() < deadline, cli("work", "--status").out
                shown = psycopg.ClientCursor(admin).execute("SHOW CLIENTS")
                columns = [column.name for column in shown.description or ()]
                lines = [dict(zip(columns, row, strict=True)) for row in shown.fetchall()]
                seen.append(sum(line["database"] == "postgres" for line in lines))
                clock.sleep(0.2)
    finally:
        cli("work", "--stop")
    assert max(seen) <= MOST + 1, "of the supervisor, and one of whoever looks"
