"""What tests depend on: the functions a change is about, the names a project owns, the files tests are built on."""

from __future__ import annotations

import ast
import configparser
import json
import os
import posixpath
import re
import sys
import tomllib

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.findings import Finding, named_finding
from handoff.checks.suite import Suite, is_entered, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from handoff.checks.findings import FileChange

_Function = ast.FunctionDef | ast.AsyncFunctionDef


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


def documents_of(text: str) -> dict[str, str]:
    """What functions say of themselves, by the last part of their names."""
    return {name.rpartition(".")[2]: ast.get_docstring(function) or "" for name, function in _walk(text, ".")}


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


def helper_names(top: str, is_test: Callable[[str], bool]) -> list[str]:
    """Modules beside tests, and helpers that only tests use wherever they lie, by every name an import may have for them: pytest shall
    watch their assertions."""
    listed = [path for path in files_below(top) if path.endswith(".py")]
    roots = {os.path.dirname(path) for path in listed if _TEST.search(path)} - {""}
    found: set[str] = set()
    texts = {path: text_of(os.path.join(top, path)) for path in listed}
    tree = _Tree(texts, lambda path: is_test(path) or bool(_TEST.search(path)))
    for path in listed:
        if _TEST.search(path) or path.endswith("__init__.py"):
            continue
        if os.path.dirname(path) in roots or ("assert" in texts[path] and tree.is_helper(path)):
            parts = path.removesuffix(".py").removeprefix("src/").split("/")
            found |= {".".join(parts[at:]) for at in range(len(parts))}
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


# --- What may not lie beside tests: things that load by themselves, names that stand in for others, code that knows the tests

PLANTED, SHADOWS, LINK, SETTINGS, KNOWS = (
    "runner-planted",
    "name-shadows",
    "link-in-tree",
    "settings-changed",
    "code-knows-tests",
)
_SELF_LOADING = re.compile(
    r"(?:^|/)(?:[^/]+\.(?:dist-info|egg-info)/|[^/]+\.(?:pth|egg-link)$|(?:site|user)customize\.py$)"
)
_RUNNERS = frozenset(
    "pytest _pytest pluggy iniconfig packaging pygments exceptiongroup tomli colorama coverage pytest_cov xdist execnet".split()
)
_KNOWING = frozenset(
    "pytest _pytest PYTEST_CURRENT_TEST PYTEST_VERSION _getframe f_back get_objects _exit execv execve execvp settrace setprofile".split()
)
# The files pytest 9 reads, each by its own rule; of those without a section the fact that they are there counts.
_TOML = ("pyproject.toml", "pytest.toml", ".pytest.toml")
_INI = {
    "pytest.ini": None,
    ".pytest.ini": None,
    "tox.ini": ("pytest",),
    "setup.cfg": ("tool:pytest", "options.entry_points"),
}
_MODULE = re.compile(r"^(?P<folder>.*/)?(?P<name>[^\W\d]\w*)(?:\.pyc?|(?:\.[\w-]+)?\.(?:so|pyd))$")
_PACKAGE_KEYS = ("scripts", "jest", "mocha", "nyc", "c8", "ava", "vitest")


def find_injected(
    changes: Iterable[FileChange], links: Iterable[str], before: Iterable[str], paths: Iterable[str] = ()
) -> list[Finding]:
    """Files that load by themselves or that nobody can read, links, and new names that something else has already."""
    listed, known = list(changes), set(before)
    new = [change.path for change in listed if change.path not in known and "__pycache__/" not in change.path]
    loading = [path for path in new if _SELF_LOADING.search(path)]
    findings = [named_finding(PLANTED, "is loaded by Python or its test runner by itself", loading)] if loading else []
    compiled = [path for path in new if path.endswith((".pyc", ".pyo"))]
    if compiled:
        findings.append(named_finding(PLANTED, "is bytecode, and nobody can read what it does", compiled))
    linked = [path for path in links if path not in known]
    if linked:
        findings.append(named_finding(LINK, "is a link, and what lies behind it is not judged", linked))
    gone = {change.path for change in listed if change.after is None and change.before is not None}
    shadows = _shadows(new, known - gone, known, paths)
    if shadows:
        findings.append(
            named_finding(SHADOWS, "has the name of something that exists already and would stand in for it", shadows)
        )
    return findings


def _shadows(new: Iterable[str], kept: set[str], known: set[str], paths: Iterable[str]) -> list[str]:
    """New modules whose name an import finds in a second place, over every folder that imports begin in and every ending."""
    fresh = {path: place for path in new if (place := _import_name(path)) is not None}
    there = {path: place for path in kept if (place := _import_name(path)) is not None}
    roots = {"", "src", *paths, *_test_roots([*there, *fresh])}
    inside = set(there.values())
    tops = {name for folder, name in inside if folder in roots}
    before = {place for path in known if (place := _import_name(path)) is not None}
    found = []
    for path, (folder, name) in fresh.items():
        twice = (folder, name) in inside
        taken = folder in roots and (name in tops or ((folder, name) not in before and _is_taken(name)))
        if twice or taken:
            found.append(path)
    return found


