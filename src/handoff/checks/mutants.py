"""Mutants of some lines of a Python file: the same program with one small thing changed, which a test should notice."""

from __future__ import annotations

import ast
import copy

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_WORKED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
_ODD = "zqxz"


class Mutant(Record):
    """A file with one thing changed: where, what the line says, what became of it, and the whole text."""

    path: str
    line: int
    was: str
    now: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: `{self.was}` → `{self.now}`"

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is known by when lines have moved."""
        return self.path, self.was, self.now


def mutants(path: str, text: str, lines: Collection[int], *, most: int) -> list[Mutant]:
    """At most so many mutants of these lines, spread over them; none of a text that is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    wanted, skipped = set(lines), _words(tree)
    found: list[Mutant] = []
    for at, node in enumerate(ast.walk(tree)):
        line = int(getattr(node, "lineno", 0))
        if line in wanted and id(node) not in skipped:
            for change in _changes(node):
                other = copy.deepcopy(tree)
                twin = next(one for number, one in enumerate(ast.walk(other)) if number == at)
                was = ast.unparse(twin)
                change(twin)
                now = ast.unparse(ast.fix_missing_locations(twin))
                if was != now:
                    found.append(
                        Mutant(
                            path=path,
                            line=line,
                            was=" ".join(was.split())[:60],
                            now=" ".join(now.split())[:60],
                            text=ast.unparse(other) + "\n",
                        )
                    )
    return _spread(found, most)


def _spread(found: list[Mutant], most: int) -> list[Mutant]:
    """Not the first ones, but some of everywhere."""
    found.sort(key=lambda one: one.line)
    if len(found) <= most:
        return found
    return [found[at * len(found) // most] for at in range(most)]


def _words(tree: ast.Module) -> set[int]:
    """Docstrings and annotations: nobody runs them."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found |= {id(node), id(node.value)}
        for name in ("annotation", "returns"):
            part = getattr(node, name, None)
            found |= {id(one) for one in ast.walk(part)} if isinstance(part, ast.AST) else set()
    return found


def _changes(node: ast.AST) -> Iterator[Callable[..., None]]:
    """What can be changed about one node: sixteen ways in all."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        yield _compared
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in _WORKED:
        yield _worked
    elif isinstance(node, ast.BoolOp):
        yield _joined
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield _unsigned
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield _turned
    elif isinstance(node, ast.Return) and node.value is not None:
        yield _emptied
    elif isinstance(node, ast.Constant):
        yield from _constant(node)
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        yield _swapped
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield _dropped
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)) and node.generators[0].ifs:
        yield _unfiltered
    elif isinstance(node, ast.Raise):
        yield _quiet


def _constant(node: ast.Constant) -> Iterator[Callable[..., None]]:
    value = node.value
    if isinstance(value, bool):
        yield _negated
    elif isinstance(value, (int, float)):
        yield _raised
    elif isinstance(value, str):
        yield _misspelt


def _compared(node: ast.Compare) -> None:
    node.ops[0] = _COMPARED[type(node.ops[0])]()


def _worked(node: ast.BinOp | ast.AugAssign) -> None:
    node.op = _WORKED[type(node.op)]()


def _joined(node: ast.BoolOp) -> None:
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


def _unsigned(node: ast.UnaryOp) -> None:
    node.op = ast.UAdd() if isinstance(node.op, ast.USub) else node.op
    if isinstance(node.op, ast.Not):
        node.operand = ast.UnaryOp(ast.Not(), node.operand)


def _turned(node: ast.If | ast.While | ast.IfExp) -> None:
    node.test = ast.UnaryOp(ast.Not(), node.test) if not isinstance(node, ast.While) else ast.Constant(False)


def _emptied(node: ast.Return) -> None:
    node.value = ast.Constant(None)


def _negated(node: ast.Constant) -> None:
    node.value = not node.value


def _raised(node: ast.Constant) -> None:
    node.value = node.value + 1  # type: ignore[operator]


def _misspelt(node: ast.Constant) -> None:
    node.value = str(node.value) + _ODD if isinstance(node.value, str) else node.value


def _swapped(node: ast.Call) -> None:
    node.args[0], node.args[1] = node.args[1], node.args[0]


def _dropped(node: ast.Expr) -> None:
    node.value = ast.Constant(None)


def _unfiltered(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
    node.generators[0].ifs = []


def _quiet(node: ast.Raise) -> None:
    node.exc, node.cause = ast.Name("RuntimeError", ast.Load()), None


def changed_lines(before: str, after: str) -> set[int]:
    """The lines of the new text that the old one does not have."""
    import difflib

    matcher = difflib.SequenceMatcher(a=before.splitlines(), b=after.splitlines(), autojunk=False)
    return {
        number + 1
        for kind, _, _, begin, end in matcher.get_opcodes()
        if kind in ("insert", "replace")
        for number in range(begin, end)
    }
