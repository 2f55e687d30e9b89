"""The frameworks by language: how each is recognised, and the line that runs it so that its results can be read."""

from __future__ import annotations

import json
import os
import re

from handoff.base.record import TYPE_CHECKING
from handoff.checks.frameworks.suite import EXIT, Folder, Suite, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

_PYTHON_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", "pytest.ini", "tox.ini", "requirements.txt", "conftest.py")
_PYTHON_TEST = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")
_PYTEST = "{python} -m pytest -q --rootdir=. --maxfail=0 --continue-on-collection-errors -o junit_family=xunit1 --junitxml={results}"
_PYTHON_TESTS = (
    "tests/", "test/", "**/tests/**", "**/test_*.py", "**/*_test.py", "**/conftest.py", "conftest.py", "pytest.ini", "test_*.py",
    # Python and pytest load these before any test: who may not write tests may not write them either.
    "**/sitecustomize.py", "**/usercustomize.py", "pytest.py", "src/pytest.py", "_pytest/", "unittest.py", "unittest/",
)  # fmt: skip
_SCRIPT_TESTS = (
    "test/", "tests/", "__tests__/", "spec/", "**/__tests__/**", "**/__snapshots__/**", "**/*.test.*", "**/*.spec.*",
    "**/*-test.*js", "**/test-*.*js", "vitest.config.*", "jest.config.*", ".mocharc*",
)  # fmt: skip
_JVM_TESTS = ("src/test/", "**/src/test/**", "src/integrationTest/", "**/src/integrationTest/**")


def _python(folder: Folder) -> Suite | None:
    """pytest where anything speaks for it, else unittest where the tests use it."""
    marked = [name for name in _PYTHON_MARKS if name in folder.names]
    if folder.relative and not marked:
        return None  # a package inside a project is the project's
    said = " ".join(folder.read(name) for name in ("pyproject.toml", "setup.cfg", "tox.ini", "requirements.txt"))
    said += " ".join(
        folder.read(name) for name in ("requirements-dev.txt", "dev-requirements.txt", "test-requirements.txt")
    )
    below = list(folder.below())
    inner = () if marked else tuple(_projects(below))
    tests = [path for path in below if _PYTHON_TEST.search(path) and not path.startswith(inner)]
    own = "pytest.ini" in folder.names or "conftest.py" in folder.names or "pytest" in said
    if not own and not tests:
        return None
    texts = [text_of(os.path.join(folder.path, path)) for path in tests[:50]]
    if not own and texts and all("unittest" in text and "pytest" not in text for text in texts):
        framework, command = "unittest", "{python} {ours}/unittest_results.py {results}"
    else:
        framework, command = "pytest", _PYTEST
    environment = (("PYTHONPATH", "{folder}/src:{folder}" if "src" in folder.names else "{folder}"),)
    return Suite(
        name=folder.named(framework),
        framework=framework,
        folder=folder.relative,
        command=command,
        results=framework,
        tests=folder.at(*_PYTHON_TESTS),
        environment=environment,
        links=_links(folder, ".venv", "venv"),
    )


def _projects(paths: list[str]) -> set[str]:
    """Folders below that are Python projects of their own."""
    names = (path.rpartition("/") for path in paths)
    return {f"{folder}/" for folder, _, name in names if folder and name in _PYTHON_MARKS and name != "conftest.py"}


def _script(folder: Folder) -> Suite | None:
    """The runner a package.json names; npm, pnpm and yarn only decide where it is found."""
    if "package.json" not in folder.names:
        return None
    try:
        package = json.loads(folder.read("package.json"))
    except ValueError:
        return None
    if not isinstance(package, dict):
        return None
    line = str((package.get("scripts") or {}).get("test") or "")
    needed = {**(package.get("devDependencies") or {}), **(package.get("dependencies") or {})}
    if "node --test" in line:
        command = line.replace(
            "node --test",
            "node --test --test-reporter={ours}/node_results.mjs --test-reporter-destination={results}",
            1,
        )
        return _script_suite(folder, "node", command, "node")
    for framework, words, reader in (
        ("vitest", "vitest run --reporter=json --outputFile={results}", "jest"),
        ("jest", "jest --ci --json --outputFile={results}", "jest"),
        ("mocha", "mocha --reporter json --reporter-option output={results}", "mocha"),
    ):
        if re.search(rf"\b{framework}\b", line) or (framework in needed and not line):
            return _script_suite(folder, framework, _found(folder, words), reader)
    if (
        line
        and "no test specified" not in line
        and not re.search(r"\b(turbo|lerna|nx)\b|--workspaces|\s-ws\b|\s-r\b", line)
    ):
        manager = "pnpm" if "pnpm-lock.yaml" in folder.names else "yarn" if "yarn.lock" in folder.names else "npm"
        return _script_suite(folder, manager, f"{manager} test --silent" if manager != "yarn" else "yarn -s test", EXIT)
    return None


def _script_suite(folder: Folder, framework: str, command: str, reader: str) -> Suite:
    return Suite(
        name=folder.named(framework),
        framework=framework,
        folder=folder.relative,
        command=command,
        results=reader,
        tests=folder.at(*_SCRIPT_TESTS),
        environment=(("CI", "1"),),
        links=_links(folder, "node_modules"),
    )


