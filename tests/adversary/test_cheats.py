"""Cheats are refused by their names, honest work is not: the quick selection here, all of it by `make cheats`."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections import Counter

import pytest

from cheats import drawn, page
from cheats.controls import Alarm, doctests, refactors, try_refactors
from cheats.data import CAUGHT, CLASSES, cheats, expected
from cheats.ground import Arena
from cheats.packages import PACKAGES, tree_of
from sandbox import Repo
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
    shown = page.table(states).removesuffix(page.END)
    assert shown in read("docs/trust.md"), "run `make cheats`: docs/trust.md shows another table than the data"


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_a_cheat_of_each_class_is_judged_as_the_list_says(phase, tmp_path, monkeypatch):
    use_this_python(monkeypatch)
    arena = Arena(str(tmp_path), (phase,))
    outcomes = {one.id: arena.try_cheat(one) for one in cheats() if one.quick and one.phase == phase}
    assert page.differences(outcomes, expected()) == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda one: one.name)
def test_the_tests_of_a_real_package_pass_before_anybody_changes_it(package, tmp_path):
    repo = Repo.create(str(tmp_path / package.name), commit=False)
    for path, text in tree_of(package).items():
        repo.write(path, text)
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", package.tests]
    done = subprocess.run(words, cwd=repo.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"\b\d+ passed", done.stdout), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("package", ["shortuuid", "zict"])
def test_honest_changes_of_a_real_package_are_let_through(package, tmp_path, monkeypatch):
    use_this_python(monkeypatch)
    quick = [one for one in refactors(package) if one.quick]
    assert len(quick) >= 2
    assert page.false_alarms(try_refactors(str(tmp_path), package, quick)) == []


@pytest.mark.slow
def test_doctests_that_move_or_are_renamed_with_their_function_are_let_through(tmp_path, monkeypatch):
    use_this_python(monkeypatch)
    assert page.false_alarms(try_refactors(str(tmp_path), "doctests", doctests())) == []


def test_make_knows_how_to_run_all_of_them():
    assert "tests/support/cheats/run.py" in read("Makefile")
    assert os.path.exists(os.path.join(ROOT, "tests", "support", "cheats", "run.py"))


def test_a_seed_draws_the_same_cases_again_and_another_one_others():
    assert drawn.cases(7, 20) == drawn.cases(7, 20)
    assert drawn.cases(7, 20) != drawn.cases(8, 20)
    found = drawn.cases(7, 60)[1]
    assert {one.language for one in found} == {drawn.PYTEST, drawn.UNITTEST, drawn.NODE}
    assert any(one.honest for one in found)
    for text in (
        text for one in found for _, change in one.steps for path, text in change.files.items() if path.endswith(".py")
    ):
        compile(text, "drawn", "exec")


@pytest.mark.parametrize("seed", range(5))
def test_a_weaker_relation_takes_a_wrong_answer_and_an_equal_one_does_not(seed):
    chance = random.Random(seed)
    for function in drawn.functions(chance, 10):
        for name, relation, wrong in drawn.weaker(function, chance, drawn.PYTEST):
            assert eval(relation, {"GOT": function.answer}), name
            assert eval(relation, {"GOT": wrong}), name
            assert wrong != function.answer
        for name, relation in drawn.equal(function, drawn.PYTEST):
            assert eval(relation, {"GOT": function.answer}), name
            assert not eval(relation, {"GOT": wrong}), name


def test_figures_say_how_sure_they_are():
    low, high = page.wilson(18, 20)
    assert (round(low, 2), round(high, 2)) == (0.70, 0.97)
    assert page.wilson(0, 0) == (0.0, 1.0)
    made = [drawn.Verdict("a", False, CAUGHT, "", "lie"), drawn.Verdict("b", True, "missed", "")]
    said = page.drawn_line(made, [5, 6], "2026-01-02")
    assert said.startswith("Drawn on 2026-01-02 by the seeds 5, 6 ")
    assert "of 1 cheats **1 refused** (100 %; with 95 % confidence 21 to 100 %)" in said
    assert said.endswith("Refused by kind: changed tests 0 of 0, new tests 0 of 0, lies about where one is 1 of 1.")
    alarms = [Alarm("toolz/a: one", (), (), ""), Alarm("zict/b: two", ("asks-less",), (), "")]
    assert "(toolz, zict): of 2 **1 refused** (50 %; " in page.honest_line(alarms, "2026-01-02")


def test_a_run_writes_on_the_page_what_it_played_and_leaves_the_rest(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(
        "a\n<!-- honest:begin -->\nold\n<!-- honest:end -->\nb\n<!-- drawn:begin -->\nkept\n<!-- drawn:end -->\nc\n"
    )
    page.write(str(path), {"honest": "new"})
    assert path.read_text() == (
        "a\n<!-- honest:begin -->\nnew\n<!-- honest:end -->\nb\n<!-- drawn:begin -->\nkept\n<!-- drawn:end -->\nc\n"
    )
    assert all(f"<!-- {name}:begin -->" in read("docs/trust.md") for name in page.PARTS)
