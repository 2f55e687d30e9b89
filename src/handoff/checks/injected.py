"""What may not lie beside tests: things that load by themselves, names that stand in for others, code that knows the tests."""

from __future__ import annotations

import ast
import configparser
import json
import re
import sys
import tomllib

from handoff.base.record import TYPE_CHECKING
from handoff.checks.findings import FileChange, Finding, named_finding

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

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
_INI = {"pytest.ini": None, "tox.ini": ("pytest",), "setup.cfg": ("tool:pytest", "options.entry_points")}
_PACKAGE_KEYS = ("scripts", "jest", "mocha", "nyc", "c8", "ava", "vitest")


def find_injected(changes: Iterable[FileChange], links: Iterable[str], before: Iterable[str]) -> list[Finding]:
    """Files that load by themselves, links, and new names at the top that somebody else has already."""
    known = set(before)
    new = [change.path for change in changes if change.path not in known and change.after is not None]
    loading = [path for path in new if _SELF_LOADING.search(path)]
    findings = [named_finding(PLANTED, "is loaded by Python or its test runner by itself", loading)] if loading else []
    linked = [path for path in links if path not in known]
    if linked:
        findings.append(named_finding(LINK, "is a link, and what lies behind it is not judged", linked))
    tops = {_top_name(path) for path in known} - {""}
    shadows = [path for path in new if (name := _top_name(path)) and name not in tops and _is_taken(name)]
    shadows += [
        path for path in new if path.endswith("/__init__.py") and f"{path.removesuffix('/__init__.py')}.py" in known
    ]
    if shadows:
        findings.append(
            named_finding(SHADOWS, "has the name of something that exists already and would stand in for it", shadows)
        )
    return findings


def _top_name(path: str) -> str:
    """The name by which an import finds it, for what lies at the top or in src."""
    first, _, rest = path.removeprefix("src/").partition("/")
    if not rest:
        return first.removesuffix(".py") if first.endswith(".py") else ""
    return first if rest == "__init__.py" else ""


def _is_taken(name: str) -> bool:
    return (name in sys.stdlib_module_names and name not in ("test", "this")) or name in _RUNNERS


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
    """What in a file the test runner goes by; nothing for any other file."""
    name = path.rpartition("/")[2]
    if text is None:
        return None if name == "pyproject.toml" or name in _INI or name == "package.json" else ""
    try:
        if name == "pyproject.toml":
            data = tomllib.loads(text)
            plugins = data.get("project", {}).get("entry-points", {}).get("pytest11")
            return (
                (data.get("tool", {}).get("pytest"), plugins) if plugins or data.get("tool", {}).get("pytest") else None
            )
        if name in _INI:
            parser = configparser.RawConfigParser()
            parser.read_string(text)
            wanted = _INI[name]
            found = {one: dict(parser[one]) for one in parser.sections() if wanted is None or one in wanted}
            return found or None
        if name == "package.json":
            data = json.loads(text)
            test = (data.get("scripts") or {}).get("test")
            return ({key: data.get(key) for key in _PACKAGE_KEYS[1:]}, test)
    except (tomllib.TOMLDecodeError, configparser.Error, ValueError, AttributeError, RecursionError):
        return text
    return ""


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
