"""A large tree is laid out by several gits at once: each has an index of its own with a share of the files.

One git with several workers spends about as much on telling them what to do as they save; gits that know nothing of each other do
not. What they wrote is held against what the tree must be. Where anything is unusual, one git lays out everything, as it always could.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from handoff.base.files import remove, write_atomic
from handoff.git.plumbing import read_plain
from handoff.git.snapshots.laid_out import forget, head_of_index, is_dependable, recall

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.base.process import Completed
    from handoff.git.plumbing import Git
    from handoff.git.snapshots.laid_out import LaidOutTree, ListedTree

_FEWEST = 1000
"""Below, to begin more gits takes longer than they save."""
_LAY_OUT = ("-c", "checkout.workers=1", "checkout-index", "-a", "-u", "-q")


def lay_out_shares(git: Git, top: str, listed: ListedTree, *, count: int) -> LaidOutTree | None:
    """Lay out the tree in the new clone at `top`; None where one git must do it, whatever is there by now."""
    known = recall(listed.store, listed.tree)
    if count == 1 or len(listed.names) < _FEWEST:
        return None
    if known is None and (listed.converts or not is_dependable(listed.store)):
        return None  # a git that has not laid out the rules for its files yet would not follow them
    joined, known = _lay_out(git, top, listed, count, known)
    if not known.fits(joined):  # one git fails, or converts files
        forget(listed)
        return None
    write_atomic(os.path.join(top, ".git", "index"), _summed(joined + listed.known_trees, listed), sync=False)
    return known


def _lay_out(
    git: Git, top: str, listed: ListedTree, count: int, known: LaidOutTree | None
) -> tuple[bytes, LaidOutTree]:
    """The files of each share on the disk; their entries as git made them, or nothing. What is not known is found out meanwhile."""
    number = len(listed.names)
    size = -(-number // count)
    bounds = [(at, min(at + size, number)) for at in range(0, number, size)]
    places = [os.path.join(top, ".git", f"index-share-{one}") for one in range(len(bounds))]
    answers: list[Completed] = []
    try:
        with ExitStack() as ends:  # whatever happens, nobody may go on while a git still writes there
            for place, (first, end) in zip(places, bounds, strict=True):
                entries = listed.blank[listed.starts[first] : listed.starts[end]]
                write_atomic(place, _summed(head_of_index(end - first) + entries, listed), sync=False)
                wait = git.begin(*_LAY_OUT, top=top, index=place)
                ends.callback(_collect, wait, answers)
            known = known or listed.expect()
        if any(answer.code for answer in answers):
            return b"", known
        head = len(head_of_index(0))
        made = [
            read_plain(place)[head : head + listed.starts[end] - listed.starts[first]]
            for place, (first, end) in zip(places, bounds, strict=True)
        ]
        return b"".join((head_of_index(number), *made)), known
    finally:
        for place in places:
            remove(place)


def _collect(wait: Callable[[], Completed], answers: list[Completed]) -> None:
    answers.append(wait())


def _summed(data: bytes, listed: ListedTree) -> bytes:
    """An index ends with a sum of itself, of the kind its objects are named by."""
    plain = hashlib.sha1(usedforsecurity=False)
    kind = "sha1" if len(listed.tree) == 2 * plain.digest_size else "sha256"
    return data + hashlib.new(kind, data, usedforsecurity=False).digest()
