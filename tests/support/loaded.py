"""Which of our modules each budgeted command loads: `python tests/support/loaded.py` writes tests/house/loaded.toml anew."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from handoff.surfaces.cli.catalog import NOUNS
from sandbox import Repo, hermetic_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

LIST = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "house", "loaded.toml")
PROBE = """
import sys
before = set(sys.modules)
from handoff.surfaces.cli.main import main
code = main(sys.argv[1:])
sys.stderr.write("\\n" + "\\n".join(set(sys.modules) - before))
sys.exit(code)
"""
STATE = "# State\n\n# Current Step\n\nTwo\n\n# Execution Plan\n\n- [x] One\n- [>] Two\n- [ ] Three\n\n# Risks\n\nNone\n"
EDIT = '{"tool_name": "Write", "tool_input": {"file_path": "src/a.py"}, "cwd": "."}'
# In this order each finds what it needs; the word of a command is its name in the list, the second time with "again".
COMMANDS = (
    ("--version",), ("status",), ("next",), ("continue", "--raw"), ("list",), ("note", "a word"),
    ("dump", "--task", "form", "--next", "x", "--owns", "src/"), ("task", "claim", "form"), ("status",), ("heartbeat",),
    ("hook", "claude", "PreToolUse"), ("hook", "claude", "PostToolUse"), ("session", "say", "form", "a word"), ("safe-commit", "-m", "why", "--", "src/a.py"), ("task", "done"),
)  # fmt: skip


def loaded(folder: str, *words: str, environment: dict[str, str] | None = None) -> set[str]:
    """Every module one command loads beyond those of a bare interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words], cwd=folder, input=EDIT, capture_output=True, text=True, check=False,
        timeout=200, env={**os.environ, **(environment or {})},
    )  # fmt: skip
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return set(done.stderr.split("\n"))


def plan(repo: Repo, environment: dict[str, str]) -> None:
    """A feature in the middle of its plan, and a file to commit."""
    loaded(repo.path, "init", "login", environment=environment)
    repo.write(".handoff/features/login/FEATURE.md", "# Feature: login\n\n# Goal\n\nA person signs in.\n")
    repo.write(".handoff/features/login/STATE.md", STATE)
    repo.commit("plan")


def by_command(repo: Repo, environment: dict[str, str]) -> Iterator[tuple[str, set[str]]]:
    """Each budgeted command with our own modules that it loads, by their names inside the package."""
    plan(repo, environment)
    seen: set[str] = set()
    for words in COMMANDS:
        if words[0] == "safe-commit":
            repo.write("src/a.py", "a = 1\n")
        found = loaded(repo.path, *words, environment=environment)
        said = " ".join(words[: 2 if words[0] in NOUNS else 1])
        name = f"{said} again" if said in seen else said
        seen.add(said)
        yield name, {name.removeprefix("handoff.") for name in found if name.startswith("handoff.")}


def write() -> None:
    """Write the list anew from what is loaded now."""
    with tempfile.TemporaryDirectory(prefix="handoff-loaded-") as folder:
        environment = hermetic_environment(folder)
        os.environ.update(environment)
        found = dict(by_command(Repo.create(os.path.join(folder, "repo")), environment))
    lines = ["# Written by `python tests/support/loaded.py`: the modules each budgeted command loads."]
    for command, names in found.items():
        lines += ["", f'["{command}"]', "loads = [", *(f'  "{name}",' for name in sorted(names)), "]"]
    with open(LIST, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    write()
