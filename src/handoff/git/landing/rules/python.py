"""Python to which both sides only add: imports, definitions, plain assignments, elements of literals. Anything else is refused."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from handoff.git.landing.rules.literals import merge_elements, merge_names
from handoff.git.landing.rules.numbers import same_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_LITERALS = (ast.List, ast.Tuple, ast.Set, ast.Dict)
_TAIL = "the end"


class Unit(NamedTuple):
    """One statement with the comments and empty lines before it; the last unit of a body is what stands behind it all."""

    key: str
    lines: tuple[str, ...]
    node: ast.stmt | None

    @property
    def bare(self) -> tuple[str, ...]:
        """Without the empty lines around: they are layout."""
        text = "".join(self.lines).strip("\n")
        return tuple(text.split("\n"))


class _Refused(Exception):
    """The rule is not sure."""


def merge_python(base: str, ours: str, theirs: str) -> str | None:
    """Both sides' additions in one file; None unless it is proven that neither lost or changed anything of the other."""
    try:
        bodies = [_units_of_module(text) for text in (base, ours, theirs)]
        merged = _merge(*bodies)
        text = "".join(line for unit in merged for line in unit.lines)
        _prove(text, merged, (base, ours, theirs))
    except (_Refused, SyntaxError, ValueError, tokenize.TokenError, RecursionError):
        return None
    return text


# --- units -------------------------------------------------------------------------------------------


def _units_of_module(text: str) -> list[Unit]:
    if text and not text.endswith("\n"):
        raise _Refused
    return _units(ast.parse(text).body, text.splitlines(keepends=True), 0, len(text.splitlines()))


def _units(body: Sequence[ast.stmt], lines: Sequence[str], start: int, end: int) -> list[Unit]:
    """A body cut into its statements, each with what stands before it; two on one line are refused."""
    found, at = [], start
    for node in body:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))]) - 1
        last = node.end_lineno or 0
        if first < at or last > end:
            raise _Refused
        found.append(Unit(_key(node), tuple(lines[at:last]), node))
        at = last
    found.append(Unit(_TAIL, tuple(lines[at:end]), None))
    keys = [unit.key for unit in found]
    if len(set(keys)) != len(keys):
        raise _Refused
    return found


def _key(node: ast.stmt) -> str:
    if isinstance(node, _DEFINITIONS):
        decorated = ",".join(sorted(ast.dump(one) for one in node.decorator_list if isinstance(one, ast.Attribute)))
        return f"def {node.name} {decorated}"  # a property has a getter and a setter of one name
    if isinstance(node, ast.ImportFrom):
        return f"from {'.' * node.level}{node.module or ''}"
    targets = _targets(node)
    return f"= {','.join(targets)}" if targets else ast.dump(node)


def _targets(node: ast.stmt) -> list[str]:
    """The names a plain assignment binds; none for any other statement."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    if isinstance(node, ast.Assign) and all(isinstance(one, ast.Name) for one in node.targets):
        return [one.id for one in node.targets if isinstance(one, ast.Name)]
    return []


def _bound(node: ast.stmt | None) -> list[str]:
    """The names a statement binds in its body."""
    if isinstance(node, _DEFINITIONS):
        return [node.name]
    if isinstance(node, _IMPORTS):
        return [(one.asname or one.name).partition(".")[0] for one in node.names]
    return _targets(node) if node is not None else []


# --- the merge ---------------------------------------------------------------------------------------


def _merge(base: list[Unit], ours: list[Unit], theirs: list[Unit]) -> list[Unit]:
    mine, yours = _added(base, ours), _added(base, theirs)
    known = [{unit.key: unit for unit in side} for side in (ours, theirs)]
    merged: list[Unit] = []
    for at, unit in enumerate(base):
        merged += _gap(mine.get(at, []), yours.get(at, []))
        merged.append(_one(unit, known[0][unit.key], known[1][unit.key]))
    _refuse_twice(merged, mine, yours)
    return merged


def _added(base: list[Unit], side: list[Unit]) -> dict[int, list[Unit]]:
    """What a side added, by the unit of the base before which it stands; nothing may be gone or elsewhere."""
    places = {unit.key: at for at, unit in enumerate(base)}
    found: dict[int, list[Unit]] = {}
    waiting: list[Unit] = []
    expected = 0
    for unit in side:
        at = places.get(unit.key)
        if at is None:
            if not isinstance(unit.node, (*_DEFINITIONS, *_IMPORTS)) and not _targets_of(unit):
                raise _Refused
            waiting.append(unit)
            continue
        if at != expected:
            raise _Refused
        found[at], waiting, expected = waiting, [], expected + 1
    if expected != len(base) or waiting:
        raise _Refused
    return found


def _targets_of(unit: Unit) -> list[str]:
    return _targets(unit.node) if unit.node is not None else []


def _gap(mine: list[Unit], yours: list[Unit]) -> list[Unit]:
    """What both put in one place: the one's, then the other's; imports stay together where they came first on both sides."""
    twins = {unit.key: unit for unit in mine}
    for unit in yours:
        if unit.key in twins and twins[unit.key].bare != unit.bare:
            raise _Refused
    new = [unit for unit in yours if unit.key not in twins]
    sides = [mine, new]
    if all(_imports_first(side) for side in sides):
        first = [unit for side in sides for unit in side if isinstance(unit.node, _IMPORTS)]
        return first + [unit for side in sides for unit in side if not isinstance(unit.node, _IMPORTS)]
    return [*mine, *new]


def _imports_first(units: list[Unit]) -> bool:
    kinds = [not isinstance(unit.node, _IMPORTS) for unit in units]
    return kinds == sorted(kinds)


def _one(base: Unit, ours: Unit, theirs: Unit) -> Unit:
    """A statement of the base as it is now: changed by one side alone, or one to whose inside both add."""
    if theirs.bare == base.bare:
        return ours
    if ours.bare in (base.bare, theirs.bare):
        return theirs
    nodes = (base.node, ours.node, theirs.node)
    if all(isinstance(node, ast.ClassDef) for node in nodes):
        return _class(base, ours, theirs)
    if all(isinstance(node, ast.ImportFrom) for node in nodes):
        return ours._replace(lines=_lead(base, ours, theirs) + _or_refuse(merge_names(*_own(base, ours, theirs))))
    values = [getattr(node, "value", None) for node in nodes]
    if all(_targets_of(unit) for unit in (base, ours, theirs)) and all(isinstance(one, _LITERALS) for one in values):
        return ours._replace(lines=_lead(base, ours, theirs) + _or_refuse(merge_elements(*_own(base, ours, theirs))))
    raise _Refused


def _class(base: Unit, ours: Unit, theirs: Unit) -> Unit:
    """A class to whose body both add; its head must be the same everywhere."""
    heads, bodies = [], []
    for unit in (base, ours, theirs):
        node = unit.node
        if not isinstance(node, ast.ClassDef) or node.body[0].lineno == node.lineno:
            raise _Refused
        end = node.end_lineno or 0
        shift = end - len(unit.lines)
        first = min([node.body[0].lineno, *(one.lineno for one in getattr(node.body[0], "decorator_list", ()))])
        head = _last_of_head(unit, node, first, shift)
        heads.append(tuple(line for line in unit.lines[:head] if line.strip()))
        bodies.append(_units(_shifted(node.body, shift), unit.lines, head, len(unit.lines)))
    if not heads[0] == heads[1] == heads[2]:
        raise _Refused
    merged = _merge(*bodies)
    _refuse_bare_after_default(merged, bodies)
    head = len(ours.lines) - sum(len(unit.lines) for unit in bodies[1])
    return ours._replace(lines=(*ours.lines[:head], *(line for unit in merged for line in unit.lines)))


def _last_of_head(unit: Unit, node: ast.ClassDef, first: int, shift: int) -> int:
    """How many lines of a unit come before the body: up to the line that ends in the colon."""
    at = first - 1 - shift
    start = node.lineno - 1 - shift
    while at > start + 1 and (not unit.lines[at - 1].strip() or unit.lines[at - 1].lstrip().startswith("#")):
        at -= 1
    return at


def _shifted(body: list[ast.stmt], shift: int) -> list[ast.stmt]:
    """The statements with line numbers that count from the unit's first line."""
    return [ast.increment_lineno(one, -shift) for one in body]


