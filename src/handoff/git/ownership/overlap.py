"""Find the owners whose patterns can meet among very many, without comparing each with each."""

from __future__ import annotations

from collections import deque

from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.ownership.patterns import (
    ALL,
    DEEP,
    EXACT,
    GLOB,
    NAME,
    PREFIX,
    Deep,
    GlobIndex,
    Rule,
    Star,
    bases,
    beginning,
    ending,
    fixed_head,
    regex,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Literal

    Owners = Mapping[str, tuple[tuple[Rule, ...], tuple[Rule, ...]]]

_SLASH = 0x2F
_SLASH_SET = 1 << _SLASH
# Above this many states the question is given up and answered "yes, they may meet".
BUDGET = 20_000
# Names that no path has: the two that mean a folder, and git's own, however it is spelled.
_NO_NAMES = (b".", b"..", tuple(1 << ord(low) | 1 << ord(low.upper()) for low in ".git"))
_NO_PATHS = tuple(Rule(GLOB, b"", "", (DEEP, name, *end)) for name in _NO_NAMES for end in ((), (DEEP,)))
_NICE = b"xabcdefghijklmnopqrstuvwyzXABCDEFGHIJKLMNOPQRSTUVWYZ0123456789_-.,+ "


class Machine(Record):
    """A small automaton over bytes: moves by a set of bytes, free moves, and the one accepting state (the last)."""

    moves: tuple[tuple[tuple[int, int], ...], ...]
    free: tuple[tuple[int, ...], ...]

    def closure(self, states: frozenset[int]) -> frozenset[int]:
        todo = list(states)
        seen = set(states)
        while todo:
            for target in self.free[todo.pop()]:
                if target not in seen:
                    seen.add(target)
                    todo.append(target)
        return frozenset(seen)

    def step(self, states: frozenset[int], byte: int) -> frozenset[int]:
        return self.closure(
            frozenset(target for state in states for mask, target in self.moves[state] if mask >> byte & 1)
        )


def machine(rule: Rule) -> Machine:
    """The automaton of a rule."""
    moves: list[list[tuple[int, int]]] = []
    free: list[list[int]] = []

    def state() -> int:
        moves.append([])
        free.append([])
        return len(moves) - 1

    def take(mask: int) -> None:
        here = len(moves) - 1
        moves[here].append((mask, state()))

    state()
    if rule.kind != GLOB:
        for byte in rule.path:
            take(1 << byte)
        if rule.kind == PREFIX:
            take(NAME)
            moves[-1].append((ALL, len(moves) - 1))
        return _freeze(moves, free)
    for index, part in enumerate(rule.parts):
        last = index == len(rule.parts) - 1
        here = len(moves) - 1
        if isinstance(part, Deep):
            inside = state()
            moves[here].append((NAME, inside))
            if last:
                moves[inside].append((ALL, inside))
            else:
                after = state()
                moves[inside] += [(NAME, inside), (_SLASH_SET, here)]
                free[here].append(after)
            continue
        for token in (1 << byte for byte in part) if isinstance(part, bytes) else part:
            if isinstance(token, Star):
                here = len(moves) - 1
                moves[here].append((NAME, here))
                free[here].append(state())
            else:
                take(token)
        if not last:
            take(_SLASH_SET)
    return _freeze(moves, free)


def _freeze(moves: list[list[tuple[int, int]]], free: list[list[int]]) -> Machine:
    return Machine(tuple(map(tuple, moves)), tuple(map(tuple, free)))


def meeting(a: Rule, b: Rule, without: tuple[Rule, ...] = ()) -> bytes | None:
    """A path both rules name and none of `without` does; None if there is none.

    Exact. Only where exclusions make the question too large is the answer "they may meet", with an example
    that leaves the exclusions aside.
    """
    found = _quickly(a, b)
    if found is False:
        found = _search(machine(a), machine(b), []) or None
    if found and without:
        found = _apart_from(a, b, without, found)
    if found and any(name in (b".", b"..", b".git") for name in found.lower().split(b"/")):
        found = _apart_from(a, b, (*without, *_NO_PATHS), found)
    return found


def _apart_from(a: Rule, b: Rule, without: tuple[Rule, ...], example: bytes) -> bytes | None:
    """A path of both that no rule of `without` names; the example when that is too large a question."""
    found = _search(machine(a), machine(b), [machine(rule) for rule in without])
    return example if found is False else found


def _quickly(a: Rule, b: Rule) -> bytes | Literal[False] | None:
    """The answer for names and folders without an automaton; False if it takes one."""
    if {a.kind, b.kind} == {EXACT, GLOB}:
        exact, glob = (a, b) if a.kind == EXACT else (b, a)
        return exact.path if regex(glob).match(exact.path) else None
    if GLOB in (a.kind, b.kind):
        short, long = sorted((a.base, b.base), key=len)
        return False if long.startswith(short) else None
    if a.kind == b.kind == PREFIX:
        short, long = sorted((a.path, b.path), key=len)
        return long + b"x" if long.startswith(short) else None
    if a.kind == b.kind == EXACT:
        return a.path if a.path == b.path else None
    exact, prefix = (a, b) if a.kind == EXACT else (b, a)
    return exact.path if exact.path.startswith(prefix.path) else None


def _search(a: Machine, b: Machine, without: list[Machine]) -> bytes | Literal[False] | None:
    """Walk both automata together, shortest path first; False when the budget is used up."""
    splits = sorted({mask for one in without for moves in one.moves for mask, _ in moves})
    start_without = tuple(one.closure(frozenset((0,))) for one in without)
    start = (0, 0, True, start_without)
    origin: dict[object, tuple[object, int] | None] = {start: None}
    todo = deque([start])
    while todo:
        if without and len(origin) > BUDGET:
            return False
        node = todo.popleft()
        at_a, at_b, fresh, shut = node
        accepted = at_a == len(a.moves) - 1 and at_b == len(b.moves) - 1 and not fresh
        if accepted and not any(len(one.moves) - 1 in states for one, states in zip(without, shut, strict=True)):
            return _spell(origin, node)
        reached: list[tuple[tuple[int, int, bool, tuple[frozenset[int], ...]], int]] = [
            *(((to, at_b, fresh, shut), -1) for to in a.free[at_a]),
            *(((at_a, to, fresh, shut), -1) for to in b.free[at_b]),
        ]
        for mask_a, to_a in a.moves[at_a]:
            for mask_b, to_b in b.moves[at_b]:
                common = mask_a & mask_b & (NAME if fresh else ALL)
                for byte in _samples(common, splits):
                    steps = tuple(one.step(states, byte) for one, states in zip(without, shut, strict=True))
                    reached.append(((to_a, to_b, byte == _SLASH, steps), byte))
        for target, byte in reached:
            if target not in origin:
                origin[target] = (node, byte)
                todo.append(target)
    return None


def _samples(common: int, splits: list[int]) -> list[int]:
    """One byte of `common` for every way the exclusions can tell bytes apart; the slash stands alone."""
    if not common:
        return []
    groups = [common & NAME, common & _SLASH_SET]
    for mask in splits:
        groups = [piece for group in groups for piece in (group & mask, group & ~mask) if piece]
    return [_nicest(group) for group in groups if group]


def _nicest(group: int) -> int:
    for byte in _NICE:
        if group >> byte & 1:
            return byte
    return (group & -group).bit_length() - 1


def _spell(origin: dict[object, tuple[object, int] | None], node: object) -> bytes:
    path = bytearray()
    while (step := origin[node]) is not None:
        node, byte = step
        if byte >= 0:
            path.append(byte)
    return bytes(reversed(path))


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
