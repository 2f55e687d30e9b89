"""A phase: ensure its session, wait, save, judge, move on. Every part may be repeated after a crash and does nothing twice."""

from __future__ import annotations

import os

from handoff.agents import catalog
from handoff.agents.contract import LIMIT, OK, RESULT, TROUBLE, WAIT, Ending
from handoff.agents.contract import Order as AgentOrder
from handoff.agents.outcomes import judge
from handoff.base.errors import Conflict, HandoffError, Refused
from handoff.base.process import find
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import batches, journal, leases, sessions, states, tasks
from handoff.engine import durable, papers, phases_process, views
from handoff.engine import tasks as journey
from handoff.engine.app import App
from handoff.engine.holding import Hold
from handoff.engine.home import home_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.agents.contract import Adapter, Outcome
    from handoff.base.settings import Settings
    from handoff.board.tasks import Task

NAME = "run_phase"
PHASE = "work"
_GRACE_SECONDS = 30.0
_ROW_SECONDS = 1.0
_SHOWN = 300
_TRIES = 5
_WORDS_BYTES = 60_000
_AWAY_SECONDS = 3600.0


class Crew(Record):
    """Which agents a supervisor starts, with which further words; `{task}` in a word is the task's id."""

    agents: tuple[str, ...]
    words: tuple[str, ...] = ()


def id_of(task: Task) -> str:
    """The name of a run: task, phase, fence. The fence grows with every hand-over, so a repeat is harmless."""
    return f"{task.key}:{task.role or PHASE}:{task.fence}"


def runner(settings: Settings, crew: Crew) -> Callable[..., Any]:
    """The durable run of one phase. It composes its own App: a database belongs to a thread."""

    def run_phase(key: int, fence: int, session: str, agent: str) -> str:
        with _opened(settings) as app:
            run = Run(app, crew, key, fence, session, agent)
            ended = durable.step("session", lambda: _patiently(app, run.session_step))
            durable.step("save", lambda: _patiently(app, run.save_step))
            return str(durable.step("settle", lambda: _patiently(app, lambda: run.settle_step(ended))))

    return run_phase


def _patiently(app: App, function: Callable[[], Any]) -> Any:
    """What a step cannot answer itself is a database or a disk that is away: it is repeated when that is back."""
    deadline = app.clock.monotonic() + _AWAY_SECONDS
    while True:
        try:
            return function()
        except HandoffError:
            if app.clock.monotonic() > deadline:
                raise
            app.clock.sleep(_ROW_SECONDS)


class _opened:  # noqa: N801 - reads as a word at its place of use
    def __init__(self, settings: Settings) -> None:
        self.app = App(settings)

    def __enter__(self) -> App:
        return self.app

    def __exit__(self, *_: object) -> None:
        self.app.database.close()


