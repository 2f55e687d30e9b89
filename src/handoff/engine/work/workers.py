"""Who works here, seen from outside: leave a supervisor in the background, ask how they are, and end them."""

from __future__ import annotations

import os
import signal

from handoff.agents import catalog
from handoff.base.clock import age
from handoff.base.errors import HandoffError, UserError, need
from handoff.base.files import make_folder
from handoff.base.process import detach as detach_process
from handoff.base.process import is_running, own_argv
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.sessions import executors, holds, pauses
from handoff.board.tasks import batches, requirements, states, tasks
from handoff.engine.app.home import home_config, labels_of
from handoff.engine.features.status import look
from handoff.engine.place import publish, pulse
from handoff.engine.session import spending
from handoff.engine.session.agents import program_of
from handoff.engine.work import stopping
from handoff.store.database import is_postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from handoff.board.sessions.executors import Executor
    from handoff.board.sessions.holds import Hold
    from handoff.board.tasks.requirements import Unserved
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_PAUSE = 0.05
_SHOWN = 200
_NAMED = 5
_APART = """
out=$1; shift
exec "$@" < /dev/null >> "$out" 2>&1
"""


class WorkerSettings(Record):
    """Which agents a supervisor starts, with which extra arguments; `{task}` in a word is the task's id: see `flows.fill_in`."""

    agents: tuple[str, ...]
    words: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    project: str = ""
    """The only project it serves; empty: all of the machine."""
    workspace: str = ""
    """Where its sessions work; empty: as the settings say."""
    most: tuple[tuple[str, int], ...] = ()
    """How many sessions of an agent may run at once, where that is not as the settings say."""
    until: int = 0
    """The batch it ends with, by its key; 0: it works until it is told to end."""
    until_done: bool = False
    """Whether it ends once nothing runs and nothing more can start by itself."""


class BackgroundSupervisor(Record):
    """A supervisor that works in the background."""

    id: str
    pid: int
    log: str


class SupervisorStatus(Record):
    """Who works and on what, at one moment."""

    supervisors: list[dict[str, Any]]
    running: list[Task]
    ready: int
    gates: int
    batches: list[dict[str, Any]]
    stops: list[str]
    unserved: list[Unserved]
    unpublished: list[str]
    holds: list[Hold]
    """Agents and tasks that are not started for now, for no fault of an agent's."""
    spent_up: str = ""
    """Why no session may start for its cost, or nothing."""
    plan: dict[str, Any] = {}  # noqa: RUF012 - never written to
    """The feature of this folder and how far its plan is, or nothing."""


def worker_settings(
    app: App,
    *,
    agents: Sequence[str],
    words: Sequence[str],
    labels: str = "",
    project: str = "",
    in_checkout: bool = False,
    until: str = "",
    until_done: bool = False,
) -> WorkerSettings:
    """What a supervisor is told, checked before anything is started."""
    most, batch = name_workers(app, agents, project=project, until=until)
    workspace = "shared" if in_checkout else ""
    return WorkerSettings(
        agents=tuple(most),
        words=tuple(words),
        labels=labels_of(app, said=labels),
        project=project,
        workspace=workspace,
        most=tuple((name, count) for name, count in most.items() if count),
        until=batch,
        until_done=until_done,
    )


def need_engine(app: App) -> None:
    """Say what a supervisor lacks before anything has begun: nothing where the database is a file, else perhaps dbos."""
    if is_postgres(app.database_url):
        need("dbos", "A supervisor on Postgres", extra="postgres")


def name_workers(app: App, agents: Sequence[str], *, project: str, until: str) -> tuple[dict[str, int], int]:
    """The agents by name, `claude=2` for two at once, and the batch to end with; an unknown one is an error before anything is said."""
    need_engine(app)
    config = home_config(app)
    most = dict(_counted(agent) for agent in agents)
    for name in most:
        adapter = catalog.adapter(name, commands=config.values["agents"], where=config.path)
        if adapter.programs and not any(program_of(app, program) for program in adapter.programs):
            raise UserError(
                f"{adapter.title} is not installed: no '{adapter.programs[0]}' on the PATH.",
                f"Install it, or let this machine work with another: {app.settings.program} agent list",
            )
    return most, batches.find(app.database, project=project, id=until).key if until else 0


