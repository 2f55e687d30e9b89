"""Python assertions that take nearly every answer: not None, of some kind, in a range that holds every number."""

from __future__ import annotations

import ast

from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

_HUGE = 100_000
_PAIR = 2


def is_weak(node: ast.expr, imported: AbstractSet[str]) -> bool:
    """Whether a condition holds for nearly every answer; `imported` are names that stand for modules, functions, classes."""
    if isinstance(node, ast.BoolOp):
        each = [is_weak(one, imported) for one in node.values]
        return any(each) if isinstance(node.op, ast.Or) else all(each)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "hasattr", "callable", "issubclass")
    if isinstance(node, ast.Name):
        return node.id in imported
    return isinstance(node, ast.Compare) and _is_wide(node)


def _is_wide(node: ast.Compare) -> bool:
    sides = [node.left, *node.comparators]
    if isinstance(node.ops[0], (ast.IsNot, ast.NotEq)) and len(sides) == _PAIR:
        return isinstance(sides[1], ast.Constant) and sides[1].value is None
    if isinstance(node.ops[0], ast.Eq) and len(sides) == _PAIR:
        return any(_is_loose(one) for one in sides)
    ordered = all(isinstance(one, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for one in node.ops)
    numbers = [value for one in sides if (value := _number(one)) is not None]
    return ordered and bool(numbers) and all(abs(value) >= _HUGE for value in numbers)


def _is_loose(node: ast.expr) -> bool:
    """`approx(…)` with a tolerance that takes every answer."""
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("approx"):
        return False
    given = [value for one in node.keywords if (value := _number(one.value)) is not None]
    return any(value >= _HUGE for value in given)


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _number(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, power = _number(node.left), _number(node.right)
        return None if base is None or power is None or abs(power) > _HUGE else float(base**power)
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return float(node.value)
    return None
