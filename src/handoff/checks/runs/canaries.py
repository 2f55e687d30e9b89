"""Canaries: in every folder with tests one test that must pass and one that must fail, under names nobody can know."""

from __future__ import annotations

import os
import random
import re

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.suite import is_entered

if TYPE_CHECKING:
    from collections.abc import Iterator

FORGIVEN, KILLED = "canary-forgiven", "canary-killed"
_MOST = 60
_TEST = re.compile(r"^(?:(test_)[^/]*|[^/]*(_test))\.py$")
_LETTERS = "abcdefghiklmnoprstuvwz"


class Canary(Record):
    """One file of ours among the tests: the path from the suite's folder, the test that is right and the one that is wrong."""

    path: str
    right: str
    wrong: str

    @property
    def folder(self) -> str:
        return os.path.dirname(self.path)


def place_canaries(folder: str, *, classes: bool = False) -> list[Canary]:
    """Write them beside the tests below `folder`, named as the tests there are; as methods of a class where the runner wants that."""
    chance = random.SystemRandom()
    found = []
    for at, before, after in _test_folders(folder):
        word = random_word(chance)
        owner = f"{random_word(chance).title()}::" if classes else ""
        names = [f"{owner}test_{random_word(chance)}" for _ in range(2)]
        canary = Canary(os.path.join(at, f"{before}{word}{after}.py"), *names)
        path = os.path.join(folder, canary.path)
        if not os.path.lexists(path):
            with open(path, "x", encoding="utf-8") as file:
                file.write(_text(canary, chance))
            found.append(canary)
        if len(found) == _MOST:
            break
    return found


def _test_folders(top: str) -> Iterator[tuple[str, str, str]]:
    """Folders with test files, and how those are named: what stands before and after the word."""
    for at, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if is_entered(name) and not os.path.islink(os.path.join(at, name)))
        match = next((match for name in sorted(names) if (match := _TEST.match(name))), None)
        if match is not None:
            inside = os.path.relpath(at, top)
            yield "" if inside == "." else inside, match[1] or "", match[2] or ""


def random_word(chance: random.SystemRandom) -> str:
    """A name nobody can know."""
    return "".join(chance.choices(_LETTERS, k=9))


def _text(canary: Canary, chance: random.SystemRandom) -> str:
    """Ordinary sums; of the two tests, in any order, one is wrong."""
    owner = canary.right.rpartition("::")[0]
    parts = []
    for name, off in ((canary.right, 0), (canary.wrong, chance.randint(1, 9))):
        one, two = chance.randint(10, 99), chance.randint(10, 99)
        sums = f"total = sum([{one}, {two}])"
        if owner:
            ask = f"self.assertEqual(total, {one + two + off})"
            parts.append(f"    def {name.rpartition('::')[2]}(self):\n        {sums}\n        {ask}\n")
        else:
            parts.append(f"def {name}():\n    {sums}\n    assert total == {one + two + off}\n")
    chance.shuffle(parts)
    head = f"import unittest\n\n\nclass {owner}(unittest.TestCase):\n" if owner else ""
    return head + "\n\n".join(parts)
