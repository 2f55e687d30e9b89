"""Three trees become one in memory. Only trees count: no history is walked, whatever a base is and however long the past."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import git_failure
from handoff.git.plumbing.objects import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
