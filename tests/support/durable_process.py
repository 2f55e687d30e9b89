"""A process that runs durable work for the tests: `URL FOLDER [recover=ID] [again=ID] [die=STEP] [hold=STEP] [enqueue=ID,…] [queue=NAME] [stay=1]`.

With times=N the same is done by N processes at one moment, each with its number behind the names of work and queue.

Each step adds a line to FOLDER/steps; with die=STEP the process kills itself inside that step, once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from handoff.base.clock import SystemClock
from handoff.engine.supervisor import runs
from handoff.store import open_database
from handoff.store.database import is_postgres

STEPS = ("plan", "write", "check")


def engine_at(url: str, database, *, executor: str, folder: str, queue: str = "phases@here"):
    """The engine for a database, as a supervisor has it."""
    log = os.path.join(folder, "engine.log")
    if not is_postgres(url):
        return runs.Runs(
            database, lambda: open_database(url, clock=SystemClock()), executor=executor, queue=queue, log=log
        )
    from handoff.engine.supervisor.durable import Durable

    return Durable(url, executor=executor, queue=queue, lock=os.path.join(folder, "launch.lock"), log=log)


def main(url: str, folder: str, *words: str) -> None:
    requests = dict(word.split("=", 1) for word in words)
    database = open_database(url, clock=SystemClock())
    ended = threading.Event()

    def note(line: str) -> None:
        with open(os.path.join(folder, "steps"), "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def one(name: str) -> str:
        note(f"{name} enter")
        marker = os.path.join(folder, f"died-{name}")
        if requests.get("die") == name and not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        if requests.get("hold") == name:
            note(f"{name} holds")
            threading.Event().wait()
        return name

    def work(label: str, number: int) -> str:
        done = [engine.step(name, lambda name=name: one(name)) for name in STEPS]
        note(f"end {label} {number} {'-'.join(done)}")
        ended.set()
        return label

    queue = requests.get("queue", "phases@here")
    engine = engine_at(url, database, executor=runs.new_executor_id("here", os.getpid()), folder=folder, queue=queue)
    engine.launch({"work": work})
    print(engine.executor, flush=True)
    if "recover" in requests:
        engine.recover(requests["recover"])
        engine.nudge()
        ended.wait(60)
        ended.clear()
    if "again" in requests:
        engine.recover(requests["again"])
        engine.nudge()
    for name in filter(None, requests.get("enqueue", "").split(",")):
        with database.transaction() as transaction:
            engine.enqueue(transaction, name="work", id=name, values=(name, 7))
        engine.nudge()
        ended.wait(60)
        ended.clear()
    if "stay" in requests:
        sys.stdin.read()
    os._exit(0)  # as the supervisor ends: nothing waits for a run in the middle


def at_once(count: int, *words: str) -> int:
    """Fork so many, so that none has a start before the others; the worst exit code."""
    children = []
    for number in range(count):
        child = os.fork()
        if not child:
            main(*(f"{word}{number}" if word.startswith(("enqueue=", "queue=")) else word for word in words))
        children.append(child)
    return max(abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) for child in children)


if __name__ == "__main__":
    if sys.argv[-1].startswith("times="):
        sys.exit(at_once(int(sys.argv[-1].removeprefix("times=")), *sys.argv[1:-1]))
    main(*sys.argv[1:])
