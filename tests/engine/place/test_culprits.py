"""Who made a check red is found by peeling, also when two are guilty, when only a pair is, and when a check fails by chance."""

from __future__ import annotations

import pytest

from handoff.checks.commands import Verdict
from handoff.engine.place.landing import THE_TARGET, CulpritSearch
from snapshot_archive import MovingClock


class Suite:
    """Checks that are red as a rule over names says."""

    def __init__(self, rule):
        self.rule, self.asked = rule, []

    def __call__(self, names):
        self.asked.append(names)
        red = self.rule(set(names))
        return None if red is None else Verdict("check", int(red), 1.0, " ".join(names))


def search(names, rule, **how):
    suite = Suite(rule)
    seen = suite(tuple(names))
    return CulpritSearch(names, check=suite, clock=MovingClock(), seen=seen, **how).run(), suite


NAMES = [f"p{number}" for number in range(10)]


@pytest.mark.parametrize(
    "guilty", [("p0",), ("p4",), ("p9",), ("p2", "p7"), ("p0", "p1", "p9"), ("p3", "p4", "p5", "p6")]
)
def test_every_culprit_is_found_and_the_others_are_green_together(guilty):
    blame, _ = search(NAMES, lambda names: bool(names & set(guilty)))
    assert [one.member for one in blame.culprits] == list(guilty)
    assert not any(one.together for one in blame.culprits)
    assert list(blame.green) == [name for name in NAMES if name not in guilty]
    assert blame.words == ", ".join(guilty)


def test_two_that_are_red_only_together_are_named_as_a_pair():
    blame, _ = search(NAMES, lambda names: {"p2", "p6"} <= names)
    assert [(one.member, one.together) for one in blame.culprits] == [("p6", "p2")]
    assert blame.words == "p6 together with p2"
    assert "p2" in blame.green


def test_the_target_itself_is_blamed_when_it_is_red_alone():
    blame, _ = search(NAMES, lambda _: True)
    assert blame.words == THE_TARGET
    assert not blame.culprits
    assert not blame.green


def test_a_check_that_fails_by_chance_blames_nobody():
    turns = iter([True, False])
    blame, _ = search(NAMES, lambda _: next(turns, False))
    assert blame.flaky
    assert not blame.culprits


def test_what_builds_on_a_culprit_waits_and_is_not_blamed():
    needs = {"p3": frozenset({"p1"}), "p5": frozenset({"p3"})}
    blame, suite = search(NAMES[:6], lambda names: "p1" in names, needs=needs)
    assert [one.member for one in blame.culprits] == ["p1"]
    assert blame.waiting == ("p3", "p5")
    assert blame.green == ("p0", "p2", "p4")
    assert all("p1" in names for names in suite.asked if "p3" in names), "nobody is tried without what it builds on"


def test_a_culprit_is_judged_with_what_it_builds_on():
    blame, _ = search(["a", "b", "c"], lambda names: "c" in names and "a" in names, needs={"c": frozenset({"a"})})
    assert [(one.member, one.together) for one in blame.culprits] == [("c", "")]


def test_few_runs_are_enough_for_many_members():
    names = [f"p{number}" for number in range(200)]
    blame, suite = search(names, lambda some: "p117" in some)
    assert blame.words == "p117"
    assert len(suite.asked) <= 22  # each red is run twice


def test_the_search_ends_when_there_are_too_many():
    blame, _ = search([f"p{number}" for number in range(64)], lambda some: len(some) > 0)
    assert blame.given_up.startswith("not found within")
    assert not blame.green


def test_members_that_do_not_join_without_others_are_not_called_red():
    blame, _ = search(["a", "b", "c"], lambda names: None if names == {"b"} else "b" in names)
    assert [one.member for one in blame.culprits] == ["b"]
