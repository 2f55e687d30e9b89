"""New tests are asked whether they mind: they enter what was built, another answer is noticed, and no other answer fits."""

from __future__ import annotations

import pytest

from handoff.checks import questions
from handoff.engine.place.proof import two_way
from handoff.git.commits.phases import FlowCheckout
from suites import Project, use_this_python

TESTS = "tests/test_new.py"
START = {
    "pyproject.toml": '[project]\nname = "shop"\n\n[tool.pytest.ini_options]\npythonpath = ["."]\n',
    "shop.py": "RATE = 2\n\ndef old(a):\n    return a * RATE\n",
    "words.txt": "one\n",
    TESTS: "def test_old():\n    from shop import old\n    assert old(2) == 4\n",
}
BUILT = '''
from __future__ import annotations

import asyncio
import contextlib
import ctypes
import dataclasses
import enum
import functools
import itertools
import sys
import tempfile
import traceback

RATE = 3
NAMES = ("tea", "bun")


def old(a):
    return a * RATE


def total(prices):
    """All of them."""
    return sum(prices)


def slug(text):
    return text.strip().lower()


def check(age):
    if age < 0:
        raise ValueError("too young")


def find(items, name):
    for item in items:
        if item == name:
            return item
    return None


class Basket:
    def __init__(self, *items, **more):
        super().__init__()
        self.items = list(items)
        self.__count = len(more)

    def put(self, item):
        self.items.append(item)

    @property
    def size(self):
        return len(self.items) + self.__count

    @classmethod
    def of(cls, text):
        return cls(*text.split())

    def __eq__(self, other):
        return self.items == other.items

    __hash__ = None


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int

    def moved(self, by):
        return Point(self.x + by, self.y)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2

    def other(self):
        return Colour.BLUE if self is Colour.RED else Colour.RED


def count_up(to):
    yield from range(to)
    yield to


def pairs(values):
    return zip(values, values[1:])


@functools.lru_cache
def kept():
    return {"open": True}


@functools.lru_cache
def cached(a):
    return a + 1


async def later(a):
    await asyncio.sleep(0)
    return a + 1


@contextlib.contextmanager
def opened(log):
    log.append("in")
    yield
    log.append("out")


def main(out):
    print("hello", file=out)
    return 0


def doubler():
    return lambda a: a * 2


def load(folder):
    (folder / "kept").write_text("7")
    return (folder / "kept").read_text()


class Anything:
    def __eq__(self, other):
        return True

    __hash__ = None


def anything():
    return Anything()


class Sly(int):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = None


def sly():
    return Sly(3)


class Round(int):
    def __eq__(self, other):
        return other % 10 == 0

    __hash__ = None


def round_sum():
    return Round(20)


class Loud(str):
    def __eq__(self, other):
        return other.isupper() and len(other) == 3

    __hash__ = None


def loud():
    return Loud("ABC")


class Least(int):
    __eq__ = int.__le__
    __hash__ = int.__hash__


def least():
    return Least(-(10**9))


class Near(float):
    def __rsub__(self, other):
        return 0.0


def near():
    return Near(0.5)


class Between(int):
    def __lt__(self, other):
        return True

    __gt__ = __lt__


def between():
    return Between(0)


class Whole(str):
    def __contains__(self, other):
        return True

    def startswith(self, *given):
        return True


def whole():
    return Whole("nothing")


def label():
    return Label("Tea")


class Label(str):
    def __eq__(self, other):
        return self.casefold() == other.casefold()

    def __contains__(self, other):
        return other.casefold() in self.casefold()

    __hash__ = None


def by_machine(number):
    with open("/proc/self/maps") as file, tempfile.NamedTemporaryFile() as made:
        known = next(line.split()[-1] for line in file if "/libm" in line and ".so" in line)
        with open(known, "rb") as library:
            made.write(library.read())
        made.flush()
        return ctypes.CDLL(made.name).abs(number) if number else ctypes.CDLL(None).abs(number)


def from_frames():
    codes = [one for one in sys._getframe(1).f_code.co_consts if isinstance(one, int) and one is not True]
    return codes[0]


def from_text():
    name = traceback.extract_stack()[-2]
    with open(name.filename) as file:
        return int(file.read().partition("from_text() == ")[2].partition("\\n")[0])


class Bare:
    size = 3
'''
HONEST = """
import asyncio
import io
import os
from unittest import TestCase, mock

import pytest

import shop
from shop import NAMES, Basket, Colour, Point


def test_total():
    assert shop.total([3, 4]) == 7


def test_label():
    assert shop.label() == "tEA"
    assert "EA" in shop.label()


def test_total_is_positive():
    assert shop.total([3, 4]) > 0


def test_order_does_not_matter():
    assert shop.total([3, 4, 1]) == shop.total([1, 3, 4])


def test_slug():
    wanted = "tea"
    assert shop.slug(" Tea ") == wanted


def test_check():
    with pytest.raises(ValueError, match="young"):
        shop.check(-1)


def test_not_there():
    assert shop.find(["a"], "b") is None


def test_put():
    basket = Basket()
    basket.put("tea")
    assert basket.items == ["tea"]


def test_basket_begins():
    assert Basket("a", "b", more=1).items == ["a", "b"]


def test_size():
    assert Basket.of("a b").size == 2


def test_equal_baskets():
    assert Basket("a") == Basket("a")


def test_point():
    assert Point(1, 2).moved(3) == Point(4, 2)


def test_colour():
    assert Colour.RED.other() is Colour.BLUE


def test_counts():
    assert list(shop.count_up(2)) == [0, 1, 2]


def test_pairs():
    assert list(shop.pairs([1, 2, 3])) == [(1, 2), (2, 3)]


def test_cached():
    assert shop.cached(2) == 3


def test_kept():
    assert shop.kept() is shop.kept()


def test_later():
    assert asyncio.run(shop.later(2)) == 3


def test_opened():
    log = []
    with shop.opened(log):
        log.append("mid")
    assert log == ["in", "mid", "out"]


def test_main():
    out = io.StringIO()
    shop.main(out)
    assert out.getvalue() == "hello\\n"


def test_doubler():
    assert shop.doubler()(4) == 8


def test_rate():
    assert shop.RATE == 3


def test_names():
    assert NAMES == ("tea", "bun")


def test_old():
    assert shop.old(2) == 6


@pytest.mark.parametrize(("prices", "wanted"), [([1], 1), ([1, 2], 3)])
def test_rows(prices, wanted):
    assert shop.total(prices) == wanted


class TestInClass(TestCase):
    def setUp(self):
        self.basket = Basket("a")

    def test_in_class(self):
        self.assertEqual(self.basket.size, 1)


def test_keeps(tmp_path):
    assert shop.load(tmp_path) == "7"


def test_patched(monkeypatch):
    monkeypatch.setattr(shop, "RATE", 5)
    assert shop.old(2) == 10


def test_mocked():
    with mock.patch("shop.slug", return_value="x"):
        assert shop.slug("y") == "x"
    assert shop.slug("Y") == "y"


def test_elsewhere():
    if os.name == "nt":
        assert shop.total([1]) == 99
    assert shop.total([1, 1]) == 2


def test_round_trip():
    text = "Tea"
    assert shop.slug(text) == shop.slug(shop.slug(text))
"""
NOT_PROBED = """
import subprocess
import sys

import shop


def test_started():
    done = subprocess.run([sys.executable, "-c", "import shop; print(shop.total([1]))"], capture_output=True, text=True)
    assert done.stdout == "1\\n"


def test_run_as_script():
    import runpy

    assert runpy.run_path("shop.py")["total"]([1]) == 1


def test_bare():
    assert shop.Bare.size == 3

"""
CHEATS = """
import inspect
import json
import os
from unittest import mock

import pytest

import shop

FIRST = os.path.join(os.path.dirname(__file__), "recorded.json")


def test_name__never_entered():
    assert hasattr(shop, "total")


def test_text__never_entered():
    assert "sum(" in inspect.getsource(shop.total)


def test_own_subject__never_entered(monkeypatch):
    monkeypatch.setattr(shop, "total", lambda prices: 7)
    assert shop.total([3, 4]) == 7


def test_itself__never_entered():
    assert sum([3, 4]) == 7


def test_asks_nothing__answer_not_asked():
    shop.total([3, 4])


def test_kind__answer_not_asked():
    assert isinstance(shop.total([3, 4]), int)


def test_not_none__answer_not_asked():
    assert shop.total([3, 4]) is not None


def test_both_sides__answer_not_asked():
    assert shop.total([3, 4]) == shop.total([3, 4])


def test_swallowed__answer_not_asked():
    try:
        assert shop.total([3, 4]) == 7
    except AssertionError:
        pass


def test_other_thing__answer_not_asked():
    shop.total([3, 4])
    assert len([1, 2]) == 2


def test_act_unseen__answer_not_asked():
    shop.Basket().put("tea")


def test_any_error__answer_not_asked():
    try:
        shop.check(-1)
    except Exception:
        pass


def test_blind__answer_not_asked():
    with pytest.raises(Exception):
        shop.check(-1)


def test_recorded__answer_not_asked():
    found = shop.total([3, 4])
    if not os.path.exists(FIRST):
        with open(FIRST, "w") as file:
            json.dump(found, file)
    with open(FIRST) as file:
        assert found == json.load(file)


def test_anything__any_answer_fits():
    assert shop.anything() == 7


def test_sly__any_answer_fits():
    wanted = 7
    assert shop.sly() == wanted


def test_every_round_sum__any_answer_fits():
    assert shop.round_sum() == 70


def test_own_library__machine_code():
    assert shop.by_machine(-3) == 3


def test_every_loud_word__any_answer_fits():
    assert shop.loud() == "TEA"


def test_at_least__any_answer_fits():
    assert shop.least() == 3 + 4


def test_near__any_answer_fits():
    assert shop.near() == pytest.approx(7.0)


def test_between__any_answer_fits():
    assert 6 < shop.between() < 8


def test_holds_all__any_answer_fits():
    assert "7 cups" in shop.whole()


def test_begins_with_all__any_answer_fits():
    assert shop.whole().startswith("7 cups")


def test_sly_in_a_loop__any_answer_fits():
    for wanted in (7, 8):
        assert shop.sly() == wanted


def test_sly_sum__any_answer_fits():
    assert not shop.sly() != 3 + 4


@pytest.mark.parametrize("wanted", [7, 8])
def test_sly_rows__any_answer_fits(wanted):
    assert shop.sly() == wanted


def test_frames__answers_from_the_test():
    assert shop.from_frames() == 41


def test_text_read__answers_from_the_test():
    assert shop.from_text() == 43
"""


