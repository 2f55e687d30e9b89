"""Clean merges that may be wrong all the same: a name gone here and called there, one number twice. Told, never in the way."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from handoff.git.landing.members import many_differences
from handoff.git.landing.python_facts import PythonFacts, facts_of, twice_defined
from handoff.git.landing.rules.made_files import is_made
from handoff.git.landing.rules.python import number_prefix
from handoff.git.plumbing.objects import POINTER, fetch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from handoff.git.landing.members import Member
    from handoff.git.landing.merge import Merged
    from handoff.git.plumbing.objects import Difference
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

    ChangeKey = tuple[tuple[str, str, str], ...]

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
