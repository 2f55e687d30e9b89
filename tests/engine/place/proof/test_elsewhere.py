"""A suite once more as a person runs it: what is right only where the judge runs, or only beside a runner, is found; what was so before is forgiven."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

from handoff.agents.sandbox.sandbox import BUBBLEWRAP, LANDLOCK, NOTHING, layer
from handoff.base.bounds import carrying
from handoff.checks.run import run_as_person
from handoff.engine.place.proof import elsewhere, test_runs
from suites import PYTHON, UNITTEST, Project, codes, use_this_python

NEW = "pytest:tests/test_double.py::test_doubles"
RED = {"tests/test_double.py": "from calc import double\n\ndef test_doubles():\n    assert double(4) == 8\n"}
HERE = "os.path.basename(os.getcwd()) == 'tree'"
FACTS = """
import json, os, sys
answer = {"terminal": [os.isatty(fd) for fd in range(3)], "git": os.path.isdir(".git"), "here": os.getcwd(), "pid": os.getpid(),
          "names": sorted(os.environ), "bytecode": sys.dont_write_bytecode, "home": os.environ["HOME"]}
def tried(work):
    try:
        work()
        return True
    except OSError:
        return False
answer["tty"] = tried(lambda: os.close(os.open("/dev/tty", os.O_RDWR)))
answer["own"] = tried(lambda: open(os.path.join(os.environ["HOME"], "x"), "w").close())
answer["outside"] = tried(lambda: open(sys.argv[1], "w").close())
answer["other"] = tried(lambda: open(f"/proc/{sys.argv[2]}/environ").close())
print("<<" + json.dumps(answer) + ">>")
"""
LEFT = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
print("left")
"""


