"""Numbers that two sides give out without knowing of each other: the next id, the next step, the next migration."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
