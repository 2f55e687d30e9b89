"""Whose path is it? Patterns in, yes or no out. One matcher for plans, edits, commits and landings; nothing is read from disk."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.ownership.index import GlobIndex
from handoff.git.ownership.patterns import EXACT, GLOB, PREFIX, Deep, Fold, Rule, bases, make, read, regex, to_bytes

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Mapping

    Pattern = str | bytes | Mapping[str, str]

__all__ = ["Fold", "Overlap", "Ownership", "holders", "overlaps"]


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

    def __init__(self, owned: Iterable[Rule], excluded: Iterable[Rule] = (), fold: Fold = Fold()) -> None:  # noqa: B008 - a constant
        self.fold = fold
        self._owned = _Side(owned)
        self._excluded = _Side(excluded)

    @classmethod
    def parse(cls, patterns: Iterable[Pattern], *, ignore_case: bool = False, ignore_form: bool = False) -> Ownership:
        """From written patterns or the manifest's `{type, path}`; the flags are for disks where twins are one file."""
        fold = Fold(ignore_case, ignore_form)
        owned: list[Rule] = []
        excluded: list[Rule] = []
        for pattern in patterns:
            if isinstance(pattern, str | bytes):
                excludes, rules = read(pattern, fold)
            else:
                excludes, rules = False, (_from_manifest(pattern, fold),)
            (excluded if excludes else owned).extend(rules)
        if excluded and not owned:
            raise UserError(
                f"The ownership only excludes: '{excluded[0].pattern}'.",
                "Name what is owned first, for example '**' and then the exclusions.",
            )
        return cls(owned, excluded, fold)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self._owned.rules

    @property
    def exclusions(self) -> tuple[Rule, ...]:
        return self._excluded.rules

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns as they were written, each once."""
        return tuple(dict.fromkeys(rule.pattern for rule in (*self._owned.rules, *self._excluded.rules)))

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

    def outside(self, paths: Iterable[str | bytes]) -> list[str | bytes]:
        """The paths that are not owned, in their order."""
        return [path for path in paths if not self.covers(path)]

    def why(self, path: str | bytes) -> str:
        """One sentence that tells which pattern decides."""
        shown = os.fsdecode(path)
        name = self._name(path)
        if name is None:
            return f"'{shown}' is not a plain path inside the repository."
        rule = self._owned.find(name)
        if rule is None:
            folder = next((base for base in bases(name)[1:] if base[:-1] in self._owned.names), None)
            advice = (
                f"; '{os.fsdecode(folder[:-1])}' means that one file, '{os.fsdecode(folder)}' the folder"
                if folder
                else ""
            )
            return f"'{shown}' is not owned: no pattern names it{advice}."
        shut = self._excluded.find(name)
        if shut is not None:
            return f"'{shown}' is not owned: '{shut.pattern}' takes it out."
        return f"'{shown}' is owned by '{rule.pattern}'."

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


def _from_manifest(entry: Mapping[str, str], fold: Fold) -> Rule:
    kind, path = entry.get("type"), entry.get("path")
    if not isinstance(kind, str) or not isinstance(path, str):
        raise UserError(
            f"An ownership entry needs the texts 'type' and 'path', not {dict(entry)!r}.",
            'For example {"type": "prefix", "path": "src/"}.',
        )
    return make(kind, path, fold)


def holders(named: Mapping[str, Ownership], path: str | bytes) -> list[str]:
    """Who owns a path, by name: what a session is told when it asks for one."""
    return [name for name, owned in named.items() if owned.covers(path)]


def overlaps(named: Mapping[str, Ownership | Iterable[Pattern]], *, limit: int = 1000) -> list[Overlap]:
    """The pairs of owners that could write the same path, judged on the patterns; at most `limit`."""
    from handoff.git.ownership.overlap import search

    owners = {name: owned if isinstance(owned, Ownership) else Ownership.parse(owned) for name, owned in named.items()}
    return [
        Overlap(a, rule_a.pattern, b, rule_b.pattern, example)
        for a, rule_a, b, rule_b, example in search(
            {name: (owned.rules, owned.exclusions) for name, owned in owners.items()}, limit
        )
    ]
