"""Tests as plain code: played by a script without a runner, each apart, once as they are and once asking for something else."""

from __future__ import annotations

import ast
import json
import os
from functools import cache
from string import Template

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks import questions
from handoff.checks.reporters import plain, values
from handoff.checks.sealed import random_word

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence
    from typing import Any

_RUNNERS = ("pytest", "unittest")
# Until the last question was asked nothing is loaded that a bare Python has not loaded: whoever looks finds no more than in a person's script.
SCRIPT = Template("""
import os
import sys

import _signal

$count = [0]


def $said(value, depth=0):
    if type(value) is float:
        return f"{value:.9g} of a float"
    if isinstance(value, (int, complex, str, bytes, type(None))) and type(value).__module__ == "builtins":
        return repr(value)
    if type(value) in (list, tuple, set, frozenset, dict) and depth < 4:
        listed = value.items() if isinstance(value, dict) else value
        parts = [$said(one, depth + 1) for _, one in zip(range(200), listed)]
        return type(value).__name__ + str(parts if isinstance(value, (list, tuple)) else sorted(parts))
    if hasattr(value, "__next__") and depth < 4:
        return "each " + str([$said(one, depth + 1) for _, one in zip(range(50), value)])
    return type(value).__name__ if type(value).__module__ == "builtins" else "an object"


def $late(*_):
    $count[0] += 1
    raise InterruptedError($count[0])


def $ask(module, function, given):
    try:
        _signal.signal(_signal.SIGALRM, $late)
        _signal.setitimer(_signal.ITIMER_REAL, $seconds)
        __import__(module)
        value = getattr(sys.modules[module], function)(*eval(given))
        return $said(value)
    except Exception as error:
        return "raised " + type(error).__name__ + (str(error) if type(error) is InterruptedError else "")
    finally:
        _signal.setitimer(_signal.ITIMER_REAL, 0)


class $looked(dict):
    seen = set()

    def __getitem__(self, key):
        self.seen.add(key)
        value = super().__getitem__(key)
        return bytes(value[0]) if isinstance(value, list) else value


def $bare(job):
    module = type(sys)(job["module"])
    sys.modules[module.__name__] = module
    space = module.__dict__
    space.update({"__file__": job["file"], job["pool"]: $looked(job["values"])})
    try:
        exec(compile(job["text"], job["file"], "exec"), space)
        space[job["name"]]()
    except BaseException as error:
        return [type(error).__name__, str(error)[:2000], sorted($looked.seen)]
    return ["", "", sorted($looked.seen)]


def $apart(job):
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(source)
            space = {"__name__": job["module"] + "_"}
            if not job["bare"]:
                exec(compile($plain, job["file"], "exec"), space)
            said = $bare(job) if job["bare"] else space["$play"](job)
            import json

            os.write(sink, json.dumps(said).encode())
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def $work():
    known = {"inf": float("inf"), "nan": float("nan")}
    heard = [$apart(job) for job in eval($plays, known)]
    asked = eval($questions, known)
    answers = [[$ask(*one) for one in asked] for _ in range(2)]
    import base64
    import json

    played = [json.loads(one) if one else ["SystemExit", "", []] for one in heard]
    print("\\n$mark" + base64.b64encode(json.dumps([answers, played]).encode()).decode() + "$mark")
""")


class Play(Record):
    """One test: what the script is told without a runner and beside one, and what it is asked for something else by."""

    id: str
    alone: Mapping[str, Any]
    beside: Mapping[str, Any]
    other: Mapping[str, Any] | None
    key: str
    told: str
    bare: bool
    """Whether it takes nothing from a runner."""

    def asks_anything(self, true: Sequence[Any], other: Sequence[Any] | None) -> bool:
        """Whether it passed as it is and also when it looked another value up."""
        return other is not None and not true[0] and not other[0] and self.key in other[2]


def script(work: str, mark: str, seconds: float, asked: str, jobs: str) -> str:
    """The text that asks and plays; whoever reads it finds no name that was there before."""
    words = {name: random_word() for name in ("said", "late", "count", "ask", "looked", "bare", "apart")}
    text, names = _disguised()
    return SCRIPT.substitute(
        words,
        plain=repr(text),
        play=names["play"],
        work=work,
        mark=mark,
        seconds=seconds,
        questions=repr(repr(json.loads(asked))),
        plays=repr(repr(json.loads(jobs))),
    )


