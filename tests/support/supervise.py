"""Supervisors for tests, as processes. A plan names agents, pace and the points at which it is to be killed.

One process imports everything and forks for each plan it reads, because a supervisor takes longer to start than to do what
these tests ask of it. How each ended is written beside its plan.
"""

from __future__ import annotations

import json
import os
import select
import signal
import threading

import deadly
from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.supervisor.supervisor import Pace, Supervisor
from handoff.engine.work.workers import WorkerSettings


def work(plan_path: str) -> None:
    """Be the supervisor of one plan."""
    with open(plan_path, encoding="utf-8") as file:
        plan = json.load(file)
    log = os.open(plan["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.chdir(plan["cwd"])
    os.environ.clear()
    os.environ.update(plan["environment"])
    app = App(from_environment())
    if plan["points"]:
        home = app.settings.home if plan["host"] else ""
        deadly.arm(plan["points"], plan["folder"], with_sessions_of=home)
    supervisor = Supervisor(
        app, WorkerSettings(tuple(plan["agent"].split(",")), tuple(plan["words"]), tuple(plan.get("labels", ()))), limit=plan["limit"],
        tell=lambda text: os.write(1, f"{text}\n".encode()) and None, pace=Pace(**plan["pace"]),
    )  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: supervisor.leave())
    supervisor.run()


def nursery() -> None:
    """Fork for each plan on the standard input; say how each came out; end when the input does."""
    children: dict[int, str] = {}
    started = set(threading.enumerate())
    while True:
        ready, _, _ = select.select([0], [], [], 0.02 if children else None)
        while children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            _tell(children.pop(pid) + ".exit", os.waitstatus_to_exitcode(status))
        if not ready:
            continue
        line = _line()
        if not line:
            return
        assert set(threading.enumerate()) == started, "only a process without threads may fork"
        child = os.fork()
        if not child:
            code = 70
            try:
                work(line)
                code = 0
            except BaseException:  # noqa: BLE001 - the log tells the test
                import traceback

                traceback.print_exc()
            os._exit(code)
        children[child] = line
        _tell(line + ".pid", child)


def _line() -> str:
    found = b""
    while not found.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return ""
        found += byte
    return found.decode().strip()


def _tell(path: str, number: int) -> None:
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(str(number))
    os.rename(path + ".new", path)


if __name__ == "__main__":
    nursery()
