"""What was built, written once so that it fails and once so that it does nothing; only where nothing else was built."""

from __future__ import annotations

import pytest

from handoff.checks.findings import FileChange
from handoff.engine.place.proof.broken_sources import NOTHING, ONLY_FAILS, broken

BEFORE = """
RATE = 2

def old(a):
    return a * RATE

class Till:
    def open(self):
        return True
"""
BUILT = """
import functools
import sys
RATE = 2

def old(a):
    return a * RATE

@functools.lru_cache
def kept():
    return {}

async def late(a):
    return old(a)

class Till:
    def open(self):
        return True

    @property
    def total(self):
        "All of it."
        return 7

if __name__ == "__main__":
    print(old(1))
"""


def made(before: str | None, after: str, path: str = "shop.py"):
    return broken([FileChange(path, is_test=False, before=before, after=after)])


def test_what_changed_fails_or_does_nothing_and_the_rest_is_as_it_was():
    found = made(BEFORE, BUILT)
    fails, nothing = (found[how] for how in (ONLY_FAILS, NOTHING))
    space: dict[str, object] = {}
    exec(compile(nothing["shop.py"], "shop.py", "exec"), space)
    assert space["old"](3) == 6
    assert space["Till"]().open()
    assert space["Till"]().total is None
    assert not hasattr(space["kept"], "cache_info"), "what a decorator does is its work, too"
    exec(compile(fails["shop.py"], "shop.py", "exec"), space)
    assert space["old"](3) == 6
    with pytest.raises(RuntimeError):
        space["Till"]().total  # noqa: B018 - asking is the question
    with pytest.raises(RuntimeError):
        space["late"](1).send(None)


@pytest.mark.parametrize(
    "after",
    [
        BEFORE.replace("RATE = 2", "RATE = 3") + "def new():\n    return 1\n",
        BEFORE + "class Point:\n    x = 1\n",
        BEFORE.replace("def open(self)", "def close(self)"),
        "def (",
    ],
    ids=["a value", "a class without functions", "a function is gone", "no Python"],
)
def test_where_something_else_was_built_nothing_is_broken(after):
    assert made(BEFORE, after) == {}


def test_a_file_of_another_kind_may_be_what_a_test_is_about():
    assert made(None, "{}", "shop.json") == {}
