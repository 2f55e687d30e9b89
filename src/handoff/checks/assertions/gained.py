"""Whether an old test file only gained: what stood there beside its tests stands there still, and means the same."""

from __future__ import annotations

import ast

from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def lost_statements(before: str, after: str) -> list[str]:
    """What an old test file lost beside its tests: statements that say something else now, and names that mean something else.

    A list, a table or a class that only grew lost nothing, nor did imports that nothing else stands in for.
    """
    try:
        old, new = ast.parse(before).body, ast.parse(after).body
    except (SyntaxError, ValueError, RecursionError):
        return []
    return _lost(old, new)


def _lost(old: list[ast.stmt], new: list[ast.stmt]) -> list[str]:
    kept = {ast.dump(node) for node in new}
    classes = {node.name: node for node in new if isinstance(node, ast.ClassDef)}
    grown = {ast.dump(node.targets[0]): node.value for node in new if isinstance(node, ast.Assign)}
    found: dict[str, None] = {}
    for node in old:
        same = classes.get(node.name) if isinstance(node, ast.ClassDef) else None
        if isinstance(node, ast.ClassDef) and same is not None:
            inner = _lost(node.body, same.body)
            heads = [ast.dump(ast.Tuple([*one.bases, *one.decorator_list])) for one in (node, same)]
            found.update(
                dict.fromkeys([f"{node.name}.{name}" for name in inner] + [node.name] * (heads[0] != heads[1]))
            )
        elif ast.dump(node) not in kept and not _may_go(node) and not _grew(node, grown):
            found[" ".join(_bound(node)) or f"line {node.lineno}"] = None
    said = {ast.dump(node) for node in old}
    meant = {name: what for node in old for name, what in _meaning(node).items()}
    for node in new:
        if ast.dump(node) not in said and not isinstance(node, ast.ClassDef):
            found.update(
                {
                    name: None
                    for name, what in _meaning(node).items()
                    if meant.get(name, what) != what and not _grew_to(node, old)
                }
            )
    return [name for name in found if not name.startswith("test")]  # those are compared by themselves


def _may_go(node: ast.stmt) -> bool:
    """`pass`, words for people, and imports."""
    words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return words or isinstance(node, (ast.Pass, ast.Import, ast.ImportFrom))


def _grew(node: ast.stmt, now: Mapping[str, ast.expr]) -> bool:
    """Whether a list or table of the old file is there with all it held, and more."""
    if not isinstance(node, ast.Assign) or "pytestmark" in _bound(node):
        return False
    value = now.get(ast.dump(node.targets[0]))
    if value is None or type(value) is not type(node.value):
        return False
    before, after = (_parts(one) for one in (node.value, value))
    return before is not None and after is not None and not [one for one in before if one not in after]


def _grew_to(node: ast.stmt, old: list[ast.stmt]) -> bool:
    return isinstance(node, ast.Assign) and any(
        _grew(one, {ast.dump(node.targets[0]): node.value}) for one in old if isinstance(one, ast.Assign)
    )


def _parts(value: ast.expr) -> list[str] | None:
    if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        return [ast.dump(one) for one in value.elts]
    if isinstance(value, ast.Dict):
        return [ast.dump(ast.Tuple([key or value, one])) for key, one in zip(value.keys, value.values, strict=True)]
    return None


def _bound(node: ast.stmt) -> list[str]:
    return list(_meaning(node))


def _meaning(node: ast.stmt) -> dict[str, str]:
    """The names a statement binds, each with what it stands for."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        start = "." * getattr(node, "level", 0) + (getattr(node, "module", "") or "")
        plain = isinstance(node, ast.Import)
        return {
            (
                one.asname or (_first(one.name) if plain else one.name)
            ): f"{start} {one.name if one.asname or not plain else _first(one.name)}"
            for one in node.names
        }
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name: ast.dump(node)}
    names = (one for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    return {one.id: ast.dump(node) for one in names}


def _first(name: str) -> str:
    return name.partition(".")[0]
