"""Run a suite in a folder and collect what it said; what it started is ended with it when time is up."""

from __future__ import annotations

import os
import re
import shlex
from glob import iglob

from handoff.base.process import find, run
from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.commands import TAIL_LINES
from handoff.checks.frameworks.table import BY_NAME, BY_READER
from handoff.checks.readers.found import RunOutput, Unreadable
from handoff.checks.results import Report
from handoff.checks.suite import EXIT, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from handoff.base.clock import Clock
    from handoff.checks.results import Case
    from handoff.checks.suite import Suite

OURS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reporters")
_TAIL_CHARS = 6000
_VIRTUAL = (".venv", "venv")


class RunFolders(Record):
    """Where suites run: the tree, a private folder for results, and the checkout whose dependencies are borrowed."""

    top: str
    scratch: str
    dependencies: str
    environment: Mapping[str, str]
    timeout: float
    is_test: Callable[[str], bool]
    wrap: Callable[[Sequence[str], Mapping[str, str]], tuple[Sequence[str], Mapping[str, str]]] | None = None


def run_suite(suite: Suite, *, folders: RunFolders, clock: Clock) -> Report:
    """Run one suite. Every way it can go wrong is a report; only a program of ours that is missing is an error."""
    folder = os.path.join(folders.top, suite.folder) if suite.folder else folders.top
    report = Report(suite=suite.name, command=suite.command, code=1, seconds=0.0, tail="", tests=suite.tests)
    if not os.path.isdir(folder):
        return report._replace(trouble=f"the folder {suite.folder} is gone")
    target = os.path.join(folders.scratch, f"results-{os.urandom(4).hex()}")
    named = {"{results}": target, "{folder}": folder, "{ours}": OURS, "{python}": _python(suite, folders)}
    environment = {**folders.environment, **{key: _filled(value, named) for key, value in suite.environment}}
    line = _filled(suite.command, named, quoted=True)
    # a sandbox begins at the top
    argv: Sequence[str] = ["/bin/sh", "-c", f"cd {shlex.quote(folder)} || exit 1\n{line}"]
    if folders.wrap is not None:
        argv, inside = folders.wrap(argv, environment)
        environment = dict(inside)
    began = clock.monotonic()
    done = run(argv, environment=environment, cwd=folder, timeout=suite.timeout or folders.timeout, merge=True)
    seconds = clock.monotonic() - began
    output = done.out.decode("utf-8", "replace")
    shown = output.replace(folders.top + os.sep, "")  # the scratch's own place says nothing to a reader
    report = report._replace(code=done.code, seconds=round(seconds, 4), tail=_tail(shown), timed_out=done.timed_out)
    if suite.results == EXIT:
        words = f"{suite.command} ended with {done.code}" if done.code else ""
        return report._replace(trouble=_late(report, folders, suite) or words)
    files = tuple(_written(target)) + tuple(_placed(folder, suite.files))
    found = RunOutput(
        suite=suite, top=folders.top, files=files, output=output, is_test=folders.is_test, foreign=_declared(folder)
    )
    try:
        cases = read(found)
    except Unreadable as error:
        trouble = _late(report, folders, suite) or (
            "" if _is_empty(suite, done.code) else f"{error} (exit {done.code})"
        )
        return report._replace(trouble=trouble)
    cases = tuple(case._replace(message=case.message.replace(folders.top + os.sep, "")) for case in cases)
    return report._replace(cases=cases, trouble=_late(report, folders, suite) or _reject(suite, done.code, cases))


def read(found: RunOutput) -> tuple[Case, ...]:
    """The cases of a run, each id once."""
    row = BY_READER[found.suite.results]
    reader = row.reader if found.files and row.reader else row.silence
    try:
        listed = reader(found)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        # What runs the tests writes the results: whatever stands there must not stop whoever judges them.
        raise Unreadable(f"the results of {found.suite.framework} have a shape of their own: {error!r}") from None
    cases: dict[str, Case] = {}
    for case in listed:
        name, number = case.id, 1
        while name in cases:  # two tests of one name: the second is told apart by its place
            number += 1
            name = f"{case.id}#{number}"
        cases[name] = case._replace(id=name)
    return tuple(cases.values())


def _is_empty(suite: Suite, code: int) -> bool:
    """Whether the exit code says that there is no test at all."""
    row = BY_NAME.get(suite.framework)
    return row is not None and code == row.no_tests


def _late(report: Report, folders: RunFolders, suite: Suite) -> str:
    return f"no answer within {suite.timeout or folders.timeout:.0f} s" if report.timed_out else ""


def _reject(suite: Suite, code: int, cases: Sequence[Case]) -> str:
    """An exit code that the results do not explain means that they are not the whole story."""
    if code == 0 or any(case.bad for case in cases) or _is_empty(suite, code):
        return ""
    return f"{suite.framework} ended with {code} although none of its {len(cases)} tests failed"


def _filled(text: str, named: Mapping[str, str], *, quoted: bool = False) -> str:
    for mark, value in named.items():
        text = text.replace(mark, shlex.quote(value) if quoted else value)
    return text


def _python(suite: Suite, folders: RunFolders) -> str:
    """The Python of the project: its virtual environment, else the one PATH finds."""
    at = suite.folder
    while True:
        for name in _VIRTUAL:
            program = os.path.join(folders.dependencies, at, name, "bin", "python")
            if folders.dependencies and os.path.exists(program):
                return program
        if not at:
            break
        at = at.rpartition("/")[0]
    path = folders.environment.get("PATH", os.defpath)
    return "python" if find("python", path=path) else "python3"


def _written(target: str) -> list[str]:
    """The result file, or the files of the result folder."""
    if os.path.isdir(target):
        return sorted(os.path.join(base, name) for base, _, names in os.walk(target) for name in names)
    return [target] if os.path.isfile(target) and os.path.getsize(target) else []


def _placed(folder: str, patterns: Sequence[str]) -> list[str]:
    """Result files a framework put into the tree; links are not followed out of it."""
    found = {path for pattern in patterns for path in iglob(os.path.join(folder, pattern), recursive=True)}
    real = os.path.realpath(folder) + os.sep
    return sorted(path for path in found if os.path.isfile(path) and os.path.realpath(path).startswith(real))


def _tail(output: str) -> str:
    return "\n".join(output.rstrip().splitlines()[-TAIL_LINES:])[-_TAIL_CHARS:]


def _declared(folder: str) -> Callable[[str], bool]:
    """Whether a Python module belongs to a declared dependency: that it is absent is the machine's fault, not the test's."""
    names: set[str] | None = None

    def foreign(module: str) -> bool:
        nonlocal names
        if names is None:
            names = _dependencies(folder)
        return module.lower().replace("-", "_") in names

    return foreign


def _dependencies(folder: str) -> set[str]:
    import tomllib

    wanted: list[str] = []
    try:
        data = tomllib.loads(text_of(os.path.join(folder, "pyproject.toml")))
    except tomllib.TOMLDecodeError:
        data = {}
    project = data.get("project", {})
    wanted += project.get("dependencies", [])
    for group in (project.get("optional-dependencies", {}), data.get("dependency-groups", {})):
        wanted += [item for items in group.values() for item in items if isinstance(item, str)]
    wanted += list(data.get("tool", {}).get("poetry", {}).get("dependencies", {}))
    for name in os.listdir(folder):
        if "requirements" in name and name.endswith(".txt"):
            wanted += text_of(os.path.join(folder, name)).splitlines()
    found = (re.match(r"\s*([A-Za-z0-9][\w.-]*)", item) for item in wanted)
    return {match[1].lower().replace("-", "_") for match in found if match}
