"""The runs of phases: how far each got, so that whoever comes after a crash goes on there.

Where the database is a file they are rows of the relay and threads of this process. On a server `durable.py` does the same with dbos.
"""

from __future__ import annotations

import json
import os
import threading
import traceback
import uuid

from handoff.base import files
from handoff.base.clock import SystemClock
from handoff.base.errors import Away
from handoff.base.record import TYPE_CHECKING
from handoff.board.sessions import runs
from handoff.store.database import Contended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from handoff.store.database import Database, Transaction

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
        runs.ask(transaction, id=id, queue=self.queue, version=PROTOCOL, name=name, inputs=json.dumps(values))

    def nudge(self) -> int:
        begun = set(self._begun)  # read before the rows: one that ends meanwhile must not look as if it had not begun
        taken = runs.take(self._database, queue=self.queue, version=PROTOCOL, executor=self.executor)
        fresh = [run for run in taken if run.id not in begun]  # with those that we took when the answer was lost
        for run in fresh:
            self._begun.add(run.id)
            threading.Thread(target=self._go, args=(run,), name=f"run {run.id}", daemon=True).start()
        return len(fresh)

    def _go(self, run: runs.RunRow) -> None:
        """A whole run, from where it stands, on a thread and a connection of its own."""
        try:
            database = self._open()
            try:
                self._run.id, self._run.outputs, self._run.database = run.id, json.loads(run.outputs), database
                if state := self._state_after(run):
                    self._patiently(lambda: runs.end(database, id=run.id, executor=self.executor, state=state))
            finally:
                database.close()
        except Exception:  # noqa: BLE001 - the row is still ours: the next nudge begins it again
            self._tell(traceback.format_exc())
        finally:
            self._begun.discard(run.id)

    def _state_after(self, run: runs.RunRow) -> str:
        try:
            self._functions[run.name](*json.loads(run.inputs))
        except _TakenOverError:
            return ""  # its row is another's, or ours once more: whoever has it begins it anew
        except Exception:  # noqa: BLE001 - the lease of its task tells everybody else
            self._tell(traceback.format_exc())
            return runs.FAILED
        return runs.DONE

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        mine = self._run
        if name not in mine.outputs:
            outputs = {**mine.outputs, name: function()}
            text = json.dumps(outputs)
            if not self._patiently(
                lambda: runs.keep_step(mine.database, id=mine.id, executor=self.executor, outputs=text)
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
        return runs.free(self._database, executor=executor)

    def listing(self, *, executor: str = "", live: bool = True) -> Sequence[runs.RunRow]:
        return runs.listing(self._database, executor=executor, live=live)

    def delete(self, *, before: float) -> int:
        return runs.prune(self._database, before=before)

    def close(self) -> None:
        self._functions = {}