def _counted(agent: str) -> tuple[str, int]:
    """`claude=2` as its name and its number; 0 where none is said."""
    name, equals, number = agent.partition("=")
    if equals and not (number.isdecimal() and int(number) > 0):
        raise UserError(f"'{agent}' does not say how many.", f"For example: {name}=2, or {name} alone")
    return name, int(number or 0)


def left_running(app: App) -> list[Task]:
    """What sessions started here still work on."""
    keys = {trace.key for trace in pulse.listing(app)}
    found = [task for task in tasks.listing(app.database, state=states.RUNNING, limit=_SHOWN) if task.key in keys]
    return [one for one in found if not pulse.ending_of(app, project=one.project, session=one.held_by or "")]


def is_stuck(app: App, project: str) -> bool:
    """Whether something of the project, or of all, waits for a person; what is still ready when nothing runs does too."""
    waits = (states.BLOCKED, states.GATED, states.READY)
    return any(tasks.count(app.database, project=project, state=state) for state in waits)


def words_of(
    worker_settings: WorkerSettings, *, limit: int = 0, drain: bool = False, until: str = ""
) -> tuple[str, ...]:
    """The words behind `work` that start such a supervisor."""
    most = dict(worker_settings.most)
    named = [f"{name}={most[name]}" if name in most else name for name in worker_settings.agents]
    options = [option for name in named for option in ("--agent", name)]
    options += ["--max", str(limit)] if limit else []
    options += ["--drain"] if drain else []
    options += ["--labels", ",".join(worker_settings.labels)] if worker_settings.labels else []
    options += ["--project", worker_settings.project] if worker_settings.project else ["--all-projects"]
    options += ["--in-checkout"] if worker_settings.workspace else []
    options += ["--until", until] if until else []
    options += ["--until-done"] if worker_settings.until_done else []
    return (*options, *(("--", *worker_settings.words) if worker_settings.words else ()))


def detach(
    app: App, worker_settings: WorkerSettings, *, limit: int = 0, drain: bool = False, until: str = ""
) -> BackgroundSupervisor:
    """The same in the background; returns when it has introduced itself."""
    folder = os.path.join(app.settings.home, "logs")
    make_folder(folder)
    log = os.path.join(folder, "work.log")
    words = (*own_argv(), "work", *words_of(worker_settings, limit=limit, drain=drain, until=until))
    pid = detach_process(["/bin/sh", "-c", _APART, "handoff-work", log, *words], environment=app.settings.environment)
    deadline = app.clock.monotonic() + _START_SECONDS
    while app.clock.monotonic() < deadline:
        for one in executors.listing(app.database, host=app.settings.host):
            if one.pid == pid and one.state == executors.ALIVE:
                return BackgroundSupervisor(one.id, pid, log)
        if not is_running(pid):
            break
        app.clock.sleep(_PAUSE)
    raise UserError("The supervisor did not begin.", f"See why: {log}")


def serve(app: App, worker_settings: WorkerSettings, *, until: str) -> BackgroundSupervisor | None:
    """Have somebody work for the batch `until`: None where one works here already that stays, with all these agents."""
    offers = requirements.offers(app.database)
    for one in executors.listing(app.database, host=app.settings.host):
        has = offers.get(one.id, {})
        serves = set(has.get(requirements.PROJECT, ())) <= {worker_settings.project}
        able = set(worker_settings.agents) <= set(has.get(requirements.AGENT, ()))
        if (
            executors.lives(one, host=app.settings.host)
            and serves
            and able
            and not has.get(requirements.UNTIL)
            and not worker_settings.words
        ):
            return None
    return detach(app, worker_settings, until=until)


