"""What time it is: the only place that asks."""

from __future__ import annotations

import time

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    class Clock(Protocol):
        """Time as an input, so that tests move it instead of sleeping."""

        def now(self) -> float: ...

        def monotonic(self) -> float: ...

        def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


_BOOT: list[str] = []


def boot_id() -> str:
    """Which run of the machine this is: monotonic times compare only within one. Empty where nobody says.

    Read once: no process outlives it, and every claim asks.
    """
    if not _BOOT:
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
                _BOOT.append(file.read().strip())
        except (OSError, ValueError):
            _BOOT.append("")
    return _BOOT[0]


def stamp(seconds: float) -> str:
    """A moment as UTC text that sorts: 2026-11-15T08:30:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def time_of_day(seconds: float) -> str:
    """A moment as the clock on the person's wall shows it: 14:02."""
    return time.strftime("%H:%M", time.localtime(seconds))


def day_of(seconds: float) -> str:
    """The day of a moment on the person's calendar: Thursday 1 January 2026."""
    moment = time.localtime(seconds)
    return time.strftime(f"%A {moment.tm_mday} %B %Y", moment)


def parse_stamp(text: str) -> float | None:
    """The moment a `stamp` text means, or None if it is not one."""
    try:
        year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
        second = int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])
    except ValueError:
        return None
    # Counted from March on, so that the leap day is a year's last; `time.strptime` and `calendar` load more than a command does.
    years, months = (year, month - 3) if month > 2 else (year - 1, month + 9)  # noqa: PLR2004 - February
    days = 365 * years + years // 4 - years // 100 + years // 400 + (153 * months + 2) // 5 + day - 719469
    seconds = days * 86400 + second
    return float(seconds) if stamp(seconds) == text else None


def age(seconds: float) -> str:
    """A span as a person says it: 5 s, 12 min, 3 h, 2 days."""
    seconds = max(0.0, seconds)
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (129600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"


_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


def span(text: str) -> float:
    """The seconds a person means by 90s, 30m, 2h or 1d; a plain number is minutes."""
    bare = text.strip().lower().replace(" ", "")
    digits = bare.rstrip("abcdefghijklmnopqrstuvwxyz")
    try:
        seconds = float(digits) * _UNITS[bare[len(digits) :] or "m"]
    except (ValueError, KeyError):
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UserError(f"'{text}' is not a span of time.", "For example: 90s, 30m, 2h or 1d")
    return seconds
