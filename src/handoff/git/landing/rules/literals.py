"""Lists, sets, dictionaries and lists of imported names to which both sides add elements."""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from handoff.git.landing.rules.numbers import same_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

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
