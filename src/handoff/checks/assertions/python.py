"""Assertions in Python tests, followed through the syntax tree as a program runs: what is reached, swallowed, or asks nothing."""

from __future__ import annotations

import ast

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.assertions.scan import AssertionFacts
from handoff.checks.assertions.tautologies import Names, is_always_true, is_weak, proves_nothing, statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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


STRONG, WEAK, TRIVIAL, SWALLOWED, UNREACHABLE, UNKNOWN = (
    "strong",
    "weak",
    "trivial",
    "swallowed",
    "unreachable",
    "unknown",
)
_BROAD = frozenset(("AssertionError", "Exception", "BaseException"))
_RAISES = ("raises", "warns", "fail", "approves", "verify", "check", "deprecated_call", "main")
_SUPPORT = ("test", "check", "assert", "support", "helper", "util", "fixture", "conftest", "common")
_DEPTH = 4
_MOST = 400


class Ask(Record):
    """One assertion: of which kind it is, its text as a tree, and the names it depends on."""

    kind: str
    text: str
    names: frozenset[str]


class TestModule:
    """A test file as far as the assertions of its tests depend on it: its functions, its classes, what it imports."""

    def __init__(self, tree: ast.Module) -> None:
        self.functions: dict[str, _Function] = {node.name: node for node in tree.body if isinstance(node, _Function)}
        self.methods: dict[str, dict[str, _Function]] = {}
        self.foreign: set[str] = set()
        self.support: set[str] = set()
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                self.methods[node.name] = {one.name: one for one in node.body if isinstance(one, _Function)}
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self._import(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        near = isinstance(node, ast.ImportFrom) and node.level > 0
        for alias in node.names:
            place = f"{node.module or ''}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            name = alias.asname or alias.name.partition(".")[0]
            self.foreign.add(name)
            known = place.partition(".")[0] in ("pytest", "unittest")
            if near or (not known and any(word in place.casefold() for word in _SUPPORT)):
                self.support.add(name)

    def swallows(self, name: str) -> bool:
        """Whether a decorator or context manager of this name, written in this file, takes failures."""
        if name in self.methods:
            leave = self.methods[name].get("__exit__")
            return leave is not None and any(
                isinstance(one, ast.Return) and isinstance(one.value, ast.Constant) and bool(one.value.value)
                for one in ast.walk(leave)
            )
        found = self.functions.get(name)
        return found is not None and any(isinstance(one, ast.Try) and takes_failures(one) for one in ast.walk(found))


class _Place(Record):
    """How a statement is reached."""

    dead: bool = False
    swallowed: bool = False
    loop: bool = False
    times: int = 1


class Follower:
    """Follows one test and gathers its assertions."""

    def __init__(self, module: TestModule, owner: str = "") -> None:
        self.module, self.owner = module, owner
        self.asks: list[Ask] = []
        self.maybe = False
        """Whether something is called that may assert and cannot be seen from here."""
        self.inner: dict[str, _Function] = {}
        self.given: set[str] = set()
        self._names: dict[int, Names] = {}

    def follow(self, node: _Function) -> None:
        """All assertions of the test; a decorator that takes failures takes all of them."""
        swallowed = any(self.module.swallows(_last(one)) for one in node.decorator_list)
        self.given = {one.arg for one in node.args.args}
        self.maybe = any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in ast.walk(node))
        self._enter(node, _Place(swallowed=swallowed, times=_rows(node.decorator_list)), 0)

    def _enter(self, node: _Function, place: _Place, depth: int) -> None:
        if depth > _DEPTH or len(self.asks) > _MOST:
            return
        for part, names in statements(node.body):
            self._names[id(part)] = names
        inner = {one.name: one for one in _inner(node)}
        self.inner = {**self.inner, **inner}
        called = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
        self._block(node.body, place, depth)
        for name, one in inner.items():
            if name not in called and not one.decorator_list:
                self._enter(one, place._replace(dead=True), depth + 1)

    def _block(self, body: list[ast.stmt], place: _Place, depth: int) -> None:
        for statement in body:
            self._statement(statement, place, depth)
            if isinstance(statement, (ast.Return, ast.Raise)) and not place.dead:
                place = place._replace(dead=True)

    def _statement(self, node: ast.stmt, place: _Place, depth: int) -> None:
        if isinstance(node, (*(ast.FunctionDef, ast.AsyncFunctionDef), ast.ClassDef)):
            return
        if isinstance(node, ast.If):
            never, always = _is_false(node.test), is_always_true(node.test, {}) and isinstance(node.test, ast.Constant)
            self._look(node.test, place, depth)
            self._block(node.body, place._replace(dead=place.dead or never), depth)
            self._block(node.orelse, place._replace(dead=place.dead or always), depth)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            rounds = len(node.iter.elts) if isinstance(node.iter, (ast.Tuple, ast.List, ast.Set)) else 1
            self._look(node.iter, place, depth)
            inside = place._replace(dead=place.dead or rounds == 0, loop=True, times=place.times * max(rounds, 1))
            self._block([*node.body, *node.orelse], inside, depth)
        elif isinstance(node, ast.While):
            inside = place._replace(dead=place.dead or _is_false(node.test), loop=True)
            self._block([*node.body, *node.orelse], inside, depth)
        elif isinstance(node, ast.Try):
            taken = takes_failures(node) and not place.loop
            self._block(node.body, place._replace(swallowed=place.swallowed or taken), depth)
            for handler in node.handlers:
                self._block(handler.body, place, depth)
            self._block([*node.orelse, *node.finalbody], place, depth)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            taken = any(self._is_taking(item.context_expr) for item in node.items)
            for item in node.items:
                self._look(item.context_expr, place, depth)
            self._block(node.body, place._replace(swallowed=place.swallowed or taken), depth)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                self._block(case.body, place, depth)
        else:
            self._look(node, place, depth)

    def _is_taking(self, node: ast.expr) -> bool:
        """`suppress(Exception)`, or a manager of this file that says it has dealt with whatever came."""
        name = _last(node)
        if name == "suppress" and isinstance(node, ast.Call):
            return any(_last(one) in _BROAD for one in node.args)
        return self.module.swallows(name)

    def _look(self, node: ast.AST, place: _Place, depth: int) -> None:
        names = self._names.get(id(node), {})
        for one in ast.walk(node):
            if isinstance(one, ast.Assert):
                kind = (
                    TRIVIAL
                    if is_always_true(one.test, names)
                    else WEAK
                    if is_weak(one.test, self.module.foreign)
                    else ""
                )
                self._add(one.test, kind, place)
            elif isinstance(one, ast.Call):
                self._call(one, names, place, depth)

    def _call(self, node: ast.Call, names: Names, place: _Place, depth: int) -> None:
        name = _last(node.func)
        own = self._own(node.func)
        if own is not None:
            self._enter(own, place, depth + 1)
        elif proves_nothing(node, name, names) or (name == "raises" and _is_any_error(node)):
            self._add(node, TRIVIAL, place)
        elif name.startswith(("assert", "expect")) and name != "assertion":
            self._add(node, WEAK if name in ("assertIsNotNone", "assertIsInstance") else "", place)
        elif name in _RAISES and isinstance(node.func, ast.Attribute):
            self._add(node, "", place)
        elif isinstance(node.func, ast.Name) and node.func.id in self.given:
            self.maybe = True  # a fixture that is a function
        elif _root(node.func) in self.module.support or (_root(node.func) in ("self", "cls") and self.owner):
            self.maybe = True

    def _own(self, node: ast.expr) -> _Function | None:
        """The function of this file that is called."""
        if isinstance(node, ast.Name):
            return self.inner.get(node.id) or self.module.functions.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            return self.module.methods.get(self.owner, {}).get(node.attr)
        return None

    def _add(self, node: ast.AST, kind: str, place: _Place) -> None:
        found = UNREACHABLE if place.dead else SWALLOWED if place.swallowed and kind != TRIVIAL else kind or STRONG
        names = frozenset(one.id for one in ast.walk(node) if isinstance(one, ast.Name))
        self.asks += [Ask(found, ast.dump(node), names)] * min(place.times, _MOST)


