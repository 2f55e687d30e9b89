"""Twins of a test: copies under random names that each ask for something else. One of them must fail, an unchanged one pass."""

from __future__ import annotations

import ast
import copy
import random

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.assertions.assertions import NOT_ASKED
from handoff.checks.findings import named_finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from handoff.checks.findings import Finding
    from handoff.checks.results import Case, Report

INSENSITIVE, NAME_DEPENDENT = "insensitive-test", "name-dependent"
MOST_TESTS, MOST_TWINS = 4, 10
_LETTERS = tuple("abcdefghiklmnoprstuvwz")
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_EQUALITIES = (
    "assertEqual",
    "assertEquals",
    "assertIs",
    "assertIn",
    "assertAlmostEqual",
    "assertListEqual",
    "assertDictEqual",
)
_RAISES = ("raises", "assertRaises", "assertRaisesRegex")


class TwinFile(Record):
    """A test file with twins of one of its tests in place of it: its text, the names of the twins, and of two unchanged copies.

    `same` must pass; `without` runs last, when what was built for the test has been emptied, and must not.
    """

    text: str
    same: str
    others: tuple[str, ...]
    without: str


def make_twins(text: str, test: str) -> TwinFile | None:
    """The twins of the test of that name (classes before it, by `::`); None where nothing in it can be asked otherwise."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    *owners, name = test.split("::")
    body = tree.body
    for owner in owners:
        found = next((node for node in body if isinstance(node, ast.ClassDef) and node.name == owner), None)
        if found is None:
            return None
        body = found.body
    at = next((i for i, node in enumerate(body) if isinstance(node, _Function) and node.name == name), None)
    if at is None:
        return None
    original = body[at]
    assert isinstance(original, _Function)  # noqa: S101 - found as one just now
    variants = (list(_variants(original, _changes_of)) or list(_variants(original, _opposite_of)))[:MOST_TWINS]
    if not variants:
        return None
    copies, names = [], []
    for one in (original, *variants, original):
        twin = copy.deepcopy(one)
        twin.name = f"test_{_word()}"
        names.append("::".join([*owners, twin.name]))
        copies.append(twin)
    body[at : at + 1] = copies
    return TwinFile(ast.unparse(ast.fix_missing_locations(tree)), names[0], tuple(names[1:-1]), names[-1])


def _word() -> str:
    return "".join(random.SystemRandom().choices(_LETTERS, k=10))


def _variants(function: _Function, changes: Callable[[ast.AST], Iterator[_Change]]) -> Iterator[_Function]:
    """The function again and again, each time with one assertion that asks for something else."""
    for number, node in enumerate(ast.walk(function)):
        for change in changes(node):
            twin = copy.deepcopy(function)
            other = next(one for count, one in enumerate(ast.walk(twin)) if count == number)
            change(other)
            yield twin


def _changes_of(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.Assert) and not _asks_for_a_difference(node.test):
        for number, inner in enumerate(ast.walk(node.test)):
            if isinstance(inner, ast.Constant) and _otherwise(inner.value) is not None:
                yield _Change("test", number)
        if isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], (ast.Eq, ast.Is, ast.IsNot, ast.In)):
            yield _Change("right", 0)
    elif isinstance(node, ast.Call):
        last = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if last in _EQUALITIES and len(node.args) > 1:
            yield _Change("second", 0)
        elif last in _RAISES and node.args:
            yield _Change("first", 0)


def _asks_for_a_difference(test: ast.expr) -> bool:
    """`a != b` holds for nearly every other b, and is right to."""
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.NotEq, ast.NotIn))


def _opposite_of(node: ast.AST) -> Iterator[_Change]:
    """Where nothing in an assertion can be asked otherwise, its opposite."""
    if isinstance(node, ast.Assert):
        yield _Change("opposite", 0)


class _Change:
    """One change of one assertion, made on a copy of it."""

    def __init__(self, where: str, number: int) -> None:
        self._where, self._number = where, number

    def __call__(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assert) and self._where == "test":
            inner = next(one for count, one in enumerate(ast.walk(node.test)) if count == self._number)
            if isinstance(inner, ast.Constant):
                inner.value = _otherwise(inner.value)
        elif isinstance(node, ast.Assert) and self._where == "opposite":
            node.test = ast.UnaryOp(ast.Not(), node.test)
        elif isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
            node.test.comparators[-1:] = [_fresh("[object()]" if isinstance(node.test.ops[0], ast.In) else "object()")]
        elif isinstance(node, ast.Call) and self._where == "second":
            listed = isinstance(node.func, ast.Attribute) and node.func.attr == "assertIn"
            node.args[1] = _fresh("[object()]" if listed else "object()")
        elif isinstance(node, ast.Call):
            node.args[0] = _fresh('type("Other", (Exception,), {})')


def _fresh(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _otherwise(value: object) -> int | float | str | bytes | None:
    """Another value of the same kind; None for what has no other."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value + 1_000_009
    if isinstance(value, float):
        return value + 1_000_009.5
    if isinstance(value, str):
        return f"zq{value}qz"
    return b"zq" + value + b"qz" if isinstance(value, bytes) else None


def cases_of_twins(path: str, reports: Sequence[Report]) -> dict[str, list[Case]]:
    """What was said of each test in a file of twins; the rows of a table together."""
    seen: dict[str, list[Case]] = {}
    for report in reports:
        for case in report.cases:
            if case.file == path and case.name:
                seen.setdefault(case.name.partition("[")[0], []).append(case)
    return seen


def judge_twins(
    test: str, twins: TwinFile, seen: Mapping[str, Sequence[Case]], functions: Sequence[tuple[str, str]] = ()
) -> list[Finding] | None:
    """What the twins said; None where their run gave no answer. `functions` are those that were emptied for the last of them."""
    if twins.same not in seen:
        return None
    if any(case.bad for case in seen[twins.same]):
        return [named_finding(NAME_DEPENDENT, "does not pass under another name", [test])]
    asked = [name for name in twins.others if name in seen]
    if asked and not any(case.bad for name in asked for case in seen[name]):
        words = f"passes also where it asks for something else ({len(asked)} copies of it did)"
        return [named_finding(INSENSITIVE, words, [test])]
    entered = {one for case in seen[twins.same] for one in case.called}
    went = any(f"{path}:{name}" in entered for path, name in functions)
    last = seen.get(twins.without, ())
    if went and last and all(case.emptied and not case.bad for case in last):
        words = "passes also when the functions that were built for it are empty: it asks about something else"
        return [named_finding(NOT_ASKED, words, [test])]
    return []
