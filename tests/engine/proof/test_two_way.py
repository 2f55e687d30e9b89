"""A phase from both sides: what tests stand on is test, old tests hold on new code, a test that asks nothing is found by its twins."""

from __future__ import annotations

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
    "insensitive-test": {
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


def test_red_and_green_are_judged_by_what_the_tests_stand_on_and_by_their_twins(project):
    new = "\ndef test_doubles():\n    from calc import double\n    assert double(4) == 8\n"
    looser = {TESTS: project.read(TESTS).replace("0.01", "99") + new}
    assert codes(project.weighed("red", looser, stay=True)) == ["neighbour-changed"]
    assert project.weighed("red", looser, stay=True, test="doubles; changes: test_adds").ok
    red = project.weighed("red", project.add(TESTS, new))
    assert (red.ok, red.new) == (True, (NEW,)), red.findings
    for code, files in GREEN_CHEATS.items():
        judged = project.weighed("green", {"calc.py": FILES["calc.py"] + DOUBLE, **files}, new=red.new, stay=True)
        assert codes(judged) == [code], judged.findings
    green = project.weighed("green", project.add("calc.py", DOUBLE), new=red.new)
    assert green.findings == ()
    assert NEW in project.known.passing


def test_a_refactoring_is_what_holds_in_both_ways(project):
    text, code = project.read(TESTS), FILES["calc.py"]
    with_code = {"calc.py": code.replace("a + b", "a + b + 0 * a")}
    changed = {"calc.py": code.replace("a + b", "a + b + 1"), TESTS: text.replace("2), 3)", "2), 4)").replace("0.75", "1.75").replace('json.load(file)["sum"]', "4")}  # fmt: skip
    assert codes(project.weighed("refactor", changed, stay=True)) == ["old-tests-fail", "new-tests-fail-on-old-code"]
    renamed = {"calc.py": code.replace("add", "plus"), TESTS: text.replace("import add", "import plus").replace("add(", "plus(")}  # fmt: skip
    honest = project.weighed("refactor", renamed, stay=True)
    assert (honest.ok, set(codes(honest))) == (True, {"interface-changed"}), honest.findings
    sly = {"calc.py": renamed["calc.py"].replace("a + b", "a + b + 1"), TESTS: renamed[TESTS].replace("2), 3)", "2), 4)").replace("0.75", "1.75").replace('json.load(file)["sum"]', "4")}  # fmt: skip
    assert "expectation-changed" in codes(project.weighed("refactor", sly, stay=True))
    helped = text.replace("    assert abs(add(0.5, 0.25) - 0.75) < 0.01", "    near(add(0.5, 0.25), 0.75)").replace(
        "def test_adds", "def near(one, two):\n    assert abs(one - two) < 0.01\n\ndef test_adds"
    )
    assert project.weighed("refactor", {TESTS: helped, **with_code}, stay=True).findings == ()
    fewer = text.replace(
        "    assert abs(add(0.5, 0.25) - 0.75) < 0.01", '    for one in json.loads("[]"):\n        assert one'
    )
    assert "fewer-assertions-ran" in codes(project.weighed("refactor", {TESTS: fewer}, stay=True))
