"""Moments as text and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import integers

from handoff.base.clock import parse_stamp, stamp


@given(integers(-30_000_000_000, 253_402_300_799))
def test_a_stamp_means_the_moment_it_was_made_of(seconds: int) -> None:
    assert parse_stamp(stamp(seconds)) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-11-19",
        "2026-11-19 08:30:00",
        "2026-11-19T08:30:00",
        "2026-02-29T08:30:00Z",
        "2026-11-31T08:30:00Z",
        "2026-13-01T08:30:00Z",
        "2026-11-19T24:00:00Z",
        "2026-11-19T08:60:00Z",
        "2026-11-19T08:30:00+01:00",
        " 2026-11-19T08:30:00Z",
        "-026-11-19T08:30:00Z",
    ],
)
def test_any_other_text_means_no_moment(text: str) -> None:
    assert parse_stamp(text) is None


def test_a_leap_day_is_a_day() -> None:
    assert parse_stamp("2024-02-29T23:59:59Z") == 1_709_251_199
    assert parse_stamp("2000-03-01T00:00:00Z") == 951_868_800
