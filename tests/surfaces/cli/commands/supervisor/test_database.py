"""Conversations about the relay's database: encrypted, with few rights, and without a password anywhere."""

from __future__ import annotations

import os
import subprocess

import psutil
import psycopg
import pytest

from handoff.base.clock import SystemClock
from sandbox import Cli
from tls_server import IN_ADDRESS, PASSWORD, make_authority, tls_server  # noqa: F401

SECRETS = (PASSWORD, IN_ADDRESS)


def configure(text, mode=0o600):
    home = os.environ["HANDOFF_HOME"]
    os.makedirs(home, exist_ok=True)
    path = os.path.join(home, "config.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def on(repo, url):
    return Cli(repo.path, HANDOFF_DATABASE_URL=url)


def without_secrets(text):
    assert not any(secret in text for secret in SECRETS), text
    return text


@pytest.fixture
def server(tls_server):  # noqa: F811
    tls_server.sql("DROP SCHEMA IF EXISTS handoff CASCADE", "DROP SCHEMA IF EXISTS dbos CASCADE")
    return tls_server


def test_a_verified_server_is_used_and_shown_without_the_password(repo, server):
    cli = on(repo, server.url(options=server.verified))
    said = cli("database", "show")
    assert f"postgresql://postgres@localhost:{server.port}/postgres" in said.out
    without_secrets(said.out + said.err)
    for words in ("Size: ", "handoff.task ", " dead, ", "Connections: ", "Oldest open transaction: ",
                  "Slowest statement: not known, the extension pg_stat_statements is not there."):  # fmt: skip
        assert words in said.out
    facts = cli("database", "show", "--json").json
    assert (facts["weakness"], facts["health"]["most_connections"] > 0) == ("", True)
    cli("dump", "--task", "first", "--next", "x")
    assert "first" in cli("task", "list").out


def test_encryption_can_be_demanded_in_the_settings(repo, server, tmp_path):
    foreign = make_authority(str(tmp_path), "foreign")
    configure(f'database_sslmode = "verify-full"\ndatabase_sslrootcert = "{foreign}"\n')
    refused = on(repo, server.url())("database", "show", code=1).err
    assert "certificate verify failed" in without_secrets(refused)
    configure(
        f'database_url = "{server.url()}"\ndatabase_sslmode = "verify-full"\ndatabase_sslrootcert = "{server.authority}"\n'
    )
    assert "localhost" in Cli(repo.path)("database", "show").out


def test_what_the_server_refuses_is_said_without_the_password(repo, server):
    assert "no encryption" in without_secrets(
        on(repo, server.url(options="sslmode=disable"))("task", "list", code=1).err
    )
    wrong = on(repo, server.url(options=server.verified, password="wr%2Fong"))("task", "list", code=1).err
    assert "password authentication failed" in wrong
    assert "wr%2Fong" not in wrong
    assert "wr/ong" not in wrong
    named = on(repo, server.url(options=server.verified, host="127.0.0.1"))("task", "list", code=1).err
    assert "does not match host name" in without_secrets(named)
    raw = on(repo, f"postgresql://postgres:{PASSWORD}@localhost:{server.port}/postgres")("task", "list", code=1).err
    assert "cannot be understood" in without_secrets(raw)
    assert "p/w" not in raw


def test_a_settings_file_with_a_password_must_be_its_owners_alone(repo, server):
    configure(f'database_url = "{server.url(options=server.verified)}"\n', mode=0o644)
    assert "chmod 600" in without_secrets(Cli(repo.path)("task", "list", code=1).err)


def test_a_password_in_a_command_line_is_refused(cli, server):
    answer = cli("database", "move", "sqlite:////nowhere.db", server.url(), code=3)
    assert "PGPASSWORD" in without_secrets(answer.err)


def test_the_script_for_the_roles_is_plain_sql_with_checked_names(cli):
    text = cli("database", "roles", "--owner", "boss", "--app", "hand").out
    assert "owner CONSTANT text := 'boss'" in text
    assert "cannot name a role" in cli("database", "roles", "--app", "x'; DROP", code=1).err
    assert "two names" in cli("database", "roles", "--app", "one", "--owner", "one", code=1).err
    assert "it has no roles" in cli("database", "roles", "--apply", code=1).err


FORBIDDEN = (
    "DROP TABLE handoff.task", "ALTER TABLE handoff.task ADD COLUMN x TEXT", "TRUNCATE handoff.event",
    "CREATE TABLE handoff.mine (x INT)", "CREATE TABLE public.mine (x INT)", "CREATE SCHEMA mine",
    "CREATE TEMPORARY TABLE mine (x INT)", "UPDATE handoff.schema_version SET version = 99",
    "CREATE ROLE mine", "DROP TABLE dbos.workflow_status",
    "ALTER TABLE dbos.workflow_status ADD COLUMN x TEXT", "CREATE TABLE dbos.mine (x INT)", "DROP SCHEMA dbos",
)  # fmt: skip


@pytest.mark.slow
def test_the_whole_relay_runs_as_a_role_that_can_only_work_with_rows(repo, server, tmp_path):
    admin = on(repo, server.url(options=server.verified))
    admin("database", "roles", "--apply")
    server.sql(*(f"ALTER ROLE \"{name}\" PASSWORD '{PASSWORD}'" for name in ("handoff-owner", "handoff-app")))
    owner = on(repo, server.url(user="handoff-owner", options=server.verified))
    app = on(repo, server.url(user="handoff-app", options=server.verified))
    script = tmp_path / "agent.toml"
    script.write_text('[[act]]\nrun = "true"\n')
    app("dump", "--task", "first", "--next", "x")
    early = app("work", "--agent", "scripted", "--", str(script), code=1).err
    assert "handoff database migrate" in without_secrets(early)
    assert "up to date" in owner("database", "migrate").out
    admin("database", "roles", "--apply")  # again, over everything that is there now
    started = app("work", "--agent", "scripted", "--detach", "--json", "--", str(script)).json
    try:
        lines = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
        without_secrets("\n".join(lines))
        clock = SystemClock()
        while "done" not in app("show", "first").out:
            clock.sleep(0.1)
    finally:
        app("work", "--stop")
    assert started["supervisor"]
    found = subprocess.run(
        ["grep", "-rlF", "-e", PASSWORD, "-e", IN_ADDRESS, os.environ["HANDOFF_HOME"]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.stdout == "", "no file of the home holds the password"
    for statement in FORBIDDEN:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            server.sql(statement, user="handoff-app")
