"""Clean merges that may be wrong all the same: a name gone here and called there, one number twice. Told, never in the way."""

from __future__ import annotations

import ast
import os
from collections import Counter
from difflib import SequenceMatcher
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from handoff.git.landing.merge import many_differences
from handoff.git.landing.rules import is_made
from handoff.git.landing.rules.python import number_prefix
from handoff.git.plumbing.objects import POINTER, fetch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from handoff.git.landing.merge import Member, Merged
    from handoff.git.plumbing.objects import Difference
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

    ChangeKey = tuple[tuple[str, str, str], ...]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Names that so many things have that a call says nothing about which one is meant.
_COMMON = frozenset(
    """get set add pop run main name read write open close start stop update items keys values copy clear append join format
    load save send next test setup create delete remove check find parse render show call apply""".split()
)


class PythonFacts(NamedTuple):
    """Names by where they stand: gone, asking for other arguments, with another body, and used in new lines."""

    gone: Mapping[str, str]
    resigned: Mapping[str, str]
    changed: Mapping[str, str]
    used: Mapping[str, str]


class _Definition(NamedTuple):
    arguments: str
    body: str


def facts_of(pairs: Mapping[str, tuple[bytes, bytes]]) -> PythonFacts:
    """The facts of one change: each path with its bytes before and after. Files that do not parse tell nothing."""
    before: dict[str, tuple[str, _Definition]] = {}
    after: dict[str, tuple[str, _Definition]] = {}
    used: dict[str, str] = {}
    for path, (old, new) in pairs.items():
        old_tree, new_tree = _parsed(old), _parsed(new)
        if old_tree is None or new_tree is None:
            continue
        there = _definitions(old_tree)
        before.update((name, (path, one)) for name, one in there.items())
        own = _definitions(new_tree)
        after.update((name, (path, one)) for name, one in own.items())
        for name in _used(new_tree, _new_lines(old, new)):
            if name not in own or name in there:  # a name of its own making is nobody else's
                used.setdefault(name, path)
    gone = {name: path for name, (path, _) in before.items() if name not in after}
    kept = {name: (path, one, after[name][1]) for name, (path, one) in before.items() if name in after}
    resigned = {
        name: path for name, (path, old_one, one) in kept.items() if _asks_more(old_one.arguments, one.arguments)
    }
    changed = {name: path for name, (path, old_one, one) in kept.items() if old_one.body != one.body}
    return PythonFacts(gone, resigned, changed, used)


def twice_defined(data: bytes) -> set[str]:
    """Functions and classes that stand twice in one scope, without a decorator that could mean it."""
    tree = _parsed(data)
    if tree is None:
        return set()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            names = Counter(
                one.name for one in node.body if isinstance(one, (*_FUNCTIONS, ast.ClassDef)) and not one.decorator_list
            )
            where = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
            found |= {f"{where}{name}" for name, count in names.items() if count > 1}
    return found


def _parsed(data: bytes) -> ast.Module | None:
    try:
        return ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _definitions(tree: ast.Module) -> dict[str, _Definition]:
    """Functions, classes and methods by their bare name: a call does not say more."""
    found = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef):
            continue
        for one in node.body:
            if isinstance(one, _FUNCTIONS) and not one.name.startswith("__") and one.name not in _COMMON:
                found[one.name] = _Definition(_arguments(one), ast.dump(ast.Module(one.body, [])))
            elif isinstance(one, ast.ClassDef):
                found[one.name] = _Definition("", "")
    return found


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Every parameter by its name; one that may be left out has a mark."""
    args = node.args
    plain = [*args.posonlyargs, *args.args]
    free = len(plain) - len(args.defaults)
    words = [one.arg + ("?" if at >= free else "") for at, one in enumerate(plain)]
    words += [f"*{one.arg}{'?' if value else ''}" for one, value in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    words += ["**?"] if args.vararg or args.kwarg else []
    return " ".join(words)


def _asks_more(old: str, new: str) -> bool:
    """Whether a call that was right may be wrong now: only parameters one may leave out are harmless at the end."""
    before, after = old.split(), new.split()
    if after[: len(before)] == before:
        return any(not word.endswith("?") for word in after[len(before) :])
    return before != after


def _new_lines(old: bytes, new: bytes) -> set[int]:
    """The numbers of the lines that were not there before."""
    before, after = (text.decode("utf-8", "replace").splitlines() for text in (old, new))
    start = _alike(before, after)
    same = _alike(before[start:][::-1], after[start:][::-1])
    before, after = before[start : len(before) - same], after[start : len(after) - same]
    found: set[int] = set()
    for kind, _, _, low, high in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind in ("insert", "replace"):
            found.update(range(start + low + 1, start + high + 1))
    return found


def _alike(one: list[str], other: list[str]) -> int:
    """How many lines two texts begin with together."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _used(tree: ast.Module, lines: set[int]) -> Iterator[str]:
    """Names that are called or imported on these lines."""
    for node in ast.walk(tree):
        if getattr(node, "lineno", 0) not in lines:
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (one.name for one in node.names)


_THE_TARGET = "the target branch"
_LARGEST = 300_000  # of bytes: longer files are not read for this
_MOST = 50


class Doubt(NamedTuple):
    """Why a clean merge may be wrong: where, between whom, and what to look at; a note is only worth knowing."""

    path: str
    first: str
    second: str
    what: str
    note: bool = False


class _Side(NamedTuple):
    """What one member changed, as far as doubts need it."""

    name: str
    changed: dict[str, Difference]
    facts: PythonFacts