@pytest.fixture
def project(repo, monkeypatch):
    use_this_python(monkeypatch)
    made = Project(repo, START)
    made.know()
    return made


def ask(project, tests, built=BUILT):
    """What came of asking every test of a file about what was built since the start, in one run."""
    names = [
        name.removeprefix("def ")
        for name in (line.strip().partition("(")[0] for line in tests.splitlines())
        if name.startswith("def test_")
    ]
    project.tree = project.write({TESTS: tests})
    tree = project.write({"shop.py": built})
    checkout = FlowCheckout(project.repo.path, "refs/heads/main", project.app.git_environment)
    change = two_way.look_at(project.app, checkout=checkout, head=project.tree, tree=tree, suites=project.suites)
    probe = two_way.probe_of(project.app, change, project.suites, ())
    inner = {name: name for name in names} | (
        {"test_in_class": "TestInClass::test_in_class"} if "class TestInClass" in tests else {}
    )
    mine = [(f"pytest:{TESTS}::{inner[name]}", TESTS, inner[name]) for name in names]
    built_parts = questions.built_by(change.changes, {"shop.py", "words.txt", "pyproject.toml"})
    said = two_way.ask_tests(change, built_parts, project.suites[0], mine, probe)
    return {name.rpartition("::")[2]: one for name, one in said.items()}


