"""Assertions in Python tests, by the syntax tree."""

from __future__ import annotations

import ast

from handoff.base.record import TYPE_CHECKING
from handoff.checks.assertions.facts import AssertionFacts
from handoff.checks.assertions.flow import (
    STRONG,
    SWALLOWED,
    TRIVIAL,
    UNREACHABLE,
    WEAK,
    Ask,
    Follower,
    TestModule,
    dependents,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SKIPS = ("skip", "skipif", "skipIf", "skipUnless", "xfail", "expectedFailure", "importorskip")


def python_tests(text: str) -> dict[str, AssertionFacts]:
    """Tests by name, classes before them; text that does not parse has none."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    whole = any(_marks_module(node) for node in tree.body)
    found: dict[str, AssertionFacts] = {}
    module = TestModule(tree)
    for name, node, skipped in _functions(tree.body, "", whole):
        found[name] = _facts(module, name.rpartition("::")[0].rpartition("::")[2], node, skipped)
    return found


def unasked_tests(text: str, subjects: frozenset[str]) -> list[str]:
    """Tests that use one of these names and assert nothing that depends on it."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    module, found = TestModule(tree), []
    for name, node, _ in _functions(tree.body, "", False):
        follower = Follower(module, name.rpartition("::")[0].rpartition("::")[2])
        follower.follow(node)
        known = dependents(node, subjects, module.functions)
        real = [ask for ask in follower.asks if ask.kind in (STRONG, WEAK)]
        used = any(
            (isinstance(one, ast.Name) and one.id in known) or (isinstance(one, ast.Attribute) and one.attr in subjects)
            for one in ast.walk(node)
        )
        if (
            real
            and not follower.maybe
            and (not used or not any(ask.names & known or _holds(ask, subjects) for ask in real))
        ):
            found.append(name)
    return found


def _holds(ask: Ask, subjects: frozenset[str]) -> bool:
    """Whether the assertion asks an attribute of that name, as in `shop.total(cart)`."""
    return any(f"attr='{name}'" in ask.text for name in subjects)


def _functions(body: list[ast.stmt], prefix: str, skipped: bool) -> Iterator[tuple[str, _Function, bool]]:
    for node in body:
        if isinstance(node, _Function) and node.name.startswith("test"):
            yield prefix + node.name, node, skipped or _skips(node.decorator_list)
        elif isinstance(node, ast.ClassDef):
            marked = skipped or _skips(node.decorator_list) or any(_marks_module(item) for item in node.body)
            yield from _functions(node.body, f"{prefix}{node.name}::", marked)
        elif isinstance(node, (ast.If, ast.Try)):
            yield from _functions(node.body, prefix, skipped)
            yield from _functions(node.orelse, prefix, skipped)


def _marks_module(node: ast.stmt) -> bool:
    """`pytestmark = pytest.mark.skip`, or a skip called while the module loads."""
    if isinstance(node, ast.Assign):
        named = any(isinstance(target, ast.Name) and target.id in ("pytestmark", "__test__") for target in node.targets)
        if named and isinstance(node.value, ast.Constant):
            return node.value.value is False
        return named and _skips([node.value])
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and _last(node.value.func) in ("skip", "importorskip")
    )


def _skips(nodes: list[ast.expr]) -> bool:
    """Whether any of these decorators or marks keeps a test from counting; a mark that is only read counts too."""
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, (ast.Attribute, ast.Name)) and _last(inner) in _SKIPS:
                return True
    return False


def _facts(module: TestModule, owner: str, node: _Function, skipped: bool) -> AssertionFacts:
    follower = Follower(module, owner)
    follower.follow(node)
    kinds = [ask.kind for ask in follower.asks]
    skipped = skipped or any(
        isinstance(inner, ast.Call) and _last(inner.func) in ("skip", "skipTest", "xfail") for inner in ast.walk(node)
    )
    first = node.body[0]
    body = node.body[1:] if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else node.body
    leaves = bool(body) and isinstance(body[0], ast.Return)
    empty = leaves or all(
        isinstance(item, ast.Pass) or (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))
        for item in body
    )
    return AssertionFacts(
        assertions=kinds.count(STRONG) + kinds.count(WEAK),
        skipped=skipped,
        empty=empty,
        trivial=kinds.count(TRIVIAL),
        weak=kinds.count(WEAK),
        swallowed=kinds.count(SWALLOWED),
        unreachable=kinds.count(UNREACHABLE),
        opaque=follower.maybe,
        asks=tuple(ask.text for ask in follower.asks if ask.kind in (STRONG, WEAK)),
        body="".join(ast.dump(part) for part in body),
    )


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _last(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
