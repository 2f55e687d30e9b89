"""Where a client that a person works with opens: this terminal, which it has for itself meanwhile, or a window of tmux."""

from __future__ import annotations

import os
import signal
import termios
from contextlib import contextmanager, suppress

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACES = TERMINAL, TMUX = ("terminal", "tmux")


@contextmanager
def own_terminal() -> Iterator[None]:
    """The client has the terminal: what is typed is for it alone, a closed window still concludes the task, and the terminal
    is left as it was found."""
    if not (os.isatty(0) and os.isatty(1)):
        raise UserError(
            "A session in a terminal needs one.", "Start it in a terminal, use --in tmux, or leave out --in."
        )

    def closed(*_: object) -> None:
        signal.signal(signal.SIGHUP, lambda *_: None)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        raise KeyboardInterrupt

    was = termios.tcgetattr(0)
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGHUP, closed)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, was)
