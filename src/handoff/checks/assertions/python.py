"""Assertions in Python tests, by the syntax tree."""

from __future__ import annotations

import ast

from handoff.base.record import TYPE_CHECKING
from handoff.checks.assertions.facts import AssertionFacts
from handoff.checks.assertions.tautologies import is_always_true, proves_nothing, statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from handoff.checks.assertions.tautologies import Names

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SKIPS = ("skip", "skipif", "skipIf", "skipUnless", "xfail", "expectedFailure", "importorskip")
_RAISES = ("raises", "warns", "fail", "approves", "verify", "check")


def python_tests(text: str) -> dict[str, AssertionFacts]:
    """Tests by name, classes before them; text that does not parse has none."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    whole = any(_marks_module(node) for node in tree.body)
    found: dict[str, AssertionFacts] = {}
    for name, node, skipped in _functions(tree.body, "", whole):
        found[name] = _facts(node, skipped)
    return found


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


def _facts(node: _Function, skipped: bool) -> AssertionFacts:
    assertions = trivial = 0
    for part, names in statements(node.body):
        for inner in ast.walk(part):
            kind = _kind(inner, names)
            assertions += kind == 1
            trivial += kind == -1
            if isinstance(inner, ast.Call) and _last(inner.func) in ("skip", "skipTest", "xfail"):
                skipped = True
    first = node.body[0]
    body = node.body[1:] if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else node.body
    leaves = bool(body) and isinstance(body[0], ast.Return)
    empty = leaves or all(
        isinstance(item, ast.Pass) or (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))
        for item in body
    )
    return AssertionFacts(0 if leaves else assertions, skipped, empty, trivial)


def _kind(node: ast.AST, names: Names) -> int:
    """1 for an assertion, -1 for one that can never fail, 0 for anything else."""
    if isinstance(node, ast.Assert):
        return -1 if is_always_true(node.test, names) else 1
    if not isinstance(node, ast.Call):
        return 0
    name = _last(node.func)
    if proves_nothing(node, name, names):
        return -1
    if name.startswith(("assert", "expect")) and name != "assertion":
        return 1
    if name in _RAISES and isinstance(node.func, ast.Attribute):
        broad = name == "raises" and node.args and _last(node.args[0]) == "BaseException"
        return -1 if broad else 1
    return 0


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _last(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
