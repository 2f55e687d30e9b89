"""What a change was about: the functions it wrote or changed, and which tests speak of them."""

from __future__ import annotations

import ast

from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from handoff.checks.findings import FileChange

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_OUTSIDE = ("subprocess", "os.system", "multiprocessing", "pexpect", "threading", "asyncio.create_subprocess", "runpy")


def changed_functions(changes: Iterable[FileChange]) -> list[tuple[str, str]]:
    """Path and qualified name of each Python function that is new or says something else now, tests aside."""
    found = []
    for change in changes:
        if change.is_test or not change.path.endswith(".py") or change.after is None:
            continue
        old, new = functions_of(change.before or ""), functions_of(change.after)
        found += [(change.path, name) for name, shape in new.items() if old.get(name) != shape]
    return found


def functions_of(text: str) -> dict[str, str]:
    """The functions of a module and of its classes by their names, each with its syntax tree; none inside another function."""
    return {name: ast.dump(function) for name, function in _walk(text, ".")}


def tests_of(text: str) -> dict[str, str]:
    """Each test of a file with its syntax tree."""
    return {name: ast.dump(function) for name, function in _tests(text)}


def _tests(text: str) -> Iterable[tuple[str, _Function]]:
    return (one for one in _walk(text, "::") if one[1].name.startswith("test"))


def _walk(text: str, joiner: str) -> Iterable[tuple[str, _Function]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    queue: list[tuple[str, ast.stmt]] = [("", node) for node in tree.body]
    while queue:
        prefix, node = queue.pop(0)
        if isinstance(node, _Function):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            queue += [(f"{prefix}{node.name}{joiner}", inner) for inner in node.body]
        elif isinstance(node, (ast.If, ast.Try)):
            queue += [(prefix, inner) for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt)]


def changed_tests(before: str, after: str) -> list[str]:
    """Names of tests that were there and say something else now."""
    old = tests_of(before)
    return [name for name, said in tests_of(after).items() if old.get(name, said) != said]


def tests_about(texts: Mapping[str, str], names: Iterable[str], *, most: int) -> list[tuple[str, str]]:
    """File and name of tests that speak of these functions, at most so many."""
    wanted = {name.rpartition(".")[2] for name in names}
    found: list[tuple[str, str]] = []
    for path, text in texts.items():
        if not any(name in text for name in wanted):
            continue
        for name, function in _tests(text):
            said = {one.id for one in ast.walk(function) if isinstance(one, ast.Name)}
            said |= {one.attr for one in ast.walk(function) if isinstance(one, ast.Attribute)}
            if said & wanted:
                found.append((path, name))
                if len(found) == most:
                    return found
    return found


def uses_nothing_of(text: str, test: str, owned: Iterable[str]) -> bool:
    """Whether a test speaks of nothing that its file imports from the project, and starts nothing elsewhere."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    if any(word in text for word in _OUTSIDE) or "conftest" in text:
        return False
    function = dict(_tests(text)).get(test)
    if function is None or function.args.args:  # a fixture may bring anything
        return False
    mine, names = frozenset(owned), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {(one.asname or one.name).partition(".")[0] for one in node.names if _top(one.name) in mine}
        elif isinstance(node, ast.ImportFrom) and (node.level or _top(node.module or "") in mine):
            names |= {one.asname or one.name for one in node.names}
        elif isinstance(node, (ast.Call)) and "import" in ast.unparse(node.func):
            return False
    inside = [one for one in ast.walk(tree) if isinstance(one, _Function)]
    helpers = {one.name: one for one in inside}
    said, queue = set[str](), [function]
    while queue:
        for one in ast.walk(queue.pop()):
            if isinstance(one, ast.Name) and one.id not in said:
                said.add(one.id)
                if one.id in helpers:
                    queue.append(helpers[one.id])
    return not said & names


def _top(name: str) -> str:
    return name.partition(".")[0]
