"""A first test suite for a project that has none: which can be chosen, and the few files that make it."""

from __future__ import annotations

import json
import os
import re
import tempfile

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.frameworks.frameworks import find_suites

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.checks.suite import Suite

    Reader = Callable[[str], str | None]

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
        "python3",
        (("tests/__init__.py", ""),),
        ("__pycache__/",),
        ("tests/test_it.py", "import unittest\n"),
    ),
    "node": Starter("node", ((_PACKAGE, ""),), ("node_modules/",), ("test/it.test.js", "")),
    "go": Starter("go", (("go.mod", "module {name}\n\ngo 1.19\n"),), (), ("it_test.go", "package it\n")),
    "cargo": Starter(
        "cargo",
        (
            ("Cargo.toml", '[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\n'),
            ("src/lib.rs", ""),
        ),
        ("target/",),
        ("tests/it.rs", ""),
    ),
}


def read_proposal(text: str) -> str:
    """The suite a list of tests asks for by a line `suite: NAME`; nothing where there is none."""
    found = _LINE.search(text)
    return found[1].lower() if found else ""


def starter_files(name: str, *, project: str, read: Reader) -> dict[str, str]:
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
