"""Locks and generated files that two sides changed: taken out of git's merge, also of a clean one, because a program makes them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from handoff.git.landing.rules.made_files import is_lock, is_made
from handoff.git.landing.three_way import Joined, Unjoined
from handoff.git.plumbing.objects import FILE, PROGRAM, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from handoff.git.landing.settle import SideTrees
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo


class Withholding:
    """Which files of a merge programs make; what was read of one is known for the next merge."""

    def __init__(self, store: SnapshotRepo) -> None:
        self.store = store
        self.known: dict[tuple[str, str], bool] = {}

    def withhold(self, found: Joined, paths: Iterable[str], trees: SideTrees) -> Joined:
        """The merge with the first side's version of such files, and those among what is left to settle."""
        changes: dict[bytes, Entry | None] = {}
        held: dict[str, Unjoined] = {}
        conflicts = {one.path for one in found.left}
        for path in sorted(paths):
            name = os.fsencode(path)
            base, ours, theirs = (self.store.look_up(tree, name) for tree in trees[:3])
            if (
                ours is None
                or theirs is None
                or not _by_both(base, ours, theirs)
                or not self._is_made(path, base, theirs)
            ):
                continue
            clean = None if path in conflicts else self.store.look_up(found.tree, name)
            held[path] = Unjoined(path=path, base=base, ours=ours, theirs=theirs, clean=clean, made=True)
            changes[name] = ours
        if not held:
            return found
        left = (*(one for one in found.left if one.path not in held), *held.values())
        return found._replace(tree=self.store.graft(self.store.load(found.tree, changes), changes), left=left)

    def _is_made(self, path: str, base: Entry | None, theirs: Entry) -> bool:
        """By its name, or by what it says of itself; before both, so that no side can say so of a file people write."""
        if is_lock(path):
            return True
        key = (path, (base or theirs).sha)
        if key not in self.known:
            self.known[key] = is_made(path, self.store.read(key[1]))
        return self.known[key]


def _by_both(base: Entry | None, ours: Entry, theirs: Entry) -> bool:
    """Whether both sides have plain files of other bytes there than before, and not the same ones."""
    plain = all(one.mode in (FILE, PROGRAM) for one in (ours, theirs))
    return plain and len({ours.sha, theirs.sha, base.sha if base is not None else ""}) == 3  # noqa: PLR2004 - all differ
