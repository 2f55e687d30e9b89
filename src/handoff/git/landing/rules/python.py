"""Python to which both sides only add: imports, definitions, plain assignments, elements of literals. Anything else is refused."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_PREFIX = re.compile(r"^(\d{2,})[-_.]")


def same_numbers(mine: Iterable[ast.AST | None], yours: Iterable[ast.AST | None]) -> bool:
    """Whether both sides' additions carry one number: as a value, or as the beginning of a name."""
    first = {number for node in mine if node is not None for number in _numbers(node)}
    return any(number in first for node in yours if node is not None for number in _numbers(node))


def number_prefix(name: str) -> str:
    """The number a name begins with, as migrations have it; empty without one."""
    found = _PREFIX.match(name)
    return found[1] if found else ""


def _numbers(node: ast.AST) -> Iterator[str]:
    for one in ast.walk(node):
        if not isinstance(one, ast.Constant) or isinstance(one.value, bool):
            continue
        if isinstance(one.value, int | float) and one.value:  # nobody gives out zero
            yield str(one.value)
        elif isinstance(one.value, str) and number_prefix(one.value):
            yield number_prefix(one.value)


_THREE = 3


class Element(NamedTuple):
    """One element as it is written, with the comment lines before it and what stands behind it on its line."""

    key: str
    text: str
    lead: tuple[str, ...] = ()
    note: str = ""
    node: ast.AST | None = None


class Literal(NamedTuple):
    """A literal taken apart: what stands before its first and behind its last element, and whether each has its line."""

    head: str
    elements: tuple[Element, ...]
    tail: str
    spread: bool
    indent: str = ""
    comma: bool = False


def merge_elements(*sides: tuple[ast.stmt, list[str]]) -> list[str] | None:
    """An assignment of a literal to which both add: its lines, or None."""
    apart = [_literal(node, lines) for node, lines in sides]
    return _merged(apart, numbers=True)


def merge_names(*sides: tuple[ast.stmt, list[str]]) -> list[str] | None:
    """A `from … import` to which both add names: its lines, or None."""
    apart = [_import(node, lines) for node, lines in sides]
    return _merged(apart, numbers=False)


def _merged(apart: Sequence[Literal | None], *, numbers: bool) -> list[str] | None:
    known = [one for one in apart if one is not None]
    if len(known) != _THREE:
        return None
    base, ours, theirs = known
    elements = _union(base, ours, theirs, numbers=numbers)
    if elements is None or not base.head == ours.head == theirs.head or not base.tail == ours.tail == theirs.tail:
        return None
    if not base.spread == ours.spread == theirs.spread:
        return None
    if all(_is_sorted(one.elements) for one in known):
        elements.sort(key=lambda one: one.text.casefold())
    if not base.spread:
        return [f"{base.head}{', '.join(one.text for one in elements)}{base.tail}"]
    lines = [base.head]
    for at, one in enumerate(elements):
        comma = "," if at + 1 < len(elements) or ours.comma or theirs.comma else ""
        lines += [*one.lead, f"{base.indent}{one.text}{comma}{one.note}\n"]
    return [*lines, base.tail]


def _union(base: Literal, ours: Literal, theirs: Literal, *, numbers: bool) -> list[Element] | None:
    keys = [[one.key for one in side.elements] for side in (base, ours, theirs)]
    if any(len(set(side)) != len(side) for side in keys):
        return None
    if any([key for key in side if key in keys[0]] != keys[0] for side in keys[1:]):
        return None  # gone, or in another order
    values = [{one.key: (one.text, one.lead, one.note) for one in side.elements} for side in (base, ours, theirs)]
    if any(side[key] != values[0][key] for side in values[1:] for key in keys[0]):
        return None
    both = (set(keys[1]) & set(keys[2])) - set(keys[0])
    if any(values[1][key] != values[2][key] for key in both):
        return None
    new = [[one for one in side.elements if one.key not in keys[0]] for side in (ours, theirs)]
    apart = [[one.node for one in side if one.key not in both] for side in new]
    if numbers and same_numbers(*apart):
        return None
    merged: list[Element] = []
    mine, yours = _by_gap(keys[0], ours), _by_gap(keys[0], theirs)
    for at in range(len(keys[0]) + 1):
        seen = {one.key for one in mine[at]}
        merged += [*mine[at], *(one for one in yours[at] if one.key not in seen)]
        merged += base.elements[at : at + 1]
    return merged if len({one.key for one in merged}) == len(merged) else None


