"""The test frameworks, one row each, the suites a folder holds, and a first suite for a project that has none."""

from __future__ import annotations

import json
import os
import re
import tempfile
from functools import lru_cache

from handoff.base.errors import ConfigError, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.node_scripts import node_line, runner, script
from handoff.checks.readers import reports
from handoff.checks.suite import EXIT, UNITTEST, Folder, Suite, is_entered, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from handoff.checks.results import Case, RunOutput

    Reader = Callable[[RunOutput], list[Case]]
    FileReader = Callable[[str], str | None]


_PYTHON_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", "pytest.ini", "tox.ini", "requirements.txt", "conftest.py")
_PYTHON_TEST = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")
_PYTEST = "{python} -m pytest -q --rootdir=. --maxfail=0 --continue-on-collection-errors -o junit_family=xunit1 --junitxml={results}"
# The second line is what Python and pytest load before any test: who may not write tests may not write that either.
_PYTHON_TESTS = tuple(
    "tests/ test/ **/tests/** **/test_*.py **/*_test.py **/conftest.py conftest.py pytest.ini test_*.py "
    "**/sitecustomize.py **/usercustomize.py pytest.py src/pytest.py _pytest/ unittest.py unittest/".split()
)
_SCRIPT_TESTS = tuple(
    "test/ tests/ __tests__/ spec/ **/__tests__/** **/__snapshots__/** **/*.test.* **/*.spec.* **/*-test.*js **/test-*.*js "
    "vitest.config.* jest.config.* .mocharc*".split()
)
_PYTHON_SETTINGS = (
    "pyproject.toml setup.cfg tox.ini requirements.txt requirements-dev.txt dev-requirements.txt test-requirements.txt"
).split()
_MAVEN = "-q -B -fae -DtrimStackTrace=false test"
_GRADLE = "--offline --continue --console=plain test"
_GRADLE_MARKS = {"build.gradle", "build.gradle.kts"}
_RUST_TESTS = ("tests/", "**/tests/**", "**/tests.rs")
_NEXTEST = (
    "cargo nextest run --no-fail-fast --profile handoff --tool-config-file handoff:{ours}/nextest.toml"
    " ; code=$? ; cargo test --doc -q ; exit $code"
)

ANY = "any"
"""The family of what is taken only where nothing better was found."""


class Framework(Record):
    """One test framework.

    `line` gives the shell line that runs it in a folder of its kind, and nothing for any other folder. `family` is its
    language: of each family the first suite from the top down counts, and of one folder the first row. `results` is the
    name of its reader in settings, `reader` the reader itself. `silence` says what comes of a run without result files: a
    framework that prints its results has its reader there too. `no_tests` is its exit code for "there is no test".
    """

    name: str
    family: str
    line: Callable[[Folder], str]
    results: str
    tests: tuple[str, ...]
    reader: Reader | None = None
    silence: Reader = reports.nothing_ran
    files: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    environment: Callable[[Folder], dict[str, str]] = lambda folder: {}  # noqa: ARG005 - most need none
    no_tests: int = -1

    def suite(self, folder: Folder) -> Suite | None:
        """The suite of a folder, if it is of this kind."""
        command = self.line(folder)
        if not command:
            return None
        return Suite(
            name=folder.named(self.name),
            framework=self.name,
            folder=folder.relative,
            command=command,
            results=self.results,
            tests=folder.at(*self.tests),
            files=self.files,
            environment=tuple(self.environment(folder).items()),
            links=folder.above(*self.links),
        )


@lru_cache(maxsize=1)  # the rows of one family ask for the same folder in turn
def _python_tests(folder: Folder) -> tuple[bool, list[str]]:
    """Whether anything speaks for pytest, and the test files of a Python project; none for a package inside one."""
    marked = [name for name in _PYTHON_MARKS if name in folder.names]
    if folder.relative and not marked:
        return False, []
    said = " ".join(folder.read(name) for name in _PYTHON_SETTINGS)
    below = list(folder.below())
    inner = () if marked else tuple(_projects(below))
    tests = [path for path in below if _PYTHON_TEST.search(path) and not path.startswith(inner)]
    return "pytest.ini" in folder.names or "conftest.py" in folder.names or "pytest" in said, tests


def _projects(paths: list[str]) -> set[str]:
    """Folders below that are Python projects of their own."""
    names = (path.rpartition("/") for path in paths)
    return {f"{folder}/" for folder, _, name in names if folder and name in _PYTHON_MARKS and name != "conftest.py"}


