"""What tests depend on: the functions a change is about, the names a project owns, the files tests are built on."""

from __future__ import annotations

import ast
import os
import posixpath
import re

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.suite import Suite, is_entered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from handoff.checks.findings import FileChange

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_OUTSIDE = ("subprocess", "os.system", "multiprocessing", "pexpect", "threading", "asyncio.create_subprocess", "runpy")


def changed_functions(changes: Iterable[FileChange]) -> list[tuple[str, str]]:
    """Path and qualified name of each Python function that is new or says something else now, tests aside."""
    found = []
    for change in changes:
        if change.is_test or not change.path.endswith(".py") or change.after is None:
            continue
        old, new = functions_of(change.before or ""), functions_of(change.after)
        found += [(change.path, name) for name, shape in new.items() if old.get(name) != shape]
    return found


def functions_of(text: str) -> dict[str, str]:
    """The functions of a module and of its classes by their names, each with its syntax tree; none inside another function."""
    return {name: ast.dump(function) for name, function in _walk(text, ".")}


def tests_of(text: str) -> dict[str, str]:
    """Each test of a file with its syntax tree."""
    return {name: ast.dump(function) for name, function in _tests(text)}


def _tests(text: str) -> Iterable[tuple[str, _Function]]:
    return (one for one in _walk(text, "::") if one[1].name.startswith("test"))


def _walk(text: str, joiner: str) -> Iterable[tuple[str, _Function]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    queue: list[tuple[str, ast.stmt]] = [("", node) for node in tree.body]
    while queue:
        prefix, node = queue.pop(0)
        if isinstance(node, _Function):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            queue += [(f"{prefix}{node.name}{joiner}", inner) for inner in node.body]
        elif isinstance(node, (ast.If, ast.Try)):
            queue += [(prefix, inner) for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt)]


def changed_tests(before: str, after: str) -> list[str]:
    """Names of tests that were there and say something else now."""
    old = tests_of(before)
    return [name for name, said in tests_of(after).items() if old.get(name, said) != said]


def tests_about(texts: Mapping[str, str], names: Iterable[str], *, most: int) -> list[tuple[str, str]]:
    """File and name of tests that speak of these functions, at most so many."""
    wanted = {name.rpartition(".")[2] for name in names}
    found: list[tuple[str, str]] = []
    for path, text in texts.items():
        if not any(name in text for name in wanted):
            continue
        for name, function in _tests(text):
            said = {one.id for one in ast.walk(function) if isinstance(one, ast.Name)}
            said |= {one.attr for one in ast.walk(function) if isinstance(one, ast.Attribute)}
            if said & wanted:
                found.append((path, name))
                if len(found) == most:
                    return found
    return found


def uses_nothing_of(text: str, test: str, owned: Iterable[str]) -> bool:
    """Whether a test speaks of nothing that its file imports from the project, and starts nothing elsewhere."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    if any(word in text for word in _OUTSIDE) or "conftest" in text:
        return False
    function = dict(_tests(text)).get(test)
    if function is None or function.args.args:  # a fixture may bring anything
        return False
    mine, names = frozenset(owned), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {(one.asname or one.name).partition(".")[0] for one in node.names if _top(one.name) in mine}
        elif isinstance(node, ast.ImportFrom) and (node.level or _top(node.module or "") in mine):
            names |= {one.asname or one.name for one in node.names}
        elif isinstance(node, (ast.Call)) and "import" in ast.unparse(node.func):
            return False
    inside = [one for one in ast.walk(tree) if isinstance(one, _Function)]
    helpers = {one.name: one for one in inside}
    said, queue = set[str](), [function]
    while queue:
        for one in ast.walk(queue.pop()):
            if isinstance(one, ast.Name) and one.id not in said:
                said.add(one.id)
                if one.id in helpers:
                    queue.append(helpers[one.id])
    return not said & names


def _top(name: str) -> str:
    return name.partition(".")[0]


_TEST = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py$")


def owned_names(paths: Iterable[str], suite: Suite) -> tuple[str, ...]:
    """Names at the top of the suite's folder, in its src, and beside its tests, where pytest puts the path."""
    home = f"{suite.folder}/" if suite.folder else ""
    inside = [path[len(home) :] for path in paths if path.startswith(home)]
    roots = {"", "src/"} | {os.path.join(os.path.dirname(path), "") for path in inside if _TEST.search(path)}
    found: set[str] = set()
    for path in inside:
        parts = path.split("/")
        for depth, part in enumerate(parts):
            if "/".join(parts[:depth]) + ("/" if depth else "") in roots:
                is_file = depth == len(parts) - 1
                name = part.partition(".")[0] if is_file and part.endswith((".py", ".so", ".pyd", ".pyx")) else part
                if name.isidentifier():
                    found.add(name)
    return tuple(sorted(found))


def files_below(top: str) -> list[str]:
    """Every file of a laid-out tree, from its top, without what was borrowed or built."""
    found = []
    for at, folders, names in os.walk(top):
        folders[:] = [name for name in folders if is_entered(name) and not os.path.islink(os.path.join(at, name))]
        inside = os.path.relpath(at, top)
        found += names if inside == "." else [f"{inside}/{name}" for name in names]
    return found


def helper_names(paths: Iterable[str]) -> list[str]:
    """Modules beside tests that are none themselves, by every name a test may import them: pytest shall watch their assertions."""
    listed = [path for path in paths if path.endswith(".py")]
    roots = {os.path.dirname(path) for path in listed if _TEST.search(path)} - {""}
    found: set[str] = set()
    for path in listed:
        at = os.path.dirname(path)
        if at in roots and not _TEST.search(path) and not path.endswith("__init__.py"):
            name = os.path.basename(path).removesuffix(".py")
            found |= {name, f"{at}/{name}".removeprefix("src/").replace("/", ".")}
    return sorted(found)


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


class TestSupport(Record):
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


def find_support(texts: Mapping[str, str], touched: Iterable[str], is_test: Callable[[str], bool]) -> TestSupport:
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
    return TestSupport(frozenset(helpers), frozenset(golden))