def is_served(app: App, project: str, *, by: str = "", on: str = "") -> bool:
    """Whether a supervisor lives that starts sessions for the project, on this machine or another; of one agent, on one host."""
    offers = requirements.offers(app.database)
    return any(
        executors.lives(one, host=app.settings.host)
        and set(offers.get(one.id, {}).get(requirements.PROJECT, ())) <= {project}
        and (not by or by in offers.get(one.id, {}).get(requirements.AGENT, ()))
        for one in executors.listing(app.database, host=on)
    )


def status(app: App, *, project: str = "") -> SupervisorStatus:
    """Supervisors, what runs and what waits in a project or in all, and how far the plan of this folder's feature is."""
    store = app.database
    spent_up, plan = spending.spent_up(app), _plan(app)
    with store.transaction(write=False) as transaction:
        now = transaction.now()
        offers, counts = requirements.offers(transaction), batches.counts(transaction)
        found = [
            {
                "id": one.id,
                "host": one.host,
                "pid": one.pid,
                "age": age(now - one.started_at),
                "state": _state(app, one),
                "project": next(iter(offers.get(one.id, {}).get(requirements.PROJECT, [])), ""),
                "agents": offers.get(one.id, {}).get(requirements.AGENT, []),
                "labels": offers.get(one.id, {}).get(requirements.LABEL, []),
            }
            for one in executors.listing(transaction)
        ]
        return SupervisorStatus(
            supervisors=found,
            running=tasks.listing(transaction, project=project, state=states.RUNNING, limit=_SHOWN),
            ready=tasks.count_ready(transaction, project=project)["ready"],
            gates=len(gates.listing(transaction, project=project)),
            batches=[
                {
                    "project": one.project,
                    "id": one.id,
                    "total": one.total,
                    "remaining": one.remaining,
                    **counts.get(one.key, {"done": 0, "blocked": 0}),
                }
                for one in batches.listing(transaction, project=project, limit=_SHOWN)
            ],
            stops=[f"{stop.words} ({stop.reason or 'no reason given'})" for stop in pauses.listing(transaction)],
            unserved=requirements.unserved(transaction, project=project),
            unpublished=publish.troubles(app),
            holds=holds.listing(transaction),
            spent_up=spent_up,
            plan=plan,
        )


def _plan(app: App) -> dict[str, Any]:
    try:
        view = look(app)
    except HandoffError:
        return {}  # no feature here, or one that others will complain of
    total = view.plan.done + view.plan.left
    return {"feature": view.feature.name, "done": view.plan.done, "total": total} if total else {}


def _state(app: App, one: Executor) -> str:
    if executors.lives(one, host=app.settings.host):
        return "alive"
    return "ended, what it started goes on" if one.state == executors.LEFT else "lost, to be taken over"


def conclude_left(app: App, *, tell: Callable[[str], None]) -> list[str]:
    """After the supervisors have ended: what is over is concluded, so that nothing counts as running; which sessions go on."""
    for one in pulse.left_behind(app):
        tell(f"Session {one.id} has ended; what it made is judged now.")
        stopping.settle(app, session=one.id)
    return [task.held_by or "" for task in left_running(app)]


def stop(app: App, *, drain: bool = False) -> list[str]:
    """Ask the supervisors of this machine to end, and see them off; with `drain` they end when what runs has ended."""
    found = [one for one in executors.listing(app.database, host=app.settings.host) if executors.is_here(one)]
    for one in found:
        os.kill(one.pid, signal.SIGUSR1 if drain else signal.SIGTERM)
    deadline = app.clock.monotonic() + _STOP_SECONDS
    while not drain and any(executors.is_here(one) for one in found):
        if app.clock.monotonic() > deadline:
            left = next(one for one in found if executors.is_here(one))
            raise UserError(
                f"Supervisor {left.id} does not end (process {left.pid}).", f"It can be killed: kill -9 {left.pid}"
            )
        app.clock.sleep(_PAUSE)
    return [one.id for one in found]