def _unittest(folder: Folder) -> str:
    """Where nothing speaks for pytest and every test uses unittest."""
    pytest, tests = _python_tests(folder)
    texts = [] if pytest else [text_of(os.path.join(folder.path, path)) for path in tests[:50]]
    used = texts and all("unittest" in text and "pytest" not in text for text in texts)
    return UNITTEST if used else ""


def _pytest(folder: Folder) -> str:
    return _PYTEST if any(_python_tests(folder)) else ""


def _python_path(folder: Folder) -> dict[str, str]:
    return {"PYTHONPATH": "{folder}/src:{folder}" if "src" in folder.names else "{folder}"}


def _wrapped(marks: set[str], wrapper: str, program: str, words: str) -> Callable[[Folder], str]:
    """A build tool that is called by the project's own wrapper where it has one."""

    def line(folder: Folder) -> str:
        if not marks & folder.names:
            return ""
        return f"{f'./{wrapper}' if wrapper in folder.names else program} {words}"

    return line


def _where(mark: str, words: str) -> Callable[[Folder], str]:
    """One line wherever a file of that name lies."""
    return lambda folder: words if mark in folder.names else ""


def _nextest(folder: Folder) -> str:
    chosen = "Cargo.toml" in folder.names and os.path.exists(os.path.join(folder.path, ".config", "nextest.toml"))
    return _NEXTEST if chosen else ""


def _dotnet(folder: Folder) -> str:
    found = any(
        name.endswith((".sln", ".slnx", "Tests.csproj", "Test.csproj", "Tests.fsproj")) for name in folder.names
    )
    return 'dotnet test --nologo --logger "trx" --results-directory {results}' if found else ""


def _rspec(folder: Folder) -> str:
    if ".rspec" not in folder.names and "rspec" not in folder.read("Gemfile"):
        return ""
    start = "bundle exec " if "Gemfile" in folder.names else ""
    return f"{start}rspec --format json --out {{results}} --format progress"


def _phpunit(folder: Folder) -> str:
    found = folder.names & {"phpunit.xml", "phpunit.xml.dist"} or "phpunit/phpunit" in folder.read("composer.json")
    return "vendor/bin/phpunit --log-junit {results}" if found else ""


def _make(folder: Folder) -> str:
    """`make test` has a verdict but no names."""
    texts = (folder.read(name) for name in ("GNUmakefile", "makefile", "Makefile"))
    return "make test" if any(re.search(r"^test\s*:", text, re.MULTILINE) for text in texts) else ""


def _python_row(name: str, line: Callable[[Folder], str], reader: Reader, no_tests: int = -1) -> Framework:
    return Framework(
        name=name,
        family="python",
        line=line,
        results=name,
        reader=reader,
        tests=_PYTHON_TESTS,
        environment=_python_path,
        links=(".venv", "venv"),
        no_tests=no_tests,
    )


def _script_row(
    name: str,
    line: Callable[[Folder], str],
    reader: Reader | None = None,
    results: str = "",
    silence: Reader = reports.nothing_ran,
) -> Framework:
    return Framework(
        name=name,
        family="javascript",
        line=line,
        results=results or name,
        reader=reader,
        silence=silence,
        tests=_SCRIPT_TESTS,
        environment=lambda _: {"CI": "1"},
        links=("node_modules",),
    )


def _java_row(name: str, line: Callable[[Folder], str], file: str) -> Framework:
    reader, tests = reports.java, ("src/test/", "**/src/test/**", "src/integrationTest/", "**/src/integrationTest/**")
    return Framework(
        name=name, family="java", line=line, results="java", reader=reader, silence=reader, files=(file,), tests=tests
    )


