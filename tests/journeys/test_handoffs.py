"""What a successor is told of sessions that were cut off: a few of the journeys of `python -m bench.handoff`, with floors that may only rise."""

from __future__ import annotations

import pytest
from bench.handoff import measure, play
from bench.handoff.journey import END, Fact, Trap, grouped, journeys
from bench.handoff.scoring import score, tells
from bench.handoff.views import OURS

RECORDED = {"rule": 100, "next": 100, "file": 100, "result": 100, "step": 100, "base": 100, "stale": 0}
PLAYED = {
    ("cart-total", "killed"): {"rule": 100, "next": 100, "file": 100, "result": 100, "stale": 0},
    ("login-limit", "other vendor"): {"rule": 100, "next": 100, "file": 100, "result": 100, "stale": 0},
    ("map-tiles", "red test"): {"rule": 100, "file": 100, "result": 100, "stale": 0},
    ("tree-sync", "killed"): {"rule": 100, "next": 100, "file": 100, "result": 100, "stale": 0},
    ("price-rules", "mid-edit"): {"rule": 100, "file": 100, "result": 100, "stale": 0},
    ("video-seek", "compaction"): {"rule": 100, "next": 100, "file": 100, "result": 100, "stale": 0},
    **dict.fromkeys((("text-diff-by-gemini", END), ("game-save-by-opencode", END)), RECORDED),
}
"""What is told with 2,000 tokens of what matters most, in per cent at least, and how many stale facts at most.

Change a number when the product got better, never when it got worse."""


@pytest.mark.parametrize(("name", "where"), PLAYED, ids=lambda value: value.replace(" ", "-"))
def test_a_successor_is_told_no_less_than_it_was(name, where, tmp_path):
    journey = next(one for one in journeys() if one.name == name)
    stage = play.Stage(str(tmp_path / "stage"))
    (told,) = [one.score for one in measure(stage, journey, where) if one.view == OURS and one.budget == 2000]
    floors = dict(PLAYED[name, where])
    assert len(told.stale) <= floors.pop("stale"), told.stale
    reached = {kind: 100 * told.found[kind] // told.asked[kind] for kind in floors}
    lost = [fact.label for fact in told.missing]
    assert all(reached[kind] >= floors[kind] for kind in floors), (reached, lost)
    assert not told.invented, told.invented


def test_every_journey_has_a_cut_of_every_kind_and_a_key():
    found = journeys()
    assert len([one for one in found if not one.recording]) >= 30
    assert {one.client for one in found if one.recording} >= {
        "claude",
        "codex",
        "gemini",
        "copilot",
        "opencode",
        "qwen",
    }
    assert len({one.name for one in found}) == len(found)
    for one in found:
        said = {kind for act in one.acts for kind in act}
        assert {"goal", "rule", "decision", "dead", "environment", "next", "half", "red"} <= said, one.name


def test_a_fact_counts_only_where_its_words_stand_close_together():
    fact = Fact("decision", grouped("decimal; float|floats; cent"))
    assert tells("Use `Decimal`: floats lose\na cent.", fact)
    assert not tells("Use Decimal." + " " * 9 + "x" * 400 + " floats lose a cent.", fact)
    assert not tells("Use Decimal, floats are bad.", fact)


def test_a_file_counts_only_with_what_was_done_to_it():
    fact = Fact("file", (("shop/tax.py",),), how="new")
    assert tells("- `shop/tax.py`: new", fact)
    assert tells("?? shop/tax.py", fact)
    assert tells("Added:\n\n- `shop/tax.py`", fact)
    assert not tells("Changed and not committed now:\n\n- `shop/tax.py`", fact)
    assert not tells("A tests/shop/tax.pyc", fact)


def test_what_is_over_is_stale_unless_it_is_told_as_the_past():
    trap = Trap("stale", (("next",), *grouped("write; backoff.py")), 140)
    assert score("## Next\n\nNext: write backoff.py", [], [trap]).stale
    assert not score("## What came before\n\nNext: write backoff.py", [], [trap]).stale
    assert not score("## Next\n\nearlier, 04:12: next: write backoff.py", [], [trap]).stale