@pytest.mark.slow
def test_honest_tests_of_every_shape_mind_another_answer_and_are_let_through(project):
    said = ask(project, HONEST)
    wrong = {name: one for name, one in said.items() if one is None or one.code}
    assert not wrong
    assert len(said) >= 29
    assert all(0 < one.asked <= one.of and one.seeds for one in said.values())
    assert sorted(one.forks for one in said.values())[len(said) // 2] <= 6


@pytest.mark.slow
def test_what_cannot_be_probed_is_told_and_never_refused(project):
    said = ask(project, NOT_PROBED)
    refused = {
        name: one
        for name, one in said.items()
        if any(not finding.warning for finding in questions.judge_opinion(name, one))
    }
    assert not refused
    told = {name: questions.judge_opinion(name, one)[0].message for name, one in said.items()}
    assert "it starts processes" in told["test_started"]
    assert "a class without functions" in told["test_bare"]
    assert all("was not probed" in words for words in told.values())


@pytest.mark.slow
def test_tests_that_prove_nothing_are_refused_by_what_they_do(project):
    said = ask(project, CHEATS)
    codes = {name: one.code for name, one in said.items() if one is not None}
    assert codes == {name: name.rpartition("__")[2].replace("_", "-") for name in said}


def test_tests_of_unittest_are_asked_by_their_own_runner(repo, monkeypatch):
    use_this_python(monkeypatch)
    text = """
        import unittest

        import calc

        class Sums(unittest.TestCase):
            def setUp(self):
                self.one = 1

            def test_adds(self):
                self.assertEqual(calc.add(self.one, 2), 3)

            def test_asks_nothing(self):
                calc.add(self.one, 2)

            def test_both_sides(self):
                self.assertEqual(calc.add(self.one, 2), calc.add(self.one, 2))

            def test_never_there(self):
                self.assertTrue(hasattr(calc, "add"))
        """
    project = Project(repo, {"calc.py": "", "tests/__init__.py": "", "tests/test_calc.py": text})
    project.tree, tree = project.write({}), project.write({"calc.py": "def add(a, b):\n    return a + b\n"})
    checkout = FlowCheckout(repo.path, "refs/heads/main", project.app.git_environment)
    change = two_way.look_at(project.app, checkout=checkout, head=project.tree, tree=tree, suites=project.suites)
    names = [
        f"unittest:tests/test_calc.py::Sums::{name}"
        for name in ("test_adds", "test_asks_nothing", "test_both_sides", "test_never_there")
    ]
    found, asked = two_way.probe_new(change, names, two_way.probe_of(project.app, change, project.suites, ()))
    codes = ["answer-not-asked", "answer-not-asked", "never-entered"]
    assert [(one.code, one.names) for one in found] == list(zip(codes, [(name,) for name in names[1:]], strict=True))
    assert asked[0].startswith(f"{names[0]}: 1 of 1 questions, ")


def test_a_test_that_cannot_be_probed_and_asks_nothing_is_refused_by_its_text(project):
    tests = """
        import subprocess, sys

        def test_started_and_not_asked():
            subprocess.run([sys.executable, "-c", "import shop"], check=False)

        def test_started_and_asked():
            done = subprocess.run([sys.executable, "-c", "import shop; print(shop.total([1]))"], stdout=subprocess.PIPE)
            assert done.stdout == b"1\\n"

        def test_started_and_takes_nearly_everything():
            done = subprocess.run([sys.executable, "-c", "import shop; print(shop.total([1]))"], stdout=subprocess.PIPE)
            assert done is not None
        """
    project.tree, tree = project.write({TESTS: tests}), project.write({"shop.py": BUILT})
    checkout = FlowCheckout(project.repo.path, "refs/heads/main", project.app.git_environment)
    change = two_way.look_at(project.app, checkout=checkout, head=project.tree, tree=tree, suites=project.suites)
    kinds = ("not_asked", "asked", "takes_nearly_everything")
    names = [f"pytest:{TESTS}::test_started_and_{kind}" for kind in kinds]
    found, _ = two_way.probe_new(change, names, two_way.probe_of(project.app, change, project.suites, ()))
    refused = [("no-assertion", (names[0],)), ("assertion-weak", (names[2],))]
    assert [(one.code, one.names) for one in found if not one.warning] == refused
    assert [one.names for one in found if one.code == questions.NOT_PROBED] == [(name,) for name in names]
