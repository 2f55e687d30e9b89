"""The runs of phases where the database is a server: the only importer of dbos. What its verbs mean: `runs.Engine`.

What dbos lacks is closed here: one first launch at a time, JSON instead of pickle, retention, a version that is ours.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import select
import threading
import uuid
from contextlib import contextmanager
from importlib.metadata import version

import dbos
import sqlalchemy as sa
from dbos import _core, _dbos, _sys_db  # noqa: F401 - private names are looked up in them, see PRIVATE
from sqlalchemy import pool

from handoff.base import errors, files
from handoff.base.clock import SystemClock
from handoff.base.errors import MissingPackage, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.supervisor.runs import PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from handoff.store.database import Transaction

APPLICATION = "handoff"
_AT_ONCE = 1000
_RECOVERIES = 1_000_000  # a restart is no fault of the phase
_PENDING = "PENDING"
_LIVE = (_PENDING, "ENQUEUED", "DELAYED")

# What we need of dbos beyond its public words, each with the parameters we give: nothing public wakes a queue, and the
# public `resume_workflows` would also revive what was cancelled and what another executor has taken over by now.
TESTED = "3.3.0"
PRIVATE = {
    "_core.execute_dequeued_workflow": "dbos status owner_xid",
    "_dbos.DBOS._recover_pending_workflows": "executor_ids",
    "_dbos.DBOS._sys_db": "",
    "_sys_db.SystemDatabase.get_workflow_statuses": "workflow_ids",
    "_sys_db.SystemDatabase.reenqueue_for_recovery": "workflow_id executor_ids recovery_queue_name",
    "_sys_db.SystemDatabase.start_queued_workflows": "queue executor_id app_version queue_partition_key owner_xid",
}


def find_changed(names: Mapping[str, str]) -> list[str]:
    """The private names that the installed dbos lacks, or has with other parameters."""
    changed = []
    for name, parameters in names.items():
        found: Any = dbos
        for part in name.split("."):
            found = getattr(found, part, None)
        known = inspect.signature(found).parameters if callable(found) else {}
        if found is None or not set(parameters.split()) <= set(known):
            changed.append(name)
    return changed


def refuse_changed(names: Mapping[str, str] = PRIVATE) -> None:
    """A dbos that is different where nobody promised anything is refused before it touches a row."""
    changed = find_changed(names)
    if changed:
        raise MissingPackage(
            f"dbos {version('dbos')} is not one the supervisor knows: it has changed {', '.join(changed)}.",
            f"dbos=={TESTED}",
        )


class DurableRun(Record):
    """One durable run, as the engine knows it."""

    id: str
    status: str
    version: str


class Durable:
    """The running engine. There is one in a process."""

    away: tuple[type[Exception], ...] = (sa.exc.DBAPIError,)

    def __init__(self, url: str, *, executor: str, queue: str, lock: str, log: str = "") -> None:
        self.executor = executor
        self.queue = queue
        self._lock = lock
        self._tables = DurableTables(url)
        _log_to(log)
        config: dbos.DBOSConfig = {
            "name": APPLICATION,
            "system_database_engine": self._tables.plain,
            "executor_id": executor,
            "application_version": PROTOCOL,
            "serializer": dbos.DBOSPortableJSONSerializer(),
            "log_level": "WARNING",
            "enable_otlp": False,
            "use_listen_notify": False,  # behind a pooler nobody would hear it, and nothing here waits for a message
        }
        self._dbos = dbos.DBOS(config=config)
        self._client: dbos.DBOSClient | None = None
        self._phases: Any = None
        self._begun: set[str] = set()
        self._in_doubt = False

    def _told(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same; from its end on the engine alone knows whether its run is still here."""

        @functools.wraps(function)
        def run(*values: Any) -> Any:
            try:
                return function(*values)
            finally:
                self._begun.discard(str(dbos.DBOS.workflow_id))

        return run

    def launch(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        """Create or migrate the engine's tables, one process at a time, and begin to take work."""
        refuse_changed()
        for name, function in functions.items():
            dbos.DBOS.workflow(name=name, max_recovery_attempts=_RECOVERIES)(self._told(function))
        dbos.DBOS.listen_queues([self.queue])
        with files.locked(self._lock, what="the engine's tables", patience=120.0):
            self._start()
        self._tables.bound()
        self._phases = dbos.DBOS.register_queue(self.queue, on_conflict="always_update")
        self._end_polling()
        self._client = dbos.DBOSClient(
            system_database_engine=self._tables.plain,
            serializer=dbos.DBOSPortableJSONSerializer(),
            application_name=APPLICATION,
            lazy=True,
        )

    def _start(self) -> None:
        try:
            dbos.DBOS.launch()
        except sa.exc.ProgrammingError as error:
            why = str(error.orig).replace("\n", " ")
            raise UserError(
                f"The engine's tables are missing or old, and this role may not make them: {why}.",
                "Their owner makes them: handoff database migrate",
            ) from error

    def _end_polling(self) -> None:
        """Its queues, delays, deadlines and schedules are asked for every second, by every host, and none is used here.

        Who enqueues or recovers nudges, and the supervisor now and then. A dbos that has no such events goes on asking.
        """
        deadlines = getattr(self._dbos, "_workflow_timeout_stop_event", None)
        for event in (*getattr(self._dbos, "background_thread_stop_events", ()), *([deadlines] if deadlines else ())):
            event.set()

    def enqueue(self, transaction: Transaction, *, name: str, id: str, values: tuple[Any, ...]) -> None:
        assert self._client is not None, "launch comes first"  # noqa: S101 - our own misuse
        options: dbos.EnqueueOptions = {
            "workflow_name": name,
            "queue_name": self.queue,
            "workflow_id": id,
            "app_version": PROTOCOL,
        }
        with self._tables.joined(transaction) as connection:
            self._client.enqueue_in_transaction(connection, options, *values)

    @property
    def _rows(self) -> Any:
        return self._dbos._sys_db  # noqa: SLF001 - see PRIVATE

    def nudge(self) -> int:
        if self._in_doubt:
            self._put_back()
        owner = uuid.uuid4().hex
        rows = self._rows
        self._in_doubt = True  # taken is not begun: the database may go away in between
        ids, _ = rows.start_queued_workflows(
            queue=self._phases,
            executor_id=self.executor,
            app_version=PROTOCOL,
            queue_partition_key=None,
            owner_xid=owner,
        )
        for status in rows.get_workflow_statuses(workflow_ids=ids) if ids else ():
            id = status["workflow_uuid"]
            self._begun.add(id)  # before, because a short run may be over at once
            try:  # as its own queue does
                _core.execute_dequeued_workflow(dbos=self._dbos, status=status, owner_xid=owner)
            except BaseException:
                self._begun.discard(id)
                raise
        self._in_doubt = False
        return len(ids)

    def _put_back(self) -> None:
        """What is ours by its row and runs nowhere here is enqueued again: it was taken just before the database went away."""
        active = getattr(self._dbos, "_active_workflows_set", None)
        here = self._begun | set(active.activeList() if active else ())
        rows = self._rows
        for id in {one.id for one in self.listing(executor=self.executor) if one.status == _PENDING} - here:
            rows.reenqueue_for_recovery(workflow_id=id, executor_ids=[self.executor], recovery_queue_name=self.queue)

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        return dbos.DBOS.run_step({"name": name}, function)

    def recover(self, executor: str) -> int:
        found = dbos.DBOS._recover_pending_workflows(executor_ids=[executor])  # noqa: SLF001 - see PRIVATE
        # The engine is silent about those that it met no database for.
        if any(one.status == _PENDING and one.version == PROTOCOL for one in self.listing(executor=executor)):
            raise errors.Away(
                f"Not all runs of supervisor {executor} could be taken over.", "They are taken over at the next look."
            )
        return len(found)

    def delete(self, *, before: float) -> int:
        from datetime import UTC, datetime

        moment = datetime.fromtimestamp(before, UTC).isoformat()
        found = dbos.DBOS.list_workflows(
            end_time=moment,
            status=["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"],
            limit=_AT_ONCE,
            load_input=False,
            load_output=False,
        )
        if found:
            dbos.DBOS.delete_workflows([status.workflow_id for status in found])
        return len(found)

    def listing(self, *, live: bool = True, executor: str = "") -> list[DurableRun]:
        found = dbos.DBOS.list_workflows(
            status=list(_LIVE) if live else None,
            executor_id=executor or None,
            limit=_AT_ONCE,
            load_input=False,
            load_output=False,
        )
        return [DurableRun(id=one.workflow_id, status=str(one.status), version=one.app_version or "") for one in found]

    def close(self) -> None:
        if self._client is not None:
            self._client.destroy()
        dbos.DBOS.destroy(destroy_registry=True)
        self._tables.close()


def migrate(url: str) -> None:
    """Make the engine's tables, or bring them up to date, without taking any work."""
    dbos.DBOS.migrate(url)


def _log_to(path: str) -> None:
    """The engine's own words go to a file; a person's terminal is ours."""
    logger = logging.getLogger("dbos")
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()
    if path:
        files.make_folder(os.path.dirname(path))
    logger.addHandler(logging.FileHandler(path, delay=True) if path else logging.NullHandler())
    logger.propagate = False


# --- The way to the durable engine's tables: one bounded pool of connections, and writing them inside a transaction of ours

_TURN_SECONDS = 3600.0
_AWAY_PAUSE = 0.5


class DurableTables:
    """Our SQLAlchemy engine for the durable tables, and the way to write them inside a transaction of ours."""

    def __init__(self, url: str) -> None:
        place = sa.make_url(url).set(drivername="postgresql+psycopg")
        self.plain = sa.create_engine(
            place,
            pool_size=1,  # each of its statements is short: runs take turns
            max_overflow=1,  # while it makes its tables it holds a lock on one and works on another
            pool_timeout=_TURN_SECONDS,
            connect_args={
                "application_name": "handoff-supervisor",
                "connect_timeout": 10,
                "prepare_threshold": None,
            },
        )
        self._closed = False
        sa.event.listen(self.plain, "do_connect", self._connect_patiently)
        sa.event.listen(self.plain, "checkout", _refuse_ended)
        self._ours = sa.create_engine(
            "postgresql+psycopg://", poolclass=pool.NullPool, creator=self._present, use_native_hstore=False
        )
        self._joined: _Joined | None = None

    def bound(self) -> None:
        """From here on one connection is enough: the tables are there."""
        if isinstance(self.plain.pool, pool.QueuePool):
            self.plain.pool._max_overflow = 0  # noqa: SLF001 - there is no other way to change a pool that is in use

    @contextmanager
    def joined(self, transaction: Transaction) -> Iterator[sa.Connection]:
        """A connection that writes into `transaction` and can neither commit nor roll it back."""
        self._joined = _Joined(transaction.driver)
        try:
            with self._ours.connect() as connection:
                yield connection
        finally:
            self._joined = None

    def _present(self) -> Any:
        return self._joined

    def _connect_patiently(self, dialect: Any, record: Any, words: Any, options: Any) -> Any:
        """A run waits for a server that is away, whatever the reason: the engine itself gives up when the socket is missing.

        The supervisor's own thread is told at once, because it tells people. Who still waits when all is closed gets no connection.
        """
        del record
        while not self._closed:
            try:
                return dialect.connect(*words, **options)
            except dialect.loaded_dbapi.OperationalError:
                if threading.current_thread() is threading.main_thread():
                    raise
                SystemClock().sleep(_AWAY_PAUSE)
        raise sa.exc.InvalidRequestError("The engine is closed.")

    def close(self) -> None:
        self._closed = True
        self.plain.dispose()


def _refuse_ended(raw: Any, *_: Any) -> None:
    """A connection that the server has ended is not lent: seen at its socket, without a question to the server."""
    look = select.poll()
    look.register(raw.fileno(), select.POLLIN)
    if look.poll(0):
        raise sa.exc.DisconnectionError


class _Joined:
    """Our store's open connection, as SQLAlchemy may use it: rows as tuples, no end of the transaction."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        return self._raw.cursor(*args, **{**kwargs, "row_factory": _as_tuples})

    def commit(self) -> None:
        """The store commits."""

    def rollback(self) -> None:
        """The store rolls back."""

    def close(self) -> None:
        """The store closes."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def _as_tuples(cursor: Any) -> Callable[[Any], tuple[Any, ...]]:
    del cursor
    return tuple
