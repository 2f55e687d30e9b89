"""The runs of phases: how far each got, so that whoever comes after a crash goes on there; what a phase is, and when one may start.

Where the database is a file the runs are rows of the relay and threads of this process. On a server `durable.py` does the same with dbos.
"""

from __future__ import annotations

import json
import os
import threading
import traceback
import uuid
from collections import deque

from handoff.agents.contract import CLIENT, ENVIRONMENT, FAILED, LOST, OK, AgentOutcome
from handoff.base import files
from handoff.base.clock import SystemClock, boot_id
from handoff.base.errors import Away, Conflict, HandoffError
from handoff.base.ids import new_id
from handoff.base.record import TYPE_CHECKING
from handoff.board.sessions import executors, host_leases, leases, sessions
from handoff.board.tasks import states, tasks
from handoff.engine.app import App
from handoff.engine.app.home import home_config
from handoff.engine.place import running
from handoff.engine.place.proof.faults import GroundFault
from handoff.engine.session import conclude, placement, spending, start
from handoff.engine.session.agents import NotInstalled
from handoff.engine.work.flows.flows import fill_in
from handoff.store.database import SQLITE, Contended, beside_others

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from handoff.base.settings import Settings
    from handoff.board.sessions.leases import Claim
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import Once
    from handoff.engine.work.workers import WorkerSettings
    from handoff.store.database import Database, Store, Transaction

    class Engine(Protocol):
        """What a supervisor asks of its runs. There is one in a process."""

        away: tuple[type[Exception], ...]
        """What every verb may raise while the database is away, beside our own `Away`."""

        def launch(self, functions: Mapping[str, Callable[..., Any]]) -> None:
            """Begin to take work; `functions` are what may be asked for, by names that never change."""

        def enqueue(self, transaction: Transaction, *, name: str, id: str, values: tuple[Any, ...]) -> None:
            """Ask for a run of `name` in our own transaction: both are there after the commit, or neither. A repeat is harmless."""

        def nudge(self) -> int:
            """Begin what is asked for; how many runs began."""

        def step(self, name: str, function: Callable[[], Any]) -> Any:
            """One step of a run: done once it is recorded, done again if the process died before."""

        def recover(self, executor: str) -> int:
            """Take over what a lost executor ran; repeating it does nothing."""

        def listing(self, *, executor: str = "", live: bool = True) -> Sequence[Any]:
            """Runs that are not over, at will those of one executor alone; or all that are not forgotten."""

        def delete(self, *, before: float) -> int:
            """Forget runs that ended before a moment."""

        def close(self) -> None:
            """Stop taking work. Runs in the middle stay for whoever recovers them."""


PROTOCOL = "wf1"
"""The version of our phases: it changes only when their steps change in a way that running ones cannot follow."""
_PAUSE = 0.5


def new_executor_id(host: str, pid: int) -> str:
    """host:pid:random, never used again."""
    return f"{host}:{pid}:{uuid.uuid4().hex[:12]}"


class _TakenOverError(Exception):
    """The run is in other hands, which go on with it: nothing more may be done for it here."""


class _Run(threading.local):
    """The run that this thread is in."""

    id = ""
    database: Database
    outputs: dict[str, Any]


