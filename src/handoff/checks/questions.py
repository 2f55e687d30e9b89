"""Questions to new tests: do they enter what was built, do they mind another answer, does another answer fit as well."""

from __future__ import annotations

import ast
import json
import random
import re

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.findings import FileChange, Finding, named_finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from handoff.checks.results import Case, Report

NEVER_ENTERED, ANSWER_NOT_ASKED = "never-entered", "answer-not-asked"
MACHINE_CODE = "machine-code"
FROM_THE_TEST, ANY_FITS = "answers-from-the-test", "any-answer-fits"
NOT_PROBED, FAILED = "not-probed", "failed"
SECONDS = 45.0
_MOST_GROUPS, _LONGEST_VALUE = 200, 400
_WORDS = {
    NEVER_ENTERED: "passes without having entered a function that this phase changed: call what is to be built, and ask for its answer",
    ANSWER_NOT_ASKED: "passes also when what was built for it answers something else ({why}): ask for the answer itself",
    ANY_FITS: "{why}: the answer fits any question",
    MACHINE_CODE: "runs machine code that nobody can read ({why}): what ran must be what was read",
    FROM_THE_TEST: "passes only while its own values can be read: the answer is taken from the test",
}
_LETTERS = "abcdefghiklmnoprstuvwz"
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_EQUALITIES = frozenset(
    ("assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual")
)
_RAISES = ("raises", "assertRaises", "assertRaisesRegex", "fail")
SAYS_NOTHING = re.compile(r"\.(?:md|rst|lock|pyi)$|(?:^|/)(?:LICENSE|CHANGELOG|README)[^/]*$|(?:^|/)\.[^/]*$")
_OTHER_CODE = re.compile(r"\.(?:pyx|pxd|c|cc|cpp|h|hpp|rs|go|js|mjs|ts|tsx|java|kt|so)$")


# --- what changed ------------------------------------------------------------------------------------------------


class Built(Record):
    """What a phase changed of the product, as the boundary wants to know it.

    `functions` are names by path ("*" is all of them), `uses` are names whose users changed with them, `values` names of modules by
    path; `bare` are classes without functions; `unseen` says why what was built may not be seen at all; `brought` are files that are no text
    of Python.
    """

    functions: dict[str, list[str]]
    uses: tuple[str, ...] = ()
    values: dict[str, list[str]] = {}  # noqa: RUF012 - records are immutable tuples; nobody writes into a default
    bare: tuple[str, ...] = ()
    unseen: str = ""
    brought: tuple[str, ...] = ()

    def hides(self, names: Collection[str]) -> str:
        """Why a test that uses these names may be about something that is not seen."""
        nothing = not any(self.functions.values()) and not self.uses
        if self.bare and (nothing or any(name in names for name in self.bare)):
            return "it is about a class without functions of its own"
        return self.unseen


def built_by(changes: Sequence[FileChange], product: Collection[str]) -> Built:
    """Functions whose text is another now, names and data that changed; `product` are the paths of the project's code."""
    functions: dict[str, list[str]] = {path: [] for path in product if path.endswith(".py")}
    uses: set[str] = set()
    values: dict[str, list[str]] = {}
    unseen, every = "", False
    bare: list[str] = []
    for change in changes:
        if change.path not in product or (change.after is None and not change.path.endswith(".py")):
            every = every or (change.path in product and not SAYS_NOTHING.search(change.path))
        elif not change.path.endswith(".py"):
            unseen = unseen or ("it is built in another language" if _OTHER_CODE.search(change.path) else "")
            every = every or not SAYS_NOTHING.search(change.path)
        elif change.after is not None:
            old, new = _read(change.before or ""), _read(change.after)
            functions[change.path] = [name for name, shape in new.functions.items() if old.functions.get(name) != shape]
            functions[change.path] += [name for name, shape in new.classes.items() if old.classes.get(name) != shape]
            names = [name for name, shape in new.values.items() if old.values.get(name) != shape]
            values[change.path] = names
            uses |= {name for name in names if old.values or not change.before}
            uses |= {name for name, shape in new.bound.items() if old.bound.get(name) != shape}
            every = every or bool(set(new.acts) - set(old.acts))
            bare += [name.rpartition(".")[2] for name, shape in new.bare.items() if old.bare.get(name) != shape]
    if every:
        functions = {path: ["*"] for path in functions}
    brought = tuple(one.path for one in changes if not one.path.endswith(".py"))
    return Built(
        functions=functions, uses=tuple(sorted(uses)), values=values, bare=tuple(bare), unseen=unseen, brought=brought
    )