def play_of(texts: Mapping[str, str], name: str, chance: random.Random) -> Play | None:
    """A test of this file; None where it cannot be read."""
    path, _, test = name.partition("::")
    path = path.partition(":")[2]
    *owners, last = test.split("::")
    pool, take = questions.new_name(), questions.new_name()
    made = questions.pool_constants(texts.get(path, ""), [test], pool) if len(owners) < 2 else None  # noqa: PLR2004 - a class in a class
    if made is None:
        return None
    before = [_taken(texts[at], take) for at in _above(path) if at in texts]
    tree = _taking(ast.parse(made.text), take)
    owner: Any = next((one for one in tree.body if isinstance(one, ast.ClassDef) and owners == [one.name]), tree)
    node = next((one for one in owner.body if isinstance(one, ast.FunctionDef) and one.name == last), None)
    if node is None or (owners and owner is tree):
        return None
    job: dict[str, Any] = {
        "before": before,
        "file": path,
        "module": random_word(),
        "owner": "".join(owners),
        "pool": pool,
        "take": take,
    }
    job |= {"values": made.constants, "name": last, "text": ast.unparse(tree)}
    bare = owner is tree and not node.decorator_list and not any(vars(node.args).values()) and take not in job["text"]
    job["bare"] = bare and not before and "setup_" not in job["text"]
    node.name = random_word()
    alone = {**job, "name": node.name, "text": ast.unparse(tree)}
    found = Play(id=name, alone=alone, beside=job, other=None, key="", told="", bare=bare)
    keys = list(dict.fromkeys(made.wanted.get(test, ())))
    chance.shuffle(keys)
    for key in keys:
        value = made.constants[key]
        kin = values.kin_of(bytes(value[0]) if isinstance(value, list) else value, chance)
        if kin is not None:
            held = {**made.constants, key: [list(kin)] if isinstance(kin, bytes) else kin}
            return found._replace(other={**alone, "values": held}, key=key, told=repr(value)[:60])
    return found


def _above(path: str) -> list[str]:
    """Where files of fixtures for this one can lie, the outermost first."""
    at, found = os.path.dirname(path), []
    while at:
        found.append(f"{at}/conftest.py")
        at = os.path.dirname(at)
    return ["conftest.py", *reversed(found)]


def _taken(text: str, take: str) -> str:
    try:
        return ast.unparse(_taking(ast.parse(text), take))
    except (SyntaxError, ValueError, RecursionError):
        return ""


def _taking(tree: ast.Module, take: str) -> ast.Module:
    made: ast.Module = ast.fix_missing_locations(_Taking(take).visit(tree))
    return made


class _Taking(ast.NodeTransformer):
    """What a test imports of its runner it takes from what stands in for it."""

    def __init__(self, take: str) -> None:
        self._take = take

    def _from(self, *names: str) -> ast.expr:
        return ast.Call(func=ast.Name(self._take, ast.Load()), args=[ast.Constant(one) for one in names], keywords=[])

    def visit_Import(self, node: ast.Import) -> Any:
        found: list[ast.stmt] = []
        for one in node.names:
            top = one.name.partition(".")[0]
            if top not in _RUNNERS:
                found.append(ast.Import([one]))
                continue
            name = ast.Name(one.asname or top, ast.Store())
            found.append(ast.Assign([name], self._from(one.name if one.asname else top)))
            found += [] if one.asname or one.name == top else [ast.Expr(self._from(one.name))]
        return found

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if node.level or (node.module or "").partition(".")[0] not in _RUNNERS:
            return node
        return [
            ast.Assign([ast.Name(one.asname or one.name, ast.Store())], self._from(node.module or "", one.name))
            for one in node.names
        ]


@cache
def _read() -> str:
    with open(plain.__file__, encoding="utf-8") as file:
        return file.read()


def _disguised() -> tuple[str, dict[str, str]]:
    """The text of what stands in, under other names, and those."""
    tree = ast.parse(_read())
    names = {one.name: random_word() for one in tree.body if isinstance(one, (ast.FunctionDef, ast.ClassDef))}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node in tree.body:
            node.name = names[node.name]
        elif isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return ast.unparse(tree), names
