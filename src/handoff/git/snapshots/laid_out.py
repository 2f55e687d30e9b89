"""Files that git has laid out just now: the index it wrote while doing so proves them, so none need be looked at.

What is proven: every file of the tree has an entry without any flag, with the tree's own mode and object and with the size of
that object. Nothing converts bytes without changing their number except the attributes of `_CONVERTING`. Where one thing is
unusual there is no proof, and the files are looked through as at any first snapshot.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, NamedTuple

from handoff.base.files import remove
from handoff.git.plumbing import read_plain
from handoff.git.plumbing.objects import LINK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from handoff.git.plumbing import Git, Source

_ATTRIBUTES = b".gitattributes"
_LINK = LINK.encode("ascii")
_CONVERTING = re.compile(rb"filter|ident|working-tree-encoding")
_LINE = re.compile(rb"([0-7]{6}) blob ([0-9a-f]+) +([0-9]+)\t([^\0]+)\0")
# An index: its head, then for each file times and numbers of the disk, mode, owner, size, object, flags (no more than the
# length of the name, in an ordinary entry), name, and zeros up to a multiple of eight.
_START, _HEAD = b"DIRC" + (2).to_bytes(4, "big"), 12
_DISK, _MODE, _OWNER = bytes(24), 4, bytes(8)
_LONGEST = 0xFFE
_TREES = b"TREE"
_MOST_FILES, _MOST_TREES = 50_000, 3


class ListedTree(NamedTuple):
    """What git says is in a tree, as columns, and the index it reads it into: enough to begin with laying it out."""

    store: str
    """Where its project's objects are: what is remembered of one project says nothing of another."""
    tree: str
    files: Sequence[Sequence[bytes]]
    """Mode, object, size and path, each of all files."""
    names: Sequence[str]
    starts: Sequence[int]
    blank: bytes
    """The index of files that are not laid out yet. git wrote it: a tree that anybody made may have names that it refuses."""
    known_trees: bytes
    """What git writes behind the last entry: which trees its entries are, so that it need not compare each of them."""

    @property
    def converts(self) -> bool:
        """Whether some files may say how others are written."""
        return any(path.endswith(_ATTRIBUTES) for path in self.files[-1])

    def expect(self) -> LaidOutTree:
        """How all of it must be once it is laid out. That takes a while: git can be at it meanwhile."""
        modes, shas, sizes, paths = self.files
        pairs = list(zip(self.names, modes, strict=True))
        kinds = {kind: [name for name, mode in pairs if mode == kind] for kind in set(modes)}
        expected, mask = _entries(modes, shas, sizes, paths)
        return LaidOutTree(
            listed=self,
            expected=expected,
            mask=mask,
            kinds=kinds,
            samples={kind: {name.rpartition("/")[0]: name for name in several} for kind, several in kinds.items()},
        )


class LaidOutTree(NamedTuple):
    """A tree as its files and its index must be after git laid it out. Found out while git is still at it."""

    listed: ListedTree
    expected: int
    """The whole index up to its last entry as one number, without what only the disk knows: times, numbers, owner."""
    mask: int
    """Which of its bits count."""
    kinds: Mapping[bytes, Sequence[str]]
    samples: Mapping[bytes, Mapping[str, str]]
    """One file of each kind in each folder."""

    def fits(self, index: bytes) -> bool:
        """Whether an index says of every file what this tree says."""
        end = self.listed.starts[-1]
        return len(index) >= end and int.from_bytes(index[:end], "big") & self.mask == self.expected


class Proven(NamedTuple):
    """What an index proved: names by the rights they have on the disk, and when each was last changed, in whole seconds."""

    names: Sequence[str]
    modes: Mapping[int, list[str]]
    changed: Sequence[bytes]
    folders: set[str]

    def young(self, now: int) -> set[str]:
        """Names of files that were changed in this second or later."""
        moment = now.to_bytes(4, "big")
        return {name for name, changed in zip(self.names, self.changed, strict=True) if changed >= moment}


_remembered: dict[tuple[str, str], LaidOutTree | None] = {}


def recall(store: str, tree: str) -> LaidOutTree | None:
    """A tree that was laid out for this process before, and proven: parts of a batch begin with the same one."""
    found = _remembered.get((store, tree))
    if found is not None:
        _keep(found.listed, found)
    return found


def forget(listed: ListedTree) -> None:
    """What was known of a tree was of no use."""
    _keep(listed, None)


def is_dependable(store: str) -> bool:
    """Whether nothing of a project was forgotten lately. What makes one tree unusual, like a setting, mostly does so with the next."""
    return not any(key[0] == store and found is None for key, found in _remembered.items())


def _keep(listed: ListedTree, laid_out: LaidOutTree | None) -> None:
    """Keep a few, what was asked for last longest."""
    _remembered.pop((listed.store, listed.tree), None)
    _remembered[listed.store, listed.tree] = laid_out
    for old in list(_remembered)[:-_MOST_TREES]:
        _remembered.pop(old, None)


def list_tree(git: Git, store: str, tree: str, *, top: str) -> Callable[[], ListedTree | None]:
    """Ask git what is in a tree; the function that comes back waits for the answer, which is None where something is unusual."""
    place = os.path.join(top, ".git", "index-listed")
    listing = git.begin("ls-tree", "-r", "-l", "-z", tree, top=top)
    reading = git.begin("-c", "index.threads=1", "read-tree", tree, top=top, index=place)

    def wait() -> ListedTree | None:
        try:
            try:
                listed = listing()
            finally:
                read = reading()
            index = read_plain(place)
        finally:
            remove(place)
        return None if listed.code or read.code else _join(store, tree, listed.out, index)

    return wait


