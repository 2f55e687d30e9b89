"""Cheats are refused by their names, honest work is not: the quick selection here, all of it by `make cheats`."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from cheats import page
from cheats.controls import refactors, try_refactors
from cheats.data import CAUGHT, CLASSES, cheats, expected
from cheats.ground import Arena
from source import ROOT, read
from suites import use_this_python

PHASES = ("red", "green", "refactor")


def test_every_class_of_cheats_has_three_means_and_one_that_is_quick():
    every = cheats()
    tried, quick = Counter(one.kind for one in every), Counter(one.kind for one in every if one.quick)
    assert len(every) >= 80
    assert len({one.id for one in every}) == len(every)
    assert all(tried[kind] >= 3 for kind in CLASSES), tried
    assert all(quick[kind] for kind in CLASSES if any(one.id not in expected() for one in every if one.kind == kind)), (
        quick
    )


def test_the_list_of_what_is_not_refused_names_cheats_and_says_why():
    names = {one.id for one in cheats()}
    for name, (state, why) in expected().items():
        assert name in names
        assert state in ("warned", "missed")
        assert why


def test_the_page_shows_what_is_expected_of_the_judge():
    states = {one.id: expected().get(one.id, (CAUGHT, ""))[0] for one in cheats()}
    shown = page.table(states, None).removesuffix(page.END)
    assert shown in read("docs/trust.md"), "run `make cheats`: docs/trust.md shows another table than the data"


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_a_cheat_of_each_class_is_judged_as_the_list_says(phase, tmp_path, monkeypatch):
    use_this_python(monkeypatch)
    arena = Arena(str(tmp_path), (phase,))
    outcomes = {one.id: arena.try_cheat(one) for one in cheats() if one.quick and one.phase == phase}
    assert page.differences(outcomes, expected()) == []


@pytest.mark.slow
@pytest.mark.parametrize("package", ["shortuuid", "zict"])
def test_honest_changes_of_a_real_package_are_let_through(package, tmp_path, monkeypatch):
    use_this_python(monkeypatch)
    quick = [one for one in refactors(package) if one.quick]
    assert len(quick) >= 2
    assert page.false_alarms(try_refactors(str(tmp_path), package, quick)) == []


def test_make_knows_how_to_run_all_of_them():
    assert "tests/support/cheats/run.py" in read("Makefile")
    assert os.path.exists(os.path.join(ROOT, "tests", "support", "cheats", "run.py"))
