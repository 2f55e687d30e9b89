"""A boundary around a project's functions: what they were asked and answered, and an answer altered on purpose.

Stands alone, beside `values`."""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import os
import random
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from handoff.checks.reporters.values import Ways, is_plain, pours, shown, ways_of
else:
    # Loaded before this one: under that name where it stands alone.
    values = sys.modules.get("_handoff_values") or importlib.import_module("handoff.checks.reporters.values")
    is_plain, pours, shown, ways_of = values.is_plain, values.pours, values.shown, values.ways_of

_MOST_ABOVE, _MOST_QUESTIONS = 60, 4000
_MADE = 1 << 9  # of a class that was made while running, and is not built in
LEFT_OUT, NOTHING, OTHER_ERROR, SOMETHING = "left out", "returned None", "another error", "something for None"


class OtherError(Exception):
    """What an altered answer raises in the place of an error."""


class Alteration:
    """One question whose answer is to be altered, and how; chance decides among what was not tried yet."""

    def __init__(
        self, where: str, given: str, chance: random.Random, *, tried: tuple[str, ...] = (), kept: Any = None
    ) -> None:
        self.where, self.given, self.chance, self.tried, self.kept = where, given, chance, tried, kept
        self.chosen, self.met = "", 0
        self.put: tuple[Any, ...] = ()
        """An answer that is given in any case, whatever the true one is."""
        self.also: frozenset[str] = frozenset()
        """Functions whose every answer is altered in the same way."""
        self.held: dict[str, Any] = {}
        """Functions that go on to answer what they answered."""
        self._seed = chance.getrandbits(40)

    def ways(self, value: Any) -> Ways:
        """Other answers, the same ones each time the question is asked and for each like answer."""
        return ways_of(value, random.Random(self._seed))  # noqa: S311 - drawn once

    def is_about(self, asked: tuple[str, str]) -> bool:
        """Whether it is this question; without arguments, any of the function."""
        found = asked[0] in self.also or (asked[0] == self.where and self.given in ("", asked[1]))
        self.met += found
        return found

    def pick(self, ways: Ways) -> tuple[str, Any]:
        """The same way each time the question is asked; one that was not tried where there is one."""
        if self.chosen:
            return next((one for one in ways if one[0] == self.chosen), ways[0])
        left = [one for one in ways if one[0] not in self.tried] or ways
        label, value = self.chance.choice(left)
        self.chosen = label
        return label, value


