"""Three trees become one in memory. Only trees count: no history is walked, whatever a base is and however long the past.

What git leaves over is offered to other ways: a person's merge driver, then rules. Each file wholly, or not at all.
"""

from __future__ import annotations

import os
from typing import NamedTuple, TypeAlias

from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import git_failure
from handoff.git.plumbing.objects import FILE, PROGRAM, Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from handoff.base.process import Completed
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

# What a part adds to a folder that another part moved goes along with it; git's own default only says that it could.
_SETTINGS = ("-c", "merge.directoryRenames=true")
_WORDS = ("merge-tree", "--write-tree", "-z", "--messages")
_MOVED = "Path updated due to directory rename"


class Unjoined(Record):
    """One path git could not join: what the base, the one and the other side have there."""

    path: str
    base: Entry | None = None
    ours: Entry | None = None
    theirs: Entry | None = None
    clean: Entry | None = None
    """What git made of it all the same: its lines join, but they are not to be joined."""
    made: bool = False
    """Whether a program makes this file: both sides' lines are not what it would write."""
    why: str = ""
    """What stands in the way of joining it, where there is more to say than that both changed it."""


class Joined(Record):
    """Three trees in one: the tree, what git could not join in it (there with marks), and what followed a moved folder."""

    tree: str
    left: tuple[Unjoined, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    """Pairs: where it was put, and where it is now that the folder has moved."""


def join(store: SnapshotRepo, base: str, ours: str, theirs: str) -> Joined:
    """Merge three trees: what changed from the base on either side, in one tree."""
    if ours in (base, theirs):
        return Joined(theirs)
    if theirs == base:
        return Joined(ours)
    answer = store.git(*_SETTINGS, *_WORDS, *_sides(store, base, ours, theirs))
    if answer.code not in (0, 1):
        raise _failure(store, answer)
    return _read(iter(answer.text.split("\0")))


def join_many(store: SnapshotRepo, triples: Sequence[tuple[str, str, str]]) -> list[Joined]:
    """The same for many triples (base, ours, theirs), in one process where git can do that (2.39)."""
    if not triples:
        return []
    asked = "".join(" ".join(_sides(store, *triple)) + "\n" for triple in triples)
    answer = store.git(*_SETTINGS, *_WORDS, "--stdin", stdin=asked.encode())
    if answer.code:
        return [join(store, *triple) for triple in triples]
    words, found = iter(answer.text.split("\0")), []
    for _ in triples:
        next(words)  # 1 for a clean merge, 0 for one with conflicts: the paths say the same
        found.append(_read(words))
    return found


def _sides(store: SnapshotRepo, base: str, ours: str, theirs: str) -> tuple[str, str]:
    """Two commits whose only past is the base: git finds it at once, and nothing of the real history is read."""
    past = store.write_commit(base, [], "base\n", moment=0)
    mine = store.write_commit(ours, [past], "ours\n", moment=0)
    return mine, store.write_commit(theirs, [past], "theirs\n", moment=0)


def _read(words: Iterator[str]) -> Joined:
    """One merge as git tells it: the tree, entries up to an empty word, then messages up to an empty word or the end."""
    tree = next(words)
    stages: dict[str, dict[str, Entry]] = {}
    for word in words:
        if not word:
            break
        facts, _, path = word.partition("\t")
        mode, sha, stage = facts.split(" ")
        stages.setdefault(path, {})[stage] = Entry(mode, sha)
    moved = []
    for count in words:
        if not count:
            break
        paths = [next(words) for _ in range(int(count))]
        kind, _ = next(words), next(words)
        if kind == _MOVED:
            moved.append((paths[-1], paths[0]))
    left = [
        Unjoined(path=path, base=known.get("1"), ours=known.get("2"), theirs=known.get("3"))
        for path, known in stages.items()
    ]
    return Joined(tree, tuple(left), tuple(moved))


def _failure(store: SnapshotRepo, answer: Completed) -> Exception:
    old = "unknown option" in answer.error_text or "usage:" in answer.error_text
    hint = "handoff needs git 2.38 or newer to land work." if old else f"Look at {store.path}."
    return git_failure("git merge-tree failed", answer, hint)


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
        sides = _sides_of(store, one, trees._replace(joined=tree)) if mode else None
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


def _sides_of(store: SnapshotRepo, one: Unjoined, trees: SideTrees) -> FileSides | None:
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
