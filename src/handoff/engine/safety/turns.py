"""Work that many threads of one supervisor ask for at once, done once for all who wait."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


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