def doubts_of(
    store: SnapshotRepo, members: Sequence[Member], merged: Merged, *, known: dict[ChangeKey, PythonFacts] | None = None
) -> tuple[Doubt, ...]:
    """What to look at between the members that joined, and between them and what came on the target meanwhile.

    Who looks again and again keeps in `known` what was read of each change.
    """
    joined = {step.member for step in merged.steps}
    there = [member for member in members if member.name in joined]
    bases = {member.base for member in there if member.base != merged.old and not member.whole}
    pairs = [(member.base, member.commit) for member in there] + [(base, merged.old) for base in sorted(bases)]
    if len(pairs) < 2:  # noqa: PLR2004 - one alone meets nobody
        return ()
    names = [*(member.name for member in there), *(_THE_TARGET for _ in bases)]
    changed = list(zip(names, many_differences(store, pairs), strict=True))
    texts = _texts(store, [one for _, found in changed for one in found])
    known = {} if known is None else known
    sides = [_side(name, found, texts, known) for name, found in changed]
    settled = {one.path for one in merged.settled}
    made = [one for one in _made(sides, texts) if one.path not in settled]
    found = dict.fromkeys([*_names(sides), *_numbers(sides), *made, *_twice(store, sides, merged, texts)])
    return tuple(sorted(found, key=lambda one: (one.note, one.path, one.what)))[:_MOST]


def _texts(store: SnapshotRepo, changed: Sequence[Difference]) -> dict[str, bytes]:
    """The bytes of every file that must be read, in one question."""
    paths = Counter(one.path for one in changed)
    shas = {sha for one in changed if one.path.endswith(".py") for sha in (one.old, one.sha)}
    shas |= {one.sha for one in changed if paths[one.path] > 1 and one.mode != POINTER}
    wanted = sorted(sha for sha in shas if sha.strip("0"))
    found = fetch(store, wanted) if wanted else []
    return {one.sha: one.data for one in found if one.kind == "blob" and len(one.data) <= _LARGEST}


def _side(
    name: str, changed: Sequence[Difference], texts: dict[str, bytes], known: dict[ChangeKey, PythonFacts]
) -> _Side:
    python = [one for one in changed if one.path.endswith(".py")]
    key = tuple((one.path, one.old, one.sha) for one in python)
    if key not in known:
        known[key] = facts_of({one.path: (texts.get(one.old, b""), texts.get(one.sha, b"")) for one in python})
    return _Side(name, {one.path: one for one in changed}, known[key])


# --- what can be wrong -----------------------------------------------------------------------------------


def _names(sides: Sequence[_Side]) -> Iterator[Doubt]:
    """A name that is gone, or asks for other arguments, on one side, and stands in new lines of another."""
    for one in sides:
        lost = {**one.facts.changed, **one.facts.resigned, **one.facts.gone}
        for other in sides:
            if other is one or (one.name, other.name) == (_THE_TARGET, _THE_TARGET):
                continue
            for name in lost.keys() & other.facts.used.keys():
                where, place = lost[name], other.facts.used[name]
                if name in one.facts.gone:
                    what = f"{name}() is gone from {where}, and new lines here use it"
                elif name in one.facts.resigned:
                    what = f"{name}() in {where} takes other arguments now, and new lines here call it"
                else:
                    what = f"the body of {name}() in {where} has changed, and new lines here call it"
                yield Doubt(place, one.name, other.name, what, note=name not in {*one.facts.gone, *one.facts.resigned})


def _numbers(sides: Sequence[_Side]) -> Iterator[Doubt]:
    """Two new files of one folder that begin with one number, as migrations do."""
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    for side in sides:
        for path, one in side.changed.items():
            folder, name = os.path.split(path)
            number = number_prefix(name)
            if one.letter != "A" or not number:
                continue
            other, whose = seen.setdefault((folder, number), (path, side.name))
            if other != path and whose != side.name:
                yield Doubt(path, whose, side.name, f"the number {number} is given to {other} as well")


def _made(sides: Sequence[_Side], texts: dict[str, bytes]) -> Iterator[Doubt]:
    """A lock or a generated file that two have changed: lines of both do not make what the program would."""
    seen: dict[str, str] = {}
    for side in sides:
        for path, one in side.changed.items():
            whose = seen.setdefault(path, side.name)
            if whose != side.name and is_made(path, texts.get(one.sha, b"")):
                yield Doubt(
                    path, whose, side.name, "a program makes this file, and both changed it: let it be made again"
                )


def _twice(store: SnapshotRepo, sides: Sequence[_Side], merged: Merged, texts: dict[str, bytes]) -> Iterator[Doubt]:
    """One definition twice in a scope, where no side has it twice."""
    owners: dict[str, list[_Side]] = {}
    for side in sides:
        for path, one in side.changed.items():
            if path.endswith(".py") and one.letter != "D":
                owners.setdefault(path, []).append(side)
    shared = {path: several for path, several in owners.items() if len(several) > 1}
    if not shared:
        return
    tree = store.load(merged.new, [os.fsencode(path) for path in shared])
    for path, several in shared.items():
        entry = store.look_up(tree, os.fsencode(path))
        before = {name for side in several for name in twice_defined(texts.get(side.changed[path].sha, b""))}
        now = twice_defined(store.read(entry.sha)) if entry is not None else set()
        for name in sorted(now - before):
            yield Doubt(path, several[0].name, several[1].name, f"{name} is defined twice in one place")
