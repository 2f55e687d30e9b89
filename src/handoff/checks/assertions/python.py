"""Assertions in Python tests, by the syntax tree."""

from __future__ import annotations

import ast

from handoff.base.record import TYPE_CHECKING
from handoff.checks.assertions.facts import AssertionFacts

if TYPE_CHECKING:
    from collections.abc import Iterator

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SKIPS = ("skip", "skipif", "skipIf", "skipUnless", "xfail", "expectedFailure", "importorskip")
_RAISES = ("raises", "warns", "fail", "approves", "verify", "check")
_TRUTHS = ("assertTrue", "assertEqual", "assertIs", "assertEquals")


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
    for inner in ast.walk(node):
        kind = _kind(inner)
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


def _kind(node: ast.AST) -> int:
    """1 for an assertion, -1 for one that can never fail, 0 for anything else."""
    if isinstance(node, ast.Assert):
        return -1 if _always(node.test) else 1
    if not isinstance(node, ast.Call):
        return 0
    name = _last(node.func)
    if name in _TRUTHS and node.args:
        same = len(node.args) > 1 and name != "assertTrue" and _same(node.args[0], node.args[1])
        if same or (name == "assertTrue" and _always(node.args[0])):
            return -1
    if name.startswith(("assert", "expect")) and name != "assertion":
        return 1
    if name in _RAISES and isinstance(node.func, ast.Attribute):
        broad = name == "raises" and node.args and _last(node.args[0]) == "BaseException"
        return -1 if broad else 1
    return 0


def _always(node: ast.expr) -> bool:
    """Whether a condition is true whatever the code does."""
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return bool(node.elts)
    if isinstance(node, ast.JoinedStr):
        return True
    if isinstance(node, ast.BoolOp):
        each = [_always(value) for value in node.values]
        return any(each) if isinstance(node.op, ast.Or) else all(each)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return isinstance(node.operand, ast.Constant) and not node.operand.value
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = node.left, node.comparators[0]
        if isinstance(node.ops[0], (ast.Eq, ast.Is, ast.LtE, ast.GtE)) and _same(left, right):
            return True
        if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
            return _compared(node)
    return False


def _same(left: ast.expr, right: ast.expr) -> bool:
    """The same words on both sides; a call may answer differently, so asking twice is a test."""
    return ast.dump(left) == ast.dump(right) and not any(isinstance(inner, ast.Call) for inner in ast.walk(left))


def _compared(node: ast.Compare) -> bool:
    """Two constants: whatever they say, no code is asked."""
    try:
        return bool(ast.literal_eval(node.left) == ast.literal_eval(node.comparators[0])) == isinstance(
            node.ops[0], ast.Eq
        )
    except (ValueError, TypeError):
        return False


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _last(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
