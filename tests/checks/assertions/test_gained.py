"""In red an old test file may only gain: what else it held stands there still and means the same."""

from __future__ import annotations

import pytest

from handoff.checks.assertions.gained import lost_statements

OLD = '''"""Tests."""
import pytest
from calc import add

CASES = [(1, 2), (3, 4)]


def same(one, two):
    assert one == two


@pytest.fixture
def cart():
    return []


class TestAdd:
    size = 3

    def test_adds(self):
        same(add(1, 2), self.size)


class Empty:
    pass
'''


@pytest.mark.parametrize(
    "new",
    [
        OLD.replace("import add", "import add, double") + "\n\ndef test_doubles():\n    same(double(2), 4)\n",
        OLD.replace("(3, 4)]", "(3, 4), (5, 6)]"),
        OLD.replace("    pass", "    def test_new(self):\n        assert add(0, 0) == 0"),
        OLD.replace("    size = 3\n", "    size = 3\n    other = 4\n"),
        OLD.replace('"""Tests."""', '"""Tests of sums."""'),
        OLD.replace("import pytest\n", "import os\n\nimport pytest\n"),
        OLD.replace("\n\n\n", "\n\n"),
    ],
)
def test_what_is_added_loses_nothing(new):
    assert lost_statements(OLD, new) == []


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("    assert one == two", "    pass", "same"),
        ("return []", "return [1]", "cart"),
        ("(3, 4)]", "(3, 5)]", "CASES"),
        ("size = 3", "size = 4", "TestAdd.size"),
        ("class TestAdd:", "class TestAdd(list):", "TestAdd"),
        ("from calc import add", "from calc import sub as add", "add"),
        ("class Empty:", "def add(a, b):\n    return 3\n\n\nclass Empty:", "add"),
        ("class Empty:", "add = max\n\n\nclass Empty:", "add"),
        ("@pytest.fixture\n", "@pytest.fixture(autouse=True)\n", "cart"),
    ],
)
def test_what_says_something_else_is_named(old, new, name):
    assert OLD.count(old) == 1
    assert name in lost_statements(OLD, OLD.replace(old, new))


def test_marks_of_a_file_are_no_list_that_may_grow():
    assert lost_statements("pytestmark = []\n", "import pytest\npytestmark = [pytest.mark.skip]\n") == ["pytestmark"]


def test_a_file_that_cannot_be_parsed_is_left_to_the_run():
    assert lost_statements("x = 1\n", "x = (\n") == []