class Boundary:
    """Stands in `builtins` under a name nobody knows; wrapped functions call it when they begin and end."""

    error = Exception

    def __init__(self) -> None:
        self.on, self.kept = False, None
        self.plan: Alteration | None = None
        self.asked: dict[tuple[str, str], dict[str, Any]] = {}
        self.entered: dict[str, int] = {}
        self.own: list[tuple[tuple[str, str], Any]] = []
        """Answers of kinds that can say themselves what they agree with."""
        self.test = 0
        """The number of the test that runs, by which a question is known as its own."""
        self._look: Any = None
        self.is_product: Callable[[str], bool | None] = lambda _file: None

    def begin(self, plan: Alteration | None, chance: random.Random) -> None:
        """From now on record (no plan) or alter."""
        self.on, self.plan, self._look = True, plan, chance

    def enter(self, where: str, given: tuple[tuple[str, Any], ...]) -> Any:
        """A mark for the other calls; None where the work is to be left out."""
        if not self.on:
            return False
        self.entered[where] = self.entered.get(where, 0) + 1
        if len(self.asked) >= _MOST_QUESTIONS and self.plan is None:
            return False
        self.on = False
        try:
            mark = (where, ", ".join(f"{name}={shown(value)}" for name, value in given))
        except Exception:  # noqa: BLE001 - a value that cannot be written down has no name
            mark = (where, "?")
        self.on = True
        plan = self.plan
        if plan is None:
            fresh: dict[str, Any] = {"ways": [], "plain": None, "answer": "", "direct": False, "tests": []}
            known = self.asked.setdefault(mark, fresh)
            known.setdefault("under", self._above())
            if self.test not in known["tests"]:
                known["tests"].append(self.test)
                known["direct"] = known["direct"] or self._is_direct()
        if plan is not None and where in plan.held:
            self.kept = plan.held[where]
            return None
        if plan is not None and plan.chosen == LEFT_OUT and plan.is_about(mark):
            self.kept = plan.kept
            return None
        return mark

    def _is_direct(self) -> bool:
        """Whether the nearest frame of the tree above the function is no code of the project."""
        frame: Any = sys._getframe(3)  # noqa: SLF001 - there is no other way to see who asks
        while frame is not None:
            known = self.is_product(frame.f_code.co_filename)
            if known is not None:
                return not known
            frame = frame.f_back
        return False

    def _above(self) -> list[str]:
        """The names of the project's functions that asked, the nearest first."""
        frame: Any = sys._getframe(3)  # noqa: SLF001 - as above
        found: list[str] = []
        while frame is not None and len(found) < _MOST_ABOVE:
            if self.is_product(frame.f_code.co_filename):
                found.append(frame.f_code.co_name)
            frame = frame.f_back
        return found

    def leave(self, mark: Any, value: Any) -> Any:
        """The answer, altered where that is the plan."""
        if not mark or not self.on:
            return value
        self.on = False
        try:
            return self._answer(mark, value)
        finally:
            self.on = True

    def _answer(self, mark: tuple[str, str], value: Any) -> Any:
        plan = self.plan
        if plan is None:
            if not self.asked[mark]["ways"]:
                self._record(mark, value)
            return value
        if not plan.is_about(mark) or plan.chosen == LEFT_OUT:
            return value
        if plan.put:
            return plan.put[0]
        if value is None:
            plan.chosen = SOMETHING
            return 1
        ways = plan.ways(value)
        return plan.pick(ways)[1] if ways else value

    def _record(self, mark: tuple[str, str], value: Any) -> None:
        iterator = pours(value)
        ways = ["an item"] if iterator else [label for label, _ in ways_of(value, self._look)]
        plain = is_plain(value)
        inner = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
        for one in (value, *list(inner)[:_MOST_ABOVE]):
            if type(one).__flags__ & _MADE and len(self.own) < _MOST_ABOVE:
                self.own.append((mark, one))
        last = mark[0].rpartition(".")[2].rpartition(":")[2]
        if value is None and not (last.startswith("__") and last.endswith("__")):
            ways = [SOMETHING]
        answer = f"<{type(value).__name__}>" if iterator else shown(value)
        self.asked[mark].update(ways=ways, plain=repr(value) if plain else None, answer=answer)

    def give(self, mark: Any, value: Any) -> Any:
        """What a generator yields; the work around a single yield can be left out."""
        if mark and self.on and self.plan is None:
            one = self.asked[mark]
            one["gives"] = one.get("gives", 0) + 1
            if value is None:
                one.update(plain="None", answer="None")
            value = self.leave(mark, value) if value is not None else None
            one["plain"] = one["plain"] if one["gives"] == 1 else None
            return value
        return value if value is None else self.leave(mark, value)

    def pour(self, mark: Any, values: Any) -> Any:
        """What a generator hands on from another one."""
        if not mark or not self.on or (self.plan is not None and not self.plan.is_about(mark)):
            return values
        return (self.give(mark, one) for one in values) if not hasattr(values, "send") else values

    def boom(self, mark: Any, error: BaseException) -> bool:
        """Whether an error goes on."""
        if not mark or not self.on:
            return True
        plan = self.plan
        if plan is None:
            if not self.asked[mark]["answer"]:
                self.asked[mark].update(ways=[NOTHING, OTHER_ERROR], answer=f"raises {type(error).__name__}")
            return True
        if not plan.is_about(mark) or plan.chosen == LEFT_OUT:
            return True
        label, _ = plan.pick([(NOTHING, None), (OTHER_ERROR, None)])
        if label == OTHER_ERROR:
            raise OtherError
        self.kept = None
        return False


# --- the loader --------------------------------------------------------------------------------------------------


class _Ends(ast.NodeTransformer):
    """Puts the boundary around each return and yield of one function, and of none inside it."""

    def __init__(self, call: Callable[..., ast.expr]) -> None:
        self._call = call
        self.gives = False

    def _stay(self, node: Any) -> Any:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = _stay  # noqa: N815 - ast's names

    def visit_Return(self, node: ast.Return) -> Any:
        self.generic_visit(node)
        if node.value is not None or not self.gives:
            node.value = self._call("leave", node.value or ast.Constant(None))
        return node

    def visit_Yield(self, node: ast.Yield) -> Any:
        self.generic_visit(node)
        node.value = self._call("give", node.value or ast.Constant(None))
        return node

    def visit_YieldFrom(self, node: ast.YieldFrom) -> Any:
        self.generic_visit(node)
        node.value = self._call("pour", node.value)
        return node


