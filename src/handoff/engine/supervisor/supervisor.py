"""The supervisor: claims what is ready, runs its phases durably, takes over from the dead, and stops when it is given up."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from functools import partial
from typing import Any

from handoff.base.clock import boot_id
from handoff.base.errors import Away, HandoffError, UserError
from handoff.base.files import make_folder
from handoff.base.markdown import first_sentence
from handoff.base.process import start_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import tokens
from handoff.board.schedules import due
from handoff.board.sessions import executors, expenses, holds, pauses
from handoff.board.tasks import batches, decisions, flows, outcomes, requirements, states, tasks
from handoff.engine.app import App
from handoff.engine.app.home import home_config
from handoff.engine.outcome import reviews
from handoff.engine.outcome.carry_out import carry_on
from handoff.engine.place import publish, pulse, running
from handoff.engine.place.fanout.files import read_stop_files, stop_files_of
from handoff.engine.session import spending
from handoff.engine.supervisor import database as database_upkeep
from handoff.engine.supervisor import runs
from handoff.engine.supervisor import watchdog as supervisor_watchdog
from handoff.engine.supervisor.news import News
from handoff.engine.supervisor.notifications import Teller
from handoff.engine.supervisor.runs import PhaseStarts
from handoff.engine.supervisor.schedules import look as make_due
from handoff.engine.work import workers
from handoff.engine.work.flows import conclude
from handoff.engine.work.forges import watch
from handoff.engine.work.tasks import search
from handoff.engine.work.tasks.splitting import live
from handoff.store import open_database
from handoff.store.database import SQLITE

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from handoff.board.sessions.holds import Hold
    from handoff.board.tasks.tasks import Task
    from handoff.engine.work.workers import WorkerSettings


# Work that many threads of one supervisor ask for at once, done once for all who wait.


class Turn:
    """One time that the work is done: who waits for it, and what came of it."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.failed = False
        self.result: Any = None


