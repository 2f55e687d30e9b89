"""The judge: how often it runs tests in a phase and how many questions it forks, on a small project and on packages from PyPI.

A *run* is a process that runs tests of the project: the suite itself, the tests it names once more, all of them as a person runs
them. A *program* is one without its tests. A *fork* is one question. What the judge adds is its own time beside all of these."""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from cheats import honest  # noqa: E402 - tests/support is on the path now
from cheats.packages import PACKAGES, tree_of  # noqa: E402
from handoff.checks import judge  # noqa: E402
from handoff.engine.place.proof import two_way  # noqa: E402
from handoff.git.commits.phases import FlowCheckout  # noqa: E402
from sandbox import Repo, hermetic_environment  # noqa: E402
from suites import Project  # noqa: E402

_TIMES = 3
_FILES = 30
_TEST = "from {module} import double_of\n\n\ndef test_doubles():\n    assert double_of(4) == 8\n"
_BUILT = "\n\ndef double_of(a):\n    return 2 * a\n"
_BUDGETS = {
    "red": "≤ 2 runs",
    "green": "≤ 3 runs, 5 forks",
    "refactor, code alone": "≤ 2 runs",
    "refactor, code and a test": "≤ 4 runs, 240 forks",
}
STARTED: list[str] = []
"""What was started since somebody looked: `run` or `program`."""


def _note(event: str, given: tuple[object, ...]) -> None:
    """Every program that Python starts passes here; those of the judge are told by their words."""
    if event != "subprocess.Popen":
        return
    words = [str(word) for word in given[1]] if isinstance(given[1], (list, tuple)) else []
    typed = next((word.split() for word in words if "env -i" in word), [])
    is_person = bool(typed)
    if any(word.endswith("launch.py") for word in words) or ("--rootdir=." in typed and "-s" not in typed):
        STARTED.append("run")
    elif is_person:
        STARTED.append("program")


class Phase:
    """One phase judged again and again: its whole time, what is the judge's own of it, runs, programs and forks."""

    def __init__(self, project: Project, kind: str, files: dict[str, str], new: tuple[str, ...] = ()) -> None:
        self.project, self.kind, self.files, self.new = project, kind, files, new
        self.whole: list[float] = []
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.runs = self.programs = self.forks = 0

    def judge(self) -> None:
        """Once; what must be right is right."""
        project = self.project
        tree = project.write(self.files)
        STARTED.clear()
        first = time.perf_counter()
        reports = project.run(tree, before=project.tree)
        began, cpu, spent, used = time.perf_counter(), time.process_time(), 0.0, 0.0
        checkout = FlowCheckout(project.repo.path, "refs/heads/main", project.app.git_environment)
        change = two_way.look_at(project.app, checkout=checkout, head=project.tree, tree=tree, suites=project.suites)
        probe = two_way.probe_of(project.app, change, project.suites, reports)

        def apart(call: Callable[..., Any]) -> Callable[..., Any]:
            def timed(*given: Any) -> Any:
                nonlocal spent, used
                start, before = time.perf_counter(), time.process_time()
                found = call(*given)
                spent, used = spent + time.perf_counter() - start, used + time.process_time() - before
                return found

            return timed

        counted = probe._replace(run=apart(probe.run), elsewhere=apart(probe.elsewhere))
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
        ended = time.perf_counter()
        self.whole.append(ended - first)
        self.wall.append(ended - began - spent)
        self.cpu.append(time.process_time() - cpu - used)
        self.runs, self.programs = (
            max(old, STARTED.count(name)) for old, name in ((self.runs, "run"), (self.programs, "program"))
        )
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


def _phases(project: Project, times: int, *, code: str, old: str, new: str) -> list[tuple[str, Phase]]:
    """A function is asked for, built and tidied up; then a test of the project is written otherwise too."""
    text, module = project.read(code), code.removesuffix(".py").replace("/", ".")
    test, built = _TEST.format(module=module), text + _BUILT
    tidy = built.replace("return 2 * a", "return a + a")
    renamed = honest.rename_test(project.read(old), 0) if project.read(old).count("def test") else None
    done: list[tuple[str, Phase]] = []

    def judge_often(name: str, phase: Phase) -> None:
        for _ in range(times):
            phase.judge()
        done.append((name, phase))

    judge_often("red", Phase(project, "red", {new: test}))
    project.tree = project.write({new: test})
    judge_often("green", Phase(project, "green", {code: built}, (f"pytest:{new}::test_doubles",)))
    project.tree = project.write({code: built})
    project.know()
    judge_often("refactor, code alone", Phase(project, "refactor", {code: tidy}))
    if renamed is not None:
        judge_often("refactor, code and a test", Phase(project, "refactor", {code: tidy, old: renamed}))
    return done


def rows() -> list[tuple[str, str, str]]:
    """One row for each phase, on the small project and on real packages."""
    sys.addaudithook(_note)
    with tempfile.TemporaryDirectory(prefix="judge-") as home:
        for name in [name for name in os.environ if name.startswith(("HANDOFF_", "GIT_", "PYTHON"))]:
            del os.environ[name]
        os.environ.update(hermetic_environment(home))
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
        project = Project(Repo.create(os.path.join(home, "project")), _files())
        project.know()
        found = []
        for name, phase in _phases(
            project, _TIMES, code="calc.py", old="tests/test_calc.py", new="tests/test_double.py"
        ):
            wall, cpu = statistics.median(phase.wall), statistics.median(phase.cpu)
            found.append((f"{name}, small project, the most of {_TIMES}", _figure([phase]), _BUDGETS[name]))
            own = f"{wall * 1000:.0f} ms ({cpu * 1000:.0f} ms of CPU)"
            found.append((f"{name}, small project: what the judge adds, median", own, "≤ 300 ms"))
        return [*found, *_packages(home)]


def _figure(phases: list[Phase]) -> str:
    runs, programs, forks = (max(getattr(one, name) for one in phases) for name in ("runs", "programs", "forks"))
    seconds = statistics.median([second for one in phases for second in one.whole])
    return f"{runs} runs, {programs} programs, {forks} forks, {seconds:.1f} s"


def _packages(home: str) -> list[tuple[str, str, str]]:
    """The same phases on real packages, each once: the most runs and forks of them all."""
    found: dict[str, list[Phase]] = {}
    for package in PACKAGES:
        project = Project(Repo.create(os.path.join(home, package.name)), tree_of(package))
        project.know()
        new = os.path.join(os.path.dirname(package.tests), "test_double_of.py")
        for name, phase in _phases(project, 1, code=package.code, old=package.tests, new=new):
            found.setdefault(name, []).append(phase)
    return [
        (f"{name}, {len(phases)} real packages, the most of each", _figure(phases), _BUDGETS[name])
        for name, phases in found.items()
    ]
