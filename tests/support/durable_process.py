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
from handoff.engine.supervisor import durable
from handoff.store.drivers import open_database

STEPS = ("plan", "write", "check")


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
        done = [durable.step(name, lambda name=name: one(name)) for name in STEPS]
        note(f"end {label} {number} {'-'.join(done)}")
        ended.set()
        return label

    engine = durable.Durable(
        url, executor=durable.new_executor_id("here", os.getpid()), queue=requests.get("queue", "phases@here"),
        lock=os.path.join(folder, "launch.lock"), log=os.path.join(folder, "engine.log"),
    )  # fmt: skip
    engine.register({"work": work})
    engine.launch()
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
