"""Lines of cron: which moments they mean, also where clocks jump."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from handoff.base import cron
from handoff.base.errors import UserError

BERLIN = "Europe/Berlin"


def _times(line: str, *start: int, count: int = 3, zone: str = BERLIN) -> list[str]:
    at, found = datetime(*start, tzinfo=ZoneInfo(zone)).timestamp(), []
    for _ in range(count):
        at = cron.read(line).after(at, zone)
        found.append(cron.shown(at, zone)[5:])
    return found


def test_the_five_fields_mean_what_cron_means_by_them():
    assert _times("0 3 * * 1-5", 2026, 11, 20, 12) == ["11-23 03:00 CET", "11-24 03:00 CET", "11-25 03:00 CET"]
    assert _times("*/20 8,17 * * *", 2026, 6, 1, 8, 20) == ["06-01 08:40 CEST", "06-01 17:00 CEST", "06-01 17:20 CEST"]
    assert _times("0 0 13 * fri", 2026, 1, 1) == ["01-02 00:00 CET", "01-09 00:00 CET", "01-13 00:00 CET"]
    assert _times("15 6 29 feb *", 2026, 1, 1) == ["02-29 06:15 CET"] * 3
    assert _times("0 0 * * 7", 2026, 1, 1) == _times("@weekly", 2026, 1, 1) == ["01-04 00:00 CET", "01-11 00:00 CET", "01-18 00:00 CET"]  # fmt: skip


def test_a_time_that_clocks_skip_or_show_twice_comes_once_and_spans_go_on():
    assert _times("30 2 * * *", 2026, 3, 28, 12, count=2) == ["03-29 03:30 CEST", "03-30 02:30 CEST"]
    assert _times("30 2 * * *", 2026, 10, 24, 12, count=2) == ["10-25 02:30 CEST", "10-26 02:30 CET"]
    assert _times("*/30 * * * *", 2026, 3, 29, 1, 15) == ["03-29 01:30 CET", "03-29 03:00 CEST", "03-29 03:30 CEST"]
    twice = _times("0 * * * *", 2026, 10, 25, 1, 30)
    assert twice == ["10-25 02:00 CEST", "10-25 02:00 CET", "10-25 03:00 CET"]


def test_what_was_missed_is_counted():
    assert cron.read("* * * * *").missed(0.0, 420 * 60.0, BERLIN) == 420
    assert cron.read("@daily").missed(0.0, 3600.0, "UTC") == 0


@pytest.mark.parametrize(
    "wrong",
    ["* * * *", "60 * * * *", "* * 0 * *", "0 0 31 2 *", "*/0 * * * *", "5-1 * * * *", "a * * * *", "-1 * * * *", ""],
)
def test_what_is_no_line_of_cron_is_refused_with_an_example(wrong):
    with pytest.raises(UserError) as caught:
        cron.read(wrong)
    assert "0 3 * * 1-5" in caught.value.hint


def test_a_zone_nobody_knows_is_refused():
    for wrong in ("Europe/Atlantis", "..", ""):
        with pytest.raises(UserError, match="There is no time zone"):
            cron.zone_of(wrong)
