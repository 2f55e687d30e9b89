"""How far something long has come: one line at the bottom of a person's terminal, from the third second on, gone at the end."""

from __future__ import annotations

import threading

from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.base.clock import Clock

_FIRST_SECONDS = 2.0
_AGAIN_SECONDS = 0.5
_MINUTE = 60
_LEAST_SHARE = 0.02


class ProgressLine:
    """What is being done at present. A thread of its own draws it, because the work is busy with itself."""

    def __init__(self, clock: Clock, draw: Callable[[str], None]) -> None:
        self._clock, self._draw = clock, draw
        self._began = self._what_began = clock.monotonic()
        self._now = ("", 0, 0)
        self._shown = False
        self._lock = threading.RLock()
        self._over = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def tell(self, what: str, done: int, total: int) -> None:
        """What is being done, and how much of it is."""
        with self._lock:
            if what != self._now[0]:
                self._what_began = self._clock.monotonic()
            self._now = (what, done, total)

    def clear(self) -> None:
        """Make room for a line of somebody else; it comes back by itself."""
        with self._lock:
            if self._shown:
                self._draw("")
                self._shown = False

    def close(self) -> None:
        self._over.set()
        self.clear()

    def _run(self) -> None:
        pause = _FIRST_SECONDS
        while not self._over.wait(pause):
            pause = _AGAIN_SECONDS
            with self._lock:
                if not self._over.is_set() and self._now[0]:
                    self._draw(self.words())
                    self._shown = True

    def words(self) -> str:
        """`Reading files: 1200 of 5000, 24 %, 6 s, about 19 s more`."""
        what, done, total = self._now
        passed = self._clock.monotonic() - self._what_began
        share = done / total if total else 0.0
        parts = [f"{done} of {total}, {share:.0%}"] if total > 1 else []
        parts.append(_seconds(self._clock.monotonic() - self._began))
        if total > 1 and share > _LEAST_SHARE:
            parts.append(f"about {_seconds(passed * (1 - share) / share)} more")
        return f"{what}: {', '.join(parts)}"


def _seconds(amount: float) -> str:
    whole = round(amount)
    return f"{whole} s" if whole < _MINUTE else f"{whole // _MINUTE}:{whole % _MINUTE:02d} min"
