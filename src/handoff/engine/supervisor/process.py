"""The supervisor as a process: it runs here until it is told to leave, and says what goes on without it."""

from __future__ import annotations

import os
import signal

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.supervisor.supervisor import Supervisor
from handoff.engine.work import workers

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from handoff.engine.app import App
    from handoff.engine.work.workers import WorkerSettings

_NAMED = 5


def leave_on_signals(supervisor: Supervisor) -> None:
    """A signal ends the supervisor, and another one lets it end when what runs has ended."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: supervisor.leave())
    signal.signal(signal.SIGUSR1, lambda *_: supervisor.drain())


def run(
    app: App,
    worker_settings: WorkerSettings,
    *,
    limit: int,
    drain: bool,
    tell: Callable[[str], None],
    begin: Callable[[Supervisor], None] = leave_on_signals,
) -> str:
    """Be a supervisor until `begin` has it leave; agents go on and the next supervisor attaches to them. `end` comes next.

    What is told last is the answer: what goes on, and what to do about it.
    """
    supervisor = Supervisor(app, worker_settings, limit=limit, tell=tell)
    begin(supervisor)
    if drain:
        supervisor.drain()
    supervisor.run()
    return _last_words(app, supervisor.id)


def _last_words(app: App, id: str) -> str:
    try:
        going = [f"{task.project}/{task.label}" for task in workers.left_running(app)]
    except HandoffError:
        going = []  # the database is away: then nobody can say
    program, number = app.settings.program, len(going)
    if not going:
        return f"Supervisor {id} has ended; nothing it started runs on."
    sessions = "1 session goes" if number == 1 else f"{number} sessions go"
    shown = ", ".join(going[:_NAMED]) + (" …" if number > _NAMED else "")
    return (
        f"Supervisor {id} has ended. {sessions} on: {shown}. The next `{program} work` attaches to them;"
        f" see them: {program} session list"
    )


def end(code: int = 0) -> NoReturn:
    """Leave without waiting: phases in the middle are threads that wait for agents, and the next supervisor takes them over."""
    os._exit(code)