class _Module:
    """A module's parts, each by its name with its syntax tree: functions at any depth, class bodies, values, imports, acts."""

    def __init__(self) -> None:
        self.functions: dict[str, str] = {}
        self.classes: dict[str, str] = {}
        self.bare: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.bound: dict[str, str] = {}
        self.acts: list[str] = []


def _read(text: str) -> _Module:
    found = _Module()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return found
    _read_functions(tree, "", found)
    _read_body(tree.body, found)
    return found


def _read_functions(node: ast.AST, prefix: str, found: _Module) -> None:
    for inner in ast.iter_child_nodes(node):
        name = getattr(inner, "name", "") if isinstance(inner, (*_Function, ast.ClassDef)) else ""
        name = "<lambda>" if isinstance(inner, ast.Lambda) else name
        if name and not isinstance(inner, ast.ClassDef):
            found.functions[prefix + name] = found.functions.get(prefix + name, "") + ast.dump(inner)
        if isinstance(inner, ast.ClassDef):
            own = [one for one in inner.body if not isinstance(one, (*_Function, ast.ClassDef)) and not _is_words(one)]
            shape = repr([ast.dump(one) for one in [*inner.bases, *inner.keywords, *inner.decorator_list, *own]])
            has = any(isinstance(one, (*_Function, ast.Lambda)) and not _is_promise(one) for one in ast.walk(inner))
            (found.classes if has else found.bare)[prefix + name] = shape
        _read_functions(inner, f"{prefix}{name}." if name and name != "<lambda>" else prefix, found)


def _read_body(body: Sequence[ast.stmt], found: _Module) -> None:
    for node in body:
        if isinstance(node, (*_Function, ast.ClassDef)) or _is_words(node):
            continue
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for one in ast.walk(target):
                    if isinstance(one, ast.Name):
                        found.values[one.id] = found.values.get(one.id, "") + ast.dump(node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                where = getattr(node, "module", None), getattr(node, "level", 0)
                found.bound[alias.asname or alias.name.partition(".")[0]] = repr((where, alias.name))
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            _read_body([one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt)], found)
            for handler in getattr(node, "handlers", ()):
                _read_body(handler.body, found)
        else:
            found.acts.append(ast.dump(node))


def _is_promise(node: ast.AST) -> bool:
    """Whether a function is only there for others to write: it has no body of its own."""
    body = [one for one in getattr(node, "body", ()) if not _is_words(one)] if isinstance(node, _Function) else [node]
    return all(isinstance(one, ast.Raise) and "NotImplementedError" in ast.dump(one) for one in body)


