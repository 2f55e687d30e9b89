"""Which files tests stand on, found by imports in the last good tree: who may not write tests may not write these."""

from __future__ import annotations

import ast
import posixpath
import re

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_TEST_LIBRARIES = frozenset("pytest _pytest unittest hypothesis mock testtools nose doctest pytest_mock".split())
_GOLDEN = re.compile(r"(?:^|/)(?:__snapshots__|snapshots|golden|goldens)/|\.(?:ambr|snap|golden|approved\.\w+)$")
_SHORTEST_NAME = 4
SOURCES = re.compile(r"\.(?:py|[cm]?[jt]sx?)$|(?:^|/)(?:package\.json|\.mocharc[^/]*)$")
"""The files whose words are read: code, and settings that name files."""
_SCRIPT = re.compile(r"\.[cm]?[jt]sx?$")
_SCRIPT_IMPORT = re.compile(r"(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*[\"']([^\"']+)[\"']")
_SCRIPT_LIBRARIES = frozenset(
    "node:test node:assert node:assert/strict assert assert/strict vitest @jest/globals chai sinon expect mocha ava tap".split()
)
_SETTINGS = re.compile(r"(?:^|/)(?:(?:vitest|vite|jest)\.config\.\w+|\.mocharc[^/]*|package\.json)$")
_LOADED = re.compile(
    r"(?:setupFiles\w*|globalSetup|globalTeardown|require|file|import|runner|testEnvironment|resolver|transform)[\"']?\s*[:=]?\s*"
    r"(\[[^\]]*\]|\{[^}]*\}|[^\n,]*)"
)


class Standing(Record):
    """Helpers that only tests use, and data files that only tests name."""

    helpers: frozenset[str] = frozenset()
    golden: frozenset[str] = frozenset()


class _Module:
    """One file of code: what it imports, and whether it is made for tests."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.imports, self.for_tests = path, set[str](), False
        if not path.endswith(".py"):
            self._read_script(text)
            return
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return
        package = path.removesuffix(".py").split("/")[:-1]
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self.imports |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else []
                start = ".".join([*above, *([node.module] if node.module else [])])
                self.imports |= {start, *(f"{start}.{name.name}" for name in node.names)}
            elif isinstance(node, ast.Raise):
                self.for_tests |= "AssertionError" in ast.dump(node)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.for_tests |= _asserts_about_parameters(node)
            if isinstance(node, ast.Assign) and any(_is_named(target, "pytest_plugins") for target in node.targets):
                named = (one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant))
                self.imports |= {value for value in named if isinstance(value, str)}
        self.for_tests |= any(name.partition(".")[0] in _TEST_LIBRARIES for name in self.imports)

    def _read_script(self, text: str) -> None:
        """What a script imports by a path of its own, without the ending, which may be left out there."""
        at = posixpath.dirname(self.path)
        for name in _SCRIPT_IMPORT.findall(text):
            if name.startswith("."):
                self.imports.add(_SCRIPT.sub("", posixpath.normpath(posixpath.join(at, name))))
            else:
                self.for_tests |= name in _SCRIPT_LIBRARIES
        self.for_tests |= "AssertionError" in text


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _asserts_about_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    arguments = function.args
    names = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)} - {"self", "cls"}
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and any(
            isinstance(one, ast.Name) and one.id in names for one in ast.walk(node.test)
        ):
            return True
    return False


class _Tree:
    """The code of a tree, parsed only where a question leads."""

    def __init__(self, texts: Mapping[str, str], is_test: Callable[[str], bool]) -> None:
        self._texts, self._is_test = texts, is_test
        self._modules: dict[str, _Module] = {}
        self._asked: set[str] = set()

    def module(self, path: str) -> _Module:
        if path not in self._modules:
            self._modules[path] = _Module(path, self._texts[path])
        return self._modules[path]

    def is_helper(self, path: str) -> bool:
        """Made for tests, and used by nobody but tests and other helpers."""
        if path in self._asked or not self.module(path).for_tests:
            return False
        self._asked.add(path)
        users = self._users(path)
        result = bool(users) and all(self._is_test(user) or self.is_helper(user) for user in users)
        self._asked.discard(path)
        return result

    def is_loaded_by_a_runner(self, path: str) -> bool:
        """Whether the settings of a JavaScript runner name this script, which no other code does."""
        name = path.rpartition("/")[2]
        naming = [at for at, text in self._texts.items() if at != path and name in text]
        said = (one for at in naming if _SETTINGS.search(at) for one in _LOADED.findall(self._texts[at]))
        return any(re.search(rf"[\s\"'/]{re.escape(name)}\b", f" {one}") for one in said) and not self._users(path)

    def _users(self, path: str) -> list[str]:
        if _SCRIPT.search(path):
            bare = _SCRIPT.sub("", path)
            known = {bare, bare.removesuffix("/index")}
            others = (at for at in self._texts if at != path and _SCRIPT.search(at))
            return [at for at in others if self.module(at).imports & known]
        parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
        names = {".".join(parts[start:]) for start in range(len(parts))}
        near = (
            other
            for other, text in self._texts.items()
            if other != path and other.endswith(".py") and parts[-1] in text
        )
        return [other for other in near if self.module(other).imports & names]

    def names(self, name: str, *, tests: bool) -> bool:
        """Whether a test (or, else, anything but tests) speaks of a file of that name."""
        return any(
            name in text and (self._is_test(path) or self.is_helper(path)) == tests
            for path, text in self._texts.items()
            if not _SETTINGS.search(path)
        )


def find_standing(texts: Mapping[str, str], touched: Iterable[str], is_test: Callable[[str], bool]) -> Standing:
    """Of the touched files of a tree those its tests stand on; `texts` are all its code and settings."""
    tree, helpers, golden = _Tree(texts, is_test), set(), set()
    for path in touched:
        name = path.rpartition("/")[2]
        if is_test(path):
            golden |= {path} if _GOLDEN.search(path) else set()
        elif path in texts and not path.endswith(".json"):
            scripted = bool(_SCRIPT.search(path)) and tree.is_loaded_by_a_runner(path)
            helpers |= {path} if scripted or tree.is_helper(path) else set()
        elif _GOLDEN.search(path) or (
            len(name) >= _SHORTEST_NAME
            and "." in name[1:]
            and tree.names(name, tests=True)
            and not tree.names(name, tests=False)
        ):
            golden.add(path)
    return Standing(frozenset(helpers), frozenset(golden))