def _import_name(path: str) -> tuple[str, str] | None:
    """The folder in which an import finds a file, and the name by which it does."""
    match = _MODULE.match(path)
    if match is None or "__pycache__/" in path:
        return None
    folder, name = (match["folder"] or "").rstrip("/"), match["name"]
    if name == "__init__":
        folder, _, name = folder.rpartition("/")
    return None if not name or name == "conftest" else (folder, name)


def _test_roots(paths: Iterable[str]) -> set[str]:
    """The folders pytest puts onto the path: of each test the nearest one above that is no package."""
    packages = {os.path.dirname(path) for path in paths if os.path.basename(path).startswith("__init__.")}
    found = set()
    for path in paths:
        if _TEST.search(path):
            folder = os.path.dirname(path)
            while folder in packages and folder:
                folder = os.path.dirname(folder)
            found.add(folder)
    return found


def _is_taken(name: str) -> bool:
    return (name in sys.stdlib_module_names and name not in ("test", "this")) or name in _RUNNERS


def python_paths(read: Callable[[str], str | None]) -> tuple[str, ...]:
    """The folders that pytest's settings put onto the path."""
    found: list[str] = []
    for name in (*_TOML, *_INI):
        for table in _tables(_settings(name, read(name))):
            value = table.get("pythonpath", ())
            found += value.split() if isinstance(value, str) else [str(one) for one in value]
    return tuple("" if one == "." else posixpath.normpath(one) for one in found)


def _tables(value: Any) -> Iterable[dict[str, Any]]:
    """Every table inside parsed settings."""
    queue = [value]
    while queue:
        one = queue.pop()
        if isinstance(one, dict):
            yield one
            queue += one.values()
        elif isinstance(one, tuple):
            queue += one


def find_settings(changes: Iterable[FileChange]) -> list[Finding]:
    """Settings of the test runner that are others now."""
    touched = [
        change.path
        for change in changes
        if _settings(change.path, change.before) != _settings(change.path, change.after)
    ]
    words = "holds settings of the test runner, and they are others now"
    return [named_finding(SETTINGS, words, touched)] if touched else []


def _settings(path: str, text: str | None) -> Any:
    """What in a file the test runner goes by; nothing for any other file, and for one of its own that is not there."""
    name = path.rpartition("/")[2]
    if text is None or name not in (*_TOML, *_INI, "package.json"):
        return None
    try:
        return _parsed(name, text)
    except (tomllib.TOMLDecodeError, configparser.Error, ValueError, AttributeError, RecursionError):
        return text


def _parsed(name: str, text: str) -> Any:
    if name == "package.json":
        data = json.loads(text)
        test = (data.get("scripts") or {}).get("test")
        return ({key: data.get(key) for key in _PACKAGE_KEYS[1:]}, test)
    if name in _INI:
        parser = configparser.RawConfigParser()
        parser.read_string(text)
        wanted = _INI[name]
        found = {one: dict(parser[one]) for one in parser.sections() if wanted is None or one in wanted}
        return found if wanted is None else found or None
    data = tomllib.loads(text)
    if name != "pyproject.toml":
        return data
    plugins = data.get("project", {}).get("entry-points", {}).get("pytest11")
    settings = data.get("tool", {}).get("pytest")
    return (settings, plugins) if plugins or settings else None


def find_knowing(changes: Iterable[FileChange], tests: Iterable[str]) -> list[Finding]:
    """Words in the product's code that only somebody has who looks at who asks."""
    files = {path.rpartition("/")[2].removesuffix(".py") for path in tests if path.endswith(".py")}
    names = frozenset(name for name in files if name.startswith("test_") or name.endswith("_test")) | _KNOWING
    findings = []
    for change in changes:
        if not change.path.endswith(".py") or change.is_test or change.after is None:
            continue
        new = (_used(change.after) & names) - _used(change.before or "")
        if new:
            words = f"{change.path} speaks of {', '.join(sorted(new))} now: code that knows its tests can answer them alone."
            findings.append(Finding(KNOWS, words, (change.path,)))
    return findings


def _used(text: str) -> frozenset[str]:
    """Names, attributes, imports and the words in strings of a Python file; docstrings are for people."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    found: set[str] = set()
    spoken: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            spoken.add(id(body[0].value))
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {part for name in node.names for part in name.name.split(".")}
            found |= set((getattr(node, "module", "") or "").split("."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in spoken:
            found |= set(re.findall(r"\w+", node.value))
    return frozenset(found)
