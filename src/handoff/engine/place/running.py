"""Sessions somebody must look after on this machine: what is left of each in the home, whose its task is, how it is ended."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager

from handoff.agents import folder as folders
from handoff.agents.dialects import GIVEN, OPENED, SAID
from handoff.base.bounds import end as end_processes
from handoff.base.bounds import is_alive, of_session
from handoff.base.errors import Away, Conflict
from handoff.base.files import make_folder, remove, write_atomic
from handoff.base.process import start_of
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal
from handoff.board.sessions import expenses, holds, host_leases, leases
from handoff.board.tasks import states, tasks
from handoff.engine.place.pulse import SUPERVISED, Trace, known_session, listing, place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from handoff.agents.endings import Bill
    from handoff.agents.session import AgentSession
    from handoff.board.sessions.host_leases import Holding
    from handoff.board.sessions.leases import Claim
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

ROW_SECONDS = 1.0
GRACE_SECONDS = 30.0
_SHARE_OF_LEASE = 4
_LONGEST_BEAT = 60.0
_OLD_SECONDS = 3600.0


def leave(app: App, claim: Claim, folder: str, *, supervised: bool) -> None:
    """Before the first process of a session: whoever comes after a crash finds it without reading every old folder."""
    watcher = SUPERVISED if supervised else f"{os.getpid()}.{start_of(os.getpid())}"
    _write(app, Trace(claim.session.id, claim.task.key, claim.fence, watcher, folder))


def look_after(app: App, trace: Trace) -> None:
    """A supervisor stays with it from now on."""
    if trace.watcher != SUPERVISED:
        _write(app, trace._replace(watcher=SUPERVISED))


def _write(app: App, trace: Trace) -> None:
    make_folder(place(app), mode=0o700)
    text = f"{trace.key} {trace.fence} {trace.watcher} {trace.folder}"
    write_atomic(os.path.join(place(app), trace.session), text, mode=0o600, sync=False)


def forget(app: App, session: str) -> None:
    """It is concluded: nobody needs to look after it any more, and no words wait for it."""
    remove(os.path.join(place(app), session))
    for suffix in ("", OPENED, GIVEN):
        remove(os.path.join(app.settings.home, SAID, session + suffix))


def tidy(app: App) -> None:
    """Take away what writers that were killed left half-written, an hour later."""
    try:
        with os.scandir(place(app)) as entries:
            old = [
                one.path
                for one in entries
                if one.name.startswith(".") and app.clock.now() - one.stat().st_mtime > _OLD_SECONDS
            ]
    except OSError:
        return
    for path in old:
        remove(path)


def end(trace: Trace, reason: str) -> bool:
    """End everything of a session that must not write any more; False when nothing of it ran."""
    monitor = folders.monitor_of(trace.folder)
    left = [*([monitor] if is_alive(monitor) else []), *of_session(trace.session)]
    if left:
        folders.put(trace.folder, folders.STOPPED, reason)
        end_processes(left)
    return bool(left)


def end_superseded(app: App, task: Task, *, except_: str) -> int:
    """Sessions that lost this task and still run here; how many."""
    return sum(
        end(trace, "another session has its task")
        for trace in listing(app)
        if trace.key == task.key and trace.session != except_
    )


def stop(app: App, *, session: str, reason: str = "a person stopped it") -> bool:
    """Ask a session to end; its supervisor does it, or we do where there is none. False when it was over already."""
    known, path = known_session(app, session)
    monitor = folders.monitor_of(path)
    if not is_alive(monitor) and not of_session(known.id):
        return False
    folders.put(path, folders.STOP, reason)
    end_processes([monitor], signal.SIGTERM)
    if not is_alive(monitor):
        end_processes(of_session(known.id))
    return True


def kill(app: App, *, session: str) -> None:
    """It was asked to end and does not: end its processes."""
    known, path = known_session(app, session)
    end_processes([folders.monitor_of(path), *of_session(known.id)])


class HostWatch:
    """The sessions that one supervisor watches, each on a thread of its own: whoever looks first asks and tells for all of them."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._watches: set[SessionWatch] = set()
        self._held: dict[int, Holding] = {}
        self._read_at = float("-inf")

    @contextmanager
    def watching(self, watch: SessionWatch) -> Iterator[None]:
        """One more session, for as long as it is watched."""
        with self._turn:
            self._watches.add(watch)
        try:
            yield
        finally:
            with self._turn:
                self._watches.discard(watch)

    def holding(self, app: App, key: int) -> Holding | None:
        """Who holds a task, as it was at most a second ago; None for one that does not run here, or not yet."""
        if self._turn.acquire(blocking=False):  # nobody waits behind a thread that waits for the database
            try:
                now = app.clock.monotonic()
                if now - self._read_at >= ROW_SECONDS:
                    self._held = host_leases.holdings(app.database, host=app.settings.host)
                    self._read_at = now
            finally:
                self._turn.release()
        return self._held.get(key)

    def beat(self, app: App, watch: SessionWatch, now: float) -> bool:
        """Tell the signs of life of all sessions that have one; False when that of `watch` must be told alone."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            signs = {one.sign: one for one in self._watches if one is watch or one.has_sign(now)}
            renewed = host_leases.renew(app.database, host=app.settings.host, beats=list(signs))
            for (key, _), one in signs.items():
                if key in renewed:
                    one.note_beat(now)
            return watch.sign[0] in renewed
        finally:
            self._turn.release()


class SessionWatch:
    """What is looked at while a session runs: whose the task is, and whether the session shows signs of life."""

    def __init__(self, app: App, claim: Claim, session: AgentSession, host: HostWatch) -> None:
        self._app, self._claim, self._session, self.host = app, claim, session, host
        self._every = min(_LONGEST_BEAT, claim.lease_seconds / _SHARE_OF_LEASE)
        now = app.clock.monotonic()
        self._row_at = now
        # Whoever comes back from a crash finds an old lease: the first look renews it.
        self._beaten = now if not claim.repeated else now - self._every
        self._left_at: float | None = None
        self._bill: Bill | None = None
        self._refused = 0
        self._proved = False
        if claim.repeated:
            self._row_at -= ROW_SECONDS

    def __call__(self) -> None:
        now = self._app.clock.monotonic()
        if now - self._row_at < ROW_SECONDS:
            return
        self._row_at = now
        try:
            self._look(now)
        except Away:
            return  # the session goes on; whether we were missed is seen when the database is back

    def _look(self, now: float) -> None:
        self.note_bill()
        self.note_refused()
        if self._session.seen.tools and not self._proved:  # its provider serves it: others need not wait for its end
            self._proved = holds.prove(self._app.database, self._claim.session) or True
        fence, key = self._claim.fence, self._claim.task.key
        task: Task | Holding | None = self.host.holding(self._app, key)
        if task is None or task.fence != fence or task.held_by != self._session.name:  # it may be old: asked for alone
            task = tasks.get(self._app.database, key=key)
        mine = task.fence == fence and task.held_by == self._session.name
        if mine and task.state in (states.RUNNING, states.READY):  # ready: a watchdog thought it dead
            self._left_at = None
            if task.state == states.READY or now - self._beaten >= self._every:
                self._beat(now)
        elif task.fence == fence and task.state in (states.DONE, states.BLOCKED, states.GATED):
            # It has reported; most agents say a last word and end by themselves.
            self._left_at = now if self._left_at is None else self._left_at
            if not self._session.rules.attended and now - self._left_at > GRACE_SECONDS:
                self._session.stop("it had reported and did not end")
        else:
            self._session.stop("the task was taken from this session")

    def note_refused(self) -> None:
        """Hosts it asked for that are not on its list: a person sees them, and may add one."""
        hosts = folders.text_of(self._session.folder, folders.REFUSED).split()
        if len(hosts) > self._refused:
            new, self._refused = hosts[self._refused :], len(hosts)
            with self._app.database.transaction() as transaction:
                journal.append(
                    transaction,
                    "session.host_refused",
                    task=self._claim.task,
                    session=self._session.name,
                    hosts=", ".join(new),
                )

    def note_bill(self) -> None:
        """What it has used so far counts at once: a day's limit must not be overrun by sessions that still run."""
        bill = self._session.bill
        if bill is not None and bill != self._bill:
            known = self._claim.session
            expenses.note(
                self._app.database,
                session=known.id,
                project=self._claim.task.project,
                agent=known.agent,
                money=bill.money,
                basis=bill.basis,
                task=self._claim.task.key,
                models=bill.models,
                tokens={name: getattr(bill, name) for name in expenses.TOKENS},
            )
            self._bill = bill

    @property
    def sign(self) -> tuple[int, int]:
        """Which task it is of, and with which fence."""
        return self._claim.task.key, self._claim.fence

    def has_sign(self, now: float) -> bool:
        """Whether it has shown life, and its last sign is old enough to tell another one together with others'."""
        return self._session.active_at > self._beaten and now - self._beaten >= self._every / 2

    def note_beat(self, now: float) -> None:
        """Its sign of life was told."""
        self._beaten = now

    def _beat(self, now: float) -> None:
        if self._session.active_at <= self._beaten and not self._claim.repeated:
            return  # a silent session's lease runs out
        if not self._claim.repeated and self.host.beat(self._app, self, now):
            return
        try:
            leases.heartbeat(self._app.database, key=self._claim.task.key, fence=self._claim.fence)
        except Conflict:
            return  # the next look finds out who has it
        self._beaten = now
        self._claim = self._claim._replace(repeated=False)
