"""A suite: one way to run tests; and a folder as the finders look at it."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

UNITTEST = "{python} {ours}/unittest_results.py {results}"
EXIT = "exit"  # nothing but the exit code says how it went
# Folders that hold other people's code or what a build left behind.
_PASSED_BY = frozenset(
    ("node_modules", "vendor", "target", "build", "dist", "venv", "env", "site-packages", "__pycache__", "bin", "obj")
)
_LARGEST = 512 * 1024


class Suite(Record):
    """One way to run tests. `command` is a line of shell, run in `folder`.

    {results} in it is a fresh file or folder outside the tree, {folder} the folder itself, {python} the project's
    Python, {ours} our own small reporters. `results` names the reader; `files` are the patterns of result files a
    framework insists on placing itself; `tests` are ownership patterns, from the top, of the files that are tests; `links` are folders of
    dependencies a clean tree borrows; `keep` is what stays from run to run, such as a build cache.
    """

    name: str
    framework: str
    folder: str
    command: str
    results: str
    tests: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    links: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    timeout: float = 0.0
    inside: Mapping[str, Any] = {}
    """What a run is to ask the tests in the place of running them."""

    def record(self) -> dict[str, Any]:
        """The suite as plain values, so that a running flow keeps the suites it began with."""
        kept = {name: value for name, value in self._asdict().items() if name != "inside"}
        return {**kept, "environment": dict(self.environment)}


def suite_of(values: Mapping[str, Any]) -> Suite:
    """The suite that `record` wrote down."""
    known: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return Suite(**{**known, "environment": tuple(dict(values.get("environment") or {}).items())})


def plain_command(command: str, *, python: str = "python3") -> str:
    """The command as a person types it: without the places that only we fill in, and with a Python every machine has."""
    words: list[str] = []
    for word in command.replace("{ours}/unittest_results.py {results}", "-m unittest").split():
        plain = word.replace("{python}", python).replace("{folder}", ".")
        if "{results}" not in plain and "{ours}" not in plain:
            words.append(plain)
        elif not word.startswith("-") and words and words[-1].startswith("-"):
            words.pop()
    return " ".join(words)


class Folder:
    """One folder of the tree, with what the finders want to know of it."""

    def __init__(self, top: str, relative: str) -> None:
        self.top, self.relative = top, relative
        self.path = os.path.join(top, relative) if relative else top
        self.names: set[str] = set()
        self.folders: list[str] = []
        for entry in os.scandir(self.path):
            self.names.add(entry.name)
            if entry.is_dir(follow_symlinks=False):
                self.folders.append(entry.name)

    def read(self, name: str) -> str:
        """A file's text, or nothing."""
        if name not in self.names:
            return ""
        return text_of(os.path.join(self.path, name))

    def below(self, depth: int = 3) -> Iterator[str]:
        """Paths of files here and a few folders down, in order, without other people's code."""
        at = [("", 0)]
        while at:
            inner, level = at.pop(0)
            for entry in sorted(os.scandir(os.path.join(self.path, inner)), key=lambda entry: entry.name):
                path = f"{inner}/{entry.name}" if inner else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if level < depth and is_entered(entry.name):
                        at.append((path, level + 1))
                else:
                    yield path

    def at(self, *patterns: str) -> tuple[str, ...]:
        """Patterns of this folder as patterns from the top."""
        return tuple(f"{self.relative}/{pattern}" if self.relative else pattern for pattern in patterns)

    def above(self, *names: str) -> tuple[str, ...]:
        """Folders of dependencies a clean tree borrows: here and in every folder above."""
        found, at = [], self.relative
        while names:
            found += [f"{at}/{name}" if at else name for name in names]
            if not at:
                break
            at = at.rpartition("/")[0]
        return tuple(found)

    def named(self, framework: str) -> str:
        return f"{self.relative}/{framework}" if self.relative else framework


def is_entered(name: str) -> bool:
    return not name.startswith(".") and name not in _PASSED_BY


def text_of(path: str) -> str:
    """The beginning of a file as text; nothing when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def is_test(path: str) -> bool:
    """Whether a path looks like a test: by its folder or its name."""
    *folders, name = path.lower().split("/")
    words = name.replace("-", "_").replace(".", "_").split("_")
    return bool({"test", "tests", "spec", "specs"} & {*folders, *words}) or name.endswith(("test.java", "tests.java"))
