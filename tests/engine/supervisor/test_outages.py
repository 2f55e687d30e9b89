"""The database goes away, or the disk is full, and the relay goes on when they are back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from databases import quick_folder
from own_server import Server
from relay_ground import Ground
from sandbox import absent
from source import ROOT


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory(prefix="pg-", dir=quick_folder(), ignore_cleanup_errors=True) as folder:
        found = Server(folder)
        yield found
        found.stop(signal.SIGQUIT)


@pytest.fixture
def ground(server, repo, tmp_path, monkeypatch):
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS dbos CASCADE")
        connection.execute("DROP SCHEMA IF EXISTS handoff CASCADE")
    monkeypatch.setenv("HANDOFF_DATABASE_URL", server.url)
    found = Ground(str(tmp_path / "ground"), repo.path)
    yield found
    found.close()


def said(ground, process):
    with open(
        os.path.join(ground.folder, f"supervisor-{ground.supervisors.index(process)}.log"), encoding="utf-8"
    ) as file:
        return file.read()


def go(ground):
    with open(os.path.join(ground.folder, "go"), "w", encoding="utf-8"):
        pass


def check_each_done_once(ground, names):
    for name in names:
        task = ground.tasks()[name]
        assert (task.state, task.attempt, task.fence) == ("done", 1, 1), ground.story()
        assert ground.started(name) == 1, ground.story()
        assert ground.count("task.finished", name) == 1
    assert ground.agents() == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT], ids=["killed", "stopped at once"])
def test_sessions_go_on_while_the_database_is_away_and_their_phases_finish_afterwards(ground, server, number):
    names = ("ends-meanwhile", "ends-later")
    wait = "while ! test -e {}; do sleep 0.1; done"
    ground.add(names[0], {"run": wait.format(os.path.join(ground.folder, "go"))})
    ground.add(names[1], {"run": wait.format(os.path.join(ground.folder, "later"))})
    supervisor = ground.supervisor(lease=6.0)
    ground.until(lambda: all(ground.started(name) for name in names), "both agents work")
    server.stop(number)
    try:
        ground.until_seen(lambda: "Waiting:" in said(ground, supervisor), "the supervisor says that it waits")
        go(ground)
        ground.until_seen(lambda: len(ground.sessions()) == 1, "one session has ended meanwhile")
        ground.clock.sleep(3.0)  # a real outage lasts: every part has met it
        assert supervisor.poll() is None
    finally:
        server.start()
    with open(os.path.join(ground.folder, "later"), "w", encoding="utf-8"):
        pass
    ground.until_seen(lambda: "Going on." in said(ground, supervisor), "the supervisor goes on")
    ground.reopen()
    ground.until(ground.done, "both phases are finished")
    ground.until(lambda: not ground.agents(), "no agent is left")
    check_each_done_once(ground, names)
    assert supervisor.poll() is None


@pytest.mark.slow
def test_a_session_without_a_supervisor_that_ends_while_the_database_is_away_is_told_of_once_afterwards(
    ground, server, cli
):
    ground.settings()
    ground.add("alone", {"run": f"while ! test -e {ground.folder}/go; do sleep 0.1; done"})
    script = os.path.join(ground.scripts, "alone.toml")
    starter = cli.start("session", "start", "alone", "--project", "demo", "--agent", "scripted", f"--with={script}")
    ground.until(lambda: ground.started("alone") or starter.poll() is not None, "the agent works")
    server.stop(signal.SIGQUIT)
    try:
        go(ground)
        said = b""
        while b"Waiting:" not in said:
            line = starter.stderr.readline()
            assert line, said
            said += line
        assert not ground.sessions(), "it has ended meanwhile"
    finally:
        server.start()
    out, err = starter.communicate(timeout=60)
    assert starter.returncode == 0, (out, said + err)
    assert said.count(b"Waiting:") == 1
    ground.reopen()
    check_each_done_once(ground, ["alone"])


@pytest.mark.slow
def test_a_database_that_goes_away_during_recovery_is_waited_for(ground, server):
    names = ("one", "two", "three")
    for name in names:
        ground.add(name, {"run": f"while ! test -e {ground.folder}/go; do sleep 0.1; done"})
    first = ground.supervisor()
    ground.until(lambda: all(ground.started(name) for name in names), "all agents work")
    first.kill()
    first.wait()
    second = ground.supervisor()
    ground.until_seen(lambda: ground.works(second), "the next supervisor begins")
    server.stop()  # in the middle of what it takes over
    try:
        go(ground)
        ground.until_seen(lambda: not ground.sessions(), "the agents end meanwhile")
        ground.until_seen(lambda: "Waiting:" in said(ground, second), "the supervisor says that it waits")
    finally:
        server.start()
    ground.reopen()
    ground.until(ground.done, "all phases are finished")
    check_each_done_once(ground, names)


ON_A_SMALL_DISK = 'mount -t tmpfs -o size=6m small "$HANDOFF_HOME" && exec "$@"'


@pytest.mark.slow
def test_a_full_disk_is_said_clearly_leaves_nothing_half_and_is_waited_for(repo, tmp_path):
    """The whole relay runs in a namespace where its home is a disk of six megabytes: no rights are needed for that."""
    home = os.environ["HANDOFF_HOME"]
    os.makedirs(home, exist_ok=True)
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", ON_A_SMALL_DISK, "sh"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        absent("user namespaces")
    script = os.path.join(ROOT, "tests", "support", "full_disk.py")
    done = subprocess.run(
        [*inside, sys.executable, script, str(tmp_path / "ground"), repo.path], capture_output=True, text=True,
        timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "done 1 1 1 1", done.stdout
