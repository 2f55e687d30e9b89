"""`handoff check` as a person and a program see it."""

from __future__ import annotations

import os
import sys

import pytest

from sandbox import Cli
from suites import use_this_python


@pytest.fixture
def cli(repo, monkeypatch):
    use_this_python(monkeypatch)
    repo.write("calc.py", "def add(a, b):\n    return a + b\n")
    repo.write("tests/test_calc.py", "import calc\n\ndef test_adds():\n    assert calc.add(1, 2) == 3\n")
    repo.commit("calc")
    return Cli(repo.path)


def test_green_and_red_are_told_by_name_and_by_the_exit_code(cli, repo):
    assert "Green: 1 test." in cli("check").out
    repo.write("tests/test_new.py", "import calc\n\ndef test_subtracts():\n    assert calc.sub(2, 1) == 1\n")
    answer = cli("check", "--all", code=1)
    assert "passed tests/test_calc.py::test_adds" in answer.out
    assert "failed (missing) tests/test_new.py::test_subtracts" in answer.out
    assert "module 'calc' has no attribute 'sub'" in answer.out
    assert "Red: 1 of 2 tests." in answer.out
    assert "Green: 1 test." in cli("check", "--tree", "HEAD").out
    assert repo.git("status", "--porcelain") == "?? tests/test_new.py\n"


def test_a_program_gets_every_case(cli):
    found = cli("check", "--json").json
    assert found["green"] is True
    (suite,) = found["suites"]
    assert [(case["id"], case["status"]) for case in suite["cases"]] == [
        ("pytest:tests/test_calc.py::test_adds", "passed")
    ]
    (listed,) = cli("check", "--list", "--json").json
    assert listed["framework"] == "pytest"


def test_tests_that_run_without_a_sandbox_are_told(cli, monkeypatch):
    words = "no sandbox kept them inside"
    assert words in cli("check", "--no-sandbox").err
    monkeypatch.setenv("HANDOFF_SANDBOX", "none")
    assert words in cli("check").err


def test_configured_suites_are_run_and_a_verdict_without_names_says_so(cli, repo):
    words = f'[checks.fast]\ncommand = "{sys.executable} -c pass"\n\n[checks.slow]\ncommand = "echo broken; exit 3"\n'
    repo.write(".handoff/config.toml", words)
    assert "fast: no tests by name" in cli("check", "--suite", "fast").out
    answer = cli("check", code=1)
    assert "slow: no tests by name" in answer.out
    assert "ended with 3" in answer.out
    assert "broken" in answer.out
    assert "judged by its exit code alone" in cli("check", "--list").out


def test_faults_are_told_with_what_to_do(cli, repo, tmp_path):
    assert "There are: pytest." in cli("check", "--suite", "nothing", code=1).err
    assert "is no commit or tree" in cli("check", "--tree", "nothing", code=1).err
    repo.write(".handoff/config.toml", '[checks.mine]\ncomand = "x"\n')
    assert "[checks.mine] needs a command" in cli("check", code=1).err
    empty = tmp_path / "empty"
    os.makedirs(empty)
    assert "This is not a git repository." in cli("check", "--list", code=1, cwd=str(empty)).err