def _is_words(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


# --- constants of tests ------------------------------------------------------------------------------------------


class Pooled(Record):
    """A test file whose tests look their constants up: its text, the constants by key, and by test what it asks for."""

    text: str
    constants: dict[str, Any]
    wanted: dict[str, list[str]]
    parameters: dict[str, list[str]]
    names: dict[str, set[str]]
    """What each test speaks of."""
    beside: list[list[str]]
    """Values that stand beside each other in one list or one condition."""


def new_name() -> str:
    """A name nobody can know, for what stands in `builtins`."""
    return "_" + "".join(random.SystemRandom().choices(_LETTERS, k=12))


def pool_constants(text: str, tests: Sequence[str], name: str, number: int = 0) -> Pooled | None:
    """The file with look-ups in the place of its tests' constants; None where it cannot be read."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    pool = _Pool(name, number)
    wanted: dict[str, list[str]] = {}
    parameters: dict[str, list[str]] = {}
    spoken: dict[str, set[str]] = {}
    groups = beside(tree)
    for test in tests:
        function = _find(tree, test)
        if function is None:
            continue
        asked, names = _asked_for(function)
        parameters[test] = names
        spoken[test] = {_last(one) for one in ast.walk(function) if isinstance(one, (ast.Name, ast.Attribute))}
        function.body = [pool.visit(one) for one in function.body]
        wanted[test] = [pool.keys[id(one)] for one in asked if id(one) in pool.keys]
    text = ast.unparse(ast.fix_missing_locations(tree))
    return Pooled(text=text, constants=pool.values, wanted=wanted, parameters=parameters, names=spoken, beside=groups)


def beside(tree: ast.AST) -> list[list[str]]:
    """Values that are written out beside others: in one list or table, or compared with in one condition."""
    found: dict[tuple[str, ...], None] = {}
    for node in ast.walk(tree):
        for parts in _rows(node):
            values = tuple(dict.fromkeys(text for one in parts if one is not None and (text := _written(one))))
            if len(values) > 1:
                found[values] = None
    return [list(one) for one in found][:_MOST_GROUPS]


def _rows(node: ast.AST) -> list[Sequence[ast.expr | None]]:
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [node.elts]
    if isinstance(node, ast.Dict):
        return [node.keys, node.values]
    equal = [
        one for one in getattr(node, "values", ()) if isinstance(node, ast.BoolOp) and isinstance(one, ast.Compare)
    ]
    equal = [one for one in equal if isinstance(one.ops[0], (ast.Eq, ast.NotEq))]
    return [[side for one in equal for side in (one.left, *one.comparators)]]


def _written(node: ast.expr) -> str:
    """A value that is written out, as text; nothing where it is more than a value."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ""
    text = "" if isinstance(value, (bool, type(None), type(...))) else repr(value)
    return text if len(text) < _LONGEST_VALUE else ""


def _find(tree: ast.Module, test: str) -> Any:
    *owners, name = test.split("::")
    body: list[ast.stmt] = tree.body
    for owner in owners:
        body = next((one.body for one in body if isinstance(one, ast.ClassDef) and one.name == owner), [])
    found = [one for one in body if isinstance(one, _Function) and one.name == name]
    return found[-1] if found else None


def _key(number: int) -> str:
    """A key without a digit: code that looks for numbers in frames would find it."""
    return "k" + "".join(_LETTERS[int(one)] for one in str(number))


class _Pool(ast.NodeTransformer):
    """Takes constants out of a function; words that are shown, patterns, annotations and defaults stay."""

    def __init__(self, name: str, number: int) -> None:
        self._name, self._number = name, number
        self.values: dict[str, Any] = {}
        self.keys: dict[int, str] = {}

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, (int, float, str, bytes)):
            return node
        key = self.keys[id(node)] = _key(self._number + len(self.values))
        self.values[key] = [list(value)] if isinstance(value, bytes) else value
        return ast.Subscript(ast.Name(self._name, ast.Load()), ast.Constant(key), ast.Load())

    def _stay(self, node: Any) -> Any:
        return node

    visit_JoinedStr = visit_arguments = visit_match_case = visit_ImportFrom = _stay  # noqa: N815 - ast's names

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        return node if isinstance(node.value, ast.Constant) else self._inside(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        return node if node.arg == "match" else self._inside(node)

    def visit_FunctionDef(self, node: Any) -> Any:
        node.body = [self.visit(one) for one in node.body]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast's name

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        node.body = [self.visit(one) for one in node.body]
        return node

    def _inside(self, node: Any) -> Any:
        return self.generic_visit(node)


def _asked_for(function: Any) -> tuple[list[ast.Constant], list[str]]:
    """The constants that are compared with an answer, and the parameters that are used for nothing else."""
    sides = list(_sides(function.body))
    places = {id(one) for one in sides}
    loads: dict[str, list[ast.Name]] = {}
    stores: dict[str, list[ast.AST]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            kind: dict[str, Any] = loads if isinstance(node.ctx, ast.Load) else stores
            kind.setdefault(node.id, []).append(node)
    only = {name for name, nodes in loads.items() if all(id(one) in places for one in nodes)}
    found = [one for side in sides for one in _literals(side)]
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in only and len(stores[name]) == 1:
                found += _literals(node.value)
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return found, [name for name in names if name in only and name not in stores]


def _sides(body: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """What stands on either side of an equality that is asserted."""
    for node in body:
        if isinstance(node, (ast.With, ast.AsyncWith)) and any(
            _last(one.context_expr) in _RAISES for one in node.items
        ):
            continue
        if isinstance(node, ast.Assert):
            yield from _equal(node.test)
        elif isinstance(node, ast.Call) and _last(node) in _EQUALITIES:
            yield from node.args[:2]
        elif not isinstance(node, (*_Function, ast.Lambda, ast.ClassDef)):
            yield from _sides(ast.iter_child_nodes(node))


def _equal(test: ast.expr) -> Iterator[ast.expr]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for one in test.values:
            yield from _equal(one)
    elif isinstance(test, ast.Compare) and all(isinstance(one, ast.Eq) for one in test.ops):
        yield from (test.left, *test.comparators)


def _literals(node: ast.expr) -> list[ast.Constant]:
    """The constants of a value that is written out."""
    if isinstance(node, ast.Constant):
        return [node]
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [one for item in node.elts for one in _literals(item)]
    if isinstance(node, ast.Dict):
        return [one for item in (*node.keys, *node.values) if item is not None for one in _literals(item)]
    return _literals(node.operand) if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else []


def _last(node: ast.expr) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


# --- the job and its answer --------------------------------------------------------------------------------------


def job_for(
    built: Built, tests: Sequence[tuple[str, str, str]], pooled: Mapping[str, Pooled], name: str
) -> dict[str, Any]:
    """What the run inside is told; `tests` are id, file and name of each, the file as the runner names it."""
    pool = {key: value for one in pooled.values() for key, value in one.constants.items()}
    asked = []
    for test, path, inner in tests:
        one = pooled.get(path)
        asked.append(
            {
                "id": test,
                "node": f"{path}::{inner}",
                "wanted": list(dict.fromkeys(one.wanted.get(inner, []))) if one else [],
                "parameters": one.parameters.get(inner, []) if one else [],
                "unseen": built.hides(one.names.get(inner, set()) if one else ()),
            }
        )
    return {
        "product": built.functions,
        "uses": list(built.uses),
        "values": built.values,
        "tests": asked,
        "pool": pool,
        "told": {key: repr(value)[:60] for key, value in pool.items()},
        "name": name,
        "brought": list(built.brought),
        "seconds": SECONDS * (1 + len(asked) // 4),
    }


class Opinion(Record):
    """What came of asking one test: a code (nothing where it minds), why, and the figures."""

    code: str
    why: str = ""
    raised: str = ""
    at: str = ""
    asked: int = 0
    of: int = 0
    forks: int = 0
    seeds: tuple[int, ...] = ()

    def figures(self) -> str:
        """How many questions were asked of how many, and what chance was drawn from."""
        seed = "-".join(f"{one:x}" for one in self.seeds[:8])
        return f"{self.asked} of {self.of} questions, {self.forks} forks, seed {seed or 'none'}"


def opinions(reports: Sequence[Report]) -> dict[str, Opinion]:
    """What the run said of each test."""
    return {case.id: _opinion(case) for report in reports for case in report.cases if not case.file}


def _opinion(case: Case) -> Opinion:
    told = json.loads(case.message)
    known = {name: told[name] for name in Opinion._fields if name in told}
    return Opinion(**{**known, "code": case.reason, "seeds": tuple(told.get("seeds", ()))})


def compare(one: Opinion, plain: Opinion | None, built: Built) -> Opinion:
    """A test that failed without its constants: where it passes with them, and it is the code that fails, that is why it passed."""
    if one.code != FAILED or plain is None or plain.code == FAILED:
        return one
    if one.raised.lower().startswith(("assert", "failed")) or one.at in built.functions:
        return plain._replace(code=FROM_THE_TEST)
    return plain


def judge_opinion(test: str, one: Opinion | None) -> list[Finding]:
    """A refusal, or that a test was not probed; nothing where it minds."""
    if one is None or one.code in (NOT_PROBED, FAILED):
        why = one.why.strip().rpartition("\n")[2] if one is not None else "the run of its questions gave no result"
        return [Finding(NOT_PROBED, f"{test} was not probed: {why}.", (test,), noted=True)]
    return [named_finding(one.code, _WORDS[one.code].format(why=one.why), [test])] if one.code else []
