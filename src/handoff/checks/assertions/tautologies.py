"""Python assertions that hold whatever the code does, or for nearly every answer."""

from __future__ import annotations

import ast
import copy

from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

Names = dict[str, ast.expr]
"""What local names are known to stand for at one place of a test."""

_TRUTHS = ("asserttrue", "assert_", "asserttruthy")
_EQUALS = frozenset(
    "assertequal assertequals assertis assertalmostequal assertalmostequals assertlistequal assertdictequal assertsetequal"
    " asserttupleequal assertcountequal assertsequenceequal assertmultilineequal assertlessequal assertgreaterequal"
    " assertarrayequal assertallclose assertarrayalmostequal assertframeequal assertseriesequal".split()
)
_SAME_WHEN_EQUAL = (ast.Eq, ast.Is, ast.LtE, ast.GtE)


def statements(body: list[ast.stmt], known: Mapping[str, ast.expr] | None = None) -> Iterator[tuple[ast.AST, Names]]:
    """Every piece of a test that holds no statement of its own, with what is known of local names there.

    A name is known after `name = …` until something else is called: what that did to the value cannot be seen.
    """
    names: Names = dict(known or {})
    for statement in body:
        if any(
            isinstance(value, list) and value and isinstance(value[0], ast.stmt) for value in vars(statement).values()
        ):
            names = {}
            yield from _compound(statement)
            continue
        yield statement, names
        called = _calls(statement)
        names = {name: value for name, value in names.items() if not called - _calls(value)}
        name, value = _given(statement)
        if value is not None:
            names = {other: kept for other, kept in names.items() if other != name and name not in _named(kept)}
            filled = _fill(value, names)
            if name not in _named(filled):
                names[name] = filled


def _compound(statement: ast.stmt) -> Iterator[tuple[ast.AST, Names]]:
    for field in ast.iter_child_nodes(statement):
        if isinstance(field, (ast.ExceptHandler, ast.match_case)):
            yield from statements(field.body)
        elif not isinstance(field, ast.stmt):
            yield field, {}
    for name in ("body", "orelse", "finalbody"):
        inner = getattr(statement, name, None)
        if inner:
            yield from statements(inner)


def _given(statement: ast.AST) -> tuple[str, ast.expr | None]:
    """The one local name a statement gives a value to."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Name):
            return target.id, statement.value
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id, statement.value
    return "", None


def _calls(node: ast.AST) -> set[str]:
    return {
        ast.dump(inner)
        for inner in ast.walk(node)
        if isinstance(inner, (ast.Call, ast.Await, ast.AugAssign, ast.Delete))
    }


def _named(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


class _Filler(ast.NodeTransformer):
    """Puts what is known in the place of names."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self._names.get(node.id, node))


def _fill(node: ast.expr, names: Names) -> ast.expr:
    if not names or not _named(node) & set(names):
        return node
    filled: ast.expr = _Filler(names).visit(copy.deepcopy(node))
    return filled


def is_always_true(node: ast.expr, names: Names) -> bool:
    """Whether a condition is true whatever the code does."""
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return bool(node.elts)
    if isinstance(node, (ast.JoinedStr, ast.Lambda, ast.GeneratorExp)):
        return True
    if isinstance(node, ast.BoolOp):
        each = [is_always_true(value, names) for value in node.values]
        return any(each) if isinstance(node.op, ast.Or) else all(each)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _is_never_true(node.operand, names)
    if isinstance(node, ast.Call):
        # `bool(True)`, `isinstance(x, object)`, `any([…True…])`.
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "bool" and len(node.args) == 1:
            return is_always_true(node.args[0], names)
        return (
            name == "isinstance"
            and len(node.args) > 1
            and isinstance(node.args[1], ast.Name)
            and node.args[1].id == "object"
        )
    return isinstance(node, ast.Compare) and len(node.ops) == 1 and _compares_nothing(node, names)


def _is_never_true(node: ast.expr, names: Names) -> bool:
    if isinstance(node, ast.Constant):
        return not node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return is_always_true(node.operand, names)
    never = isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.NotEq, ast.IsNot))
    return never and isinstance(node, ast.Compare) and is_same(node.left, node.comparators[0], names)


def _compares_nothing(node: ast.Compare, names: Names) -> bool:
    operator, left, right = node.ops[0], node.left, node.comparators[0]
    if isinstance(operator, _SAME_WHEN_EQUAL) and is_same(left, right, names):
        return True
    if isinstance(operator, ast.In) and isinstance(right, (ast.Tuple, ast.List, ast.Set)):
        return any(is_same(left, one, names) for one in right.elts)
    if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
        return _compared(operator, left, right)
    # `len(x) >= 0`, and `len(str(x)) > 0`: every value has a text.
    if not isinstance(left, ast.Call) or _called(left) != "len" or len(left.args) != 1:
        return False
    zero = isinstance(right, ast.Constant) and right.value == 0
    if isinstance(operator, ast.GtE):
        return zero
    shown = isinstance(left.args[0], ast.Call) and _called(left.args[0]) in ("str", "repr")
    return zero and shown and isinstance(operator, (ast.Gt, ast.NotEq))


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def is_same(left: ast.expr, right: ast.expr, names: Names) -> bool:
    """The same thing asked on both sides. A call that is asked twice shows nothing but that it answers."""
    one, other = (ast.dump(_plain(_fill(side, names))) for side in (left, right))
    return one == other


def _plain(node: ast.expr) -> ast.expr:
    """Without `approx(…)` and brackets that only wrap it."""
    if isinstance(node, ast.Call) and node.args:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "approx":
            return node.args[0]
    return node


def _compared(operator: ast.cmpop, left: ast.Constant, right: ast.Constant) -> bool:
    """Two constants: whatever they say, no code is asked."""
    try:
        return bool(left.value == right.value) == isinstance(operator, ast.Eq)
    except (ValueError, TypeError):
        return False


def proves_nothing(node: ast.Call, name: str, names: Names) -> bool:
    """Whether a call of this name (`assertEqual`, `assert_allclose`) asserts what is always true."""
    plain = name.casefold().replace("_", "")
    if not node.args:
        return False
    if plain in _TRUTHS:
        return is_always_true(node.args[0], names)
    if plain == "assertfalse":
        return _is_never_true(node.args[0], names)
    if plain == "assertin" and len(node.args) > 1:
        return is_always_true(ast.Compare(node.args[0], [ast.In()], [node.args[1]]), names)
    return plain in _EQUALS and len(node.args) > 1 and is_same(node.args[0], node.args[1], names)


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
