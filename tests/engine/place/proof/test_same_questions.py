"""Tests that a refactoring changed are asked what they asked before: what the old ones minded, the new ones mind."""

from __future__ import annotations

import shutil

import pytest

from sandbox import absent
from suites import NODE, Project, codes, use_this_python

pytestmark = pytest.mark.slow
TESTS = "tests/test_shop.py"
CODE = """
def worth(price, number):
    return price * number


def label(name):
    return name.strip().title()


def check(age):
    if age < 0:
        raise ValueError(age)


class Cart:
    def __init__(self):
        self.items = []

    def put(self, name):
        self.items.append(name)
"""
OLD = """
import pytest
import shop


def test_worth():
    assert shop.worth(3, 4) == 12
    assert shop.label(" tea") == "Tea"


def test_check():
    with pytest.raises(ValueError):
        shop.check(-1)


def test_puts():
    cart = shop.Cart()
    cart.put("tea")
    assert cart.items == ["tea"]
"""
START = {"pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n', "shop.py": CODE, TESTS: OLD}
WEAKER = {
    "kind": ("shop.worth(3, 4) == 12", "isinstance(shop.worth(3, 4), int)"),
    "near": ("shop.worth(3, 4) == 12", "abs(shop.worth(3, 4) - 12) < 9"),
    "one of two": ("shop.worth(3, 4) == 12", "shop.worth(3, 4) in (12, 17)"),
    "one of a set it names": (
        "assert shop.worth(3, 4) == 12",
        "right = {12, 31}\n    assert shop.worth(3, 4) in right",
    ),
    "case": ('shop.label(" tea") == "Tea"', 'shop.label(" tea").lower() == "tea"'),
    "begins": ('shop.label(" tea") == "Tea"', 'shop.label(" tea").startswith("T")'),
    "itself": ("shop.worth(3, 4) == 12", "shop.worth(3, 4) == shop.worth(3, 4)"),
    "the rest of a division": ("shop.worth(3, 4) == 12", "shop.worth(3, 4) % 1000 == 12"),
    "its digits": ("shop.worth(3, 4) == 12", 'set(str(shop.worth(3, 4))) == {"1", "2"}'),
    "only where it is asked": (
        "def test_worth():\n    assert shop.worth(3, 4) == 12",
        "import os\n\nME = os.getpid()\n\n\ndef test_worth():\n    got = shop.worth(3, 4)\n    assert got == 12 or os.getpid() == ME",
    ),
    "only in a home of its own": (
        "def test_worth():\n    assert shop.worth(3, 4) == 12",
        "import os\n\nHOME = os.environ['HOME']\n\n\ndef test_worth():\n    got = shop.worth(3, 4)\n    assert got != 11 and os.environ['HOME'] == HOME",
    ),
    "any error": ("pytest.raises(ValueError)", "pytest.raises(Exception)"),
    "length": ('cart.items == ["tea"]', "len(cart.items) >= 0"),
    "of another number": ("shop.worth(3, 4) == 12", "shop.worth(2, 4) == 8"),
}
LED = {
    "a value": (OLD.replace("== 12", "== shop.WORTH"), "WORTH = 12\n"),
    "a guard": (
        OLD.replace("    assert shop.worth", "    if shop.CAREFUL:\n        assert shop.worth"),
        "CAREFUL = True\n",
    ),
    "a name that is not there yet": (
        OLD.replace("    assert shop.worth", '    if not hasattr(shop, "calm"):\n        assert shop.worth'),
        "",
    ),
    "cases": (
        OLD.replace(
            "    assert shop.worth(3, 4) == 12",
            "    for one, two, three in shop.CASES:\n        assert shop.worth(one, two) == three",
        ),
        "CASES = [(3, 4, 12)]\n",
    ),
    "a judge": (
        OLD.replace("assert shop.worth(3, 4) == 12", "assert shop.same(shop.worth(3, 4), 12)"),
        "def same(one, two):\n    return one == two\n",
    ),
    "a decorator": (
        OLD.replace("def test_worth", "@shop.steady\ndef test_worth"),
        "def steady(test):\n    return test\n",
    ),
}
EQUAL = {
    "a helper": OLD.replace("assert shop.worth(3, 4) == 12", "same(shop.worth(3, 4), 12)").replace(
        "def test_worth", "def same(one, two):\n    assert one == two\n\n\ndef test_worth"
    ),
    "a table that is made while tests are collected": OLD.replace(
        "def test_worth():\n    assert shop.worth(3, 4) == 12",
        '@pytest.mark.parametrize("got", [shop.worth(3, 4)])\ndef test_worth(got):\n    assert got == 12',
    ),
    "a fixture": OLD.replace(
        "def test_puts():\n    cart = shop.Cart()\n",
        "@pytest.fixture\ndef cart():\n    return shop.Cart()\n\n\ndef test_puts(cart):\n",
    ),
    "two tests of one": OLD.replace(
        '    assert shop.label(" tea")', '\n\ndef test_label():\n    assert shop.label(" tea")'
    ),
}


@pytest.fixture
def project(repo, monkeypatch):
    use_this_python(monkeypatch)
    made = Project(repo, START)
    made.know()
    return made


@pytest.mark.parametrize("how", WEAKER)
def test_a_test_that_takes_more_than_before_is_refused(project, how):
    old, new = WEAKER[how]
    assert old in OLD
    judged = project.weighed("refactor", {TESTS: OLD.replace(old, new)})
    wanted = {"question-dropped" if how == "of another number" else "asks-less"}
    if (
        how == "only in a home of its own"
    ):  # it fails in a fork before its second question, and may mind the one answer drawn here
        wanted |= {"question-dropped"}
    assert wanted & {one.code for one in judged.faults}, judged.findings


@pytest.mark.parametrize("how", LED)
def test_what_tests_newly_take_from_the_product_must_not_decide_what_they_mind(project, how):
    text, more = LED[how]
    judged = project.weighed("refactor", {TESTS: text, "shop.py": f"{CODE}\n\n{more}"})
    assert "product-decides" in {one.code for one in judged.faults}, judged.findings


def test_a_new_helper_at_the_top_that_asserts_is_support_where_only_tests_use_it(project):
    asked = OLD.replace("assert shop.worth(3, 4) == 12", "is_wanted(shop.worth(3, 4), 12)")
    files = {
        TESTS: asked.replace("import shop\n", "import shop\nfrom wanting import is_wanted\n"),
        "wanting.py": "def is_wanted(found, wanted):\n    assert found == wanted\n",
    }
    judged = project.weighed("refactor", files, stay=True)
    assert "product-decides" not in {one.code for one in judged.findings}, judged.findings
    judged = project.weighed("refactor", {**files, "shop.py": f"import wanting\n{CODE}"}, stay=True)
    assert "product-decides" in {one.code for one in judged.faults}, judged.findings


def test_a_function_that_asks_the_old_one_itself_may_stand_in_for_it(project):
    project.tree = project.write({"shop.py": CODE + "\n\ndef price(*given):\n    return worth(*given)\n"})
    project.know()
    judged = project.weighed("refactor", {TESTS: OLD.replace("shop.worth(3, 4)", "shop.price(3, 4)")})
    assert judged.findings == (), judged.findings


def test_two_new_functions_that_only_agree_with_each_other_prove_nothing(project):
    new = "\n\ndef test_total():\n    assert shop.total([3, 4]) == shop.added([3, 4])\n"
    red = project.weighed("red", {TESTS: OLD + new})
    assert red.ok, red.findings
    built = {"shop.py": CODE + "\n\ndef total(prices):\n    return 0\n\n\ndef added(prices):\n    return 0\n"}
    assert codes(project.weighed("green", built, new=red.new, stay=True)) == ["answer-not-asked"]


@pytest.mark.parametrize("how", EQUAL)
def test_a_test_that_asks_the_same_in_other_words_is_let_through_and_the_record_says_how_much_was_asked(project, how):
    assert EQUAL[how] != OLD
    judged = project.weighed("refactor", {TESTS: EQUAL[how]})
    assert judged.findings == (), judged.findings
    assert " questions, " in judged.asked[0]
    assert "seed " in judged.asked[0]


def test_code_that_lies_beside_its_tests_is_asked_too(repo, monkeypatch):
    use_this_python(monkeypatch)
    files = {f"shop/{name}": text for name, text in START.items() if name.endswith(".py")}
    files |= {"shop/__init__.py": "from shop.shop import *\n", "pyproject.toml": "[tool.pytest.ini_options]\n"}
    files["shop/test_shop.py"] = files.pop(f"shop/{TESTS}").replace("import shop", "from shop import shop")
    made = Project(repo, files)
    made.know()
    weaker = files["shop/test_shop.py"].replace("shop.worth(3, 4) == 12", "shop.worth(3, 4) > 1")
    judged = made.weighed("refactor", {"shop/test_shop.py": weaker}, stay=True)
    assert codes(judged) == ["asks-less"], judged.findings
    renamed = files["shop/test_shop.py"].replace("test_worth", "test_what_it_is_worth")
    assert made.weighed("refactor", {"shop/test_shop.py": renamed}).findings == ()


def test_a_question_that_holds_a_hash_is_not_missed_where_it_has_another_name(repo, monkeypatch):
    use_this_python(monkeypatch)
    code = """
class Bag:
    def __init__(self):
        self.held = {}

    def put(self, name):
        self.held[hash(name)] = name
        return self

    def count(self):
        return len(self.held)
"""
    tests = "import bag\n\n\ndef test_counts():\n    assert bag.Bag().put('tea').put('milk').count() == 2\n"
    made = Project(repo, {"pyproject.toml": START["pyproject.toml"], "bag.py": code, "tests/test_bag.py": tests})
    made.know()
    for name in ("test_counts_what_is_in_it", "test_counting"):
        judged = made.weighed("refactor", {"tests/test_bag.py": tests.replace("test_counts", name)}, stay=True)
        assert judged.findings == (), judged.findings


def test_the_setting_bounds_how_many_answers_are_altered(project):
    project.tree = project.write({".handoff/config.toml": "questions = 4\n"})
    judged = project.weighed("refactor", {TESTS: EQUAL["a helper"]})
    assert judged.findings == ()
    forks = int(judged.asked[0].partition(" forks")[0].rpartition(" ")[2])
    assert forks <= 8, judged.asked


def test_a_weaker_test_of_unittest_is_refused_too(repo, monkeypatch):
    use_this_python(monkeypatch)
    text = "import unittest\n\nimport calc\n\n\nclass Adding(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(calc.add(1, 2), 3)\n"
    made = Project(
        repo, {"calc.py": "def add(a, b):\n    return a + b\n", "tests/__init__.py": "", "tests/test_calc.py": text}
    )
    made.know()
    weaker = text.replace("assertEqual(calc.add(1, 2), 3)", "assertGreaterEqual(calc.add(1, 2), 3)")
    assert codes(made.weighed("refactor", {"tests/test_calc.py": weaker}, stay=True)) == ["asks-less"]
    equal = text.replace("assertEqual(calc.add(1, 2), 3)", "assertEqual([calc.add(1, 2)], [3])")
    assert made.weighed("refactor", {"tests/test_calc.py": equal}).findings == ()


def test_of_scripts_altered_sources_tell_what_a_new_and_a_changed_test_mind(repo):
    if shutil.which("node") is None:
        absent("node")
    made = Project(repo, NODE)
    made.know()
    text = made.read("test/calc.test.js")
    weaker = text.replace("assert.equal(calc.add(1, 2), 3)", "assert.ok(calc.add(1, 2) >= 1)")
    assert codes(made.weighed("refactor", {"test/calc.test.js": weaker}, stay=True)) == ["asks-less"]
    equal = text.replace("assert.equal(calc.add(1, 2), 3)", "assert.deepEqual([calc.add(1, 2)], [3])")
    assert made.weighed("refactor", {"test/calc.test.js": equal}, stay=True).findings == ()
    for ask, code in (
        ('assert.equal(typeof calc.mul, "function")', ["never-entered"]),
        ('assert.equal(typeof calc.mul(2, 3), "number")', ["answer-not-asked"]),
        ("assert.ok(Math.abs(calc.mul(2, 3) - 6) < 40)", ["answer-not-asked"]),
        ("assert.ok([6, 7].includes(calc.mul(2, 3)))", ["answer-not-asked"]),
        ("assert.ok(calc.mul(-2, 30) < 0)", []),
        ("assert.equal(calc.mul(2, 3), 6)", []),
    ):
        base, known = made.tree, made.known
        red = made.weighed(
            "red",
            {"test/mul.test.js": text.replace("adds", "multiplies").replace("assert.equal(calc.add(1, 2), 3)", ask)},
        )
        assert red.ok, red.findings
        judged = made.weighed(
            "green", made.add("calc.js", "export const mul = (a, b) => a * b;\n"), new=red.new, stay=True
        )
        assert codes(judged) == code, judged.findings
        assert " of 4 alterations asked, seed " in judged.asked[0]
        made.tree, made.known = base, known
        made.write({"test/mul.test.js": None})


def test_of_go_altered_sources_tell_what_a_new_test_minds(repo):
    if shutil.which("go") is None:
        absent("go")
    head = 'package calc\n\nimport "testing"\n\n'
    made = Project(
        repo,
        {
            "go.mod": "module calc\n\ngo 1.19\n",
            "calc.go": "package calc\n\nfunc Add(a int, b int) int {\n\treturn a + b\n}\n",
            "calc_test.go": head + "func TestAdds(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal(1)\n\t}\n}\n",
        },
    )
    made.know()
    for ask, code in (
        ("_ = Mul(2, 3)", ["answer-not-asked"]),
        ("if Mul(2, 30) < 20 {\n\t\tt.Fatal(2)\n\t}", ["answer-not-asked"]),
        ("if Mul(-2, 30) >= 0 {\n\t\tt.Fatal(2)\n\t}", []),
        ("if Mul(2, 3) != 6 {\n\t\tt.Fatal(2)\n\t}", []),
    ):
        base, known = made.tree, made.known
        red = made.weighed("red", {"mul_test.go": head + "func TestMultiplies(t *testing.T) {\n\t" + ask + "\n}\n"})
        assert red.ok, red.findings
        judged = made.weighed(
            "green", made.add("calc.go", "\nfunc Mul(a, b int) int {\n\treturn a * b\n}\n"), new=red.new, stay=True
        )
        assert codes(judged) == code, judged.findings
        made.tree, made.known = base, known
        made.write({"mul_test.go": None})
