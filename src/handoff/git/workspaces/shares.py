"""A large tree that was laid out before is laid out again by several gits at once: each has an index of its own with a share of the files.

One git with several workers spends about as much on telling them what to do as they save; gits that know nothing of each other do
not. What is handed to them is the index that git itself wrote for the same tree. Where anything is unusual, one git lays out
everything, as it always could.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from handoff.base.files import remove, write_atomic
from handoff.git.plumbing import read_plain
from handoff.git.snapshots.laid_out import forget, head_of_index

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from handoff.base.process import Completed
    from handoff.git.plumbing import Git
    from handoff.git.snapshots.laid_out import LaidOutTree

_FEWEST = 1000
"""Below, to begin more gits takes longer than they save."""
_LAY_OUT = ("-c", "checkout.workers=1", "checkout-index", "-a", "-u", "-q")


def lay_out_shares(git: Git, top: str, known: LaidOutTree, *, count: int) -> bool:
    """Lay out the tree in the new clone at `top`; False where one git must do it, whatever is there by now."""
    if count == 1 or len(known.names) < _FEWEST:
        return False
    made = _lay_out(git, top, known, count)
    index = b"".join((head_of_index(len(known.names)), *made))
    if not known.fits(index):  # one git fails, or files are converted by rules that only another had seen
        forget(known.tree)
        return False
    write_atomic(os.path.join(top, ".git", "index"), _summed(index + known.known_trees, known), sync=False)
    return True


def _lay_out(git: Git, top: str, known: LaidOutTree, count: int) -> list[bytes]:
    """The files of each share on the disk; their entries as git made them, or nothing."""
    size = -(-len(known.names) // count)
    bounds = [(at, min(at + size, len(known.names))) for at in range(0, len(known.names), size)]
    places = [os.path.join(top, ".git", f"index-share-{number}") for number in range(len(bounds))]
    head = len(head_of_index(0))
    try:
        for place, (first, end) in zip(places, bounds, strict=True):
            entries = known.blank[known.starts[first] : known.starts[end]]
            write_atomic(place, _summed(head_of_index(end - first) + entries, known), sync=False)
        if not _all_well(git, top, places):
            return []
        lengths = [known.starts[end] - known.starts[first] for first, end in bounds]
        return [read_plain(place)[head : head + length] for place, length in zip(places, lengths, strict=True)]
    finally:
        for place in places:
            remove(place)


def _all_well(git: Git, top: str, places: Sequence[str]) -> bool:
    waits: list[Callable[[], Completed]] = []
    try:
        waits.extend(git.begin(*_LAY_OUT, top=top, index=place) for place in places)
    finally:  # whatever happens, nobody may go on while git still writes there
        answers = [wait() for wait in waits]
    return not any(answer.code for answer in answers)


def _summed(data: bytes, known: LaidOutTree) -> bytes:
    """An index ends with a sum of itself, of the kind its objects are named by."""
    plain = hashlib.sha1(usedforsecurity=False)
    kind = "sha1" if len(known.tree) == 2 * plain.digest_size else "sha256"
    return data + hashlib.new(kind, data, usedforsecurity=False).digest()
