"""Tests as plain code: what they take from their runner stands in, and what only that has is lacking."""

from __future__ import annotations

import ast
import base64
import json
import random
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from handoff.checks.reporters import plain
from handoff.engine.place.proof.plain_plays import play_of, script

PYTEST = """
    import pytest
    from pytest import approx, raises

    @pytest.fixture
    def three(two):
        yield two + 1

    @pytest.fixture(name="two")
    def _two():
        return 2

    @pytest.fixture(autouse=True)
    def set_up(monkeypatch):
        monkeypatch.setenv("GIVEN", "yes")

    @pytest.fixture
    def late():
        return 1

    def test_fixtures(three, shared):
        assert (three, shared) == (3, 9)

    @pytest.mark.parametrize("a, b", [(1, 2), (3, 4)])
    @pytest.mark.parametrize("c", (5,))
    def test_rows(a, b, c):
        assert (b - a, c) == (1, 5)

    def test_errors():
        with raises(ValueError, match="inv.lid") as caught:
            int("x")
        assert caught.type is ValueError
        pytest.raises(KeyError, {}.__getitem__, 3)

    def test_near():
        assert 0.1 + 0.2 == approx(0.3)
        assert [1.0, 2.00000001] == pytest.approx([1, 2])
        assert 5 != approx(6)

    def test_patched(monkeypatch, tmp_path):
        import os, sys
        assert os.environ["GIVEN"] == "yes"
        monkeypatch.setattr(sys, "platform", "none")
        (tmp_path / "a").write_text("b")
        assert (tmp_path / "a").read_text() == "b" and sys.platform == "none"
        assert not any(name.endswith("pytest") for name in sys.modules)

    def test_lacking(capsys):
        assert capsys

    async def test_async():
        assert False

    class TestSet:
        @pytest.fixture
        def own(self):
            return 4

        def setup_method(self):
            self.one = 1

        def test_method(self, own):
            assert self.one + own == 5
    """
UNITTEST = """
    import sys
    import unittest
    from unittest import mock
    from unittest.mock import patch

    class Sums(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            cls.one = 1

        def setUp(self):
            self.addCleanup(list)

        def test_all(self):
            self.assertEqual(self.one + 1, 2)
            with self.assertRaises(ValueError):
                int("x")
            with self.subTest(a=1):
                self.assertIn(1, [1])
            with patch("os.getcwd", return_value="here"), mock.patch.dict("os.environ", {"A": "b"}):
                import os
                self.assertEqual(os.getcwd(), "here")
            self.assertFalse([name for name in sys.modules if name.startswith("unittest")])

        def test_wrong(self):
            self.assertEqual(self.one + 1, 3)
    """
SHARED = """
import pytest

@pytest.fixture
def shared():
    return 9
"""


def played(text: str, *names: str, chance: random.Random) -> dict[str, str]:
    """By test what was raised; of the same asking for something else behind a star."""
    texts = {"tests/test_it.py": textwrap.dedent(text), "tests/conftest.py": SHARED}
    plays = [play_of(texts, f"suite:tests/test_it.py::{name}", chance) for name in names]
    jobs = {one.id.partition("::")[2]: one.alone for one in plays if one is not None}
    jobs |= {f"{one.id.partition('::')[2]}*": one.other for one in plays if one is not None and one.other}
    made = script("work", "=", 1.0, "[]", json.dumps(list(jobs.values())))
    done = subprocess.run(
        [sys.executable, "-I", "-"], input=f"{made}\nwork()\n", capture_output=True, text=True, check=True
    )
    said = json.loads(base64.b64decode(done.stdout.strip().strip("=") + "=="))[1]
    return {name: one[0] for name, one in zip(jobs, said, strict=True)}


def test_what_tests_take_from_pytest_stands_in():
    chance = random.Random(3)
    names = ("test_fixtures", "test_rows", "test_errors", "test_near", "test_patched", "TestSet::test_method")
    said = played(PYTEST, *names, chance=chance)
    assert {name: kind for name, kind in said.items() if name in names} == dict.fromkeys(names, "")
    others = {name.strip("*"): kind for name, kind in said.items() if name.endswith("*")}
    assert others == dict.fromkeys(set(names) - {"test_errors"}, "AssertionError")


def test_what_only_the_runner_has_is_lacking():
    assert played(PYTEST, "test_lacking", "test_not_there", chance=random.Random(3)) == {"test_lacking": "Skipped"}


def test_a_case_of_unittest_is_played_without_it():
    said = played(UNITTEST, "Sums::test_all", "Sums::test_wrong", chance=random.Random(3))
    assert (said["Sums::test_all"], said["Sums::test_wrong"]) == ("", "AssertionError")


@pytest.mark.parametrize("text", ["def (", "x = 1\n"])
def test_a_file_without_the_test_has_no_play(text):
    assert play_of({"tests/test_it.py": text}, "suite:tests/test_it.py::test_it", random.Random(1)) is None


def test_a_project_may_have_an_older_python():
    listed = sorted(Path(plain.__file__).parent.glob("*.py"))
    assert Path(plain.__file__) in listed
    for path in listed:
        tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
        late = [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == "typing"]
        assert not late, f"{path.name}: names of `typing` stand under TYPE_CHECKING"
    texts = {"tests/test_it.py": textwrap.dedent(PYTEST), "tests/conftest.py": SHARED}
    play = play_of(texts, "suite:tests/test_it.py::test_rows", random.Random(3))
    made = script("work", "=", 1.0, "[]", json.dumps([play.alone])) + "\nwork()\n"
    for name in ("python3.8", "python3.9", "python3.10"):
        known = shutil.which(name)
        if known and subprocess.run([known, "-c", "pass"], capture_output=True, check=False).returncode == 0:
            done = subprocess.run([known, "-I", "-"], input=made, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