class Run:
    """One phase of one task in the hands of one session."""

    def __init__(self, app: App, crew: Crew, key: int, fence: int, session: str, agent: str) -> None:
        self.app, self.crew = app, crew
        self.key, self.fence, self.session, self.agent = key, fence, session, agent

    # --- the session -----------------------------------------------------------------------------------------

    def session_step(self) -> dict[str, Any]:
        """Ensure, then wait: attach to a living agent, never start a second one, never leave a superseded one alive."""
        task = self._mine()
        if task is None:
            phases_process.settle(self.app, self.key, self.fence, self._project())
            return {"code": None, "tail": "", "why": "the task went on without this session", "until": 0.0}
        phases_process.end_superseded(self.app, self.key, self.fence)
        try:
            folder = phases_process.ensure(self.app, self._order(task))
        except (HandoffError, OSError) as error:
            return {"code": None, "tail": "", "why": f"the session could not be started: {error}", "until": 0.0}
        self._tell_started(task)
        watch = _Watch(self)
        watch.beat(task)  # whoever comes back from a crash finds an old lease
        ended = phases_process.wait(self.app, folder, look=watch.look)
        told = self._outcome(folder, ended)
        until = told.until if told.kind == LIMIT else 0.0
        why = watch.why or ("" if told.kind == OK else told.reason or told.kind)
        return {"code": ended.code, "tail": ended.tail, "why": why, "until": until}

    def _adapter(self) -> Adapter:
        config = home_config(self.app)
        return catalog.adapter(self.agent, commands=config.values["agents"], where=config.path)

    def _outcome(self, folder: str, ended: phases_process.Ended) -> Outcome:
        """How the client came out by its own words and its exit code; a limit of its provider is no failure."""
        adapter = self._adapter()
        result, trouble, until = None, "", 0.0
        for line in phases_process.tail(folder, _WORDS_BYTES).split("\n"):
            for event in adapter.read(line):
                result = event if event.kind == RESULT else result
                trouble = event.text if event.kind == TROUBLE else trouble
                until = event.until if event.kind == WAIT else until
        ending = Ending(ended.code, result, trouble, ended.tail, until)
        return (adapter.outcome or judge)(ending, self.app.clock.now())

    def _order(self, task: Task) -> phases_process.Order:
        app = self.app
        adapter = self._adapter()
        folder = phases_process.folder_of(app, task.project, self.key, self.fence)
        program = next((path for name in adapter.programs if (path := _program(app, name))), "")
        prompt = self._prompt(task)
        words = tuple(word.replace("{task}", task.id) for word in self.crew.words)
        launch = adapter.launch(
            AgentOrder(program or adapter.name, prompt, task.workspace, folder, self.session, words=words)
        )
        environment = {
            **app.settings.environment, **launch.environment, "HANDOFF_HOME": app.settings.home,
            "HANDOFF_SESSION": self.session, "HANDOFF_TASK": task.label, "HANDOFF_PROJECT": task.project,
            "HANDOFF_FENCE": str(self.fence), "HANDOFF_WORKSPACE": task.workspace,
        }  # fmt: skip
        return phases_process.Order(
            self.key, self.fence, task.project, task.workspace, prompt, launch.argv, environment, launch.files
        )

    def _prompt(self, task: Task) -> str:
        batch = batches.get(self.app.database, key=task.batch) if task.batch is not None else None
        parts = tasks.of_batch(self.app.database, batch=task.batch) if task.batch is not None else []
        parts = [part for part in parts if part.kind != tasks.FAN_IN]
        return papers.baton(self.app, home_config(self.app), task, batch=batch, parts=parts)

    def _tell_started(self, task: Task) -> None:
        with self.app.database.transaction() as transaction:
            told = transaction.one("get_session", id=self.session)
            if told is None or told["kind"] != sessions.AGENT:
                return
            journal.append(transaction, "session.running", task=task, session=self.session, agent=self.agent)
        views.refresh(self.app, task.project)

    def mine(self) -> Task | None:
        return self._mine()

    def _mine(self) -> Task | None:
        """The task while this session holds it."""
        task = tasks.get(self.app.database, key=self.key)
        return task if task.fence == self.fence and task.state == states.RUNNING else None

    def _project(self) -> str:
        return tasks.get(self.app.database, key=self.key).project

    # --- what comes of it ------------------------------------------------------------------------------------

    def save_step(self) -> str:
        """Keep the whole working tree as the session left it, whatever it did."""
        task = tasks.get(self.app.database, key=self.key)
        if not os.path.isdir(os.path.join(task.workspace, ".git")) and not os.path.isfile(
            os.path.join(task.workspace, ".git")
        ):
            return ""
        from handoff.engine import snapshots  # noqa: PLC0415 - only where there is a repository
        from handoff.git.snapshots import Wish  # noqa: PLC0415

        try:
            vault = snapshots.open_vault(self.app, folder=task.workspace)
            taken = snapshots.snapshot(self.app, vault=vault, wish=Wish("phase", session=self.session))
        except HandoffError as error:
            return f"not saved: {error.message}"
        return str(taken.sha)

    def settle_step(self, ended: dict[str, Any]) -> str:
        """Move the task on by what the evidence says. A task that has moved on already is left as it is."""
        task = self._mine()
        verdict = "the task went on by itself" if task is None else self._judge(task, ended)
        project = self._project()
        phases_process.settle(self.app, self.key, self.fence, project)
        sessions.end(self.app.database, id=self.session, ending=verdict[:_SHOWN])
        views.refresh(self.app, project)
        return verdict

    def _judge(self, task: Task, ended: dict[str, Any]) -> str:
        if ended.get("until"):
            return self._wait_for_provider(task, ended["why"], ended["until"])
        if ended["why"]:
            return self._hand_back(ended["why"])
        try:
            journey.finish(self.app, Hold(task, self.fence, self.session), summary=ended["tail"][-_SHOWN:])
        except Refused as error:
            return self._hand_back(error.message)
        except Conflict as error:
            return error.message
        return "done"

    def _wait_for_provider(self, task: Task, reason: str, until: float) -> str:
        """The attempt does not count: the same task may start again when the provider's limit is over."""
        try:
            with self.app.database.transaction() as transaction:
                leases.release(transaction, key=task.key, fence=self.fence, reason=reason)
                tasks.edit(transaction, key=task.key, not_before=until, session=self.session)
        except Conflict as error:
            return error.message
        return reason

    def _hand_back(self, reason: str) -> str:
        for _ in range(_TRIES):  # a sign of life in between changes the lease that is compared
            task = self._mine()
            if task is None or leases.hand_back(self.app.database, task=task, reason=reason) is not None:
                break
        return reason


class _Watch:
    """What is looked at while an agent works: whose the task is, and whether the agent shows signs of life."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._clock = run.app.clock
        self._row_at = self._beat_at = self._clock.monotonic()
        self._size = -1
        self._left_at: float | None = None
        self.why = ""

    def look(self, size: int) -> bool:
        """False when the session must end: its task has another holder, or was reported and the agent does not stop."""
        now = self._clock.monotonic()
        if now - self._row_at < _ROW_SECONDS:
            return True
        self._row_at = now
        task = self._run.mine()
        if task is not None:
            self._left_at = None
            self._show_life(task, size, now)
            return True
        state = tasks.get(self._run.app.database, key=self._run.key)
        if state.fence == self._run.fence and state.state in (states.DONE, states.BLOCKED, states.GATED):
            # It has reported; most agents say a last word and end by themselves.
            self._left_at = now if self._left_at is None else self._left_at
            if now - self._left_at < _GRACE_SECONDS:
                return True
        self.why = "the task was taken from this session"
        return False

    def _show_life(self, task: Task, size: int, now: float) -> None:
        """Words in the log are a sign of life; a silent agent's lease runs out."""
        every = min(60.0, task.lease_seconds / 4)
        if size == self._size or now - self._beat_at < every:
            return
        self._size, self._beat_at = size, now
        self.beat(task)

    def beat(self, task: Task) -> None:
        """Renew the lease in the session's name."""
        try:
            leases.heartbeat(self._run.app.database, key=task.key, fence=task.fence)
        except Conflict:
            return  # the next look finds out who has it


def _program(app: App, name: str) -> str:
    if os.path.isabs(name):
        return name if os.access(name, os.X_OK) else ""
    return find(name, path=app.settings.path) or ""