class Runs:
    """Each run is a row, which says who has it and what its steps gave, and a thread of this process."""

    away: tuple[type[Exception], ...] = ()

    def __init__(
        self, database: Database, open_another: Callable[[], Database], *, executor: str, queue: str, log: str = ""
    ) -> None:
        self.executor, self.queue = executor, queue
        self._database, self._open, self._log = database, open_another, log
        self._functions: Mapping[str, Callable[..., Any]] = {}
        self._begun: set[str] = set()
        self._run = _Run()

    def launch(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._functions = functions

    def enqueue(self, transaction: Transaction, *, name: str, id: str, values: tuple[Any, ...]) -> None:
        executors.ask_run(transaction, id=id, queue=self.queue, version=PROTOCOL, name=name, inputs=json.dumps(values))

    def nudge(self) -> int:
        begun = set(self._begun)  # read before the rows: one that ends meanwhile must not look as if it had not begun
        taken = executors.take_runs(self._database, queue=self.queue, version=PROTOCOL, executor=self.executor)
        fresh = [run for run in taken if run.id not in begun]  # with those that we took when the answer was lost
        for run in fresh:
            self._begun.add(run.id)
            threading.Thread(target=self._go, args=(run,), name=f"run {run.id}", daemon=True).start()
        return len(fresh)

    def _go(self, run: executors.RunRow) -> None:
        """A whole run, from where it stands, on a thread and a connection of its own."""
        try:
            database = self._open()
            try:
                self._run.id, self._run.outputs, self._run.database = run.id, json.loads(run.outputs), database
                if state := self._state_after(run):
                    self._patiently(lambda: executors.end_run(database, id=run.id, executor=self.executor, state=state))
            finally:
                database.close()
        except Exception:  # noqa: BLE001 - the row is still ours: the next nudge begins it again
            self._tell(traceback.format_exc())
        finally:
            self._begun.discard(run.id)

    def _state_after(self, run: executors.RunRow) -> str:
        try:
            self._functions[run.name](*json.loads(run.inputs))
        except _TakenOverError:
            return ""  # its row is another's, or ours once more: whoever has it begins it anew
        except Exception:  # noqa: BLE001 - the lease of its task tells everybody else
            self._tell(traceback.format_exc())
            return executors.RUN_FAILED
        return executors.RUN_DONE

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        mine = self._run
        if name not in mine.outputs:
            outputs = {**mine.outputs, name: function()}
            text = json.dumps(outputs)
            if not self._patiently(
                lambda: executors.keep_step(mine.database, id=mine.id, executor=self.executor, outputs=text)
            ):
                raise _TakenOverError
            mine.outputs = outputs
        return mine.outputs[name]

    def _patiently(self, write: Callable[[], bool]) -> bool:
        """What a run did is done: while the disk is full it waits to be recorded."""
        while True:
            try:
                return write()
            except (Away, Contended):
                SystemClock().sleep(_PAUSE)

    def _tell(self, text: str) -> None:
        """A fault of ours goes to a file; a person's terminal is for what they asked for."""
        if self._log:
            files.make_folder(os.path.dirname(self._log))
            with open(self._log, "a", encoding="utf-8") as file:
                file.write(text)

    def recover(self, executor: str) -> int:
        return executors.free_runs(self._database, executor=executor)

    def listing(self, *, executor: str = "", live: bool = True) -> Sequence[executors.RunRow]:
        return executors.list_runs(self._database, executor=executor, live=live)

    def delete(self, *, before: float) -> int:
        return executors.prune_runs(self._database, before=before)

    def close(self) -> None:
        self._functions = {}


NAME = "run_phase"
PHASE = "work"
_MINUTE = 60.0
_AT_ONCE = 32
_SHORTEST_LOOK, _LONGEST_LOOK, _STOPPED_LOOK = 0.005, 1.0, 5.0
_TOLD_SECONDS = 0.5


def run_id_of(task: Task) -> str:
    """The name of a run: task, phase, fence. The fence grows with every hand-over, so a repeat is harmless."""
    return f"{task.key}:{task.role or PHASE}:{task.fence}"


class PhaseStarts:
    """What a supervisor may start now, and how it waits for more: claims and their durable runs, within every limit."""

    def __init__(
        self, app: App, worker_settings: WorkerSettings, engine: Engine, *, limit: int, tell: Callable[[str], None]
    ) -> None:
        self.app, self.worker_settings, self.engine, self._tell = app, worker_settings, engine, tell
        config = home_config(app)
        self._lease_seconds = config.number("lease_seconds")
        self._starts_a_minute = int(config.number("starts_per_minute"))
        self._max = limit or int(config.number("max_running"))
        self._max_project = int(config.number("max_running_project"))
        self._max_agent = {**config.values["max_running_agent"], **dict(worker_settings.most)}
        self._starts: deque[float] = deque()
        self._spent_up = ""
        self._pause = _SHORTEST_LOOK
        self._looked = float("-inf")
        """When a server was asked for work last and had none."""
        self._stopped = False
        self._under_way: set[str] = set()
        """Sessions whose runs we asked for and have not heard the end of."""
        self.bell = threading.Event()
        """Rung by a run that has ended: its place is free."""

    def begun(self, *sessions: str) -> None:
        """Their runs were asked for."""
        self._under_way.update(sessions)

    def ended(self, session: str) -> None:
        """A run is over, whoever had asked for it."""
        self._under_way.discard(session)
        self.bell.set()

    def heed(self, *, stopped: bool) -> None:
        """Whether a person has stopped everything: then a server is asked every few seconds, and at once when it goes on."""
        if self._stopped and not stopped:
            self._pause, self._looked = _SHORTEST_LOOK, float("-inf")
        self._stopped = stopped

    def _is_full(self) -> bool:
        """No place is free as far as we know. Another supervisor of this host may have taken a run of ours: we look all the same, but seldom."""
        return self.app.database.kind != SQLITE and 0 < self._max <= len(self._under_way)

    def fill(self) -> int:
        """Start what may start now, the most urgent first; how many. A server that had nothing a moment ago is not asked again."""
        if self.app.clock.monotonic() - self._looked < self._pause and not self.bell.is_set():
            return 0
        started = 0
        for agent in self.worker_settings.agents:
            while not self._is_full() and (most := self._may_start()) and not self._is_spent_up():
                claims = self._claim(agent, most)
                if not claims:
                    break
                self._starts.extend([self.app.clock.monotonic()] * len(claims))
                self.engine.nudge()
                started += len(claims)
        if started:
            self._pause = _SHORTEST_LOOK
        return started

    def wait(self, seconds: float, *, asking: bool, leaving: threading.Event) -> bool:
        """Until there may be something to start, or so long, or until told to leave. Busy: at once. Idle: a look each second; stopped
        by a person: every five. True when there is, or when one of our own runs has ended.

        A file tells by a counter that somebody wrote. A server with many hosts is not asked whether anybody wrote, only whether
        there is work that this host can take; what nobody of us can take wakes nobody.
        """
        if self.app.database.kind == SQLITE:
            self.app.database.wait_for_change(min(seconds, _TOLD_SECONDS))
            return False
        clock = self.app.clock
        longest = _STOPPED_LOOK if self._stopped else _LONGEST_LOOK
        if self._stopped or self._is_full():
            self._pause = longest
        now = clock.monotonic()
        deadline, look_at = now + seconds, (self._looked if now - self._looked < self._pause else now) + self._pause
        while (left := deadline - clock.monotonic()) > 0 and not leaving.is_set():
            if self.bell.wait(max(0.0, min(look_at - clock.monotonic(), left, _TOLD_SECONDS))):
                self.bell.clear()
                self._pause, self._looked = _SHORTEST_LOOK, float("-inf")
                return True
            if clock.monotonic() < look_at:
                continue
            self._pause = min(self._pause * 2, longest)  # `fill` makes it short again, if there was anything
            look_at = clock.monotonic() + self._pause
            if asking and self._may_start() and not self._spent_up:
                if self._has_next():
                    self._looked = float("-inf")
                    if self._is_full():
                        self._under_way.clear()  # the rows know better
                    return True
                self._looked = clock.monotonic()
        return False

    def _has_next(self) -> bool:
        project = self.worker_settings.project
        return any(
            leases.has_next(self.app.database, who=self._new(agent), project=project, limits=self._limits(agent))
            for agent in self.worker_settings.agents
        )

    def _is_spent_up(self) -> bool:
        """Said when it begins and when it ends, in the log and by `work --status`."""
        why = spending.spent_up(self.app)
        if bool(why) != bool(self._spent_up):
            self._tell(f"Nothing is started: {why}." if why else "Budget raised: going on.")
        self._spent_up = why
        return bool(why)

    def _may_start(self) -> int:
        """How many at most, by the starts of the last minute and the places of this machine."""
        now = self.app.clock.monotonic()
        while self._starts and now - self._starts[0] >= _MINUTE:
            self._starts.popleft()
        return max(0, min(self._starts_a_minute - len(self._starts), self._max or _AT_ONCE, _AT_ONCE))

    def _new(self, agent: str) -> sessions.SessionIdentity:
        return sessions.SessionIdentity(
            id=new_id("session"),
            kind=sessions.AGENT,
            agent=agent,
            host=self.app.settings.host,
            boot=boot_id(),
            labels=self.worker_settings.labels,
        )

    def _limits(self, agent: str) -> leases.ClaimLimits:
        return leases.ClaimLimits(self._max, self._max_project, int(self._max_agent.get(agent, 0)))

    def _claim(self, agent: str, most: int) -> list[Claim] | None:
        """Hand the next tasks to new sessions and enqueue their phases: one transaction, all or nothing."""
        who, limits, project = (
            [self._new(agent) for _ in range(most)],
            self._limits(agent),
            self.worker_settings.project,
        )
        if not leases.has_next(self.app.database, who=who[0], project=project, limits=limits):
            if self.app.database.kind != SQLITE:
                self._looked = self.app.clock.monotonic()
            return None  # most of the time: many supervisors that only look do not wait for each other

        @beside_others
        def take(store: Store) -> list[Claim]:
            scopes = leases.scopes_of(who[0], project=project, limits=limits)
            with store.transaction(scopes=scopes) as transaction:
                claims = host_leases.claim(
                    transaction, who=who, project=project, lease_seconds=self._lease_seconds, limits=limits
                )
                for claim in claims:
                    words, folder = list(self.worker_settings.words), self.worker_settings.workspace
                    values = (claim.task.key, claim.fence, claim.session.id, agent, words, folder)
                    self.engine.enqueue(transaction, name=NAME, id=run_id_of(claim.task), values=values)
            return claims

        claims = take(self.app.database)
        self.begun(*(claim.session.id for claim in claims))
        for claim in claims:
            if not spending.is_capped(self.app, claim.task):  # else the person is asked, and reads that
                self._tell(f"{claim.task.project}/{claim.task.label}: started with {agent} (fence {claim.fence})")
        return claims or None


def runner(
    settings: Settings,
    worker_settings: WorkerSettings,
    over: Callable[[str], None],
    once: Once,
    step: Callable[[str, Callable[[], Any]], Any],
) -> Callable[..., Any]:
    """The durable run of one phase. It composes its own App: a database belongs to a thread."""
    versions: dict[str, str] = {}
    host = running.HostWatch()

    def run_phase(
        key: int, fence: int, session: str, agent: str, words: Sequence[str] | None = None, workspace: str | None = None
    ) -> str:
        # Who claimed it said with which words, and where: supervisors of one machine share what is enqueued.
        mine = worker_settings if words is None else worker_settings._replace(words=tuple(words))
        mine = mine if workspace is None else mine._replace(workspace=workspace)
        app = App(settings)
        app.once = once
        try:
            run = Run(app, mine, versions, key, fence, session, agent, host)
            ended = step("session", lambda: conclude.patiently(app, run.session_step))
            step("save", lambda: conclude.patiently(app, run.save_step))
            return str(step("conclude", lambda: conclude.patiently(app, lambda: run.conclude_step(ended))))
        finally:
            over(session)
            app.close()

    return run_phase


def _not_started(error: HandoffError | OSError) -> AgentOutcome:
    """Nothing of the agent ran, so it is not its fault; that the task went on without us is nobody's."""
    words = f"the session could not be started: {error}"
    if isinstance(error, GroundFault):
        return AgentOutcome(ENVIRONMENT, error.message, fix=error.hint)
    if isinstance(error, Conflict):
        return AgentOutcome(FAILED, words)
    kind = CLIENT if isinstance(error, NotInstalled) else ENVIRONMENT
    return AgentOutcome(kind, words, fix=getattr(error, "hint", ""))


class Run:
    """One phase of one task in the hands of one session."""

    def __init__(
        self,
        app: App,
        worker_settings: WorkerSettings,
        versions: dict[str, str],
        key: int,
        fence: int,
        session: str,
        agent: str,
        host: running.HostWatch,
    ) -> None:
        self.app, self.worker_settings, self.versions = app, worker_settings, versions
        self.key, self.fence, self.session, self.agent, self.host = key, fence, session, agent, host

    def session_step(self) -> dict[str, Any]:
        """Ensure, then wait: attach to a living session, never start a second one, never leave a superseded one alive."""
        claim = self._claim()
        task = claim.task
        mine = task.fence == self.fence and task.held_by == self.session and task.state == states.RUNNING
        if not mine and not start.has_started(self.app, claim):
            return AgentOutcome(LOST, "the task went on without this session")._asdict()
        if mine and not start.has_started(self.app, claim) and placement.is_only_to_judge(self.app, claim):
            return AgentOutcome(OK, "nothing was left but to check it")._asdict()
        try:
            started = start.start(self.app, request=self._request(task), claim=claim, versions=self.versions)
        except Away:
            raise
        except (HandoffError, OSError) as error:
            return _not_started(error)._asdict()
        return start.wait(self.app, started, host=self.host)._asdict()

    def save_step(self) -> str:
        """Keep the whole working tree as the session left it, whatever it did."""
        return start.save(self.app, self._claim())

    def conclude_step(self, ended: dict[str, Any]) -> str:
        """Move the task on by what the evidence says. A task that has moved on already is left as it is."""
        told = {
            name: value for name, value in ended.items() if name in AgentOutcome._fields
        }  # perhaps an older version's
        concluded = conclude.conclude(self.app, claim=self._claim(), outcome=AgentOutcome(**told))
        running.forget(self.app, self.session)
        return concluded.words

    def _claim(self) -> Claim:
        """What the supervisor claimed when it asked for this run, from the rows as they are now."""
        with self.app.database.transaction(write=False) as look:
            task, session = tasks.get(look, key=self.key), sessions.get(look, id=self.session)
        assert session is not None, "it was made known together with this run"  # noqa: S101 - one transaction
        return leases.Claim(task, session, self.fence, task.lease_seconds)

    def _request(self, task: Task) -> start.StartRequest:
        return start.StartRequest(
            agent=self.agent,
            task=task.label,
            project=task.project,
            words=fill_in(self.worker_settings.words, task),
            workspace=self.worker_settings.workspace,
        )
