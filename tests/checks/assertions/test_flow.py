"""Assertions followed as the program runs: reached, let out, able to fail, and about the subject."""

from __future__ import annotations

import pytest

from handoff.checks.assertions.assertions import find_split, find_unasked, find_vacuous, find_weakened, renamed_ids

HEAD = "import contextlib\nimport pytest\nfrom shop import total\n\n"
PATH = "tests/test_total.py"


def new(body, head=HEAD):
    """The codes of a new test with this body, refused and only noted."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    found = find_vacuous({PATH: (None, f"{head}def test_total():\n{lines}")})
    return [f"({one.code})" if one.noted else one.code for one in found]


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("no-assertion", "total(3)"),
        ("no-assertion", "total(3) == 7"),
        ("no-assertion", "found = total(3)\nprint(found)"),
        ("tautology", "assert (total(3) == 7, 'words')"),
        ("tautology", "assert len(str(total(3))) > 0"),
        ("tautology", "assert (lambda: total(3) == 7)"),
        ("assertion-swallowed", "try:\n    assert total(3) == 7\nexcept Exception:\n    pass"),
        ("assertion-swallowed", "try:\n    assert total(3) == 7\nfinally:\n    return"),
        ("assertion-swallowed", "with contextlib.suppress(AssertionError):\n    assert total(3) == 7"),
        ("assertion-unreachable", "total(3)\nreturn\nassert total(3) == 7"),
        ("assertion-unreachable", "for one in []:\n    assert total(one) == 7"),
        ("assertion-unreachable", "if False:\n    assert total(3) == 7"),
        ("assertion-unreachable", "def check():\n    assert total(3) == 7\ntotal(3)"),
        ("(assertion-weak)", "assert total(3) is not None"),
        ("(assertion-weak)", "assert isinstance(total(3), int)"),
        ("(assertion-weak)", "assert total"),
        ("(assertion-weak)", "assert -10**9 < total(3) < 10**9"),
        ("(assertion-weak)", "assert total(3) == pytest.approx(7, abs=1e9)"),
    ],
)
def test_a_new_test_that_asks_nothing_is_told_by_name(code, body):
    assert new(body) == [code]


@pytest.mark.parametrize(
    "body",
    [
        "assert total(3) == 7",
        "with pytest.raises(ValueError):\n    total(0)",
        "try:\n    total(0)\nexcept ValueError as error:\n    assert str(error) == 'no'\nelse:\n    pytest.fail('none')",
        "try:\n    assert total(3) == 7\nexcept AssertionError:\n    print('it was')\n    raise",
        "for _ in range(9):\n    try:\n        assert total(3) == 7\n        break\n    except AssertionError:\n        wait()",
        "def check(one):\n    assert total(one) == 7\ncheck(3)",
        "assert isinstance(total(3), int)\nassert total(3) == 7",
        "assert 0 < total(3) < 10",
    ],
)
def test_honest_ways_to_ask_are_not_told(body):
    assert new(body) == []


def test_decorators_managers_and_helpers_of_the_file_are_followed():
    taking = "def steady(function):\n    def run():\n        try:\n            function()\n        except Exception:\n            pass\n    return run\n\n@steady\n"
    manager = "class Calm:\n    def __exit__(self, *_):\n        return True\n\n"
    helper = "def is_seven(one):\n    assert one == 7\n\n"
    assert new("assert total(3) == 7", HEAD + taking) == ["assertion-swallowed"]
    assert new("with Calm():\n    assert total(3) == 7", HEAD + manager) == ["assertion-swallowed"]
    assert new("is_seven(total(3))", HEAD + helper) == []
    assert new("test_help.is_seven(total(3))", HEAD + "import test_help\n\n") == []


def codes(before, after):
    return [one.code for one in find_weakened({PATH: (HEAD + before, HEAD + after)})]


def test_honest_ways_to_write_a_test_anew_lose_nothing():
    plain = "def test_a():\n    assert total(1) == 1\n    assert total(2) == 2\n"
    table = "@pytest.mark.parametrize('one', [1, 2])\ndef test_a(one):\n    assert total(one) == one\n"
    loop = "def test_a():\n    for one in (1, 2):\n        assert total(one) == one\n"
    helper = "def same(one):\n    assert total(one) == one\n\ndef test_a():\n    same(1)\n    same(2)\n"
    split = "def test_a():\n    assert total(1) == 1\n\ndef test_b():\n    assert total(2) == 2\n"
    named = plain.replace("test_a", "test_sums")
    for way in (table, loop, helper, split, named):
        assert codes(plain, way) == [], way
    assert find_split({PATH: (HEAD + plain, HEAD + split)}) == (f":{PATH}::test_a",)
    assert find_split({PATH: (HEAD + plain, HEAD + split.replace("== 2", "> 1"))}) == ()
    gone = {f"pytest:{PATH}::test_a"}
    changes = {PATH: (HEAD + plain, HEAD + named)}
    assert renamed_ids(changes, gone, [f"pytest:{PATH}::test_sums"]) == gone
    assert renamed_ids(changes, gone, []) == frozenset()


def test_ways_that_do_lose_something_are_named():
    plain = "def test_a():\n    assert total(1) == 1\n    assert total(2) == 2\n"
    caught = "def test_a():\n    try:\n        assert total(1) == 1\n        assert total(2) == 2\n    except Exception:\n        pass\n"
    assert codes(plain, caught) == ["assertion-swallowed"]
    assert codes(plain, plain.replace("    assert total(1) == 1\n", "    total(1)\n    return\n")) == [
        "assertion-unreachable"
    ]
    assert codes(plain, plain.replace("    assert total(2) == 2\n", "")) == ["fewer-assertions"]
    assert codes(plain, plain.replace("test_a", "test_b").replace("== 2", "== 3")) == ["test-removed"]


def test_red_tells_an_assertion_about_something_else():
    other = f"{HEAD}def test_new():\n    cart = [1]\n    total(cart)\n    assert cart == [1]\n"
    assert [one.code for one in find_unasked({PATH: (None, other)}, ["total"])] == ["subject-not-asked"]
    asked = f"{HEAD}def test_new():\n    found = total([1])\n    first = found\n    assert first == 1\n"
    assert find_unasked({PATH: (None, asked)}, ["total"]) == ()
