"""When a provider's limit ends, read from the client's own words."""

from __future__ import annotations

import re

_SECONDS = {
    0.001: "ms millisecond",
    1: "s sec second",
    60: "m min minute",
    3600: "h hr hour",
    86400: "d day",
    604800: "w week",
}
_UNITS = {word: seconds for seconds, words in _SECONDS.items() for word in words.split()}
_SPAN = r"((?:\d+(?:\.\d+)?\s*(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)\b[\s,]*(?:and\s+)?)+)"
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_LONGEST_SECONDS = 14 * 86400.0
_NOON = 12


def reset_time(text: str, now: float) -> float | None:
    """When the words say that work may go on, as a moment after `now`; None when they do not say."""
    for reader in (_epoch, _iso, _span, _clock_time):
        found = reader(text, now)
        if found is not None and now < found <= now + _LONGEST_SECONDS:
            return found
    return None


def _epoch(text: str, now: float) -> float | None:
    """`limit reached|1763200000`, `"resetsAt": 1763200000`: seconds or milliseconds since 1970."""
    del now
    found = re.search(r"(?:\||reset\w*\W{1,4})(\d{10})(\d{3})?\b", text, re.IGNORECASE)
    return float(f"{found[1]}.{found[2] or 0}") if found else None


def _iso(text: str, now: float) -> float | None:
    del now
    found = re.search(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?\s?(?:Z|UTC|[+-]\d\d:?\d\d)?", text)
    if found is None:
        return None
    from datetime import UTC, datetime

    words = found[0].strip().replace(" UTC", "Z").replace("UTC", "Z").replace(" ", "T")
    try:
        moment = datetime.fromisoformat(words)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _span(text: str, now: float) -> float | None:
    """`try again in 5h 30m`, `retry after 30 seconds`, `reset after 12h34m56s`, `retry-after: 42`."""
    tight = re.sub(r"(\d)(ms|[smhdw])(?=\d)", r"\1\2 ", text)
    found = re.search(r"(?:\bin|after|within|wait)\W{1,3}" + _SPAN, tight, re.IGNORECASE)
    if found is not None:
        parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", found[1].lower())
        return now + sum(float(n) * _UNITS.get(unit.rstrip("s") or "s", 0.0) for n, unit in parts)
    bare = re.search(r"retry[-_ ]?after\W{1,4}(\d+(?:\.\d+)?)\b", text, re.IGNORECASE)
    return now + float(bare[1]) if bare else None


def _clock_time(text: str, now: float) -> float | None:
    """`resets 3pm (UTC)`, `try again at 3:45 PM`, `resets Nov 17, 8am`."""
    found = re.search(
        r"(?:resets?|again|until|at)\s+(?:at\s+|on\s+)?(?:([a-z]{3})[a-z]*\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(?:at\s+)?)?"
        r"(\d{1,2})(?::(\d\d))?\s*([ap]m)?\b(?:\s*\(?(utc|gmt)\b)?",
        text,
        re.IGNORECASE,
    )
    if found is None or (found[4] is None and found[5] is None):
        return None
    hour, minute = int(found[3]), int(found[4] or 0)
    if found[5]:
        if hour > _NOON:
            return None
        hour = hour % _NOON + (_NOON if found[5].lower() == "pm" else 0)
    return _moment(now, (found[1] or "").lower(), int(found[2] or 0), hour, minute, universal=bool(found[6]))


def _moment(now: float, month: str, day: int, hour: int, minute: int, *, universal: bool) -> float | None:
    from datetime import UTC, datetime, timedelta

    zone = UTC if universal else None
    today = datetime.fromtimestamp(now, UTC) if universal else datetime.fromtimestamp(now).astimezone(zone)
    try:
        wanted = today.replace(hour=hour, minute=minute, second=0, microsecond=0)
        if month in _MONTHS and day:
            wanted = wanted.replace(month=_MONTHS.index(month) + 1, day=day)
            return (wanted if wanted > today else wanted.replace(year=wanted.year + 1)).timestamp()
    except ValueError:
        return None
    return (wanted if wanted > today else wanted + timedelta(days=1)).timestamp()