class Turns:
    """One turn after the other under each name. Who asks while one is under way waits for the next: that one begins
    after they asked, so it has seen all they did before, and serves everybody who waits for it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._at_work: dict[str, threading.Lock] = {}
        self._next: dict[str, Turn] = {}

    def once(self, name: str, work: Callable[[], Any]) -> Any:
        """What the work says, done by us or by somebody who waited before us; where theirs failed, we try ourselves."""
        with self._guard:
            at_work = self._at_work.setdefault(name, threading.Lock())
            turn = self._next.get(name)
            if first := turn is None:
                turn = self._next[name] = Turn()
        if not first:
            turn.over.wait()
            return work() if turn.failed else turn.result
        with at_work:
            with self._guard:
                del self._next[name]  # from here on it may have missed something: who asks now waits for another
            try:
                turn.result = work()
            except BaseException:
                turn.failed = True
                raise
            finally:
                turn.over.set()
        return turn.result


# --- turns --------------------------------------------------------------------------------------------------

FENCED = 4
_DAY = 86_400.0
_KEPT_DAYS = 7.0
_ASKED_DAYS = 90.0
_LEASE_SHARE = 4
_LONGEST_WAIT = 1.0
_STOP_ROWS_SECONDS = 10.0
_EARLY_SECONDS, _EARLY_SHARE = 0.25, 0.2
_UNMOVED_SECONDS = 3.0
_NEWS_SECONDS = 2.0
_SHORTEST_WAIT = 0.02
_AWAY_PAUSE = 1.0
_HEARD_SECONDS = 5.0
_SCHEDULES = -1


class Pace(Record):
    """How often the supervisor looks after things nobody tells it of, in seconds."""

    lease: float = executors.LEASE_SECONDS
    reap: float = 2.0
    flows: float = 2.0
    nudge: float = 5.0
    watchdog: float = 10.0
    markers: float = 1.0
    stops: float = 1.0
    schedules: float = 5.0
    retention: float = 3600.0
    until: float = 1.0


SERVER_PACE = Pace(reap=5.0, flows=5.0)
"""A server hears it from every host: what only a crash leaves behind is looked for less often there."""


def _engine_of(app: App, *, executor: str) -> runs.Engine:
    """The engine for the database of this relay. The supervisors of one host share what is asked for."""
    home, queue = app.settings.home, f"phases@{app.settings.host}"
    log = os.path.join(home, "logs", "engine.log")
    if app.database.kind == SQLITE:
        url, clock = app.database_url, app.clock
        return runs.Runs(app.database, lambda: open_database(url, clock=clock), executor=executor, queue=queue, log=log)
    from handoff.engine.supervisor.durable import Durable  # an extra

    lock = os.path.join(home, "locks", "engine.lock")
    return Durable(app.database_url, executor=executor, queue=queue, lock=lock, log=log)


class Supervisor:
    """One supervisor in one process. It is made to be killed: everything it knows is in rows and folders."""

    def __init__(
        self,
        app: App,
        worker_settings: WorkerSettings,
        *,
        limit: int = 0,
        tell: Callable[[str], None] | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.app, self.worker_settings = app, worker_settings
        self.pace = pace or (Pace() if app.database.kind == SQLITE else SERVER_PACE)
        self.host = app.settings.host
        self.id = runs.new_executor_id(self.host, os.getpid())
        self._tell = tell or (lambda _: None)
        config = home_config(app)
        self._publish_seconds = config.number("publish_seconds")
        self._forge_seconds = config.number("forge_seconds")
        self._began = app.clock.monotonic()
        self._due: dict[str, float] = {}
        self._stop_files: dict[str, dict[tuple[str, str, str], str]] = {}
        self._leaving = threading.Event()
        self._beside: set[int] = set()
        self._trouble = ""
        self._concluded_in = False
        self._teller = Teller(app, self._tell)
        self._news = News(app, project=worker_settings.project, concerns=self._is_ours)
        self.draining = False
        home = app.settings.home
        make_folder(os.path.join(home, "locks"), mode=0o700)
        self.engine = _engine_of(app, executor=self.id)
        self._no_end: tuple[type[Exception], ...] = (HandoffError, *self.engine.away)
        app.once = Turns().once  # the looks of all its sessions, and of the watchdog
        self._starts = PhaseStarts(app, worker_settings, self.engine, limit=limit, tell=self._tell)

    # --- life ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until asked to leave. Agents go on without us; the next supervisor attaches to them."""
        self.begin()
        try:
            while not self._leaving.is_set():
                try:
                    self.round()
                    if self._trouble:
                        self._tell("Going on.")
                        self._trouble = ""
                    if self.draining and self._is_due("busy", _LONGEST_WAIT) and not self.busy():
                        self._tell_news()  # what the last of them has just brought
                        break
                    self._wait()
                except self._no_end as error:
                    self._sit_out(error)
        finally:
            with suppress(Away, *self.engine.away):  # our lease tells it later
                executors.leave(self.app.database, id=self.id, idle=not self.busy())

    def _sit_out(self, error: Exception) -> None:
        """The database is away, or a disk is full: say so once, and go on when it is back."""
        words = first_sentence(str(error))
        if words != self._trouble:
            self._tell(f"Waiting: {words}")
        self._trouble = words
        # Sessions could not show that they live: they are heard before anybody is called silent.
        self._due["watchdog"] = self.app.clock.monotonic() + max(self.pace.watchdog, _HEARD_SECONDS)
        self._leaving.wait(_AWAY_PAUSE)

    def begin(self) -> None:
        """Introduce ourselves and start the engine; the first round takes over what is left from before."""
        database = self.app.database
        database_upkeep.watch(self.app)
        executors.begin(
            database,
            id=self.id,
            host=self.host,
            boot=boot_id(),
            pid=os.getpid(),
            process_start=start_of(os.getpid()),
            lease_seconds=self.pace.lease,
            agents=self.worker_settings.agents,
            labels=self.worker_settings.labels,
            project=self.worker_settings.project,
            until=str(self.worker_settings.until or ""),
        )
        threading.Thread(target=self._keep_lease, name="lease", daemon=True).start()
        if home_config(self.app).text("git_remote"):
            self._again(publish.look_after, self._publish_seconds, "Not pushed yet")
        self._again(watch.look, self._forge_seconds, "Your forge")
        project = self.worker_settings.project
        threading.Thread(target=live.keep_watch, args=(self.app.settings, self._leaving, project), daemon=True).start()
        run_phase = runs.runner(
            self.app.settings, self.worker_settings, self._starts.ended, self.app.once, self.engine.step
        )
        self.engine.launch({runs.NAME: run_phase})
        self._due = {"watchdog": self.app.clock.monotonic() + self.pace.watchdog}
        scope = f"for project {project}" if project else "for every project of this machine"
        self._tell(f"Supervisor {self.id} works with {', '.join(self.worker_settings.agents)} {scope}.")

    def leave(self) -> None:
        """Stop at the next round; what runs goes on."""
        self._leaving.set()

    def drain(self) -> None:
        """Start nothing more and stop when everything that runs here has ended."""
        self.draining = True

    def busy(self) -> bool:
        """Whether phases are under way in this process."""
        return bool(self.engine.listing(executor=self.id))

    def round(self) -> None:
        """One look at everything: what is due by time, then what may start."""
        if not self._concluded_in:  # in the loop, because the database may go away in the middle
            self.reap()
            self.adopt()
            self.engine.nudge()  # somebody may have died between a claim and its run
            self._concluded_in = True
        looks = (
            self.reap,
            self.flows,
            self.nudge,
            self.watchdog,
            self.markers,
            self.schedules,
            self.retention,
            self.until,
        )
        for step in looks:
            if self._is_due(step.__name__, getattr(self.pace, step.__name__)):
                step()
        if self.app.database.kind == SQLITE or self._is_due("news", _NEWS_SECONDS):
            self._tell_news()
        if not self.draining:
            self.fill()

    def _is_ours(self, held: Hold) -> bool:
        return held.host == self.host and held.name in self.worker_settings.agents

    def _tell_news(self) -> None:
        for line in self._news.lines():
            self._tell(line)

    def _is_due(self, name: str, every: float) -> bool:
        """Everything has one beat, and a little early is on time: what is due at different paces is done in one round."""
        now = self.app.clock.monotonic() - self._began + min(_EARLY_SECONDS, every * _EARLY_SHARE)
        if now < self._due.get(name, 0.0) - self._began:
            return False
        self._due[name] = self._began + (now // every + 1) * every
        return True

    def _wait(self) -> None:
        now = self.app.clock.monotonic()
        rest = min([_LONGEST_WAIT, *(moment - now for moment in self._due.values())])
        if self._starts.wait(max(_SHORTEST_WAIT, rest), asking=not self.draining, leaving=self._leaving):
            self._due.pop("news", None)  # what came of one is told before the next is started

    def _keep_lease(self) -> None:
        """Show that we live. When others have given us up, every further write could be the second of its kind: end at once."""
        app = App(self.app.settings)
        while not self._leaving.wait(self.pace.lease / _LEASE_SHARE):
            try:
                alive = executors.renew(app.database, id=self.id, lease_seconds=self.pace.lease)
            except HandoffError:
                continue  # the database is away; the lease tells later whether we were missed
            if not alive and not self._leaving.is_set():
                self._tell(f"Supervisor {self.id} was given up by the others and ends; its agents go on.")
                os._exit(FENCED)

    def _again(self, look: Callable[[App], list[str]], seconds: float, about: str) -> None:
        """Look at something outside now and then, on a thread of its own: if this machine dies, another goes on from there."""

        def keep() -> None:
            app, told = App(self.app.settings), ""
            while not self._leaving.wait(seconds):
                try:
                    troubles = look(app)
                except HandoffError:
                    continue  # the database is away, or somebody else is at it
                words = "; ".join(troubles)
                if words and words != told:
                    self._tell(f"{about}: {words}")
                told = words

        threading.Thread(target=keep, name=about, daemon=True).start()

    # --- starting --------------------------------------------------------------------------------------------

    def fill(self) -> int:
        """Start what may start now: within every limit, the most urgent first; how many."""
        if self._is_due("stops", self.pace.stops):
            self._read_stops()
        return self._starts.fill()

    def _read_stops(self) -> None:
        """Stop files are looked at every second, the rows they are held against only when a file came or went, and now and then."""
        names = supervisor_watchdog.project_names(self.app)
        files = {name: stop_files_of(self.app, name) for name in names}
        if files != self._stop_files or self._is_due("stop_rows", _STOP_ROWS_SECONDS):
            found = [stop for name in names for stop in read_stop_files(self.app, name)]
            held = {(stop.scope, stop.project) for stop in (found if names else pauses.listing(self.app.database))}
            self._starts.heed(stopped=bool(held & {(pauses.ALL, ""), (pauses.PROJECT, self.worker_settings.project)}))
            self._stop_files = files

    # --- looking after ---------------------------------------------------------------------------------------

    def reap(self) -> int:
        """Take over from supervisors of this host that are gone; those of other hosts lose their tasks by their leases."""
        taken, over = 0, False
        for other in executors.to_look_after(self.app.database, host=self.host):
            if other.id == self.id:
                continue
            if other.state == executors.ALIVE and not executors.lives(other, host=self.host):
                executors.give_up(self.app.database, id=other.id)
            elif other.state not in (executors.DEAD, executors.LEFT):
                continue
            if other.host == self.host:
                taken += self.engine.recover(other.id)
                if executors.end(self.app.database, id=other.id):
                    self._tell(f"Took over from supervisor {other.id}.")
                    over = True
        if taken or over:
            self.engine.nudge()
        self._end_leftovers()
        self.adopt(all_=False)
        return taken

    def nudge(self) -> None:
        """Take what somebody left who died, or met no database, between a claim and its run."""
        self.engine.nudge()

    def adopt(self, *, all_: bool = True) -> int:
        """Run on what our rows and folders say is under way, also where the engine's own rows did not come along.

        Else only sessions that a person's own command started and does not stay with any more: it was killed.
        """
        adopted = 0
        for trace in pulse.listing(self.app):
            if trace.watcher == pulse.SUPERVISED and not all_:
                continue
            with self.app.database.transaction() as transaction:
                task = tasks.look_up(transaction, key=trace.key)
                if task is None or task.held_host != self.host or not trace.holds(task) or trace.is_watched_by_hand:
                    continue
                self.engine.enqueue(
                    transaction,
                    name=runs.NAME,
                    id=runs.run_id_of(task),
                    values=(trace.key, trace.fence, trace.session, task.held_agent),
                )
                running.look_after(self.app, trace)
                adopted += 1
        if adopted:
            self.engine.nudge()
        return adopted

    def _end_leftovers(self) -> None:
        """Sessions whose task went on without them while no supervisor looked."""
        for trace in pulse.listing(self.app):
            try:
                task: tasks.Task | None = tasks.get(self.app.database, key=trace.key)
            except Away:
                raise
            except UserError:
                task = None  # it was pruned
            if task is not None and task.fence == trace.fence and task.state not in (states.CANCELLED, states.WAITING):
                continue
            if running.end(trace, "its task went on without it"):
                name = f"{task.project}/{task.label}" if task else f"task {trace.key}"
                self._tell(f"{name}: ended a session that had lost its task (fence {trace.fence})")
            running.forget(self.app, trace.session)

    def flows(self) -> None:
        """Carry out what was decided, and move flows on whose next move is the orchestrator's own: a crash left them so."""
        if decisions.open_on(self.app.database, host=self.host):
            self._start_beside(0, carry_on, "{}: finished what was decided before")
        self._leave_held()
        reviews.look(self.app)
        spending.look(self.app, project=self.worker_settings.project)
        old = self.app.clock.now() - _UNMOVED_SECONDS
        served = self.worker_settings.project
        for flow in flows.idle(self.app.database):
            if served not in ("", flow.project):
                continue
            if flow.changed_at < old and os.path.isdir(flow.workspace):
                self._start_beside(flow.key, partial(_moved, key=flow.key), "{}")

    def _leave_held(self) -> None:
        """Tasks whose agent is held here go on with the next one of their list that we can start."""
        store, worker = self.app.database, self.worker_settings
        held = {one.name for one in holds.listing(store) if one.kind == holds.AGENT and self._is_ours(one)}
        if held:
            outcomes.leave_held(store, held=held, able=worker.agents, project=worker.project)

    def _start_beside(self, key: int, work: Callable[[App], list[str]], words: str) -> None:
        """On a thread of its own, one for each flow and one for all that is decided: tests may run for minutes there."""
        if key not in self._beside:
            self._beside.add(key)
            threading.Thread(target=self._work_beside, args=(key, work, words), daemon=True).start()

    def _work_beside(self, key: int, work: Callable[[App], list[str]], words: str) -> None:
        app = App(self.app.settings)
        try:
            for name in work(app):
                self._tell(words.format(name))
        except HandoffError as error:
            self._tell(f"{f'Flow {key}' if key else 'Not carried out yet'}: {error.message}")
        finally:
            self._beside.discard(key)
            app.close()

    def watchdog(self) -> None:
        """One round of the watchdog: silent sessions, due fan-ins, touched files."""
        supervisor_watchdog.look(self.app, conclude=False)  # our own runs do
        search.follow_beside(self.app)
        self._teller.start_round()

    def schedules(self) -> None:
        """Make what recurs and is due, on a thread: a flow has a clone made for it first."""
        served = self.worker_settings.project
        if not self.draining and due(self.app.database, project=served):
            self._start_beside(_SCHEDULES, partial(make_due, project=served), "{}")

    def markers(self) -> None:
        """What people say by touching files; only folders that changed are opened."""
        supervisor_watchdog.take_in_markers(self.app, supervisor_watchdog.project_names(self.app))

    def until(self) -> None:
        """Start nothing more when the batch, or all that we were started for, is over."""
        key, store = self.worker_settings.until, self.app.database
        if self.draining or not (key or self.worker_settings.until_done):
            return
        if key and batches.get(store, key=key).ended_at is None:
            return
        if not key:
            project = self.worker_settings.project
            ready = tasks.listing(store, project=project, state=states.READY)
            found = requirements.unserved(store, project=project, limit=len(ready) or 1)
            unserved = {(one.project, one.task): one.labels for one in found if one.labels}
            served = [task for task in ready if (task.project, task.label) not in unserved]
            if tasks.count(store, project=project, state=states.RUNNING) or any(map(self._starts_by_itself, served)):
                return
            for (owner, name), labels in unserved.items():
                self._tell(f"{owner}/{name} stays ready: no host at work has --labels {','.join(labels)}.")
            if served:
                what = "task stays" if len(served) == 1 else "tasks stay"
                self._tell(
                    f"{len(served)} {what} ready: stopped, kept for you, or for an agent that does not work here."
                )
        self.drain()

    def _starts_by_itself(self, task: Task) -> bool:
        """Whether we start a ready task, now or when a moment has come, without a person who lets us."""
        if task.agent and task.agent not in self.worker_settings.agents:
            return False
        with self.app.database.transaction(write=False) as transaction:
            kept = holds.of_task(transaction, key=task.key, host=holds.EVERYWHERE)
            free = kept is None or kept.until <= transaction.now()  # given back: the row goes with the task
            return free and pauses.pause_of(transaction, task, by_itself=True) is None

    def retention(self) -> None:
        """Forget what the engine would keep for ever."""
        before = self.app.clock.now() - _KEPT_DAYS * _DAY
        self.engine.delete(before=before)
        executors.prune(self.app.database, before=before)
        expenses.prune(self.app.database, before=before)
        holds.prune(self.app.database)
        tokens.prune_answers(self.app.database, before=self.app.clock.now() - _ASKED_DAYS * _DAY)
        running.tidy(self.app)
        database_upkeep.back_up(self.app)


def _moved(app: App, *, key: int) -> list[str]:
    """Move a flow on whose next move is the orchestrator's own; where to."""
    moved = conclude.drive(app, key)
    return [f"{moved.project}/{moved.id}: moved on to {moved.phase}"]


# --- as a process ---------------------------------------------------------------------------------------------------------


_NAMED = 5


def leave_on_signals(supervisor: Supervisor) -> None:
    """A signal ends the supervisor, and another one lets it end when what runs has ended."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: supervisor.leave())
    signal.signal(signal.SIGUSR1, lambda *_: supervisor.drain())


def run_supervisor(
    app: App,
    worker_settings: WorkerSettings,
    *,
    limit: int,
    drain: bool,
    tell: Callable[[str], None],
    begin: Callable[[Supervisor], None] = leave_on_signals,
) -> str:
    """Be a supervisor until `begin` has it leave; agents go on and the next supervisor attaches to them. `leave_process` comes next.

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


def leave_process(code: int = 0) -> NoReturn:
    """Leave without waiting: phases in the middle are threads that wait for agents, and the next supervisor takes them over."""
    os._exit(code)