def _by_gap(base: Sequence[str], side: Literal) -> list[list[Element]]:
    gaps: list[list[Element]] = [[]]
    for one in side.elements:
        if one.key in base:
            gaps.append([])
        else:
            gaps[-1].append(one)
    return gaps


def _is_sorted(elements: Sequence[Element]) -> bool:
    words = [one.text.casefold() for one in elements]
    return words == sorted(words)


# --- taking apart ------------------------------------------------------------------------------------------


def _literal(node: ast.stmt, lines: list[str]) -> Literal | None:
    value = getattr(node, "value", None)
    if isinstance(value, ast.Dict):
        if any(key is None for key in value.keys):
            return None  # what `**other` brings is not known
        pairs = [(key, item) for key, item in zip(value.keys, value.values, strict=True) if key is not None]
        spans = [(ast.dump(key), key, item) for key, item in pairs]
    elif isinstance(value, ast.List | ast.Set | ast.Tuple):
        items = value.elts
        if isinstance(value, ast.Tuple) and not all(_is_word(one) for one in items):
            return None  # a pair, a version, a point: its length means something
        if any(_is_number(one) for one in items):
            return None
        spans = [(ast.dump(one), one, one) for one in items]
    else:
        return None
    return _apart(node, lines, spans)


def _import(node: ast.stmt, lines: list[str]) -> Literal | None:
    if not isinstance(node, ast.ImportFrom) or any(one.name == "*" for one in node.names):
        return None
    return _apart(node, lines, [(one.asname or one.name, one, one) for one in node.names])


def _is_word(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _apart(node: ast.stmt, lines: list[str], spans: Sequence[tuple[str, ast.AST, ast.AST]]) -> Literal | None:
    """The elements of a literal on one line, or each on a line of its own; any other layout is not known."""
    if not spans:
        return None
    shift = node.lineno
    places = [
        (key, getattr(first, "lineno", 0) - shift, getattr(first, "col_offset", 0), last, first)
        for key, first, last in spans
    ]
    if len(lines) == 1:
        return _on_one_line(lines[0], places)
    rows = [row for _, row, _, _, _ in places]
    if rows[0] == 0 or len(set(rows)) != len(rows):
        return None
    return _on_lines(lines, shift, places)


def _on_one_line(line: str, places: Sequence[tuple[str, int, int, ast.AST, ast.AST]]) -> Literal | None:
    raw = line.encode()
    if "#" in line:
        return None
    cuts = [(column, getattr(last, "end_col_offset", 0)) for _, _, column, last, _ in places]
    texts = [raw[start:end].decode() for start, end in cuts]
    between = [raw[end:start].decode() for (_, end), (start, _) in pairwise(cuts)]
    if any(one != ", " for one in between):
        return None
    elements = tuple(Element(place[0], text, node=place[3]) for place, text in zip(places, texts, strict=True))
    head, tail = raw[: cuts[0][0]].decode(), raw[cuts[-1][1] :].decode()
    return Literal(head=head, elements=elements, tail=tail, spread=False)


def _on_lines(lines: list[str], shift: int, places: Sequence[tuple[str, int, int, ast.AST, ast.AST]]) -> Literal | None:
    elements, at = [], 1
    indent = lines[places[0][1]][: len(lines[places[0][1]]) - len(lines[places[0][1]].lstrip())]
    comma = False
    for key, row, column, last, _ in places:
        end = (getattr(last, "end_lineno", 0) or 0) - shift
        lead = lines[at:row]
        if any(line.strip() and not line.lstrip().startswith("#") for line in lead):
            return None
        if not lines[row].startswith(indent) or len(indent.encode()) != column:
            return None
        stop = getattr(last, "end_col_offset", 0)
        rest = lines[end].encode()[stop:].decode().rstrip("\n")
        comma = rest.startswith(",")
        note = rest.removeprefix(",")
        if note.strip() and not note.lstrip().startswith("#"):
            return None
        body = "".join(lines[row : end + 1]).encode()
        size = len(body) - len(lines[end].encode()[stop:])
        elements.append(Element(key, body[len(indent.encode()) : size].decode(), tuple(lead), note, last))
        at = end + 1
    tail = "".join(lines[at:])
    if tail.strip() not in (")", "]", "}"):
        return None
    return Literal(head=lines[0], elements=tuple(elements), tail=tail, spread=True, indent=indent, comma=comma)


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
        body = [ast.increment_lineno(one, -shift) for one in node.body]  # counted from the unit's first line
        bodies.append(_units(body, unit.lines, head, len(unit.lines)))
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
