"""Sources of Python in which what was built only fails, or does nothing: whoever asks for it must mind that, wherever it runs."""

from __future__ import annotations

import ast
import copy

from handoff.base.record import TYPE_CHECKING
from handoff.checks.support import functions_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from handoff.checks.findings import FileChange

ONLY_FAILS, NOTHING, NO_USE = "only fails", "does nothing", "answers something of no use"
_BODIES = {ONLY_FAILS: "raise RuntimeError", NOTHING: "return None", NO_USE: "return type('', (), {})()"}
# What a decorator does beside the function is its work too: a cache gives the same object again.
_KINDS = ("property", "cached_property", "staticmethod", "classmethod", "setter", "getter", "deleter")
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


def broken(changes: Iterable[FileChange]) -> dict[str, dict[str, str]]:
    """By what the changed functions do instead of their work, the changed files.

    Nothing where something else than functions was changed too: a test may be about that.
    """
    found: dict[str, dict[str, str]] = {}
    for change in changes:
        if not change.path.endswith(".py") or change.after is None:
            return {}
        try:
            before, after = ast.parse(change.before or ""), ast.parse(change.after)
        except (SyntaxError, ValueError, RecursionError):
            return {}
        known, now = functions_of(change.before or ""), functions_of(change.after)
        if known.keys() - now.keys() or not _rest(after) <= _rest(before):
            return {}
        for how in _BODIES:
            tree = _Broken(known, how).visit(copy.deepcopy(after))
            found.setdefault(how, {})[change.path] = ast.unparse(ast.fix_missing_locations(tree))
    return found


def _rest(tree: ast.Module) -> set[str]:
    """What a module says beside its functions; an import alone does nothing."""
    found: set[str] = set()
    queue: list[tuple[str, ast.stmt]] = [("", node) for node in tree.body]
    while queue:
        at, node = queue.pop()
        if isinstance(node, ast.ClassDef):
            if not any(isinstance(one, _Function) for one in node.body):
                found.add(at + ast.dump(node))
            queue += [(f"{at}{node.name}.", one) for one in node.body]
        elif not isinstance(node, (*_Function, ast.Import, ast.ImportFrom, ast.Pass)) and not _says_nothing(node):
            found.add(at + ast.dump(node))
    return found


def _says_nothing(node: ast.stmt) -> bool:
    """Whether a statement is words, or what a script does with its functions."""
    started = isinstance(node, ast.If) and ast.unparse(node.test).replace('"', "'") == "__name__ == '__main__'"
    return started or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


class _Broken(ast.NodeTransformer):
    """Takes the work out of the functions that say something else than those that are known."""

    def __init__(self, known: Mapping[str, str], how: str) -> None:
        self._known, self._body, self._at = known, ast.parse(_BODIES[how]).body, ""

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        above, self._at = self._at, f"{self._at}{node.name}."
        self.generic_visit(node)
        self._at = above
        return node

    def visit_FunctionDef(self, node: Any) -> Any:
        if self._known.get(self._at + node.name) != ast.dump(node):
            node.body = copy.deepcopy(self._body)
            node.decorator_list = [one for one in node.decorator_list if ast.unparse(one).rpartition(".")[2] in _KINDS]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast's name