def _found(folder: Folder, words: str) -> str:
    """The runner where the package manager put it: here, in a folder above, or behind yarn's own loader."""
    program = words.partition(" ")[0]
    at, steps = folder.path, ""
    while True:
        if os.path.exists(os.path.join(at, ".pnp.cjs")):
            return f"yarn {words}"
        if os.path.exists(os.path.join(at, "node_modules", ".bin", program)):
            return f"{steps}node_modules/.bin/{words}"
        if at in (folder.top, os.path.dirname(at)):
            return f"npx --no-install {words}"
        at, steps = os.path.dirname(at), f"../{steps}"


def _links(folder: Folder, *names: str) -> tuple[str, ...]:
    """Folders of dependencies a clean tree borrows: here and above."""
    found, at = [], folder.relative
    while True:
        found += [f"{at}/{name}" if at else name for name in names]
        if not at:
            return tuple(found)
        at = at.rpartition("/")[0]


def _java(folder: Folder) -> Suite | None:
    if "pom.xml" in folder.names:
        program = "./mvnw" if "mvnw" in folder.names else "mvn"
        command = f"{program} -q -B -fae -DtrimStackTrace=false test"
        return Suite(
            name=folder.named("maven"),
            framework="maven",
            folder=folder.relative,
            command=command,
            results="java",
            tests=folder.at(*_JVM_TESTS),
            files=("**/target/surefire-reports/TEST-*.xml",),
        )
    if folder.names & {"build.gradle", "build.gradle.kts"}:
        program = "./gradlew" if "gradlew" in folder.names else "gradle"
        return Suite(
            name=folder.named("gradle"),
            framework="gradle",
            folder=folder.relative,
            command=f"{program} --offline --continue --console=plain test",
            results="java",
            tests=folder.at(*_JVM_TESTS),
            files=("**/build/test-results/test/TEST-*.xml",),
        )
    return None


def _go(folder: Folder) -> Suite | None:
    if "go.mod" not in folder.names:
        return None
    tests = folder.at("**/*_test.go", "*_test.go", "**/testdata/**")
    return Suite(
        name=folder.named("go"),
        framework="go",
        folder=folder.relative,
        command="go test -json ./...",
        results="go",
        tests=tests,
    )


def _rust(folder: Folder) -> Suite | None:
    if "Cargo.toml" not in folder.names:
        return None
    tests = folder.at("tests/", "**/tests/**", "**/tests.rs")
    if os.path.exists(os.path.join(folder.path, ".config", "nextest.toml")):
        command = (
            "cargo nextest run --no-fail-fast --profile handoff --tool-config-file handoff:{ours}/nextest.toml"
            " ; code=$? ; cargo test --doc -q ; exit $code"
        )
        files = ("**/target/nextest/handoff/junit.xml",)
        return Suite(
            name=folder.named("nextest"),
            framework="nextest",
            folder=folder.relative,
            command=command,
            results="junit",
            tests=tests,
            files=files,
        )
    return Suite(
        name=folder.named("cargo"),
        framework="cargo",
        folder=folder.relative,
        command="cargo test --no-fail-fast",
        results="cargo",
        tests=tests,
    )


def _dotnet(folder: Folder) -> Suite | None:
    if not any(name.endswith((".sln", ".slnx")) for name in folder.names) and not any(
        name.endswith(("Tests.csproj", "Test.csproj", "Tests.fsproj")) for name in folder.names
    ):
        return None
    tests = folder.at("**/*Tests/**", "**/*.Tests/**", "**/*Test/**", "**/*Tests.cs", "**/*Test.cs")
    command = 'dotnet test --nologo --logger "trx" --results-directory {results}'
    return Suite(
        name=folder.named("dotnet"),
        framework="dotnet",
        folder=folder.relative,
        command=command,
        results="trx",
        tests=tests,
    )


def _ruby(folder: Folder) -> Suite | None:
    if ".rspec" not in folder.names and "rspec" not in folder.read("Gemfile"):
        return None
    start = "bundle exec " if "Gemfile" in folder.names else ""
    command = f"{start}rspec --format json --out {{results}} --format progress"
    return Suite(
        name=folder.named("rspec"),
        framework="rspec",
        folder=folder.relative,
        command=command,
        results="rspec",
        tests=folder.at("spec/", ".rspec"),
        links=_links(folder, "vendor"),
    )


def _php(folder: Folder) -> Suite | None:
    if not folder.names & {"phpunit.xml", "phpunit.xml.dist"} and "phpunit/phpunit" not in folder.read("composer.json"):
        return None
    tests = folder.at("tests/", "**/*Test.php", "phpunit.xml", "phpunit.xml.dist")
    return Suite(
        name=folder.named("phpunit"),
        framework="phpunit",
        folder=folder.relative,
        command="vendor/bin/phpunit --log-junit {results}",
        results="junit",
        tests=tests,
        links=_links(folder, "vendor"),
    )


def make_test(folder: Folder) -> Suite | None:
    """`make test`, when nothing better is there: it has a verdict but no names."""
    for name in ("GNUmakefile", "makefile", "Makefile"):
        if re.search(r"^test\s*:", folder.read(name), re.MULTILINE):
            return Suite(
                name="make",
                framework="make",
                folder="",
                command="make test",
                results=EXIT,
                tests=("tests/", "test/", "**/test_*", "**/*_test.*", "**/tests/**"),
            )
    return None


FINDERS: dict[str, Callable[[Folder], Suite | None]] = {
    "python": _python,
    "javascript": _script,
    "java": _java,
    "go": _go,
    "rust": _rust,
    "dotnet": _dotnet,
    "ruby": _ruby,
    "php": _php,
}
