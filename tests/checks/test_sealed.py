"""Who is judged does not write the judgement: runs of pytest and unittest that are started clean, sealed, and read within limits."""

from __future__ import annotations

import pytest

from handoff.checks.sealed import runner_words
from handoff.checks.suite import Suite
from suites import PYTHON, UNITTEST, Project, codes, use_this_python

TESTS = "tests/test_calc.py"
WRONG = "def add(a, b):\n    return a - b\n"
FORGER = """
import os, sys
with open("/proc/self/cmdline", "rb") as file:
    fd = int(file.read().split(b"\\0")[-2])
os.write(fd, b"0" * 64 + b' [0,{"t":"end","exit":0}]\\n')
os._exit(0)
"""
PLUGIN = "import pytest\n\ndef pytest_runtest_makereport():\n    out = yield\n    out.get_result().outcome = 'passed'\n\npytest_runtest_makereport = pytest.hookimpl(hookwrapper=True)(pytest_runtest_makereport)\n"
PATCH = "import _pytest.runner as r\nr.check_interactive_exception = lambda *a: False\n"
CHEATS = {
    "the code ends the run": ({"calc.py": "import os\nos._exit(0)\n"}, ["run-cut-short", "did-not-run"]),
    "the code writes into the channel": ({"calc.py": FORGER}, ["results-forged", "did-not-run"]),
    "a module stands in for a library of the runner": (
        {"calc.py": WRONG, "iniconfig.py": "import os\nos._exit(0)\n", "argparse.py": "raise SystemExit(0)\n"},
        ["broken"],
    ),
    "an installed plugin out of the tree": (
        {
            "calc.py": WRONG,
            "forgive.py": PLUGIN,
            "forgive-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: forgive\nVersion: 1\n",
            "forgive-1.dist-info/entry_points.txt": "[pytest11]\nforgive = forgive\n",
        },
        ["broken"],
    ),
    "the code patches the runner": ({"calc.py": PATCH + WRONG.replace("-", "+")}, ["runner-patched"]),
    "a conftest that forgives": (
        {"calc.py": WRONG, "tests/conftest.py": PLUGIN},
        ["hook-added", "result-altered", "canary-forgiven"],
    ),
    "a talker without end": (
        {"calc.py": FORGER.replace("os.write(", "while True:\n  os.write(").replace('0" * 64', '0" * 65536')},
        ["results-too-big", "did-not-run"],
    ),
}


@pytest.fixture
def project(repo, monkeypatch):
    """A Python project whose tests are known to pass."""
    use_this_python(monkeypatch)
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    made = Project(repo, PYTHON)
    made.know()
    return made


@pytest.mark.slow
def test_no_cheat_of_the_run_itself_is_taken_for_a_result(project):
    """One project, one cheat after the other: each is named, and nothing of ours is left in what is judged."""
    assert project.known.passing == {f"pytest:{TESTS}::test_adds", f"pytest:{TESTS}::test_adds_nothing"}
    assert project.known.flaws == frozenset()
    (report,) = project.run()
    assert (report.sealed, report.code, report.green, len(report.cases)) == (True, 0, True, 2)
    for what, (files, wanted) in CHEATS.items():
        judged = project.phase("refactor", files)
        assert sorted(set(codes(judged))) == sorted(wanted), (what, judged.findings)
        project.write({name: None for name in files if name != "calc.py"} | {"calc.py": PYTHON["calc.py"]})


@pytest.mark.slow
def test_a_project_that_has_hooks_and_options_of_its_own_is_judged_by_them(repo, monkeypatch):
    """Hooks that were there before are known; plugins named in addopts work; a sub-folder has its own conftest."""
    use_this_python(monkeypatch)
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    hook = "def pytest_collection_modifyitems(items):\n    items.sort(key=lambda item: item.name)\n"
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-n 2 -x --strict-markers --timeout=60"\n',
        "src/shop/types.py": "PRICE = 3\n",
        "src/shop/__init__.py": "",
        "tests/conftest.py": hook,
        "tests/unit/conftest.py": "from shop.types import PRICE\nfrom pytest import fixture\n\nprice = fixture(lambda: PRICE, name='price')\n",
        "tests/unit/test_price.py": "import unittest\n\ndef test_price(price):\n    assert price == 3\n\nclass T(unittest.TestCase):\n    def test_two(self):\n        self.assertEqual(1 + 1, 2)\n",
        "tests/unit/names.py": "NAME = 'x'\n",
        "tests/unit/test_names.py": "from pytest import mark\nfrom names import NAME\n\nboth, later = mark.parametrize('n', [1, 2]), mark.xfail\n\n@both\ndef test_name(n):\n    assert NAME == 'x'\n\n@later\ndef test_not_yet():\n    assert NAME == 'y'\n",
    }
    project = Project(repo, files)
    project.know()
    assert project.known.passing == {
        f"pytest:tests/unit/{name}"
        for name in (
            "test_price.py::test_price",
            "test_price.py::T::test_two",
            "test_names.py::test_name[1]",
            "test_names.py::test_name[2]",
        )
    }
    assert project.known.skipped == {"pytest:tests/unit/test_names.py::test_not_yet"}
    moved = {"src/shop/types.py": "THREE = 3\nPRICE = THREE\n", "tests/conftest.py": "import os\n\n\n" + hook}
    assert project.phase("refactor", moved).findings == ()
    assert codes(project.phase("refactor", {"tests/conftest.py": hook.replace("sort", "reverse or items.sort")})) == [
        "hook-added"
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{python} -m pytest -q -o junit_family=xunit1 --junitxml={results}", ["-q"]),
        ("pytest -q tests", ["-q", "tests"]),
        ("python3 -m pytest -k 'a b'", ["-k", "a b"]),
        ("make && pytest", None),
        ("tox -e py", None),
    ],
)
def test_only_a_line_that_calls_pytest_and_nothing_else_can_be_sealed(line, words):
    assert runner_words(Suite(name="x", framework="pytest", folder="", command=line, results="pytest")) == words


def test_a_run_of_unittest_is_sealed_too(repo):
    project = Project(repo, UNITTEST)
    project.know()
    (report,) = project.run()
    assert (report.sealed, report.flaws, [case.status for case in report.cases]) == (True, (), ["passed"])
    patch = "import unittest\nunittest.TestCase.assertEqual = lambda *given: None\n"
    for code, wanted in (
        ("import os\nos._exit(0)\n", ["run-cut-short", "did-not-run"]),
        (FORGER, ["results-forged", "did-not-run"]),
        (patch + WRONG, ["runner-patched", "canary-forgiven"]),
    ):
        assert codes(project.phase("refactor", {"calc.py": code})) == wanted
    assert project.phase("refactor", {"calc.py": UNITTEST["calc.py"] + "\n"}).findings == ()


def test_a_results_file_of_300_megabytes_is_refused_and_not_read(repo):
    command = '[checks.unit]\ncommand = "truncate -s 300M {results}"\nresults = "junit"\ntests = ["tests/"]\n'
    project = Project(repo, {".handoff/config.toml": command, "a.txt": "a\n"})
    (report,) = project.run()
    assert (report.fault, report.cases) == ("results-too-big", ())
    assert "its result files have 300 MiB" in report.trouble