FRAMEWORKS = (
    _python_row("unittest", _unittest, reports.unittest),
    _python_row("pytest", _pytest, reports.pytest, no_tests=5),
    _script_row("node", node_line, reports.node),
    _script_row("vitest", runner("vitest"), reports.jest, "jest"),
    _script_row("jest", runner("jest"), reports.jest),
    _script_row("mocha", runner("mocha"), reports.mocha, silence=reports.not_loaded),
    _script_row("pnpm", script("pnpm-lock.yaml", "pnpm test --silent"), results=EXIT),
    _script_row("yarn", script("yarn.lock", "yarn -s test"), results=EXIT),
    _script_row("npm", script("", "npm test --silent"), results=EXIT),
    _java_row("maven", _wrapped({"pom.xml"}, "mvnw", "mvn", _MAVEN), "**/target/surefire-reports/TEST-*.xml"),
    _java_row("gradle", _wrapped(_GRADLE_MARKS, "gradlew", "gradle", _GRADLE), "**/build/test-results/test/TEST-*.xml"),
    Framework(
        name="go",
        family="go",
        line=_where("go.mod", "go test -json ./..."),
        results="go",
        reader=reports.go,
        silence=reports.go,
        tests=("**/*_test.go", "*_test.go", "**/testdata/**"),
    ),
    Framework(
        name="nextest",
        family="rust",
        line=_nextest,
        results="junit",
        reader=reports.junit,
        silence=reports.not_built,
        files=("**/target/nextest/handoff/junit.xml",),
        tests=_RUST_TESTS,
    ),
    Framework(
        name="cargo",
        family="rust",
        line=_where("Cargo.toml", "cargo test --no-fail-fast"),
        results="cargo",
        reader=reports.cargo,
        silence=reports.cargo,
        tests=_RUST_TESTS,
    ),
    Framework(
        name="dotnet",
        family="dotnet",
        line=_dotnet,
        results="trx",
        reader=reports.trx,
        silence=reports.not_built,
        tests=("**/*Tests/**", "**/*.Tests/**", "**/*Test/**", "**/*Tests.cs", "**/*Test.cs"),
    ),
    Framework(
        name="rspec",
        family="ruby",
        line=_rspec,
        results="rspec",
        reader=reports.rspec,
        tests=("spec/", ".rspec"),
        links=("vendor",),
    ),
    Framework(
        name="phpunit",
        family="php",
        line=_phpunit,
        results="junit",
        reader=reports.junit,
        silence=reports.not_built,
        tests=("tests/", "**/*Test.php", "phpunit.xml", "phpunit.xml.dist"),
        links=("vendor",),
    ),
    Framework(
        name="make",
        family=ANY,
        line=_make,
        results=EXIT,
        tests=("tests/", "test/", "**/test_*", "**/*_test.*", "**/tests/**"),
    ),
)
BY_NAME = {row.name: row for row in FRAMEWORKS}
BY_READER = {row.results: row for row in reversed(FRAMEWORKS)}


_DEPTH = 4
_CONFIG_KEYS: dict[str, Any] = {
    **dict.fromkeys(("command", "folder", "framework", "results"), str),
    **dict.fromkeys(("files", "tests", "links", "keep"), list),
    "environment": dict,
    "timeout": (int, float),
}


def find_suites(
    top: str, *, configured: Mapping[str, Any] | None = None, path: str = "config.toml"
) -> tuple[Suite, ...]:
    """The suites of the tree at `top`, by folder. What is configured wins, and then nothing is guessed."""
    if configured:
        return tuple(_configured(name, values, path) for name, values in configured.items())
    found: list[Suite] = []
    _look(top, "", frozenset((ANY,)), found)
    if not found:
        last = (row.suite(Folder(top, "")) for row in FRAMEWORKS if row.family == ANY)
        found = [suite for suite in last if suite is not None]
    return tuple(found)


def need_suites(
    top: str, *, configured: Mapping[str, Any] | None = None, path: str = "config.toml"
) -> tuple[Suite, ...]:
    """Like `find_suites`, but none is an error that tells how to name one."""
    found = find_suites(top, configured=configured, path=path)
    if not found:
        raise UserError(
            f"No test suite was found in {top}.",
            f'Name it in {path}, for example:\n\n[checks.unit]\ncommand = "pytest --junitxml={{results}}"\n'
            'results = "junit"\ntests = ["tests/"]\n',
        )
    return found


def _look(top: str, relative: str, done: frozenset[str], found: list[Suite]) -> None:
    """Look here, then below; a language that has its suite here is not looked for again further down."""
    folder = Folder(top, relative)
    for row in FRAMEWORKS:
        suite = None if row.family in done else row.suite(folder)
        if suite is not None:
            found.append(suite)
            done |= {row.family}
    if relative.count("/") + bool(relative) >= _DEPTH:
        return
    for name in sorted(folder.folders):
        if is_entered(name):
            _look(top, f"{relative}/{name}" if relative else name, done, found)


