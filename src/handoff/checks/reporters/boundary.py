"""A boundary around a project's functions: what they were asked and answered, and an answer altered on purpose. Stands alone."""

from __future__ import annotations

import ast
import copy
import enum
import importlib.machinery
import itertools
import math
import os
import random
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Ways = list[tuple[str, Any]]

_PLAIN = (int, float, complex, bool, str, bytes, type(None))
_MOST_ITEMS, _MOST_CHARS, _DEEPEST = 60, 4000, 4
_MOST_QUESTIONS = 4000
LEFT_OUT, NOTHING, OTHER_ERROR, SOMETHING = "left out", "returned None", "another error", "something for None"


class OtherError(Exception):
    """What an altered answer raises in the place of an error."""


# --- values as text, and other values of their kind ------------------------------------------------------------


def shown(value: Any, depth: int = 0) -> str:
    """A value as text without asking it anything: plain values as they are, of others the kind and what they hold."""
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)[:_MOST_CHARS]
    if depth >= _DEEPEST:
        return f"<{kind.__name__}>"
    if kind in (list, tuple, set, frozenset):
        parts = [shown(one, depth + 1) for one in list(value)[:_MOST_ITEMS]]
        return f"{kind.__name__}({', '.join(sorted(parts) if kind in (set, frozenset) else parts)})"
    if kind is dict:
        items = list(value.items())[:_MOST_ITEMS]
        return "{" + ", ".join(f"{shown(key, depth + 1)}: {shown(one, depth + 1)}" for key, one in items) + "}"
    held = _held(value)
    parts = [f"{name}={shown(one, depth + 1)}" for name, one in sorted(held.items())[:_MOST_ITEMS]]
    base = next((one for one in _PLAIN[:6] if isinstance(value, one)), None)
    if base is not None:
        parts.append(base.__repr__(value)[:_MOST_CHARS])
    return f"<{' '.join([kind.__name__, *parts])}>"[:_MOST_CHARS]


