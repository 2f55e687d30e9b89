"""Rules settle what only adds, in both orders, and leave everything else a conflict."""

from __future__ import annotations

import ast

import pytest

from handoff.git.landing.rules import rules_way
from merge_scenarios import BOTH, CONFLICT, SCENARIOS, WRONG
from merge_table import MergeTable


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    from sandbox import Repo

    return MergeTable(Repo.create(str(tmp_path_factory.mktemp("rules") / "repo")))


def _outcome(table, scenario, first, second, **how):
    """The merged text; None for a conflict."""
    base = table.commit({scenario.path: scenario.base, "other.txt": "other\n"})
    members = [
        table.member(name, base, {scenario.path: text, "other.txt": "other\n"})
        for name, text in (("first", first), ("second", second))
    ]
    merged = table.merge(base, *members, **how)
    return None if merged.conflicts else table.files(merged.new)[scenario.path]


def _lines(text):
    return {line.rstrip().removesuffix(",") for line in text.splitlines() if line.strip()}


def _is_right(scenario, text):
    if scenario.path.endswith(".py"):
        ast.parse(text)
    if scenario.want == BOTH:
        base, ours, theirs = _lines(scenario.base), _lines(scenario.ours), _lines(scenario.theirs)
        return _lines(text) == (base & ours & theirs) | (ours - base) | (theirs - base) and text.count("\n") <= (
            scenario.ours.count("\n") + scenario.theirs.count("\n")
        )
    return text == scenario.want


@pytest.mark.parametrize("turned", [False, True], ids=["as written", "turned round"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_no_scenario_is_joined_wrongly_and_what_only_adds_is_joined(table, scenario, turned):
    sides = (scenario.theirs, scenario.ours) if turned else (scenario.ours, scenario.theirs)
    plain = _outcome(table, scenario, *sides)
    made = _outcome(table, scenario, *sides, ways=[rules_way(table.store)])
    if scenario.want == WRONG:
        assert made == plain is not None, "a rule changes nothing of what git joins by itself"
    elif scenario.want == CONFLICT:
        assert made is None
    elif scenario.rule:
        assert plain is None, "git alone would do"
        assert made is not None
        assert _is_right(scenario, made), made
    else:
        assert made is None or _is_right(scenario, made)


def test_there_are_59_scenarios_and_rules_settle_most_that_may_be_settled():
    assert len(SCENARIOS) == len({one.name for one in SCENARIOS}) == 59
    assert sum(one.rule for one in SCENARIOS) >= 27


def test_a_proposal_of_a_rule_is_told_as_not_proven(table):
    scenario = next(one for one in SCENARIOS if one.rule)
    base = table.commit({scenario.path: scenario.base})
    one = table.member("one", base, {scenario.path: scenario.ours})
    two = table.member("two", base, {scenario.path: scenario.theirs})
    merged = table.merge(base, one, two, ways=[rules_way(table.store)])
    assert [tuple(done) for done in merged.settled] == [
        (scenario.path, "one", "two", "a rule: both only add Python", False)
    ]  # fmt: skip
