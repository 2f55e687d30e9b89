"""Run a suite in a folder within limits of time and size, and collect its results; what it started is ended with it."""

from __future__ import annotations

import os
import re
import shlex
from glob import iglob

from handoff.base.bounds import UNBOUNDED, Bounds
from handoff.base.process import find
from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks import sealed
from handoff.checks.commands import TAIL_LINES, run_limited
from handoff.checks.frameworks import BY_NAME, BY_READER
from handoff.checks.node_scripts import seals
from handoff.checks.results import TOO_BIG, Broken, Case, Report, RunOutput, Unreadable
from handoff.checks.suite import EXIT, UNITTEST, Suite, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from handoff.base.clock import Clock

OURS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reporters")
MOST_BYTES = 64 * 1024 * 1024
MOST_CASES = 200_000
_TAIL_CHARS = 6000
_TYPED = "typed until here"
_VIRTUAL = (".venv", "venv")
_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>()][0B]?)")


class RunFolders(Record):
    """Where suites run: the tree, a private folder for results, and the checkout whose dependencies are borrowed.

    `owned` are the top-level Python names the project had before the work: only these may be found in the tree first.
    """

    top: str
    scratch: str
    dependencies: str
    environment: Mapping[str, str]
    timeout: float
    is_test: Callable[[str], bool]
    wrap: Callable[[Sequence[str], Mapping[str, str]], tuple[Sequence[str], Mapping[str, str]]] | None = None
    owned: tuple[str, ...] = ()
    bounds: Bounds = UNBOUNDED
    """The memory and processes a run may use."""


def run_suite(suite: Suite, *, folders: RunFolders, clock: Clock) -> Report:
    """Run one suite. Every way it can go wrong is a report; only a program of ours that is missing is an error."""
    folder = os.path.join(folders.top, suite.folder) if suite.folder else folders.top
    report = Report(suite=suite.name, command=suite.command, code=1, seconds=0.0, tail="", tests=suite.tests)
    if not os.path.isdir(folder):
        return report._replace(trouble=f"the folder {suite.folder} is gone")
    target = os.path.join(folders.scratch, f"results-{os.urandom(4).hex()}")
    named = {"{results}": target, "{folder}": folder, "{ours}": OURS, "{python}": _python(suite, folders)}
    environment = {**folders.environment, **{key: _filled(value, named) for key, value in suite.environment}}
    start = _sealed_start(suite, folders, named, environment)
    if start is not None:
        return _run_sealed(suite, report, folders, folder, start, clock)
    line = _filled(suite.command, named, quoted=True)
    if seals(suite.command):
        return _run_scripts(suite, report, folders, folder, _Start("/bin/sh", ["-c", line], environment), clock)
    report, output = _run(["/bin/sh", "-c", line], report, folders, folder, environment, clock, suite)[:2]
    if report.trouble or suite.results == EXIT:
        words_of_exit = f"{suite.command} ended with {report.code}" if report.code else ""
        return report._replace(trouble=report.trouble or words_of_exit, named=suite.results != EXIT)
    files = tuple(_written(target)) + tuple(_placed(folder, suite.files))
    size = sum(os.path.getsize(path) for path in files)
    if size > MOST_BYTES:
        return _too_big(report, f"its result files have {size >> 20} MiB")
    found = RunOutput(
        suite=suite, top=folders.top, files=files, output=output, is_test=folders.is_test, foreign=_declared(folder)
    )
    try:
        cases = read(found)
    except Unreadable as error:
        return report._replace(trouble="" if _is_empty(suite, report.code) else f"{error} (exit {report.code})")
    if len(cases) > MOST_CASES:
        return _too_big(report, f"it names {len(cases)} tests")
    return report._replace(cases=_shown(cases, folders), trouble=_reject(suite, report.code, cases))


