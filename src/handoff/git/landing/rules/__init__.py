"""Rules for edits that only add: what they make is a proposal which checks must pass, and each refuses unless it is sure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handoff.git.landing.rules.additions import merge_line_ends, merge_lines
from handoff.git.landing.rules.made_files import is_made
from handoff.git.landing.rules.python import merge_python
from handoff.git.landing.settle import Proposal, has_marks

if TYPE_CHECKING:
    from handoff.git.landing.settle import FileSides, Left, Way
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

_LARGEST = 1_000_000  # of bytes: no file that people write is longer


def rules_way(store: SnapshotRepo, *, remake: Way | None = None, reformat: Way | None = None) -> Way:
    """The rules, one after the other; the first that is sure proposes.

    Two need programs of the project, which the caller runs: `remake` for what programs make, `reformat` for what a formatter did.
    """

    def way(sides: FileSides) -> Proposal | Left | None:
        if sides.made:
            return remake(sides) if remake is not None else None
        found = propose(store, sides)
        return reformat(sides) if found is None and reformat is not None else found

    return way


def propose(store: SnapshotRepo, sides: FileSides) -> Proposal | None:
    """One file out of two sides that only add; None where no rule is sure."""
    if sides.new or is_made(sides.path, sides.base) or max(map(len, sides.texts)) > _LARGEST:
        return None  # two new files are two answers; what a program made is made anew, never merged
    if any(b"\0" in data or has_marks(data) for data in sides.texts):
        return None
    merged = merge_line_ends(store, sides)
    if merged is not None:
        return Proposal(merged, "a rule: other line ends on one side", proven=False)
    try:
        base, ours, theirs = (data.decode() for data in sides.texts)
    except UnicodeDecodeError:
        return None
    if "\r" in base + ours + theirs:
        return None
    if sides.path.endswith((".py", ".pyi")):
        text, how = merge_python(base, ours, theirs), "a rule: both only add Python"
    else:
        text, how = merge_lines(sides.path, base, ours, theirs), "a rule: both only add lines"
    return None if text is None else Proposal(text.encode(), how, proven=False)
