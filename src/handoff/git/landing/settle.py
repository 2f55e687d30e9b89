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


class SideTrees(NamedTuple):
    """The trees around a file that two changed: before both, on either side, and with everything else joined."""

    base: str
    ours: str
    theirs: str
    joined: str = ""


class FileSides(NamedTuple):
    """One file that two changed: its bytes before both, and on either side."""

    path: str
    base: bytes
    ours: bytes
    theirs: bytes
    new: bool = False
    """Whether both sides added it: there was nothing before."""
    made: bool = False
    """Whether a program makes it: then it is made again, and its lines are not joined."""
    clean: bytes | None = None
    """What git made of its lines where they join, and may not be joined."""
    trees: SideTrees | None = None

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


class Left(NamedTuple):
    """The answer of a way that lets no other be asked, and why: the file is for people."""

    why: str = ""


Way: TypeAlias = "Callable[[FileSides], Proposal | Left | None]"
BY_PROGRAM = "a program makes this file, so that its lines are not joined"
_OTHERS_FIRST = "a program makes it again when everything else is joined"


def settle(
    store: SnapshotRepo, joined: Joined, second: str, ways: Sequence[Way], trees: SideTrees
) -> tuple[Joined, list[Settled]]:
    """The merge with what the ways could settle put in, and what that was. What programs make comes last: it depends on the others."""
    tree = joined.tree
    done: list[Settled] = []
    left: list[Unjoined] = []
    for one in sorted(joined.left, key=lambda one: one.made):
        if one.made and any(not other.made for other in left):
            left.append(one._replace(why=_OTHERS_FIRST))
            continue
        mode = _mode(one)
        sides = _sides(store, one, trees._replace(joined=tree)) if mode else None
        answer = next((made for way in ways if (made := way(sides)) is not None), None) if sides else None
        if not isinstance(answer, Proposal):
            why = answer.why if answer is not None else ""
            left.append(one._replace(why=why or (BY_PROGRAM if one.made else "")))
            continue
        name = os.fsencode(one.path)
        tree = store.graft(store.load(tree, [name]), {name: Entry(mode, store.write("blob", answer.data))})
        done.append(Settled(one.path, "", second, answer.how, answer.proven))
    return joined._replace(tree=tree, left=tuple(left)), done


def has_marks(data: bytes) -> bool:
    """Whether lines stand in a file as git leaves them around a conflict."""
    return any(line.startswith(_MARKS) for line in data.split(b"\n"))


def _sides(store: SnapshotRepo, one: Unjoined, trees: SideTrees) -> FileSides | None:
    if one.ours is None or one.theirs is None:
        return None
    return FileSides(
        path=one.path,
        base=store.read(one.base.sha) if one.base is not None else b"",
        ours=store.read(one.ours.sha),
        theirs=store.read(one.theirs.sha),
        new=one.base is None,
        made=one.made,
        clean=store.read(one.clean.sha) if one.clean is not None else None,
        trees=trees,
    )


def _mode(one: Unjoined) -> str:
    """The mode of the joined file; empty where it is no plain file, or where both sides want another mode."""
    entries = [entry for entry in (one.base, one.ours, one.theirs) if entry is not None]
    if one.ours is None or one.theirs is None or any(entry.mode not in (FILE, PROGRAM) for entry in entries):
        return ""
    return one.theirs.mode if one.base is not None and one.ours.mode == one.base.mode else one.ours.mode
