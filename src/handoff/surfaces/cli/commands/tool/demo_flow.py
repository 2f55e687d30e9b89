"""The second half of `demo`: a calculator by test-driven development, with sessions that try to cheat."""

from __future__ import annotations

import os

from handoff.agents.scripted.player import SCRIPTS
from handoff.base import files
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.base.process import Completed
    from handoff.surfaces.cli.output import Output

_REQUEST = "A calculator that adds, subtracts and divides two numbers."
_TESTS = """import unittest

import calculator


class Start(unittest.TestCase):
    def test_it_says_what_it_is(self):
        self.assertTrue(calculator.__doc__)
"""


def write_project(folder: str) -> None:
    """The project before anybody works on it."""
    for name, text in (
        ("calculator.py", '"""A calculator."""\n'),
        ("tests/__init__.py", ""),
        ("tests/test_start.py", _TESTS),
        (".gitignore", "__pycache__/\n"),
    ):
        path = os.path.join(folder, name)
        files.make_folder(os.path.dirname(path))
        files.write_atomic(path, text)


def play(out: Output, repo: str, do: Callable[..., Completed]) -> bool:
    """Four cycles; whether the flow came to its end."""
    files.make_folder(repo)
    write_project(repo)
    do("git init -q && git add . && git commit -q -m 'an empty calculator'", show=False)
    out.line("6. A workflow: test-driven, each phase a fresh session that cannot do the others' work", "title")
    do(f"handoff flow start tdd --id calculator --agent scripted --request '{_REQUEST}' 2>/dev/null", limit=1)
    word = os.path.join(SCRIPTS, "tdd", "{task}-{attempt}.toml")
    out.line("  (the scripted sessions work, and three of them cheat; this takes some seconds)", "dim")
    do(f"handoff flow step calculator --all --with {word!r}", show=False)
    log = do("handoff log calculator")
    out.line()
    do("git log --reverse --format='%h %s' main..handoff/calculator")
    do("git show handoff/calculator:test-list.md | tail -4")
    do("handoff log --git handoff/calculator", limit=6)
    state = do("handoff show calculator --json", show=False)
    return '"state": "done"' in state.text and log.text.count("refused") >= 3  # noqa: PLR2004 - three cheats