def run_as_person(
    words: Sequence[str], *, folders: RunFolders, folder: str, environment: Mapping[str, str], timeout: float
) -> tuple[int, str]:
    """A command that a shell starts on a terminal, with exactly this environment: the exit code and what it showed, without colours."""
    typed = f"set -m 2>/dev/null\n{shlex.join(words)} </dev/tty\nexit $?\n"  # a job of its own, as at a prompt
    shell = shlex.join(["env", "-i", *(f"{key}={value}" for key, value in environment.items())])
    shell += " bash" if find("bash", path=os.defpath) else " sh"
    line = f"cd {shlex.quote(folder)} || exit 1\nstty rows 50 cols 240 2>/dev/null\nexec {shell} <<'{_TYPED}'\n{typed}{_TYPED}\n"
    argv: Sequence[str] = ["/bin/sh", "-c", line]
    outside: Mapping[str, str] = folders.environment
    if folders.wrap is not None:
        argv, outside = folders.wrap(argv, outside)
    begun = [
        "/bin/sh",
        "-c",
        'place=$(tty) && exec "$@" <"$place"',
        "sh",
        *argv,
    ]  # which makes it the terminal of all below
    done = run_limited(
        begun,
        environment=outside,
        cwd=folder,
        timeout=timeout,
        most=MOST_BYTES,
        terminal=True,
        bounds=folders.bounds,
    ).completed
    return done.code, _COLOURS.sub("", done.out.decode("utf-8", "replace")).replace("\r", "")


class _Start(Record):
    """How the launcher is started: with which Python, words for the runner, environment."""

    python: str
    words: list[str]
    environment: dict[str, str]
    runner: str = "pytest"


def python_words(suite: Suite, folders: RunFolders) -> tuple[str, list[str], str] | None:
    """Python, words and runner of a suite of pytest or unittest as a person starts it; None for any other."""
    folder = os.path.join(folders.top, suite.folder) if suite.folder else folders.top
    start = _sealed_start(suite, folders, {"{folder}": folder, "{python}": _python(suite, folders)}, {})
    return None if start is None else (start.python, start.words, start.runner)


def _sealed_start(
    suite: Suite, folders: RunFolders, named: Mapping[str, str], environment: dict[str, str]
) -> _Start | None:
    """How our launcher runs this suite; None where it cannot."""
    python = named["{python}"]
    if suite.command == UNITTEST:
        return _Start(python, [], environment, "unittest")
    words = sealed.runner_words(suite)
    found = _interpreter(suite, folders, python) if words is not None else ""
    return _Start(found, [_filled(word, named) for word in words or ()], environment) if found else None


def _run(
    argv: Sequence[str],
    report: Report,
    folders: RunFolders,
    folder: str,
    environment: Mapping[str, str],
    clock: Clock,
    suite: Suite,
    job: bytes = b"",
) -> tuple[Report, str, bytes]:
    """Run inside the sandbox where there is one; the report so far, what was printed, and what came by the channel."""
    # a sandbox begins at the top
    words: Sequence[str] = ["/bin/sh", "-c", f'cd {shlex.quote(folder)} || exit 1\nexec "$@"', "sh", *argv]
    if folders.wrap is not None:
        words, environment = folders.wrap(words, environment)
    if job:
        environment = {**environment, sealed.VARIABLE: sealed.CHANNEL}
    began, limit = clock.monotonic(), suite.timeout or folders.timeout
    channel = sealed.CHANNEL if job else ""
    ran = run_limited(
        words,
        environment=environment,
        cwd=folder,
        timeout=limit,
        most=MOST_BYTES,
        stdin=job,
        channel=channel,
        bounds=folders.bounds,
    )
    done = ran.completed
    output = done.out.decode("utf-8", "replace")
    shown = output.replace(folders.top + os.sep, "")  # the scratch's own place says nothing to a reader
    report = report._replace(
        code=done.code, seconds=round(clock.monotonic() - began, 4), tail=_tail(shown), timed_out=done.timed_out
    )
    if ran.too_much:
        report = _too_big(report, f"it said more than {MOST_BYTES >> 20} MiB")
    elif ran.over:
        report = report._replace(trouble=ran.over)
    elif done.timed_out:
        report = report._replace(trouble=f"no answer within {limit:.0f} s")
    return report, output, ran.said