def _join(store: str, tree: str, listed: bytes, index: bytes) -> ListedTree | None:
    """Hold the index up to the list: they must speak of the same files."""
    found = _LINE.findall(listed)
    if not found or len(found) != listed.count(b"\0"):
        return None
    files = list(zip(*found, strict=True))
    width, lengths = len(tree) // 2, list(map(len, files[-1]))
    if max(lengths) > _LONGEST or max(map(len, files[2])) > len("4294967295") - 1:
        return None  # too large for an ordinary entry
    whole = {length: _fixed(width) + _filled(width, length) for length in set(lengths)}
    starts = list(accumulate(map(whole.__getitem__, lengths), initial=_HEAD))
    behind = index[starts[-1] : -width]
    if not index.startswith(head_of_index(len(found))) or not behind.startswith(_TREES):
        return None
    names = os.fsdecode(b"\0".join(files[-1])).split("\0")
    if int.from_bytes(behind[4:8], "big") != len(behind) - 8 or not _are_apart(names):
        return None
    return ListedTree(store=store, tree=tree, files=files, names=names, starts=starts, blank=index, known_trees=behind)


def _entries(
    modes: Sequence[bytes], shas: Sequence[bytes], sizes: Sequence[bytes], paths: Sequence[bytes]
) -> tuple[int, int]:
    """The index with all of the files, and which of its bits count. Written for many thousand files."""
    width = len(shas[0]) // 2
    fixed, lengths = _fixed(width), list(map(len, paths))
    ends = {length: _filled(width, length) for length in set(lengths)}
    heads = {mode: _DISK + int(mode, 8).to_bytes(_MODE, "big") + _OWNER for mode in set(modes)}
    numbers = {size: int(size).to_bytes(4, "big") for size in set(sizes)}
    flags = {length: length.to_bytes(2, "big") for length in ends}
    hidden = _DISK + b"\xff" * _MODE + _OWNER
    masks = {length: hidden + b"\xff" * (fixed - len(hidden) + end) for length, end in ends.items()}
    objects = bytes.fromhex(b"".join(shas).decode("ascii"))
    columns = (
        map(heads.__getitem__, modes),
        map(numbers.__getitem__, sizes),
        [objects[at : at + width] for at in range(0, len(objects), width)],
        map(flags.__getitem__, lengths),
        map(bytes.ljust, paths, map(ends.__getitem__, lengths), repeat(b"\0")),
    )
    made = head_of_index(len(paths)) + b"".join(chain.from_iterable(zip(*columns, strict=True)))
    mask = b"\xff" * _HEAD + b"".join(map(masks.__getitem__, lengths))
    return int.from_bytes(made, "big"), int.from_bytes(mask, "big")


def _fixed(width: int) -> int:
    """How long an entry is before its name."""
    return len(_DISK) + _MODE + len(_OWNER) + 4 + width + 2


def _filled(width: int, length: int) -> int:
    """How long a name is with the zeros behind it."""
    return 8 - (_fixed(width) + length) % 8 + length


def head_of_index(count: int) -> bytes:
    """How an index of so many entries begins."""
    return _START + count.to_bytes(4, "big")


def _are_apart(names: Sequence[str]) -> bool:
    """Whether no two files or folders are one on a disk that does not tell large letters from small, or ways to write an accent."""
    folders: set[str] = set()
    above = {name.rpartition("/")[0] for name in names}
    while above:
        folders |= above
        above = {name.rpartition("/")[0] for name in above} - folders
    text = "\0".join((*names, *folders)).casefold()
    if not text.isascii():
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    return len(set(text.split("\0"))) == len(names) + len(folders)


def prove(laid_out: LaidOutTree, source: Source) -> Proven | None:
    """Hold the index that git wrote against what it laid out; None where it does not prove every file."""
    data = read_plain(source.index_file)
    if not laid_out.fits(data) or _converts(laid_out, source):
        return None
    modes = _modes(laid_out, source.top)
    if modes is None:
        return None
    if len(laid_out.listed.names) <= _MOST_FILES and (laid_out.listed.store, laid_out.listed.tree) not in _remembered:
        _keep(laid_out.listed, laid_out)
    starts = laid_out.listed.starts[:-1]
    folders = {folder for one in laid_out.samples.values() for folder in one}
    return Proven(laid_out.listed.names, modes, [data[at : at + 4] for at in starts], folders)


def _converts(laid_out: LaidOutTree, source: Source) -> bool:
    """Whether an attribute may have changed the bytes of a file, but not their number."""
    places = [os.path.join(source.common, "info", "attributes")]
    attributes = os.fsdecode(_ATTRIBUTES)
    names = (name for kind, several in laid_out.kinds.items() if kind != _LINK for name in several)
    places += [os.path.join(source.top, name) for name in names if name.endswith(attributes)]
    return any(_CONVERTING.search(read_plain(place)) for place in places)


def _modes(laid_out: LaidOutTree, top: str) -> dict[int, list[str]] | None:
    """Names by their rights. One program gave them all of these in one go: a file of each kind in each folder tells them."""
    found: dict[int, list[str]] = {}
    for what, names in laid_out.kinds.items():
        if what == _LINK:
            continue
        try:
            seen = {os.lstat(os.path.join(top, name)).st_mode for name in laid_out.samples[what].values()}
        except OSError:
            return None
        if len(seen) != 1 or not stat.S_ISREG(min(seen)):
            return None
        found.setdefault(min(seen), []).extend(names)
    return found
