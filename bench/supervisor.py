"""The supervisor: from `dump` to a running process, idle cost, waiting gates, a long queue. Real processes on a SQLite file."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time

import psutil

from handoff.base.settings import from_environment
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import pauses
from handoff.board.tasks import tasks
from handoff.engine.app import App
from handoff.engine.place.fanout import views

Row = tuple[str, str, str]
MAIN = [sys.executable, "-m", "handoff.surfaces.cli.main"]
DUMPS = 15
IDLE_SECONDS = 10.0
GATES = 300
GAPS = 12
FEW, MANY = 10 + GAPS, 10_000


@contextlib.contextmanager
def relay(*, limit: int = 8):
    """A home, a checkout and a running supervisor whose agent is a program that ends at once."""
    with tempfile.TemporaryDirectory(prefix="ho-bench-", ignore_cleanup_errors=True) as folder:
        home, checkout = os.path.join(folder, "home"), os.path.join(folder, "shop")
        os.makedirs(home)
        os.makedirs(checkout)
        with open(os.path.join(home, "config.toml"), "w", encoding="utf-8") as file:
            file.write('agents = { quick = ["true"] }\nstarts_per_minute = 100000\n')
        environment = {**os.environ, "HANDOFF_HOME": home}
        environment.pop("HANDOFF_DATABASE_URL", None)
        app = App(from_environment()._replace(home=home, environment=environment))
        process = None

        def start() -> psutil.Process:
            nonlocal process
            with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
                process = subprocess.Popen(
                    [*MAIN, "work", "--agent", "quick", "--max", str(limit)], env=environment, cwd=checkout, stdout=log,
                    stderr=log, stdin=subprocess.DEVNULL,
                )  # fmt: skip
            while " works with " not in open(os.path.join(folder, "log"), encoding="utf-8").read():  # noqa: SIM115
                assert process.poll() is None, open(os.path.join(folder, "log"), encoding="utf-8").read()  # noqa: SIM115
                time.sleep(0.05)
            return psutil.Process(process.pid)

        try:
            yield app, environment, checkout, start
        finally:
            if process is not None:
                process.terminate()
                process.wait()
            app.database.close()


def until(true) -> None:
    while not true():
        time.sleep(0.02)


def from_dump_to_process() -> list[Row]:
    """How long after its row a task has its process, and after the start of the `dump` command."""
    after_row, after_command = [], []
    with relay() as (app, environment, checkout, start):
        start()
        for number in range(DUMPS):
            started = time.time()
            subprocess.run(
                [*MAIN, "dump", "--task", f"task-{number}", "--next", "do it", "--check", "true"], env=environment,
                cwd=checkout, check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            until(lambda name=f"task-{number}": tasks.find(app.database, project="shop", id=name).ended)
            task = tasks.find(app.database, project="shop", id=f"task-{number}")
            moment = born(app, task)
            after_row.append(moment - task.created_at)
            after_command.append(moment - started)
    return [
        ("row of a dumped task to its session's process, median", _ms(statistics.median(after_row)), "100 ms"),
        ("the same, slowest of fifteen", _ms(max(after_row)), "-"),
        ("start of the dump command to that process, median", _ms(statistics.median(after_command)), "-"),
    ]


def born(app: App, task: tasks.Task) -> float:
    """When the monitor had started the agent's own process."""
    claimed = next(event for event in journal.of_task(app.database, key=task.key) if event.kind == "task.claimed")
    return os.stat(os.path.join(app.settings.home, "shop", "sessions", claimed.session, "process.json")).st_mtime


def idle_and_gates() -> list[Row]:
    """What a supervisor costs that has nothing to do, alone and with three hundred tasks that wait for a person."""
    with relay() as (app, _, checkout, start):
        supervisor = start()
        time.sleep(2.0)
        alone, threads = _share(supervisor), supervisor.num_threads()
        pauses.pause(app.database, reason="nothing is to start while the gates are made")
        for number in range(GATES):
            task = tasks.add(app.database, project="shop", id=f"gate-{number}", brief="wait", workspace=checkout)
            gates.ask(app.database, key=task.key, question="Go on?")
        pauses.resume(app.database)
        time.sleep(12.0)  # the watchdog's round that writes their files is over
        with_gates, more = _share(supervisor), supervisor.num_threads()
        memory = supervisor.memory_info().rss / 1e6
    return [
        ("supervisor, idle: share of a core", f"{alone:.1%}", "3.0%"),
        ("the same with 300 waiting gates", f"{with_gates:.1%}", "-"),
        ("threads, idle and with 300 gates", f"{threads} and {more}", "no more"),
        ("memory of an idle supervisor", f"{memory:.0f} MB", "-"),
    ]


def _share(process: psutil.Process) -> float:
    before, started = process.cpu_times(), time.monotonic()
    time.sleep(IDLE_SECONDS)
    after, spent = process.cpu_times(), time.monotonic() - started
    return (after.user + after.system - before.user - before.system) / spent


def long_queue() -> list[Row]:
    """The pause between the end of one task and the claim of the next, with a short queue and with a long one."""
    found = {}
    for count in (FEW, MANY):
        with relay(limit=1) as (app, _, checkout, start):
            with app.database.transaction() as transaction:
                for number in range(count):
                    tasks.add(
                        transaction, project="shop", id=f"task-{number}", brief="do it", workspace=checkout,
                        check_command="true",
                    )  # fmt: skip
            views.refresh(app, "shop")
            start()
            until(lambda app=app: claims(app) > GAPS)
            found[count] = _gap(app)
    return [
        ("end of a task to the claim of the next, 22 queued", _ms(found[FEW]), "-"),
        ("the same, 10,000 queued", f"{_ms(found[MANY])} ({found[MANY] / found[FEW]:.1f}x)", "2x"),
    ]


def claims(app: App) -> int:
    return sum(event.kind == "task.claimed" for event in journal.last(app.database, limit=100))


def _gap(app: App) -> float:
    ended, gaps = 0.0, []
    for event in journal.last(app.database, limit=100):
        if event.kind == "task.finished":
            ended = event.at
        elif event.kind == "task.claimed" and ended:
            gaps.append(event.at - ended)
    return statistics.median(gaps[:GAPS])


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def rows() -> list[Row]:
    """Every figure, one below the other."""
    return [*from_dump_to_process(), *idle_and_gates(), *long_queue()]


if __name__ == "__main__":
    for line in rows():
        print(*line, sep=" | ")
