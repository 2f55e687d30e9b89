"""Which suites a tree holds: found by its files, or named by a person."""

from __future__ import annotations

import os

import pytest

from handoff.base.errors import ConfigError, UserError
from handoff.checks.frameworks import find_suites, need_suites
from handoff.checks.suite import suite_of


def _tree(top, files):
    for name, text in files.items():
        path = os.path.join(top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return str(top)


UNIT = "import unittest\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertTrue(f())\n"
FOUND = {
    "a plain test file": ({"test_a.py": "def test_a(): assert f()\n"}, ("pytest", "pytest")),
    "pytest in the settings alone": ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, ("pytest", "pytest")),
    "unittest's own classes": ({"tests/test_a.py": UNIT}, ("unittest", "unittest")),
    "unittest's classes under pytest": ({"tests/test_a.py": UNIT, "conftest.py": ""}, ("pytest", "pytest")),
    "node's runner": ({"package.json": '{"scripts": {"test": "node --test test/"}}'}, ("node", "node")),
    "vitest by its script": ({"package.json": '{"scripts": {"test": "vitest run"}}'}, ("vitest", "jest")),
    "jest by its dependency": ({"package.json": '{"devDependencies": {"jest": "^29"}}'}, ("jest", "jest")),
    "mocha": ({"package.json": '{"scripts": {"test": "c8 mocha -r x"}}'}, ("mocha", "mocha")),
    "a script of another kind": ({"package.json": '{"scripts": {"test": "tap"}}'}, ("npm", "exit")),
    "pnpm": ({"package.json": '{"scripts": {"test": "tap"}}', "pnpm-lock.yaml": ""}, ("pnpm", "exit")),
    "yarn": ({"package.json": '{"scripts": {"test": "tap"}}', "yarn.lock": ""}, ("yarn", "exit")),
    "Maven": ({"pom.xml": "<project/>"}, ("maven", "java")),
    "Gradle": ({"build.gradle.kts": ""}, ("gradle", "java")),
    "go": ({"go.mod": "module x\n"}, ("go", "go")),
    "cargo": ({"Cargo.toml": ""}, ("cargo", "cargo")),
    "nextest": ({"Cargo.toml": "", ".config/nextest.toml": ""}, ("nextest", "junit")),
    "dotnet": ({"Shop.sln": ""}, ("dotnet", "trx")),
    "rspec": ({"Gemfile": 'gem "rspec"\n'}, ("rspec", "rspec")),
    "phpunit": ({"composer.json": '{"require-dev": {"phpunit/phpunit": "*"}}'}, ("phpunit", "junit")),
    "make": ({"Makefile": "all:\n\ntest: all\n\t./run\n"}, ("make", "exit")),
}


@pytest.mark.parametrize("case", FOUND)
def test_a_suite_is_found_by_its_files(tmp_path, case):
    files, (framework, reader) = FOUND[case]
    (suite,) = find_suites(_tree(tmp_path, files))
    assert (suite.framework, suite.results, suite.folder) == (framework, reader, "")
    assert suite_of(suite.record()) == suite


def test_a_monorepo_has_a_suite_for_each_project_and_none_for_other_peoples_code(tmp_path):
    top = _tree(
        tmp_path,
        {
            "package.json": '{"workspaces": ["web"], "scripts": {"test": "turbo test"}}',
            "web/package.json": '{"scripts": {"test": "vitest"}}',
            "web/node_modules/x/package.json": '{"scripts": {"test": "jest"}}',
            "node_modules/.bin/vitest": "",
            "api/pyproject.toml": '[project]\ndependencies = ["pytest"]\n',
            "api/tests/test_a.py": "def test_a(): pass\n",
            "api/tests/unit/conftest.py": "",
            "services/mail/go.mod": "module mail\n",
            "Makefile": "test:\n\ttrue\n",
        },
    )
    found = {suite.name: suite for suite in find_suites(top)}
    assert sorted(found) == ["api/pytest", "services/mail/go", "web/vitest"]
    assert found["web/vitest"].command.startswith("../node_modules/.bin/vitest run")
    assert found["web/vitest"].links == ("web/node_modules", "node_modules")
    assert "api/tests/" in found["api/pytest"].tests


def test_what_is_configured_wins_and_nothing_is_guessed(tmp_path):
    top = _tree(tmp_path, {"test_a.py": "def test_a(): pass\n"})
    (suite,) = find_suites(top, configured={"mine": {"command": "./run {results}", "folder": "./sub/", "timeout": 5}})
    assert (suite.name, suite.results, suite.folder, suite.timeout) == ("mine", "junit", "sub", 5.0)
    (plain,) = find_suites(top, configured={"plain": {"command": "./run"}})
    assert plain.results == "exit"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "needs a command"),
        ({"command": " "}, "needs a command"),
        ({"command": "x", "comand": "y"}, "unknown key 'comand'"),
        ({"command": "x", "tests": "tests/"}, "'tests' has a value of the wrong kind"),
        ({"command": "x", "timeout": True}, "'timeout' has a value of the wrong kind"),
        ({"command": "x", "results": "tap"}, "there is no reader 'tap'"),
        ({"command": "x", "folder": "../other"}, "outside the project"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path, values, words):
    with pytest.raises(ConfigError, match=words) as raised:
        find_suites(str(tmp_path), configured={"mine": values})
    assert "[checks.mine]" in raised.value.message
    assert raised.value.hint


def test_no_suite_at_all_is_an_error_that_tells_how_to_name_one(tmp_path):
    with pytest.raises(UserError, match="No test suite was found") as raised:
        need_suites(_tree(tmp_path, {"README.md": ""}))
    assert "[checks.unit]" in raised.value.hint
