"""A phase from both sides: what tests stand on is test, old tests hold on new code, a refactoring keeps what is answered."""

from __future__ import annotations

import os

import pytest

from suites import Project, codes, use_this_python

TESTS = "tests/test_calc.py"
NEW = f"pytest:{TESTS}::test_doubles"
FILES = {
    "pyproject.toml": '[project]\nname = "calc"\n\n[tool.pytest.ini_options]\naddopts = "-q"\n',
    "calc.py": "def add(a, b):\n    return a + b\n",
    "compare.py": "def same(one, two):\n    assert one == two\n",
    "expected.json": '{"sum": 3}\n',
    TESTS: """
        import json

        from calc import add
        from compare import same

        def test_adds():
            same(add(1, 2), 3)
            assert abs(add(0.5, 0.25) - 0.75) < 0.01

        def test_as_written():
            with open("expected.json") as file:
                assert add(1, 2) == json.load(file)["sum"]
        """,
}
DOUBLE = "\ndef double(a):\n    return 2 * a\n"
GREEN_CHEATS = {
    "support-changed": {"compare.py": "def same(one, two):\n    pass\n"},
    "golden-changed": {"expected.json": '{"sum": 3.0}\n'},
    "settings-changed": {"pyproject.toml": FILES["pyproject.toml"].replace("-q", "-q -p calc")},
    "name-shadows": {"argparse.py": ""},
    "runner-planted": {"extra.pth": "import calc\n"},
    "code-knows-tests": {"calc.py": FILES["calc.py"] + '\nimport sys\n\nBUSY = "pytest" in sys.modules\n' + DOUBLE},
    "right-only-under-test": {
        "calc.py": FILES["calc.py"]
        + "\nimport os\n\ndef double(a):\n    return 2 * a if os.path.isdir('tests') else 0\n"
    },
    "answers-from-the-test": {
        "calc.py": FILES["calc.py"]
        + "\nimport inspect\n\ndef double(a):\n    return 8 if 8 in inspect.stack()[1][0].f_code.co_consts else 0\n"
    },
    "right-only-under-test ": {
        "calc.py": FILES["calc.py"]
        + "\nimport traceback\n\ndef double(a):\n    return 8 if 'test_doubles' in [one.name for one in traceback.extract_stack()] else 0\n"
    },
    "any-answer-fits": {
        "calc.py": FILES["calc.py"]
        + "\nclass Any:\n    def __eq__(self, other):\n        return True\n    __hash__ = None\n\ndef double(a):\n    return Any()\n"
    },
}


@pytest.fixture
def project(repo, monkeypatch):
    use_this_python(monkeypatch)
    made = Project(repo, FILES)
    made.know()
    return made


@pytest.mark.slow
def test_red_and_green_are_judged_by_what_the_tests_stand_on_and_by_what_they_mind(project):
    new = "\ndef test_doubles():\n    from calc import double\n    assert double(4) == 8\n"
    looser = {TESTS: project.read(TESTS).replace("0.01", "99") + new}
    assert codes(project.weighed("red", looser, stay=True)) == ["neighbour-changed"]
    assert project.weighed("red", looser, stay=True, test="doubles; changes: test_adds").ok
    red = project.weighed("red", project.add(TESTS, new))
    assert (red.ok, red.new) == (True, (NEW,)), red.findings
    for code, files in GREEN_CHEATS.items():
        judged = project.weighed("green", {"calc.py": FILES["calc.py"] + DOUBLE, **files}, new=red.new, stay=True)
        assert codes(judged) == [code.strip()], judged.findings
    green = project.weighed("green", project.add("calc.py", DOUBLE), new=red.new)
    assert green.findings == ()
    assert [line.partition(",")[0] for line in green.asked] == [f"{NEW}: 1 of 1 questions"]
    assert "seed " in green.asked[0]
    assert NEW in project.known.passing


@pytest.mark.slow
def test_a_refactoring_is_what_holds_in_both_ways(project):
    text, code = project.read(TESTS), FILES["calc.py"]
    with_code = {"calc.py": code.replace("a + b", "a + b + 0 * a")}
    changed = {"calc.py": code.replace("a + b", "a + b + 1"), TESTS: text.replace("2), 3)", "2), 4)").replace("0.75", "1.75").replace('json.load(file)["sum"]', "4")}  # fmt: skip
    assert codes(project.weighed("refactor", changed, stay=True)) == ["old-tests-fail"]
    renamed = {"calc.py": code.replace("add", "plus"), TESTS: text.replace("import add", "import plus").replace("add(", "plus(")}  # fmt: skip
    honest = project.weighed("refactor", renamed, stay=True)
    assert (honest.ok, set(codes(honest))) == (True, {"interface-changed"}), honest.findings
    sly = {"calc.py": renamed["calc.py"].replace("a + b", "a + b + 1"), TESTS: renamed[TESTS].replace("2), 3)", "2), 4)").replace("0.75", "1.75").replace('json.load(file)["sum"]', "4")}  # fmt: skip
    assert "expectation-changed" in codes(project.weighed("refactor", sly, stay=True))
    helped = text.replace("    assert abs(add(0.5, 0.25) - 0.75) < 0.01", "    near(add(0.5, 0.25), 0.75)").replace(
        "def test_adds", "def near(one, two):\n    assert abs(one - two) < 0.01\n\ndef test_adds"
    )
    judged = project.weighed("refactor", {TESTS: helped, **with_code}, stay=True)
    assert judged.findings == ()
    assert "seed " in judged.asked[0]
    fewer = text.replace(
        "    assert abs(add(0.5, 0.25) - 0.75) < 0.01", '    for one in json.loads("[]"):\n        assert one'
    )
    assert {"fewer-assertions-ran", "question-dropped"} & set(
        codes(project.weighed("refactor", {TESTS: fewer}, stay=True))
    )


