"""When a provider's limit ends is read from the client's own words."""

from __future__ import annotations

import pytest

from handoff.agents.endings import reset_time

NOW = 1_763_193_600.0  # 2025-11-15 08:00:00 UTC


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Claude AI usage limit reached|1763200000", 6400),
        ('{"resetsAt":1763200000}', 6400),
        ("rate limited, resets 1763200000000", 6400),
        ("Please try again in 20s.", 20),
        ("Please try again in 1.5s", 1.5),
        ("You've hit your usage limit. Try again in 3 days 2 hours 5 minutes.", 3 * 86400 + 2 * 3600 + 300),
        ("Your quota will reset after 12h34m56s.", 12 * 3600 + 34 * 60 + 56),
        ("retry after 30 seconds", 30),
        ("Retry-After: 42", 42),
        ("rate limit: try again in 5h 30m", 5 * 3600 + 1800),
        ("limit resets at 2025-11-15T09:00:00Z", 3600),
        ("limit resets at 2025-11-15 09:30 UTC", 5400),
        ("You've hit your limit, resets 3pm (UTC)", 7 * 3600),
        ("resets 7am (UTC)", 23 * 3600),
        ("Try again at 3:45 PM.", 7 * 3600 + 45 * 60),
        ("Your limit resets Nov 17, 8am (UTC)", 2 * 86400),
        ("try again at Nov 16th, 9:30 AM", 86400 + 5400),
    ],
)
def test_the_moment_is_read_from_the_words(words, seconds):
    assert reset_time(words, NOW) == pytest.approx(NOW + seconds)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "rate limit exceeded",
        "resets soon",
        "limit|1600000000",
        "try again in 400 days",
        "line 3 at 7",
        "resets 99pm",
    ],
)
def test_words_that_name_no_moment_give_none(words):
    assert reset_time(words, NOW) is None
