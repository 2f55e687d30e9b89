"""The judge: what it adds to a phase beyond the run of the tests, and how many further runs it makes of tests it names."""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from cheats import honest  # noqa: E402 - tests/support is on the path now
from cheats.packages import PACKAGES, tree_of  # noqa: E402
from handoff.checks import judge  # noqa: E402
from handoff.engine.place.proof import two_way  # noqa: E402
from handoff.git.commits.phases import FlowCheckout  # noqa: E402
from sandbox import Repo, hermetic_environment  # noqa: E402
from suites import Project  # noqa: E402

_TIMES = 5
_FILES = 30
_NEW = "tests/test_double.py"
_TEST = "from calc import double\n\n\ndef test_doubles():\n    assert double(4) == 8\n"


class Phase:
    """One phase judged again and again: own time, own CPU time and further runs, the runs' own time apart."""

    def __init__(self, project: Project, kind: str, files: dict[str, str], new: tuple[str, ...] = ()) -> None:
        self.project, self.kind, self.files, self.new = project, kind, files, new
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.runs = 0
        self.forks = 0

    def judge(self) -> None:
        """Once; what must be right is right."""
        project = self.project
        tree = project.write(self.files)
        reports = project.run(tree, before=project.tree)
        began, cpu, spent, runs = time.perf_counter(), time.process_time(), 0.0, 0
        checkout = FlowCheckout(project.repo.path, "refs/heads/main", project.app.git_environment)
        change = two_way.look_at(project.app, checkout=checkout, head=project.tree, tree=tree, suites=project.suites)
        probe = two_way.probe_of(project.app, change, project.suites, reports)

        def run(tree: str, suites: object) -> object:
            nonlocal spent, runs
            start, runs = time.perf_counter(), runs + 1
            found = probe.run(tree, suites)  # type: ignore[arg-type]
            spent += time.perf_counter() - start
            return found

        counted = probe._replace(run=run)
        if self.kind == "red":
            found = judge.red(project.known, reports, changes=change.changes)
            found = two_way.weigh_red(change, found, test="doubles")
        elif self.kind == "green":
            found = judge.green(project.known, reports, changes=change.changes, new=self.new)
            found = two_way.weigh_green(change, found, probe=counted, began=project.tree, new=self.new)
        else:
            found = judge.refactor(project.known, reports, changes=change.changes)
            found = two_way.weigh_refactor(change, found, probe=counted, known=project.known)
        if not found.ok:
            raise AssertionError(found.findings)
        self.wall.append(time.perf_counter() - began - spent)
        self.cpu.append(time.process_time() - cpu)
        self.runs = max(self.runs, runs)
        self.forks = max([self.forks, *(int(one) for line in found.asked for one in re.findall(r"(\d+) forks", line))])
        project.git("read-tree", "--reset", "-u", project.tree)


def _files() -> dict[str, str]:
    found = {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-q"\n',
        "calc.py": "def add(a, b):\n    return a + b\n",
    }
    for number in range(_FILES):
        found[f"shop/part{number}.py"] = f"def worth():\n    return {number}\n"
        found[f"tests/test_part{number}.py"] = (
            f"from shop.part{number} import worth\n\n\ndef test_worth():\n    assert worth() == {number}\n"
        )
    found["shop/__init__.py"] = ""
    found["tests/test_calc.py"] = "from calc import add\n\n\ndef test_adds():\n    assert add(1, 2) == 3\n"
    return found


def _phases(project: Project) -> list[tuple[str, Phase]]:
    code = project.read("calc.py")
    built = {"calc.py": code + "\n\ndef double(a):\n    return 2 * a\n"}
    red = Phase(project, "red", {_NEW: _TEST})
    yielded: list[tuple[str, Phase]] = [("red", red)]
    for _ in range(_TIMES):
        red.judge()
    project.tree = project.write({_NEW: _TEST})
    green = Phase(project, "green", built, (f"pytest:{_NEW}::test_doubles",))
    yielded.append(("green", green))
    for _ in range(_TIMES):
        green.judge()
    project.tree = project.write(built)
    project.know()
    tidy = {"calc.py": built["calc.py"].replace("2 * a", "a + a")}
    both = {
        **tidy,
        "tests/test_calc.py": project.read("tests/test_calc.py").replace("add(1, 2) == 3", "3 == add(1, 2)"),
    }
    for name, files in (("refactor, code alone", tidy), ("refactor, code and a test", both)):
        phase = Phase(project, "refactor", files)
        yielded.append((name, phase))
        for _ in range(_TIMES):
            phase.judge()
    return yielded


def rows() -> list[tuple[str, str, str]]:
    """One row for each phase."""
    with tempfile.TemporaryDirectory(prefix="judge-") as home:
        for name in [name for name in os.environ if name.startswith(("HANDOFF_", "GIT_", "PYTHON"))]:
            del os.environ[name]
        os.environ.update(hermetic_environment(home))
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
        project = Project(Repo.create(os.path.join(home, "project")), _files())
        project.know()
        found = []
        for name, phase in _phases(project):
            wall, cpu = statistics.median(phase.wall), statistics.median(phase.cpu)
            figure = (
                f"{wall * 1000:.0f} ms ({cpu * 1000:.0f} ms of CPU), {phase.runs} further runs, {phase.forks} forks"
            )
            found.append((f"{name}: what the judge adds, median of {_TIMES}", figure, "≤ 300 ms, 2 runs"))
        return [*found, *_packages(home)]


def _packages(home: str) -> list[tuple[str, str, str]]:
    """Real packages whose tests are tidied up: how many runs and forks that takes beside the suite's own run."""
    found = []
    for package in PACKAGES:
        tree = tree_of(package)
        text = honest.rename_test(tree[package.tests], 0)
        if text is None:
            continue
        project = Project(Repo.create(os.path.join(home, package.name)), tree)
        project.know()
        phase = Phase(project, "refactor", {package.tests: text})
        began = time.perf_counter()
        phase.judge()
        seconds = time.perf_counter() - began
        figure = f"{seconds:.1f} s in all, {phase.runs} further runs, {phase.forks} forks"
        found.append((f"{package.name}, a test is written otherwise", figure, "≤ 3 runs, 240 forks"))
    return found
