"""Find the owners whose patterns can meet among very many, without comparing each with each."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.ownership.intersection import meeting
from handoff.git.ownership.patterns import EXACT, GLOB, GlobIndex, Rule, bases, beginning, ending, fixed_head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Owners = Mapping[str, tuple[tuple[Rule, ...], tuple[Rule, ...]]]


class OwnedRule(Record):
    """A rule and whose it is."""

    owner: str
    rule: Rule


Found = tuple[str, Rule, str, Rule, bytes]


def search(owners: Owners, limit: int) -> list[Found]:
    """Pairs of rules of different owners that share a path, at most `limit`, each pair once."""
    found: list[Found] = []
    seen: set[tuple[str, str, str, str]] = set()
    shut = {name: excluded for name, (_, excluded) in owners.items()}
    for a, b in _candidates(owners):
        if len(found) >= limit:
            break
        key = (a.owner, a.rule.pattern, b.owner, b.rule.pattern)
        if key in seen:
            continue
        example = meeting(a.rule, b.rule, (*shut[a.owner], *shut[b.owner]))
        if example is None:
            example = _file_in_the_way(a.rule, b.rule)
        if example is not None:
            seen.add(key)
            found.append((a.owner, a.rule, b.owner, b.rule, example))
    return found


def _file_in_the_way(a: Rule, b: Rule) -> bytes | None:
    """One owner's file where the other's folder is: they can never both be there."""
    short, long = (a, b) if len(a.path) < len(b.path) else (b, a)
    if short.kind == EXACT and long.kind != GLOB and long.path.startswith(short.path + b"/"):
        spelled_glob = any(byte in b"*?[\\" for byte in long.path)  # also read as a name; a guess not worth a refusal
        return None if spelled_glob else long.path
    return None


def _candidates(owners: Owners) -> Iterator[tuple[OwnedRule, OwnedRule]]:
    plain = [OwnedRule(name, rule) for name, (rules, _) in owners.items() for rule in rules if rule.kind != GLOB]
    globs = [OwnedRule(name, rule) for name, (rules, _) in owners.items() for rule in rules if rule.kind == GLOB]
    yield from _plain_pairs(plain)
    yield from _mixed_pairs(plain, globs)
    yield from _glob_pairs(globs)


def _plain_pairs(plain: list[OwnedRule]) -> Iterator[tuple[OwnedRule, OwnedRule]]:
    """Each name and folder against what stands above it or at the same place."""
    places: dict[bytes, dict[str, OwnedRule]] = {}
    for held in plain:
        here = places.setdefault(held.rule.path, {})
        yield from ((other, held) for other in here.values() if other.owner != held.owner)
        here.setdefault(held.owner, held)
    for held in plain:
        if places[held.rule.path].get(held.owner) is not held:
            continue
        for base in bases(held.rule.path)[1:]:
            for place in (base, base[:-1]):
                for other in places.get(place, {}).values():
                    if other.owner != held.owner:
                        yield other, held
        if held.rule.path.endswith(b"/"):
            for other in places.get(held.rule.path[:-1], {}).values():
                if other.owner != held.owner:
                    yield other, held


def _mixed_pairs(plain: list[OwnedRule], globs: list[OwnedRule]) -> Iterator[tuple[OwnedRule, OwnedRule]]:
    """Names and folders against globs: a glob can only reach what lies in its folder, or a folder above it."""
    if not globs:
        return
    index: GlobIndex = GlobIndex()
    for glob in globs:
        index.add(glob.rule, glob)
    folders: dict[bytes, dict[str, OwnedRule]] = {}
    for held in plain:
        path = held.rule.path
        if held.rule.kind == EXACT:
            near = index.near(path)
        else:
            near = index.reaching(path)
            folders.setdefault(path, {}).setdefault(held.owner, held)
        yield from ((held, glob) for glob in near if glob.owner != held.owner)
    for glob in globs:
        base = glob.rule.base
        for place in (*bases(base)[1:], base) if base else ():
            yield from ((held, glob) for held in folders.get(place, {}).values() if held.owner != glob.owner)


def _glob_pairs(globs: list[OwnedRule]) -> Iterator[tuple[OwnedRule, OwnedRule]]:
    """Globs against globs, by the fixed piece (beginning, ending, start of the last name) that tells them apart best."""
    if len(globs) < 2:  # noqa: PLR2004 - a pair
        return
    keys = [tuple(piece(held.rule) for piece in _PIECES) for held in globs]
    tables: list[dict[bytes, list[int]]] = [{} for _ in _PIECES]
    for index, row in enumerate(keys):
        for table, key in zip(tables, row, strict=True):
            table.setdefault(key, []).append(index)
    costs = [
        sum(
            len(rows) * sum(len(table.get(key[:cut], ())) for cut in range(len(key) + 1)) for key, rows in table.items()
        )
        for table in tables
    ]
    best = costs.index(min(costs))
    for index, row in enumerate(keys):
        key = row[best]
        for cut in range(len(key) + 1):
            for other in tables[best].get(key[:cut], ()):
                same = cut == len(key)
                if (same and other >= index) or globs[other].owner == globs[index].owner:
                    continue
                if all(_fit(one, two) for one, two in zip(row, keys[other], strict=True)):
                    yield globs[other], globs[index]


def _fit(one: bytes, two: bytes) -> bool:
    return one.startswith(two) or two.startswith(one)


def _ending_reversed(rule: Rule) -> bytes:
    return ending(rule)[::-1]


def _last_name(rule: Rule) -> bytes:
    return fixed_head(rule.parts[-1])


_PIECES: tuple[Callable[[Rule], bytes], ...] = (beginning, _ending_reversed, _last_name)
