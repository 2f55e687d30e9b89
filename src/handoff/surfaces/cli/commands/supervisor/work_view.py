"""What a person sees while the supervisor works: the board on a terminal, plain lines everywhere else."""

from __future__ import annotations

import signal
import threading

from handoff.base.clock import stamp
from handoff.base.record import TYPE_CHECKING
from handoff.engine.app import App
from handoff.surfaces.cli.commands.board.board import made

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.surfaces.cli.command import Context
    from handoff.surfaces.cli.commands.board.view import BoardApp

    Work = Callable[[Callable[[str], None], Callable[[Any], None], App], str]

_NOBODY = "The supervisor ended before it began."


def teller(ctx: Context) -> Callable[[str], None]:
    """One plain line for each thing; one object for each under --json."""

    def line(text: str) -> None:
        if ctx.out.json_wanted:
            ctx.out.data({"at": stamp(ctx.app.clock.now()), "text": text})
        else:
            ctx.out.line(f"{stamp(ctx.app.clock.now())} {text}")

    return line


def on_board(ctx: Context, project: str, work: Work) -> str:
    """The supervisor in a thread of its own and the board before it; what was told last is the answer.

    Whoever leaves the board lets the supervisor leave too, and the board stays until it has; agents go on.
    """
    board = made(ctx, project)
    supervisor = _Worker(ctx, board, work)
    board.leaving = supervisor.leave
    signal.signal(signal.SIGUSR1, lambda *_: supervisor.drain())
    supervisor.start()
    board.run()
    supervisor.leave()
    supervisor.join()
    if supervisor.fault is not None:
        raise supervisor.fault
    return supervisor.last


class _Worker(threading.Thread):
    """The supervisor behind the board. Its rows are its own: a database belongs to the thread that opened it."""

    def __init__(self, ctx: Context, board: BoardApp, work: Work) -> None:
        super().__init__(name="supervisor", daemon=True)
        self._settings, self._board, self._work = ctx.settings, board, work
        self._supervisor: Any = None
        self._left = threading.Event()
        self.last = _NOBODY
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            self.last = self._work(self._tell, self._begin, App(self._settings))
        except BaseException as fault:  # noqa: BLE001 - told by the thread that speaks to the person
            self.fault = fault
        finally:
            self._board.leaving = None
            self._board.over = True

    def _begin(self, supervisor: Any) -> None:
        self._supervisor = supervisor
        if self._left.is_set():
            supervisor.leave()

    def _tell(self, text: str) -> None:
        self._board.state.tell(text)

    def leave(self) -> None:
        self._left.set()
        if self._supervisor is not None:
            self._supervisor.leave()

    def drain(self) -> None:
        if self._supervisor is not None:
            self._supervisor.drain()
