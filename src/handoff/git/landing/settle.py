"""What git's own merge leaves over is offered to other ways: a person's merge driver, then rules. Each file wholly, or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from handoff.git.plumbing.objects import FILE, PROGRAM, Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from handoff.git.landing.three_way import Joined, Unjoined
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

_MARKS = (b"<<<<<<< ", b">>>>>>> ", b"||||||| ")


class FileSides(NamedTuple):
    """One file that two changed: its bytes before both, and on either side."""

    path: str
    base: bytes
    ours: bytes
    theirs: bytes
    new: bool = False
    """Whether both sides added it: there was nothing before."""

    @property
    def texts(self) -> tuple[bytes, bytes, bytes]:
        return self.base, self.ours, self.theirs


class Proposal(NamedTuple):
    """One file out of two, and by what it came about."""

    data: bytes
    how: str
    proven: bool = True
    """Whether somebody answers for it: a rule's proposal counts only once checks have passed on the whole tree."""


class Settled(NamedTuple):
    """A file git could not join alone: whose it is, what joined it, and whether checks must still say so."""

    path: str
    first: str
    second: str
    how: str
    proven: bool


LEAVE = Proposal(b"", "left to people", proven=False)
"""The answer of a way that lets no other be asked: whoever owns the file wants it joined by hand."""

Way: TypeAlias = "Callable[[FileSides], Proposal | None]"


def settle(store: SnapshotRepo, joined: Joined, second: str, ways: Sequence[Way]) -> tuple[Joined, list[Settled]]:
    """The merge with what the ways could settle put in, and what that was."""
    changes: dict[bytes, Entry | None] = {}
    done: list[Settled] = []
    left: list[Unjoined] = []
    for one in joined.left:
        mode = _mode(one)
        sides = _sides(store, one) if mode else None
        proposal = next((made for way in ways if (made := way(sides)) is not None), None) if sides else None
        if proposal is None or proposal is LEAVE:
            left.append(one)
            continue
        changes[os.fsencode(one.path)] = Entry(mode, store.write("blob", proposal.data))
        done.append(Settled(one.path, "", second, proposal.how, proposal.proven))
    if not done:
        return joined, []
    tree = store.graft(store.load(joined.tree, changes), changes)
    return joined._replace(tree=tree, left=tuple(left)), done


def has_marks(data: bytes) -> bool:
    """Whether lines stand in a file as git leaves them around a conflict."""
    return any(line.startswith(_MARKS) for line in data.split(b"\n"))


def _sides(store: SnapshotRepo, one: Unjoined) -> FileSides | None:
    if one.ours is None or one.theirs is None:
        return None
    base = store.read(one.base.sha) if one.base is not None else b""
    return FileSides(one.path, base, store.read(one.ours.sha), store.read(one.theirs.sha), new=one.base is None)


def _mode(one: Unjoined) -> str:
    """The mode of the joined file; empty where it is no plain file, or where both sides want another mode."""
    entries = [entry for entry in (one.base, one.ours, one.theirs) if entry is not None]
    if one.ours is None or one.theirs is None or any(entry.mode not in (FILE, PROGRAM) for entry in entries):
        return ""
    return one.theirs.mode if one.base is not None and one.ours.mode == one.base.mode else one.ours.mode
