"""What a change of Python files means for others: names that are gone, that take other arguments, that are newly used."""

from __future__ import annotations

import ast
from collections import Counter
from difflib import SequenceMatcher
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Names that so many things have that a call says nothing about which one is meant.
_COMMON = frozenset(
    """get set add pop run main name read write open close start stop update items keys values copy clear append join format
    load save send next test setup create delete remove check find parse render show call apply""".split()
)


class PythonFacts(NamedTuple):
    """Names by where they stand: gone, asking for other arguments, with another body, and used in new lines."""

    gone: Mapping[str, str]
    resigned: Mapping[str, str]
    changed: Mapping[str, str]
    used: Mapping[str, str]


class _Definition(NamedTuple):
    arguments: str
    body: str


def facts_of(pairs: Mapping[str, tuple[bytes, bytes]]) -> PythonFacts:
    """The facts of one change: each path with its bytes before and after. Files that do not parse tell nothing."""
    before: dict[str, tuple[str, _Definition]] = {}
    after: dict[str, tuple[str, _Definition]] = {}
    used: dict[str, str] = {}
    for path, (old, new) in pairs.items():
        old_tree, new_tree = _parsed(old), _parsed(new)
        if old_tree is None or new_tree is None:
            continue
        there = _definitions(old_tree)
        before.update((name, (path, one)) for name, one in there.items())
        own = _definitions(new_tree)
        after.update((name, (path, one)) for name, one in own.items())
        for name in _used(new_tree, _new_lines(old, new)):
            if name not in own or name in there:  # a name of its own making is nobody else's
                used.setdefault(name, path)
    gone = {name: path for name, (path, _) in before.items() if name not in after}
    kept = {name: (path, one, after[name][1]) for name, (path, one) in before.items() if name in after}
    resigned = {
        name: path for name, (path, old_one, one) in kept.items() if _asks_more(old_one.arguments, one.arguments)
    }
    changed = {name: path for name, (path, old_one, one) in kept.items() if old_one.body != one.body}
    return PythonFacts(gone, resigned, changed, used)


def twice_defined(data: bytes) -> set[str]:
    """Functions and classes that stand twice in one scope, without a decorator that could mean it."""
    tree = _parsed(data)
    if tree is None:
        return set()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            names = Counter(
                one.name for one in node.body if isinstance(one, (*_FUNCTIONS, ast.ClassDef)) and not one.decorator_list
            )
            where = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
            found |= {f"{where}{name}" for name, count in names.items() if count > 1}
    return found


def _parsed(data: bytes) -> ast.Module | None:
    try:
        return ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _definitions(tree: ast.Module) -> dict[str, _Definition]:
    """Functions, classes and methods by their bare name: a call does not say more."""
    found = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef):
            continue
        for one in node.body:
            if isinstance(one, _FUNCTIONS) and not one.name.startswith("__") and one.name not in _COMMON:
                found[one.name] = _Definition(_arguments(one), ast.dump(ast.Module(one.body, [])))
            elif isinstance(one, ast.ClassDef):
                found[one.name] = _Definition("", "")
    return found


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Every parameter by its name; one that may be left out has a mark."""
    args = node.args
    plain = [*args.posonlyargs, *args.args]
    free = len(plain) - len(args.defaults)
    words = [one.arg + ("?" if at >= free else "") for at, one in enumerate(plain)]
    words += [f"*{one.arg}{'?' if value else ''}" for one, value in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    words += ["**?"] if args.vararg or args.kwarg else []
    return " ".join(words)


def _asks_more(old: str, new: str) -> bool:
    """Whether a call that was right may be wrong now: only parameters one may leave out are harmless at the end."""
    before, after = old.split(), new.split()
    if after[: len(before)] == before:
        return any(not word.endswith("?") for word in after[len(before) :])
    return before != after


def _new_lines(old: bytes, new: bytes) -> set[int]:
    """The numbers of the lines that were not there before."""
    before, after = (text.decode("utf-8", "replace").splitlines() for text in (old, new))
    start = _alike(before, after)
    same = _alike(before[start:][::-1], after[start:][::-1])
    before, after = before[start : len(before) - same], after[start : len(after) - same]
    found: set[int] = set()
    for kind, _, _, low, high in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind in ("insert", "replace"):
            found.update(range(start + low + 1, start + high + 1))
    return found


def _alike(one: list[str], other: list[str]) -> int:
    """How many lines two texts begin with together."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _used(tree: ast.Module, lines: set[int]) -> Iterator[str]:
    """Names that are called or imported on these lines."""
    for node in ast.walk(tree):
        if getattr(node, "lineno", 0) not in lines:
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (one.name for one in node.names)