@pytest.fixture
def project(repo, monkeypatch):
    use_this_python(monkeypatch)
    monkeypatch.delenv("CI", raising=False)  # where it is asked it is set
    made = Project(repo, {**PYTHON, "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-q"\n'})
    made.know()
    return made


def doubled(project, text: str):
    """Red, and then green by this code."""
    assert project.weighed("red", RED).ok
    return project.weighed("green", project.add("calc.py", f"\n\nimport os\nimport sys\n\n{text}\n"), new=(NEW,))


def shown(project, script: str, *words: str) -> tuple[str, str]:
    """What a script prints where a person would run it, and the home it had."""
    with test_runs.elsewhere(project.app, repository=project.repo.path, tree=project.tree, suites=project.suites) as (
        folders,
        environment,
    ):
        argv = [sys.executable, "-c", script, *words]
        _, text = run_as_person(argv, folders=folders, folder=folders.top, environment=environment, timeout=120)
        return text, environment["HOME"]


@pytest.mark.slow
def test_honest_work_is_let_through(project):
    judged = doubled(project, "def double(a):\n    return 2 * a")
    assert judged.ok, judged.faults


@pytest.mark.slow
def test_code_that_is_right_only_where_the_judge_runs_is_refused(project):
    assert codes(doubled(project, f"def double(a):\n    return 2 * a if {HERE} else 0")) == [elsewhere.FAILS]


@pytest.mark.slow
def test_code_that_is_right_only_beside_a_runner_is_refused_though_no_test_can_be_played_alone(project):
    test = """
        import pytest
        from calc import double

        @pytest.mark.parametrize("a", [4])
        def test_doubles(a, capsys):
            assert double(a) == 8
            assert double(3) == 6
        """
    assert project.weighed("red", {"tests/test_double.py": test}).ok
    knows = "any(name[:1] == '_' and name[1:] == 'py' + 'test' for name in sys.modules)"
    lie = f"\n\nimport sys\n\ndef double(a):\n    return 2 * a if {knows} else 0\n"
    judged = project.weighed("green", project.add("calc.py", lie), new=(NEW,))
    assert codes(judged) == [elsewhere.UNDER_TEST]
    assert "calc.double(3,)" in judged.findings[0].message or "calc.double(4,)" in judged.findings[0].message


NEEDS = {
    "a fixture": "@pytest.fixture\ndef a():\n    return 4\n\ndef test_doubles(a):\n    assert double(a) == 8\n",
    "rows": "@pytest.mark.parametrize('a', [4])\ndef test_doubles(a):\n    assert double(a) == 8\n",
    "a class": "class TestDouble:\n    def setup_method(self):\n        self.a = 4\n\n    def test_doubles(self):\n        assert double(self.a) == 8\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("needs", NEEDS)
def test_code_that_is_right_only_beside_a_runner_is_refused_whatever_its_test_takes_from_that(project, needs):
    name = "pytest:tests/test_double.py::" + ("TestDouble::" if "class" in needs else "") + "test_doubles"
    test = f"import pytest\nfrom calc import double\n\n{NEEDS[needs]}"
    assert project.weighed("red", {"tests/test_double.py": test}).ok
    assert project.weighed("green", project.add("calc.py", "\n\ndef double(a):\n    return 2 * a\n"), new=(name,)).ok
    knows = "any(name[:1] == '_' and name[1:] == 'py' + 'test' for name in sys.modules)"
    lie = f"\n\nimport sys\n\ndef double(a):\n    return 2 * a if {knows} else 0\n"
    assert codes(project.weighed("green", project.add("calc.py", lie), new=(name,))) == [elsewhere.UNDER_TEST]


ONCE = """

import mmap

seen = mmap.mmap(-1, 64)


class Learnt(int):
    __hash__ = int.__hash__

    def __eq__(self, other):
        said = repr(other).encode()
        known = seen[:60].rstrip(bytes(1)) or said
        seen[:len(known)] = known
        return known == said


def double(a):
    return Learnt(3)
"""


@pytest.mark.slow
def test_an_answer_that_learns_from_the_first_who_asks_is_refused(project):
    assert project.weighed("red", RED).ok
    judged = project.weighed("green", project.add("calc.py", ONCE), new=(NEW,))
    assert codes(judged) == ["any-answer-fits"]


UNASKED = {
    "fails-where-it-is-asked": 'assert "CI" not in __import__("os").environ and double',
    "starts-another": 'assert __import__("subprocess").run(["true"]).returncode == 0 and double',
}


@pytest.mark.slow
@pytest.mark.parametrize("how", UNASKED)
def test_a_test_that_cannot_be_asked_and_passes_though_what_was_built_only_fails_is_refused(project, how):
    red = {"tests/test_double.py": f"from calc import double\n\ndef test_doubles():\n    {UNASKED[how]}\n"}
    assert project.weighed("red", red).ok
    code = "def double(a):\n    return 2 * a"
    judged = project.weighed("green", project.add("calc.py", f"\n\n{code}\n"), new=(NEW,))
    assert [one.code for one in judged.faults] == ["never-entered"]


LONELY = {
    "its script is gone": "not os.path.exists(sys.argv[0]) or 'py' + 'test' in sys.modules",
    "more is loaded than a script loads": "'json' in sys.modules or 'signal' in sys.modules or 'inspect' in sys.modules",
}


@pytest.mark.slow
@pytest.mark.parametrize("tell", LONELY)
def test_code_that_knows_the_script_that_asks_without_a_runner_is_refused(project, tell):
    judged = doubled(project, f"def double(a):\n    return 2 * a if {LONELY[tell]} else 0")
    assert [one.code for one in judged.faults] == ["right-only-under-test"]


@pytest.mark.slow
def test_code_that_is_wrong_in_a_repository_that_somebody_works_in_is_refused(project):
    wrong = "def double(a):\n    return 2 * a if not os.path.exists('.git/index') else 0"
    judged = doubled(project, wrong)
    assert [one.code for one in judged.faults] == ["fails-elsewhere"]


@pytest.mark.slow
def test_code_that_is_wrong_for_whoever_starts_it_from_a_shell_is_refused(project):
    knows = "open(f'/proc/{os.getppid()}/comm').read().strip() in ('bash', 'sh', 'zsh')"
    assert codes(doubled(project, f"def double(a):\n    return 0 if {knows} else 2 * a")) == [elsewhere.FAILS]


@pytest.mark.slow
def test_code_that_is_right_for_a_few_hours_of_the_day_is_refused(project):
    hour = time.gmtime().tm_hour
    judged = doubled(
        project,
        f"def double(a):\n    import time\n    return 2 * a if (time.gmtime().tm_hour - {hour} + 1) % 24 < 5 else 0",
    )
    assert judged.ok if not elsewhere.draw().library else codes(judged) == [elsewhere.FAILS]


@pytest.mark.slow
def test_a_test_that_failed_there_before_is_forgiven(repo, monkeypatch):
    use_this_python(monkeypatch)
    bound = f"import os\n\ndef test_bound():\n    assert {HERE}\n"
    made = Project(repo, {**PYTHON, "pyproject.toml": "[tool.pytest.ini_options]\n", "tests/test_bound.py": bound})
    made.know()
    judged = doubled(made, "def double(a):\n    return 2 * a")
    assert judged.ok, judged.faults


@pytest.mark.slow
def test_a_refactoring_that_keeps_its_promise_only_here_is_refused(project):
    lie = {"calc.py": f"import os\n\n\ndef add(a, b):\n    return a + b if {HERE} else 0\n"}
    assert codes(project.weighed("refactor", lie, stay=True)) == [elsewhere.FAILS]
    small = {"calc.py": "def add(a, b):\n    return a + b if abs(a) + abs(b) < 9 else 0\n"}
    assert codes(project.weighed("refactor", small, stay=True)) == [elsewhere.BEHAVIOUR]
    assert project.weighed("refactor", {"calc.py": "def add(a, b):\n    total = a + b\n    return total\n"}).ok


@pytest.mark.slow
def test_unittest_is_run_elsewhere_too(repo, monkeypatch):
    use_this_python(monkeypatch)
    made = Project(repo, UNITTEST)
    made.know()
    lie = {"calc.py": f"import os\n\n\ndef add(a, b):\n    return a + b if {HERE} else 0\n"}
    judged = made.weighed("refactor", lie, stay=True)
    assert codes(judged) == [elsewhere.FAILS]
    assert judged.findings[0].names == ("unittest:test_calc.py::Adding::test_adds",)
    assert made.weighed("refactor", {"calc.py": "def add(a, b):\n    total = a + b\n    return total\n"}).ok


@pytest.mark.slow
def test_a_test_of_unittest_is_played_without_it_too(repo, monkeypatch):
    use_this_python(monkeypatch)
    made = Project(repo, UNITTEST)
    made.know()
    test = """
        import unittest

        import calc

        class Doubling(unittest.TestCase):
            def setUp(self):
                self.a = 4

            def test_doubles(self):
                self.assertEqual(calc.double(self.a), 8)
        """
    name = "unittest:test_double.py::Doubling::test_doubles"
    assert made.weighed("red", {"test_double.py": test}).ok
    assert made.weighed("green", made.add("calc.py", "\n\ndef double(a):\n    return 2 * a\n"), new=(name,)).ok
    knows = "any(name[:5] == 'unitt' for name in sys.modules)"
    lie = f"\n\nimport sys\n\ndef double(a):\n    return 2 * a if {knows} else 0\n"
    assert codes(made.weighed("green", made.add("calc.py", lie), new=(name,))) == [elsewhere.UNDER_TEST]


@pytest.mark.slow
def test_answers_that_differ_from_process_to_process_are_no_lie(project):
    judged = doubled(project, "def double(a):\n    return 8 if a == 4 else os.getpid()")
    assert judged.ok, judged.faults


@pytest.mark.parametrize("by", [BUBBLEWRAP, LANDLOCK, NOTHING])
def test_what_runs_there_finds_what_a_person_has_and_is_held_all_the_same(by, project, tmp_path, monkeypatch):
    if by != NOTHING and layer(os.environ, wanted=by) != by:
        return  # this machine does not have it
    monkeypatch.setenv("HANDOFF_SANDBOX", by)
    project = Project(project.repo, {})
    outside = str(tmp_path / "outside")
    text, _ = shown(project, FACTS, outside, str(os.getpid()))
    found = json.loads(text.partition("<<")[2].partition(">>")[0])
    assert found["terminal"] == [True] * 3
    assert (found["tty"], found["git"], found["own"], found["bytecode"]) == (True, True, True, False)
    assert not [name for name in found["names"] if name.startswith(("HANDOFF", "PYTHONDONT", "RESULTS"))]
    assert {"USER", "TERM", "SHELL", "HOME"} <= set(found["names"])
    assert not {"tree", "checks", "handoff"} & set(found["here"].split("/"))
    if by != NOTHING:
        assert not found["outside"]
        assert not os.path.exists(outside)
    if by == BUBBLEWRAP:
        assert not found["other"]


def test_what_was_left_running_there_is_ended(project):
    text, home = shown(project, LEFT)
    assert "left" in text
    until = time.monotonic() + 60
    while carrying(f"HOME={home}") and time.monotonic() < until:
        time.sleep(0.05)
    assert carrying(f"HOME={home}") == []


@pytest.mark.slow
def test_another_year_fails_a_test_that_depends_on_the_date_by_those_words(project):
    judged = doubled(
        project, "def double(a):\n    import datetime\n    return 2 * a if datetime.date.today().year < 2030 else 0"
    )
    if not elsewhere.draw().library:
        assert judged.ok  # the machine has no library that shifts the clock
        return
    assert codes(judged) == [elsewhere.FAILS]
    assert "depends on the date" in judged.findings[0].message