@pytest.mark.slow
def test_a_new_test_is_about_what_was_built_for_it(project):
    """It must miss the new functions when they are empty, use something of the project, and its assertions must run."""
    cheats = {
        "answer-not-asked": ("double(4)\n    assert len([1, 2]) == 2", DOUBLE.replace("2 * a", "0")),
        "never-entered": ("assert 'def double(' in open('calc.py').read()", DOUBLE.replace("2 * a", "0")),
        "assertion-not-run": ("for one in double(4):\n        assert one == 8", DOUBLE.replace("2 * a", "[]")),
    }
    for code, (body, built) in cheats.items():
        first = "from calc import double\n    " if "double(4)" in body else ""
        text = project.read(TESTS) + f"\ndef test_doubles():\n    {first}{body}\n"
        base, known = project.tree, project.known
        red = project.weighed("red", {TESTS: text})
        assert red.ok, red.findings
        judged = project.weighed("green", project.add("calc.py", built), new=red.new, stay=True)
        assert codes(judged) == [code], judged.findings
        project.tree, project.known = base, known
        project.write(FILES)


@pytest.mark.slow
def test_a_new_test_asks_for_the_number_itself_where_it_can(project):
    """What takes a number near the answer, or one that it writes beside it, takes a wrong one; a sign, a little play and chance are no more."""
    cheats = {
        "abs(double(4) - 8) < 40": 9,
        "double(4) >= 3": 9,
        "double(4) in (8, 9)": 9,
        "double(4) == 8 or double(4) == 9": 9,
    }
    honest = {
        "double(-4) < 0": "2 * a",
        "abs(double(400) - 800) <= 5": "2 * a",
        "1 <= double(4) <= 10**9": "__import__('random').randrange(1, 10**9)",
        "double(4) in (8, 20) and double(10) in (8, 20) and double(4) < double(10)": "2 * a",
    }
    for ask, built in {**cheats, **honest}.items():
        base, known = project.tree, project.known
        text = project.read(TESTS) + f"\ndef test_doubles():\n    from calc import double\n    assert {ask}\n"
        red = project.weighed("red", {TESTS: text})
        assert red.ok, red.findings
        wrong = DOUBLE.replace("2 * a", str(built))
        judged = project.weighed("green", project.add("calc.py", wrong), new=red.new, stay=True)
        assert codes(judged) == (["answer-not-asked"] if ask in cheats else []), (ask, judged.findings)
        project.tree, project.known = base, known
        project.write(FILES)


def test_a_link_is_no_work_and_helpers_written_with_a_test_do_not_carry_it(project):
    base = project.write({"tests/alike.py": "def assert_alike(one, two):\n    assert one == two\n"})
    project.tree = base
    os.symlink("calc.py", os.path.join(project.repo.path, "other.py"))
    judged = project.weighed("refactor", {"calc.py": FILES["calc.py"] + "\n"}, stay=True)
    assert codes(judged) == ["link-in-tree"], judged.findings
    new = "\ndef test_doubles():\n    from alike import assert_alike\n    from calc import double\n    assert_alike(double(4), 8)\n"
    forgiving = "def assert_alike(one, two):\n    assert one == two or one == 0\n"
    red = project.weighed("red", {**project.add(TESTS, new), "tests/alike.py": forgiving})
    assert red.ok, red.findings
    wrong = project.add("calc.py", DOUBLE.replace("2 * a", "0"))
    judged = project.weighed("green", wrong, new=red.new, began=base, stay=True)
    assert codes(judged) == ["fails-without-new-support"], judged.findings
    assert project.weighed("green", project.add("calc.py", DOUBLE), new=red.new, began=base).ok


@pytest.mark.slow
def test_a_refactored_answer_that_equals_everything_is_another_answer_than_before(project):
    anything = "class _Any:\n    def __eq__(self, other):\n        return True\n    def __sub__(self, other):\n        return 0\n    __hash__ = None\n\n\n"
    judged = project.weighed("refactor", {"calc.py": anything + FILES["calc.py"].replace("a + b", "_Any()")}, stay=True)
    assert codes(judged) == ["behaviour-changed"], judged.findings
    assert "calc.add(1, 2) was 3 and is an object" in judged.findings[0].message
    weak = project.read(TESTS) + "\ndef test_some_sum():\n    assert add(1, 1) is not None\n"
    project.tree = project.write({TESTS: weak})
    project.know()
    honest = project.weighed("refactor", {"calc.py": FILES["calc.py"].replace("a + b", "b + a")})
    assert honest.findings == (), "what took every answer before is nobody's fault now"