def _lead(base: Unit, ours: Unit, theirs: Unit) -> tuple[str, ...]:
    """The comments before a statement, which both must have left alone."""
    leads = []
    for unit in (base, ours, theirs):
        size = (unit.node.end_lineno or 0) - unit.node.lineno + 1 if unit.node is not None else 0
        leads.append(unit.lines[: len(unit.lines) - size])
    if len({tuple(line for line in lead if line.strip()) for lead in leads}) != 1:
        raise _Refused
    return leads[1]


def _own(*units: Unit) -> list[tuple[ast.stmt, list[str]]]:
    """Each statement with its own lines."""
    found = []
    for unit in units:
        if unit.node is None:
            raise _Refused
        size = (unit.node.end_lineno or 0) - unit.node.lineno + 1
        found.append((unit.node, list(unit.lines[len(unit.lines) - size :])))
    return found


def _or_refuse(lines: list[str] | None) -> tuple[str, ...]:
    if lines is None:
        raise _Refused
    return tuple(lines)


# --- the proof ---------------------------------------------------------------------------------------


def _refuse_twice(merged: list[Unit], mine: dict[int, list[Unit]], yours: dict[int, list[Unit]]) -> None:
    """No added name may be bound a second time, and no number may be given out by both sides."""
    sides = [[unit for units in side.values() for unit in units] for side in (mine, yours)]
    names = Counter(name for unit in merged for name in _bound(unit.node))
    if any(names[name] > 1 for side in sides for unit in side for name in _bound(unit.node)):
        raise _Refused
    keys = {unit.key for unit in sides[0]} & {unit.key for unit in sides[1]}
    assigned = [[unit.node for unit in side if unit.key not in keys and _targets_of(unit)] for side in sides]
    if same_numbers(*assigned):
        raise _Refused


def _refuse_bare_after_default(merged: list[Unit], bodies: Sequence[list[Unit]]) -> None:
    """Fields of a record: one without a value may not come behind one with a value because of us."""
    if _is_disordered(merged) and not any(_is_disordered(body) for body in bodies):
        raise _Refused


def _is_disordered(units: Sequence[Unit]) -> bool:
    given = [unit.node.value is not None for unit in units if isinstance(unit.node, ast.AnnAssign)]
    return given != sorted(given)


def _prove(text: str, merged: list[Unit], sides: tuple[str, str, str]) -> None:
    """The text read again says the same units, and every comment of both sides stands in it."""
    again = _units_of_module(text)
    if [(unit.key, unit.bare) for unit in again] != [(unit.key, unit.bare) for unit in merged]:
        raise _Refused
    base, ours, theirs = (Counter(_comments(side)) for side in sides)
    found = Counter(_comments(text))
    for comment in {*base, *ours, *theirs, *found}:
        wanted = ours[comment] + theirs[comment] - base[comment]
        both = ours[comment] == theirs[comment]
        if found[comment] != wanted and not (both and found[comment] == ours[comment]):
            raise _Refused


def _comments(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
