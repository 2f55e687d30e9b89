"""Checks that cannot fail: a command that asks nothing, or a script that asserts only what is always true."""

from __future__ import annotations

import ast
import shlex

from handoff.base.record import TYPE_CHECKING
from handoff.checks.assertions.assertions import find_hollow
from handoff.checks.assertions.tautologies import is_always_true, proves_nothing, statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_QUIET = frozenset(("true", ":", "echo", "printf", "pwd", "cd", "set", "export"))
_LOOKERS = frozenset("test [ grep rg ls cat cmp diff stat wc head tail find git".split())  # these only look at a file
_JOINTS = frozenset(("&&", ";", "||", "|", "&"))


def asks_nothing(command: str) -> bool:
    """Whether every part of a command ends with exit 0 whatever the project holds."""
    parts = _parts(command)
    return bool(parts) and all(_is_quiet(part) for part in parts)


def _parts(command: str) -> list[list[str]]:
    """The words of each program a line of shell starts; none where the line cannot be read."""
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=";&|")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return []
    parts: list[list[str]] = [[]]
    for word in words:
        if word in _JOINTS:
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def _is_quiet(words: list[str]) -> bool:
    name = words[0].rpartition("/")[2]
    if name in _QUIET or words == ["exit", "0"]:
        return True
    if name in ("test", "["):
        return not any(word.startswith("-") or "$" in word for word in words[1:]) and len(set(words[1:4:2])) == 1
    return name.startswith("python") and words[1:2] == ["-c"] and len(words) > 2 and _is_hollow_script(words[2])  # noqa: PLR2004 - name, -c, code


def hollow_scripts(command: str, changed: Iterable[str], read: Callable[[str], str | None]) -> list[str]:
    """Which of the changed files that the command runs assert nothing that could fail."""
    found = []
    started = [part for part in _parts(command) if part[0].rpartition("/")[2] not in _LOOKERS]
    named = {word.removeprefix("./").partition("::")[0] for part in started for word in part}
    for path in changed:
        if path in named or (path.endswith(".py") and path.removesuffix(".py").replace("/", ".") in named):
            text = read(path)
            if text is not None and _is_hollow_file(path, text):
                found.append(path)
    return found


def _is_hollow_file(path: str, text: str) -> bool:
    if path.endswith(".sh"):
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
        return all(asks_nothing(line) for line in lines)
    if any(not one.noted for one in find_hollow({path: (None, text)})):
        return True
    return path.endswith(".py") and _is_hollow_script(text)


def _is_hollow_script(text: str) -> bool:
    """A Python script that asserts, and only what is always true; or that does nothing at all."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    hollow = 0
    for part, names in statements(tree.body):
        for node in ast.walk(part):
            if isinstance(node, ast.Assert):
                if not is_always_true(node.test, names):
                    return False
                hollow += 1
            elif isinstance(node, (ast.Raise, ast.Import, ast.ImportFrom)) and not hollow:
                return False
            elif isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
                return proves_nothing(node, getattr(node.func, "attr", ""), names)
    return bool(hollow) or all(isinstance(one, (ast.Pass, ast.Expr)) and not _works(one) for one in tree.body)


def _works(node: ast.AST) -> bool:
    calls = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return any(not isinstance(one, ast.Name) or one.id != "print" for one in calls)
