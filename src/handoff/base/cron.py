"""When work recurs: five fields of cron, in a time zone, with its changes to and from summer time."""

from __future__ import annotations

import os
from calendar import timegm
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from handoff.base.errors import UserError
from handoff.base.record import Record

_MACROS = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}  # fmt: skip
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day of the week", 0, 7))
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_DAYS = "sun mon tue wed thu fri sat".split()
_SUNDAY, _WEEK = 7, 7
_LONGEST_DAYS = 8 * 366 + 1
"""From one 29th of February to the next, across a century that has none."""
_HINT = "Minute, hour, day, month and day of the week, for example '0 3 * * 1-5'; or @hourly, @daily, @weekly."


class Cron(Record):
    """The moments one line of cron means."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool
    """Whether a day of the month or a day of the week is enough: where both are said, as cron has it."""
    floats: bool
    """Whether it is about spans (every hour, every ten minutes) and not about times of a day."""

    def has(self, day: date) -> bool:
        """Whether something is to be done on that day."""
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % _WEEK in self.weekdays
        return in_month or in_week if self.either else in_month and in_week

    def after(self, moment: float, zone: str) -> float:
        """The first moment after this one. A time that clocks skip counts after the jump, one that they show twice counts once;
        what is about spans goes on through both."""
        place = zone_of(zone)
        day = datetime.fromtimestamp(moment, place).date()
        for _ in range(_LONGEST_DAYS):
            found = self._of(day, place, moment) if self.has(day) else None
            if found is not None:
                return found
            day += timedelta(days=1)
        raise UserError("Such a day never comes.", _HINT)

    def _of(self, day: date, place: ZoneInfo, moment: float) -> float | None:
        """The first one of that day after a moment."""
        if not self.floats:
            times = (
                datetime(day.year, day.month, day.day, hour, minute, tzinfo=place).timestamp()
                for hour in self.hours
                for minute in self.minutes
            )
            return min((at for at in times if at > moment), default=None)
        begin, end = (
            timegm(datetime(one.year, one.month, one.day, tzinfo=place).utctimetuple())
            for one in (day, day + timedelta(days=1))
        )
        for at in range(max(begin, int(moment // 60) * 60 + 60), end, 60):
            clock = datetime.fromtimestamp(at, place)
            if clock.hour in self.hours and clock.minute in self.minutes:
                return float(at)
        return None

    def missed(self, due: float, now: float, zone: str, most: int = 10_000) -> int:
        """How many moments have come since `due` was one, without itself."""
        number = 0
        while number < most and (due := self.after(due, zone)) <= now:
            number += 1
        return number


def read(text: str) -> Cron:
    """A line of cron; what is wrong with it is told by its field."""
    words = _MACROS.get(text.strip().lower(), text).split()
    if len(words) != len(_FIELDS):
        raise UserError(f"'{text}' has {len(words)} fields, and cron has five.", _HINT)
    minutes, hours, days, months, weekdays = (_field(word, *field) for word, field in zip(words, _FIELDS, strict=True))
    either = not words[2].startswith("*") and not words[4].startswith("*")
    floats = words[0].startswith("*") or words[1].startswith("*")
    found = Cron(
        minutes=minutes, hours=hours, days=days, months=months, weekdays=frozenset(one % _SUNDAY for one in weekdays),
        either=either, floats=floats,
    )  # fmt: skip
    found.after(0.0, "UTC")  # a day that never comes is told now
    return found


def _field(word: str, name: str, least: int, most: int) -> frozenset[int]:
    found: set[int] = set()
    for part in word.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        low = least if span == "*" else _number(first, name, least, most)
        high = most if span == "*" or (slash and not dash) else _number(last, name, least, most) if dash else low
        if (slash and not (step.isdecimal() and int(step))) or low > high:
            raise UserError(f"'{part}' is no {name} of cron.", _HINT)
        found.update(range(low, high + 1, int(step or 1)))
    return frozenset(found)


def _number(text: str, name: str, least: int, most: int) -> int:
    names = _MONTHS if name == "month" else _DAYS if name.endswith("week") else []
    number = names.index(text.lower()) + least if text.lower() in names else int(text) if text.isdecimal() else -1
    if not least <= number <= most:
        raise UserError(f"'{text}' is no {name}: it is from {least} to {most}.", _HINT)
    return number


def zone_of(name: str) -> ZoneInfo:
    """The time zone of a name."""
    try:
        return ZoneInfo(name)
    except (
        LookupError,
        OSError,
        ValueError,
    ) as error:  # a folder, a name that is none, or no table of zones on this machine
        raise UserError(
            f"There is no time zone '{name}' on this machine.", "For example: Europe/Berlin, or UTC"
        ) from error


def local_zone(said: str) -> str:
    """The zone of this machine's clock, as far as it has a name."""
    return said.removeprefix(":") or os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2] or "UTC"


def shown(moment: float, zone: str) -> str:
    """A moment on the clock of its time zone: 2026-11-19 03:00 CET."""
    at = datetime.fromtimestamp(moment, UTC).astimezone(zone_of(zone))
    return f"{at:%Y-%m-%d %H:%M} {at.tzname() or zone}"