def _configured(name: str, values: Any, path: str) -> Suite:
    """A suite a person wrote down, checked key by key."""
    where = f"{path}: [checks.{name}]"
    if not isinstance(values, dict) or not isinstance(values.get("command"), str) or not values["command"].strip():
        raise ConfigError(f"{where} needs a command.", f'For example: [checks.{name}]\ncommand = "make test"')
    for key, value in values.items():
        kind = _CONFIG_KEYS.get(key)
        if kind is None:
            raise ConfigError(f"{where} has an unknown key '{key}'.", f"Known keys: {', '.join(sorted(_CONFIG_KEYS))}.")
        right = isinstance(value, kind) and not isinstance(value, bool)
        if not right or (kind is list and not all(isinstance(item, str) for item in value)):
            raise ConfigError(
                f"{where}: '{key}' has a value of the wrong kind: {value!r}.", "See: handoff help docs/howto/checks.md"
            )
    files = tuple(values.get("files", ()))
    results = values.get("results") or ("junit" if files or "{results}" in values["command"] else EXIT)
    if results not in BY_READER:
        raise ConfigError(f"{where}: there is no reader '{results}'.", f"Readers: {', '.join(sorted(BY_READER))}.")
    folder = os.path.normpath(values.get("folder", "")).strip("/")
    if folder == ".." or folder.startswith("../"):
        raise ConfigError(f"{where}: the folder lies outside the project.", "Name it from the project's top.")
    environment = tuple((str(key), str(value)) for key, value in values.get("environment", {}).items())
    return Suite(
        name=name,
        framework=values.get("framework") or results,
        folder="" if folder == "." else folder,
        command=values["command"],
        results=results,
        tests=tuple(values.get("tests", ())),
        files=files,
        environment=environment,
        links=tuple(values.get("links", ())),
        keep=tuple(values.get("keep", ())),
        timeout=float(values.get("timeout", 0)),
    )


_LINE = re.compile(r"^\s*(?:[-*]\s*)?suite:\s*`?([\w-]+)`?\s*$", re.IGNORECASE | re.MULTILINE)
_PACKAGE = "package.json"
_IGNORE = ".gitignore"


class Starter(Record):
    """One kind of suite to begin with: the program it needs, its files, what git shall ignore, and a test by which it is known again."""

    program: str
    files: tuple[tuple[str, str], ...]
    ignored: tuple[str, ...]
    sample: tuple[str, str]


STARTERS = {
    "pytest": Starter(
        "pytest",
        (("pytest.ini", "[pytest]\ntestpaths = tests\n"),),
        ("__pycache__/", ".pytest_cache/"),
        ("tests/test_it.py", "def test_it():\n    pass\n"),
    ),
    "unittest": Starter(
        "python3", (("tests/__init__.py", ""),), ("__pycache__/",), ("tests/test_it.py", "import unittest\n")
    ),
    "node": Starter("node", ((_PACKAGE, ""),), ("node_modules/",), ("test/it.test.js", "")),
    "go": Starter("go", (("go.mod", "module {name}\n\ngo 1.19\n"),), (), ("it_test.go", "package it\n")),
    "cargo": Starter(
        "cargo",
        (("Cargo.toml", '[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\n'), ("src/lib.rs", "")),
        ("target/",),
        ("tests/it.rs", ""),
    ),
}


def read_proposal(text: str) -> str:
    """The suite a list of tests asks for by a line `suite: NAME`; nothing where there is none."""
    found = _LINE.search(text)
    return found[1].lower() if found else ""


def starter_files(name: str, *, project: str, read: FileReader) -> dict[str, str]:
    """The files that make this suite, beside what the project has already."""
    made = STARTERS[name]
    words = re.sub(r"[^a-z0-9]+", "_", project.lower()).strip("_") or "project"
    found = {
        path: text.replace("{name}", words if words[0].isalpha() else f"p_{words}")
        for path, text in made.files
        if read(path) is None
    }
    if _PACKAGE in dict(made.files):
        found[_PACKAGE] = _package(read(_PACKAGE), words)
    ignored = read(_IGNORE) or ""
    more = [line for line in made.ignored if line not in ignored.splitlines()]
    if more:
        found[_IGNORE] = ignored + ("\n" if ignored and not ignored.endswith("\n") else "") + "\n".join(more) + "\n"
    return found


def _package(text: str | None, name: str) -> str:
    """package.json with a line for `test`; what stood there stays."""
    try:
        read = json.loads(text or "{}")
    except ValueError:
        read = {}
    known = read if isinstance(read, dict) else {}
    start = {} if text else {"name": name.replace("_", "-"), "private": True, "type": "module"}
    return (
        json.dumps({**start, **known, "scripts": {**(known.get("scripts") or {}), "test": "node --test"}}, indent=2)
        + "\n"
    )


def starter_suites(name: str, files: dict[str, str]) -> tuple[Suite, ...]:
    """The suite as it will be found in a project with these files and a first test."""
    with tempfile.TemporaryDirectory() as top:
        for path, text in (*files.items(), STARTERS[name].sample):
            whole = os.path.join(top, path)
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, "w", encoding="utf-8") as file:
                file.write(text)
        return find_suites(top)