class Wrap(ast.NodeTransformer):
    """Wraps the functions of one module that are wanted."""

    def __init__(self, path: str, name: str, wanted: Callable[[str, ast.AST], bool]) -> None:
        self._path, self._name, self._wanted, self._at = path, name, wanted, [""]
        self._mark = f"{name}m"

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        self._at.append(f"{self._at[-1]}{node.name}.")
        self.generic_visit(node)
        self._at.pop()
        return node

    def visit_FunctionDef(self, node: Any) -> Any:
        where = f"{self._at[-1]}{node.name}"
        wanted = self._wanted(where, node)
        self._at.append(f"{where}.")
        self.generic_visit(node)
        self._at.pop()
        if wanted:
            self._around(node, where)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast's name

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        where = f"{self._at[-1]}<lambda>"
        wanted = self._wanted(where, node)
        self.generic_visit(node)
        if not wanted or any(isinstance(one, (ast.Yield, ast.YieldFrom, ast.Await)) for one in ast.walk(node.body)):
            return node
        begin = ast.NamedExpr(ast.Name(self._mark, ast.Store()), self._enter(where, node.args))
        node.body = ast.IfExp(
            ast.Compare(begin, [ast.Is()], [ast.Constant(None)]), self._part("kept"), self._call("leave", node.body)
        )
        return node

    def _part(self, name: str) -> ast.expr:
        return ast.Attribute(ast.Name(self._name, ast.Load()), name, ast.Load())

    def _call(self, name: str, *given: ast.expr) -> ast.expr:
        return ast.Call(func=self._part(name), args=[ast.Name(self._mark, ast.Load()), *given], keywords=[])

    def _enter(self, where: str, args: ast.arguments) -> ast.expr:
        named = [*args.posonlyargs, *args.args, *([args.vararg] if args.vararg else []), *args.kwonlyargs]
        named += [args.kwarg] if args.kwarg else []
        pairs: list[ast.expr] = [
            ast.Tuple([ast.Constant(one.arg), ast.Name(one.arg, ast.Load())], ast.Load()) for one in named
        ]
        given = [ast.Constant(f"{self._path}:{where}"), ast.Tuple(pairs, ast.Load())]
        return ast.Call(func=self._part("enter"), args=given, keywords=[])

    def _around(self, node: Any, where: str) -> None:
        is_doc = node.body and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
        doc, body = node.body[: 1 if is_doc else 0], node.body[1 if is_doc else 0 :]
        ends = _Ends(self._call)
        ends.gives = any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in _own(body))
        body = [ends.visit(one) for one in body]
        begin: list[ast.stmt] = [ast.Assign([ast.Name(self._mark, ast.Store())], self._enter(where, node.args))]
        kept: ast.stmt = ast.Return(self._part("kept"))
        without: list[ast.stmt] = [ast.Expr(ast.Yield(self._part("kept"))), ast.Return()] if ends.gives else [kept]
        none = ast.Compare(ast.Name(self._mark, ast.Load()), [ast.Is()], [ast.Constant(None)])
        begin.append(ast.If(none, without, []))
        if not ends.gives:
            body.append(ast.Return(self._call("leave", ast.Constant(None))))
        error = f"{self._mark}e"
        names: list[ast.expr] = [ast.Name(self._mark, ast.Load()), ast.Name(error, ast.Load())]
        goes_on = ast.Call(func=self._part("boom"), args=names, keywords=[])
        after: list[ast.stmt] = [ast.If(goes_on, [ast.Raise()], [])]
        after += [] if ends.gives else [kept]
        handler = ast.ExceptHandler(self._part("error"), error, after)  # a module may have an Exception of its own
        node.body = [*doc, *begin, ast.Try(body or [ast.Pass()], [handler], [], [])]


def _own(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    queue: list[ast.AST] = list(body)
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            queue += ast.iter_child_nodes(node)


class Fence:
    """What is wrapped: by path the functions, and those that use one of some names."""

    def __init__(self, top: str, product: dict[str, list[str]], uses: list[str]) -> None:
        self.top = os.path.realpath(top) + os.sep
        self._product, self._uses = product, frozenset(uses)
        self._wrapped: set[tuple[str, str]] = set()

    def path_of(self, file: str) -> str:
        """A file's path from the top where it is wrapped, else nothing."""
        real = os.path.realpath(file)
        path = real[len(self.top) :].replace(os.sep, "/") if real.startswith(self.top) else ""
        return path if path in self._product else ""

    def is_product(self, file: str) -> bool | None:
        """Whether a file is code of the project; None where it is not of the tree."""
        if not file.startswith(self.top):
            return None
        return file[len(self.top) :] in self._product

    def wants(self, path: str) -> Callable[[str, ast.AST], bool]:
        names = self._product[path]
        every, chosen = "*" in names, frozenset(names)

        def wanted(name: str, node: ast.AST) -> bool:
            mine = every or name in chosen or any(name.startswith(f"{one}.") for one in chosen)
            found = mine or (bool(self._uses) and any(_name(one) in self._uses for one in ast.walk(node)))
            if found:
                self._wrapped.add((path, name.rpartition(".")[2]))
            return found

        return wanted

    def wraps(self, file: str, name: str) -> bool:
        """Whether a function of this file and name is wrapped, or would be if the file were loaded as others are."""
        path = self.path_of(os.path.join(self.top, file))
        known = any(place == path for place, _ in self._wrapped)
        return bool(path) and name != "<module>" and (not known or (path, name) in self._wrapped)

    def install(self, name: str) -> None:
        """Source files of the project are compiled with the boundary in them; nothing on the disk changes."""
        loader: Any = importlib.machinery.SourceFileLoader
        plain = loader.get_code

        def get_code(this: Any, fullname: str) -> Any:
            file = this.get_filename(fullname)
            path = self.path_of(file)
            if not path:
                return plain(this, fullname)
            tree = ast.parse(this.get_data(file))
            tree = ast.fix_missing_locations(Wrap(path, name, self.wants(path)).visit(tree))
            return compile(tree, file, "exec", dont_inherit=True)

        loader.get_code = get_code

    def modules(self) -> list[tuple[str, Any]]:
        """The loaded modules of the project, by path."""
        found = []
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and (path := self.path_of(file)):
                found.append((path, module))
        return found


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
