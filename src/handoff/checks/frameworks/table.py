"""The test frameworks, one row each: how it is recognised and run, where its results are, who reads them, and what it
means when it wrote none."""

from __future__ import annotations

import os
import re
from functools import lru_cache

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.frameworks.scripts import node_line, runner, script
from handoff.checks.readers import json_reports as own
from handoff.checks.readers import text_reports as text
from handoff.checks.readers import xml_reports as xml
from handoff.checks.readers.silence import not_built, not_loaded, nothing_ran
from handoff.checks.suite import EXIT, UNITTEST, Folder, Suite, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.checks.readers.found import RunOutput
    from handoff.checks.results import Case

    Reader = Callable[[RunOutput], list[Case]]

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
    silence: Reader = nothing_ran
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
    silence: Reader = nothing_ran,
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
    reader, tests = xml.java, ("src/test/", "**/src/test/**", "src/integrationTest/", "**/src/integrationTest/**")
    return Framework(
        name=name, family="java", line=line, results="java", reader=reader, silence=reader, files=(file,), tests=tests
    )


FRAMEWORKS = (
    _python_row("unittest", _unittest, own.unittest),
    _python_row("pytest", _pytest, xml.pytest, no_tests=5),
    _script_row("node", node_line, own.node),
    _script_row("vitest", runner("vitest"), own.jest, "jest"),
    _script_row("jest", runner("jest"), own.jest),
    _script_row("mocha", runner("mocha"), own.mocha, silence=not_loaded),
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
        reader=text.go,
        silence=text.go,
        tests=("**/*_test.go", "*_test.go", "**/testdata/**"),
    ),
    Framework(
        name="nextest",
        family="rust",
        line=_nextest,
        results="junit",
        reader=xml.junit,
        silence=not_built,
        files=("**/target/nextest/handoff/junit.xml",),
        tests=_RUST_TESTS,
    ),
    Framework(
        name="cargo",
        family="rust",
        line=_where("Cargo.toml", "cargo test --no-fail-fast"),
        results="cargo",
        reader=text.cargo,
        silence=text.cargo,
        tests=_RUST_TESTS,
    ),
    Framework(
        name="dotnet",
        family="dotnet",
        line=_dotnet,
        results="trx",
        reader=xml.trx,
        silence=not_built,
        tests=("**/*Tests/**", "**/*.Tests/**", "**/*Test/**", "**/*Tests.cs", "**/*Test.cs"),
    ),
    Framework(
        name="rspec",
        family="ruby",
        line=_rspec,
        results="rspec",
        reader=own.rspec,
        tests=("spec/", ".rspec"),
        links=("vendor",),
    ),
    Framework(
        name="phpunit",
        family="php",
        line=_phpunit,
        results="junit",
        reader=xml.junit,
        silence=not_built,
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
