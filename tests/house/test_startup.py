"""Small commands stay small: what they may not import is a rule, not a measurement. `bench/startup.py` has the figures."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "asyncio", "ast", "click", "concurrent.futures", "dataclasses", "datetime", "dbos", "email", "hashlib", "http", "inspect",
    "jinja2", "logging", "msgspec", "multiprocessing", "pathlib", "platform", "psutil", "psycopg", "random", "rich", "socket",
    "sqlalchemy", "subprocess", "tempfile", "threading", "tomllib", "traceback", "urllib", "uuid", "watchfiles", "zipfile",
}  # fmt: skip
PROBE = """
import sys
before = set(sys.modules)
from handoff.surfaces.cli.main import main
code = main(sys.argv[1:])
sys.stderr.write("\\n" + "\\n".join(set(sys.modules) - before))
sys.exit(code)
"""
STATE = "# State\n\n# Current Step\n\nTwo\n\n# Execution Plan\n\n- [x] One\n- [>] Two\n- [ ] Three\n\n# Risks\n\nNone\n"


def _imported(folder: str, *words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines())


@pytest.fixture
def planned(repo, cli):
    """A repository with a feature in the middle of its plan."""
    cli("init", "login")
    repo.write(".handoff/features/login/FEATURE.md", "# Feature: login\n\n# Goal\n\nA person signs in.\n")
    repo.write(".handoff/features/login/STATE.md", STATE)
    repo.commit("plan")
    return repo


def test_the_version_needs_nothing_but_itself(repo):
    loaded = {name for name in _imported(repo.path, "--version") if name.startswith("handoff")}
    assert loaded == {"handoff", "handoff.surfaces", "handoff.surfaces.cli", "handoff.surfaces.cli.main"}


@pytest.mark.parametrize("words", [("status",), ("next",), ("continue", "--raw"), ("list",), ("note", "a word")])
def test_a_small_command_imports_nothing_heavy(planned, words):
    loaded = _imported(planned.path, *words)
    assert not loaded & HEAVY, sorted(loaded & HEAVY)
    assert not [name for name in loaded if name.startswith(("handoff.board", "handoff.store", "handoff.agents"))]
