"""The boundary around a project's functions: how it alters what they answer."""

from __future__ import annotations

import random

import pytest

from handoff.checks.reporters.boundary import Alteration, Boundary
from handoff.checks.reporters.values import shown, ways_of

MARK = ("shop.py:names", "of='tea'")


class Slim:
    """An object whose attributes stand in slots."""

    __slots__ = ("name", "price")

    def __init__(self, name: str, price: int) -> None:
        self.name, self.price = name, price


class Box(dict[str, object]):
    """A dictionary of a kind of its own."""


@pytest.mark.parametrize("value", [["tea", "milk", "sugar"], {"tea": 3, "milk": 2}, "a long text", Slim("tea", 3), 2.5])
def test_a_question_asked_again_is_altered_alike(value: object) -> None:
    for seed in range(30):
        line = Boundary()
        line.begin(Alteration(*MARK, random.Random(seed)), random.Random(0))
        answers = {shown(line.leave(MARK, value)) for _ in range(8)}
        assert len(answers) == 1
        assert answers != {shown(value)}


@pytest.mark.parametrize("value", [Slim("tea", 3), Box(tea=Slim("tea", 3))])
def test_altering_an_answer_leaves_nothing_on_its_class(value: object) -> None:
    before = dir(value)
    assert ways_of(value, random.Random(1))
    assert dir(value) == before
