"""Globs found by the pieces of them that are fixed, so that one question looks at few of thousands."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.git.ownership.patterns import Rule, bases, beginning, ending

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class GlobIndex:
    """By folder, then by the lengths of the fixed beginning and ending, then by those pieces themselves."""

    def __init__(self) -> None:
        self._folders: dict[bytes, dict[tuple[int, int], dict[tuple[bytes, bytes], list[Any]]]] = {}

    def __bool__(self) -> bool:
        return bool(self._folders)

    def add(self, rule: Rule, value: Any) -> None:
        begin, end = beginning(rule), ending(rule)
        shapes = self._folders.setdefault(rule.base, {})
        shapes.setdefault((len(begin), len(end)), {}).setdefault((begin, end), []).append(value)

    def near(self, path: bytes) -> Iterator[Any]:
        """The globs whose fixed pieces `path` has."""
        for base in bases(path):
            for (head, tail), pieces in self._folders.get(base, {}).items():
                if head <= len(path) >= tail:
                    yield from pieces.get((path[:head], path[len(path) - tail :]), ())

    def reaching(self, folder: bytes) -> Iterator[Any]:
        """The globs of the folders above `folder` (with its slash) that may name something in it."""
        for base in bases(folder):
            for (head, _), pieces in self._folders.get(base, {}).items():
                for (begin, _), values in pieces.items() if head <= len(folder) else ():
                    if folder.startswith(begin):
                        yield from values