def _inner(node: ast.AST) -> Iterator[_Function]:
    """Functions written inside a test; methods of a class there are called by whoever knows the class."""
    for one in ast.iter_child_nodes(node):
        if isinstance(one, _Function):
            yield one
        if not isinstance(one, ast.ClassDef):
            yield from _inner(one)


def takes_failures(node: ast.Try) -> bool:
    """Whether a failed assertion inside does not come out: a broad handler that lets nothing out, or a return at the end."""
    if any(_rises(one) for part in node.orelse for one in ast.walk(part)):
        return False  # that it fails is what is asked for
    if any(isinstance(one, (ast.Return, ast.Break, ast.Continue)) for one in node.finalbody):
        return True
    for handler in node.handlers:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type] if handler.type else []
        broad = not kinds or any(_last(one) in _BROAD for one in kinds)
        if broad and not any(_rises(one) for part in handler.body for one in ast.walk(part)):
            return True
    return False


def _rises(node: ast.AST) -> bool:
    if isinstance(node, (ast.Raise, ast.Assert)):
        return True
    name = _last(node.func) if isinstance(node, ast.Call) else ""
    return name.startswith(("assert", "fail", "exit", "skip", "_fail", "append", "put", "set")) and bool(name)


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _is_any_error(node: ast.Call) -> bool:
    return bool(node.args) and _last(node.args[0]) == "BaseException"


def _rows(decorators: list[ast.expr]) -> int:
    """How often a table of cases runs the test."""
    times = 1
    for node in decorators:
        if isinstance(node, ast.Call) and _last(node.func) == "parametrize" and len(node.args) > 1:
            rows = node.args[1]
            times *= max(len(rows.elts), 1) if isinstance(rows, (ast.Tuple, ast.List, ast.Set)) else 1
    return min(times, _MOST)


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def dependents(node: _Function, subjects: frozenset[str], functions: Mapping[str, _Function]) -> frozenset[str]:
    """The local names whose values come from these names, from assignment to assignment, through functions of the file."""
    known = set(subjects)
    known |= {name for name, one in functions.items() if _mentions(one, known)}
    for _ in range(_DEPTH):
        size = len(known)
        for value, targets in _assignments(node):
            if _mentions(value, known):
                known |= targets
        if len(known) == size:
            break
    return frozenset(known)


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(
        (isinstance(one, ast.Name) and one.id in names) or (isinstance(one, ast.Attribute) and one.attr in names)
        for one in ast.walk(node)
    )


def _assignments(node: ast.AST) -> Iterator[tuple[ast.AST, set[str]]]:
    for one in ast.walk(node):
        if isinstance(one, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and one.value is not None:
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            yield one.value, {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        elif isinstance(one, (ast.For, ast.AsyncFor)):
            yield one.iter, {name.id for name in ast.walk(one.target) if isinstance(name, ast.Name)}
        elif isinstance(one, ast.withitem) and one.optional_vars is not None:
            names = {name.id for name in ast.walk(one.optional_vars) if isinstance(name, ast.Name)}
            yield one.context_expr, names
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and isinstance(one.func.value, ast.Name):
            yield one, {one.func.value.id}  # what a method did to its object can be asked of the object