def _held(value: Any) -> dict[str, Any]:
    """The attributes of an object, and of nothing that is code."""
    if isinstance(value, type) or callable(value) or type(value).__module__ == "builtins":
        return {}
    try:
        held = dict(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        held = {}
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            try:
                held[name] = object.__getattribute__(value, name)
            except AttributeError:
                continue
    return {name: one for name, one in held.items() if isinstance(name, str)}


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value can be written down as text and read again."""
    if type(value) in _PLAIN:
        return True
    if type(value) in (list, tuple) and depth < _DEEPEST and len(value) <= _MOST_ITEMS:
        return all(is_plain(one, depth + 1) for one in value)
    return (
        type(value) is dict
        and depth < _DEEPEST
        and len(value) <= _MOST_ITEMS
        and all(is_plain(key, _DEEPEST) and is_plain(one, depth + 1) for key, one in value.items())
    )


def _pours(value: Any, depth: int = 0) -> bool:
    """Whether a value is, or holds, what can be gone through only once."""
    if hasattr(value, "__next__"):
        return True
    inner = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
    return depth < _DEEPEST and any(_pours(one, depth + 1) for one in list(inner)[:_MOST_ITEMS])


def ways_of(value: Any, chance: random.Random, depth: int = 0) -> Ways:
    """Other values of the same kind, near by and on both sides; none where the kind has no other."""
    try:
        return _ways(value, chance, depth)
    except Exception:  # noqa: BLE001 - a value that cannot be altered is not asked about
        return []


def _ways(value: Any, chance: random.Random, depth: int) -> Ways:
    kind = type(value)
    if kind is bool:
        return [("negated", not value)]
    if isinstance(value, enum.Enum):
        others = [one for one in kind if one is not value]
        return [("another member", chance.choice(others))] if others else []
    if isinstance(value, int):
        number = int.__index__(value)
        near = {"one more": number + 1, "one less": number - 1, "two more": number + 2, "two less": number - 2}
        turned = int(str(abs(number))[::-1])
        more = [("negated", -number)] if number else []
        more += [("digits turned", turned)] if turned != abs(number) else []
        return [*near.items(), ("far", number * 10 + 7), *more]
    if isinstance(value, float):
        return _float_ways(float.__float__(value), chance)
    if isinstance(value, (str, bytes, bytearray)):
        return _text_ways(value, chance)
    if kind in (list, tuple, set, frozenset):
        items = list(value) if kind in (list, tuple) else sorted(value, key=shown)
        found = [(label, kind(one)) for label, one in _list_ways(items, chance, depth)]
        return [one for one in found if kind in (list, tuple) or one[0] not in ("turned", "doubled")]
    if isinstance(value, dict):
        return _dict_ways(value, chance, depth)
    return _other_ways(value, chance, depth)


def _other_ways(value: Any, chance: random.Random, depth: int) -> Ways:
    kind: Any = type(value)
    if isinstance(value, tuple) and hasattr(kind, "_replace"):
        return [
            (f"{name}: {label}", kind._replace(value, **{name: one}))
            for name in kind._fields
            for label, one in ways_of(getattr(value, name), chance, depth + 1)[:3]
        ]
    if hasattr(value, "__next__") and hasattr(value, "__iter__") and not hasattr(value, "fileno"):
        items = list(itertools.islice(value, _MOST_ITEMS))
        return [(label, itertools.chain(one, value)) for label, one in _list_ways(items, chance, depth)]
    return _object_ways(value, chance, depth)


def _float_ways(number: float, chance: random.Random) -> Ways:
    if not math.isfinite(number) or number == 0:
        return [("more", chance.uniform(0.4, 9)), ("less", -chance.uniform(0.4, 9))]
    found: Ways = []
    for label, low, high in (("a good part", 0.05, 0.5), ("a little", 0.004, 0.02)):
        found += [(f"{label} more", number * (1 + chance.uniform(low, high)))]
        found += [(f"{label} less", number * (1 - chance.uniform(low, high)))]
    return [*found, ("negated", -number), ("far", number * 10 + 7)]


def _text_ways(value: Any, chance: random.Random) -> Ways:
    empty: Any = b"" if isinstance(value, (bytes, bytearray)) else ""
    found: Ways = [("one more", value + (b"q" if isinstance(value, (bytes, bytearray)) else "q"))]
    if value:
        at = chance.randrange(len(value))
        letters = [value[i : i + 1] for i in range(len(value))]
        pool = "abcdeghkmnpstuvwxyz" if isinstance(value, str) else b"abcdeghkmnpstuvwxyz"
        other = chance.choice([pool[i : i + 1] for i in range(len(pool)) if pool[i : i + 1] != letters[at].lower()])
        found = [("a letter", empty.join([*letters[:at], other, *letters[at + 1 :]])), *found]
        found.append(("one letter less", empty.join([*letters[:at], *letters[at + 1 :]])))
        if value.swapcase() != value:
            found.append(("case", value.swapcase()))
        if value[::-1] != value:
            found.append(("turned", value[::-1]))
    return found


def _list_ways(items: list[Any], chance: random.Random, depth: int) -> Ways:
    if not items:
        return [("an item more", [0])]
    found: Ways = []
    if depth < _DEEPEST:
        order = list(range(len(items)))
        chance.shuffle(order)
        for at in order[:5]:
            for label, one in ways_of(items[at], chance, depth + 1)[:3]:
                found.append((f"item: {label}", [*items[:at], one, *items[at + 1 :]]))
            if found:
                break
    at = chance.randrange(len(items))
    found += [("an item less", [*items[:at], *items[at + 1 :]]), ("doubled", [*items, items[at]])]
    return [*found, ("turned", items[::-1])] if len(items) > 1 and shown(items) != shown(items[::-1]) else found


def _dict_ways(value: Any, chance: random.Random, depth: int) -> Ways:
    if not value:
        found = copy.copy(value)
        found["q"] = 0
        return [("an item more", found)]
    ways: Ways = []
    keys = list(value)
    chance.shuffle(keys)
    for key in keys[:5] if depth < _DEEPEST else ():
        for label, one in ways_of(value[key], chance, depth + 1)[:3]:
            other = copy.copy(value)
            other[key] = one
            ways.append((f"item: {label}", other))
        if ways:
            break
    less = copy.copy(value)
    del less[keys[0]]
    return [*ways, ("an item less", less)]


def _object_ways(value: Any, chance: random.Random, depth: int) -> Ways:
    """A number or a moment of another kind moved on; of an object a copy with one attribute altered."""
    if callable(value) or isinstance(value, type) or depth >= _DEEPEST:
        return []
    if hasattr(value, "isoformat") or hasattr(value, "total_seconds"):
        import datetime as dt

        step = dt.timedelta(days=1) if hasattr(value, "year") else dt.timedelta(seconds=61)
        return [("later", value + step), ("earlier", value - step)]
    if hasattr(value, "__fspath__"):
        return [("a name", type(value)(os.fspath(value) + "q"))]
    held = _held(value)
    names = sorted(held)
    chance.shuffle(names)
    found: Ways = []
    for name in names[:8]:
        for label, one in ways_of(held[name], chance, depth + 1)[:3]:
            other = copy.copy(value)
            object.__setattr__(other, name, one)
            found.append((f"{name}: {label}", other))
    if not found and hasattr(value, "__add__") and not held:
        found = [("one more", value + 1), ("one less", value - 1)]
    return found


# --- the boundary ------------------------------------------------------------------------------------------------


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
        self.seed = 0

    def is_about(self, asked: tuple[str, str]) -> bool:
        """Whether it is this question; without arguments, any of the function."""
        found = asked[0] in self.also or (asked[0] == self.where and self.given in ("", asked[1]))
        self.met += found
        return found

    def pick(self, ways: Ways, chance: random.Random | None = None) -> tuple[str, Any]:
        """The same way each time the question is asked; one that was not tried where there is one."""
        if self.chosen:
            return next((one for one in ways if one[0] == self.chosen), ways[0])
        left = [one for one in ways if one[0] not in self.tried] or ways
        label, value = (chance or self.chance).choice(left)
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
        while frame is not None and len(found) < _MOST_ITEMS:
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
        chance = random.Random(plan.seed) if plan.seed else plan.chance  # noqa: S311 - alike for like answers
        ways = ways_of(value, chance)
        return plan.pick(ways, chance)[1] if ways else value

    def _record(self, mark: tuple[str, str], value: Any) -> None:
        iterator = _pours(value)
        ways = ["an item"] if iterator else [label for label, _ in ways_of(value, self._look)]
        plain = is_plain(value)
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
