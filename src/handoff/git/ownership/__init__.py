"""Which paths a session owns: the pattern language, and where two patterns meet."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.ownership.patterns import (
    EXACT,
    GLOB,
    PREFIX,
    Deep,
    Fold,
    GlobIndex,
    Rule,
    bases,
    read,
    regex,
    to_bytes,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Mapping


class Overlap(Record):
    """Two owners whose patterns both name `example`, which need not exist."""

    a: str
    pattern_a: str
    b: str
    pattern_b: str
    example: bytes

    @property
    def shown(self) -> str:
        return os.fsdecode(self.example)


class _Side:
    """All rules of one sign, indexed: names by hash, folders by ancestor, globs by folder and fixed ending."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self.names = {rule.path: rule for rule in self.rules if rule.kind == EXACT}
        self.folders = {rule.path: rule for rule in self.rules if rule.kind == PREFIX}
        self.globs: GlobIndex = GlobIndex()
        self._compiled: dict[Rule, re.Pattern[bytes]] = {}
        for rule in self.rules:
            if rule.kind == GLOB:
                self.globs.add(rule, rule)

    def find(self, path: bytes) -> Rule | None:
        """The rule that names `path` (already folded), or None."""
        rule = self.names.get(path)
        if rule or not (self.folders or self.globs):
            return rule
        for base in bases(path)[1:] if self.folders else ():
            if rule := self.folders.get(base):
                return rule
        found: Rule
        for found in self.globs.near(path):
            if self._matches(found, path):
                return found
        return None

    def holds_folder(self, folder: bytes) -> Rule | None:
        """The rule that names everything below `folder` (with its slash), or None."""
        for base in (*bases(folder), folder):
            if rule := self.folders.get(base):
                return rule
        found: Rule
        for found in self.globs.reaching(folder):
            if isinstance(found.parts[-1], Deep) and self._matches(found, folder + b"x"):
                return found
        return None

    def _matches(self, rule: Rule, path: bytes) -> bool:
        compiled = self._compiled.get(rule)
        if compiled is None:
            compiled = self._compiled[rule] = regex(rule)
        return compiled.match(path) is not None


class Ownership:
    """What a session may change. A path is its own if a pattern names it and no `!pattern` does."""

    def __init__(self, owned: Iterable[Rule], excluded: Iterable[Rule], fold: Fold) -> None:
        self.fold = fold
        self._owned = _Side(owned)
        self._excluded = _Side(excluded)

    @classmethod
    def parse(
        cls, patterns: Iterable[str | bytes], *, ignore_case: bool = False, ignore_form: bool = False
    ) -> Ownership:
        """From written patterns; the flags are for disks where twins are one file."""
        fold = Fold(ignore_case, ignore_form)
        owned: list[Rule] = []
        excluded: list[Rule] = []
        for pattern in patterns:
            excludes, rules = read(pattern, fold)
            (excluded if excludes else owned).extend(rules)
        if excluded and not owned:
            raise UserError(
                f"The ownership only excludes: '{excluded[0].pattern}'.",
                "Name what is owned first, for example '**' and then the exclusions.",
            )
        return cls(owned, excluded, fold)

    @classmethod
    def joined(cls, owners: Iterable[Ownership]) -> list[Ownership]:
        """Few ownerships that own what these own together: those that take nothing out become one, which is quicker to ask."""
        owners = list(owners)
        plain = [rule for one in owners if not one.exclusions for rule in one.rules]
        return [cls(plain, (), Fold()), *(one for one in owners if one.exclusions)]

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self._owned.rules

    @property
    def exclusions(self) -> tuple[Rule, ...]:
        return self._excluded.rules

    @property
    def reach(self) -> dict[str, bool]:
        """The files, and the folders (with a slash; empty: the whole repository), outside of which nothing is owned.

        Each with whether all there is owned: where something is taken out again, nobody can say so at once.
        """
        # A glob comes after the path that is spelled like it and stands for both: that path lies in the glob's folder,
        # or it is spelled with the backslash of an escape, and nobody means such a name.
        found: dict[str, bool] = {}
        for rule in {rule.pattern: rule for rule in self.rules}.values():
            path = os.fsdecode(rule.reach)
            found[path] = found.get(path, False) or (rule.is_whole and not self.exclusions)
        return found

    def __bool__(self) -> bool:
        return bool(self._owned.rules)

    def covers(self, path: str | bytes) -> bool:
        """Whether the path (relative to the top; a trailing slash asks for the whole folder) is owned."""
        name = self._name(path)
        if name is None:
            return False
        if name.endswith(b"/"):
            return not self._excluded.rules and self._owned.holds_folder(name) is not None
        return self._owned.find(name) is not None and self._excluded.find(name) is None

    def beyond(self, other: Ownership) -> str:
        """A path that this one owns and the other does not, perhaps one that does not exist yet; empty where there is none."""
        from handoff.git.ownership.overlap import meeting

        anything = Ownership.parse(["**"]).rules[-1]
        for rule in self.rules:
            found = meeting(rule, anything, (*self.exclusions, *other.rules))
            for taken_out in () if found is not None else other.exclusions:
                found = found or meeting(rule, taken_out, self.exclusions)
            if found is not None:
                return os.fsdecode(found)
        return ""

    def _name(self, path: str | bytes) -> bytes | None:
        raw = to_bytes(path)
        if raw.startswith(b"/") or not raw or b"\0" in raw:
            return None
        parts = raw.split(b"/")
        if b"" in parts[:-1] or b"." in parts:
            parts = [part for index, part in enumerate(parts) if part != b"." and (part or index == len(parts) - 1)]
        if b".." in parts or not any(parts) or any(part.lower() == b".git" for part in parts):
            return None
        return self.fold(b"/".join(parts))


def overlaps(named: Mapping[str, Ownership], *, limit: int = 1000) -> list[Overlap]:
    """The pairs of owners that could write the same path, judged on the patterns; at most `limit`."""
    from handoff.git.ownership.overlap import search

    owners = {name: (owned.rules, owned.exclusions) for name, owned in named.items()}
    return [Overlap(a, one.pattern, b, two.pattern, example) for a, one, b, two, example in search(owners, limit)]