def _run_sealed(suite: Suite, report: Report, folders: RunFolders, folder: str, start: _Start, clock: Clock) -> Report:
    """The runner under our launcher; whatever is not under its seal, or not complete, is no result."""
    job = sealed.prepare(
        start.words,
        folder=folder,
        top=folders.top,
        scratch=folders.scratch,
        lender=folders.dependencies,
        owned=folders.owned,
        is_test=lambda path: folders.is_test(f"{suite.folder}/{path}" if suite.folder else path),
        runner=start.runner,
    )
    job = sealed.looking(suite, job)
    argv = [start.python, "-I", "-B", os.path.join(OURS, "launch.py"), sealed.CHANNEL]
    report, output, said = _run(argv, report, folders, folder, start.environment, clock, suite, job.line())
    if report.trouble:
        return report
    found = RunOutput(
        suite=suite, top=folders.top, files=(), output=output, is_test=folders.is_test, foreign=_declared(folder)
    )
    try:
        bodies = sealed.open_lines(said, job, report.code)
        listed, flaws = sealed.read_sealed(bodies, job, found)
    except Broken as error:
        return report._replace(trouble=str(error), fault=error.code)
    code = report.code
    if code == 1 and not any(case.bad for case in listed):
        code = 0  # a canary of ours is always wrong
    cases = _shown(_unique(listed), folders)
    trouble = _reject(suite, code, cases)
    return report._replace(code=code, cases=cases, flaws=tuple(flaws), sealed=True, trouble=trouble)


def _run_scripts(suite: Suite, report: Report, folders: RunFolders, folder: str, start: _Start, clock: Clock) -> Report:
    """A JavaScript runner with our reporter in it; where it said nothing at all, its printed words may tell why."""
    inside = f"{suite.folder}/" if suite.folder else ""
    canaries = sealed.place_in_files(folder, lambda path: folders.is_test(inside + path))
    job = sealed.SealedJob(os.urandom(32), {}, canaries)
    report, output, said = _run(
        [start.python, *start.words], report, folders, folder, start.environment, clock, suite, job.line()
    )
    if report.trouble:
        return report
    found = RunOutput(
        suite=suite, top=folders.top, files=(), output=output, is_test=folders.is_test, foreign=_declared(folder)
    )
    try:
        if not said and report.code:
            return report._replace(cases=_shown(read(found), folders))
        listed, flaws = sealed.read_scripts(sealed.open_lines(said, job, report.code), canaries, found)
    except Unreadable as error:
        return report._replace(trouble=f"{error} (exit {report.code})")
    except Broken as error:
        return report._replace(trouble=str(error), fault=error.code)
    code = report.code if not canaries or any(case.bad for case in listed) else 0  # a canary of ours is always wrong
    return report._replace(code=code, cases=_shown(_unique(listed), folders), flaws=tuple(flaws), sealed=True)


def _too_big(report: Report, words: str) -> Report:
    return report._replace(trouble=f"{words}, more than is read", fault=TOO_BIG)


def _shown(cases: Sequence[Case], folders: RunFolders) -> tuple[Case, ...]:
    return tuple(case._replace(message=case.message.replace(folders.top + os.sep, "")) for case in cases)


def _interpreter(suite: Suite, folders: RunFolders, python: str) -> str:
    """The Python a suite's line calls; nothing where the program pytest does not say."""
    first = suite.command.split()[0]
    if first != "pytest":
        return python if first == "{python}" else first
    path = folders.environment.get("PATH", os.defpath)
    program = find("pytest", path=os.path.dirname(python) + os.pathsep + path if "/" in python else path)
    head = text_of(program).partition("\n")[0] if program else ""
    words = head.removeprefix("#!").split()
    return words[0] if head.startswith("#!/") and len(words) == 1 and "python" in words[0] else ""


def read(found: RunOutput) -> tuple[Case, ...]:
    """The cases of a run, each id once."""
    row = BY_READER[found.suite.results]
    reader = row.reader if found.files and row.reader else row.silence
    try:
        listed = reader(found)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, RecursionError) as error:
        # What runs the tests writes the results: whatever stands there must not stop whoever judges them.
        raise Unreadable(f"the results of {found.suite.framework} have a shape of their own: {error!r}") from None
    return _unique(listed)


def _unique(listed: Iterable[Case]) -> tuple[Case, ...]:
    """Each id once: of two tests of one name the second is told apart by its place."""
    cases: dict[str, Case] = {}
    times: dict[str, int] = {}
    for case in listed:
        times[case.id] = number = times.get(case.id, 0) + 1
        name = case.id if number == 1 else f"{case.id}#{number}"
        cases[name] = case._replace(id=name)
    return tuple(cases.values())


def _is_empty(suite: Suite, code: int) -> bool:
    """Whether the exit code says that there is no test at all."""
    row = BY_NAME.get(suite.framework)
    return row is not None and code == row.no_tests


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
