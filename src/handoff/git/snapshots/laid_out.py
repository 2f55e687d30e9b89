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

from handoff.git.plumbing import read_plain
from handoff.git.plumbing.objects import LINK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.git.plumbing import Source
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

_ATTRIBUTES = ".gitattributes"
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


class LaidOutTree(NamedTuple):
    """A tree as its files and its index must be after git laid it out. Found out while git is still at it."""

    tree: str
    names: Sequence[str]
    starts: Sequence[int]
    blank: bytes
    """The whole index up to its last entry, without what only the disk knows: times, numbers, owner."""
    expected: int
    """The same as one number."""
    mask: int
    kinds: Mapping[bytes, Sequence[str]]
    samples: Mapping[bytes, Mapping[str, str]]
    """One file of each kind in each folder."""
    attributes: Sequence[str]
    known_trees: bytes = b""
    """What git wrote behind the last entry: which trees its entries are, so that it need not compare each of them."""

    def fits(self, index: bytes) -> bool:
        """Whether an index says of every file what this tree says."""
        end = self.starts[-1]
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


_remembered: dict[str, LaidOutTree | None] = {}


def recall(tree: str) -> LaidOutTree | None:
    """A tree that git laid out for this process before, with the index that it wrote itself: parts of a batch begin with the same one."""
    found = _remembered.get(tree)
    if found is not None:  # what was asked for last is kept longest
        _remembered.pop(tree, None)
        _remembered[tree] = found
    return found


def forget(tree: str) -> None:
    """What was remembered of a tree was of no use, and is not remembered again."""
    _remembered[tree] = None


def _remember(laid_out: LaidOutTree, index: bytes) -> None:
    """Keep a few, and no huge ones."""
    if len(laid_out.names) > _MOST_FILES or laid_out.tree in _remembered:
        return
    start, width = laid_out.starts[-1], len(laid_out.tree) // 2
    behind = index[start:-width]
    whole = behind.startswith(_TREES) and int.from_bytes(behind[4:8], "big") == len(behind) - 8
    _remembered[laid_out.tree] = laid_out._replace(known_trees=behind if whole else b"")
    for old in list(_remembered)[:-_MOST_TREES]:
        _remembered.pop(old, None)


def list_laid_out(store: SnapshotRepo, tree: str, *, borrow: str) -> LaidOutTree | None:
    """What will lie in a folder that git lays this tree out in; None where something in it is unusual."""
    listed = store.git("ls-tree", "-r", "-l", "-z", tree, borrow=borrow)
    found = _LINE.findall(listed.out)
    if listed.code or not found or len(found) != listed.out.count(b"\0"):
        return None
    modes, shas, sizes, paths = zip(*found, strict=True)
    if max(map(len, paths)) > _LONGEST or max(map(len, sizes)) > len("4294967295") - 1:
        return None  # too large for an ordinary entry
    names = os.fsdecode(b"\0".join(paths)).split("\0")
    kinds = {kind: [name for name, mode in zip(names, modes, strict=True) if mode == kind] for kind in set(modes)}
    if not _are_apart(names):
        return None
    starts, blank, mask = _entries(modes, shas, sizes, paths)
    return LaidOutTree(
        tree=tree,
        names=names,
        starts=starts,
        blank=blank,
        expected=int.from_bytes(blank, "big"),
        mask=mask,
        kinds=kinds,
        samples={kind: {name.rpartition("/")[0]: name for name in several} for kind, several in kinds.items()},
        attributes=[name for kind in kinds if kind != _LINK for name in kinds[kind] if name.endswith(_ATTRIBUTES)],
    )


def _entries(
    modes: Sequence[bytes], shas: Sequence[bytes], sizes: Sequence[bytes], paths: Sequence[bytes]
) -> tuple[list[int], bytes, int]:
    """Where each entry begins, the index with all of them, and which of its bits count. Written for many thousand files."""
    width = len(shas[0]) // 2
    fixed = len(_DISK) + _MODE + len(_OWNER) + 4 + width + 2
    ends = {length: 8 - (fixed + length) % 8 + length for length in set(map(len, paths))}
    heads = {mode: _DISK + int(mode, 8).to_bytes(_MODE, "big") + _OWNER for mode in set(modes)}
    numbers = {size: int(size).to_bytes(4, "big") for size in set(sizes)}
    flags = {length: length.to_bytes(2, "big") for length in ends}
    hidden = _DISK + b"\xff" * _MODE + _OWNER
    masks = {length: hidden + b"\xff" * (fixed - len(hidden) + end) for length, end in ends.items()}
    objects = bytes.fromhex(b"".join(shas).decode("ascii"))
    lengths, filled = list(map(len, paths)), map(ends.__getitem__, map(len, paths))
    columns = (
        map(heads.__getitem__, modes),
        map(numbers.__getitem__, sizes),
        [objects[at : at + width] for at in range(0, len(objects), width)],
        map(flags.__getitem__, lengths),
        map(bytes.ljust, paths, filled, repeat(b"\0")),
    )
    made = b"".join(chain.from_iterable(zip(*columns, strict=True)))
    parts = list(map(masks.__getitem__, lengths))
    mask = b"\xff" * _HEAD + b"".join(parts)
    starts = list(accumulate(map(len, parts), initial=_HEAD))
    return starts, head_of_index(len(paths)) + made, int.from_bytes(mask, "big")


def head_of_index(count: int) -> bytes:
    """How an index of so many entries begins."""
    return _START + count.to_bytes(4, "big")


def _are_apart(names: Sequence[str]) -> bool:
    """Whether no two names are one on a disk that does not tell large letters from small, or ways to write an accent."""
    text = "\0".join(names).casefold()
    if not text.isascii():
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    return len(set(text.split("\0"))) == len(names)


def prove(laid_out: LaidOutTree, source: Source) -> Proven | None:
    """Hold the index that git wrote against what it laid out; None where it does not prove every file."""
    data = read_plain(source.index_file)
    if not laid_out.fits(data) or _converts(laid_out, source):
        return None
    modes = _modes(laid_out, source.top)
    if modes is None:
        return None
    _remember(laid_out, data)
    starts = laid_out.starts[:-1]
    folders = {folder for one in laid_out.samples.values() for folder in one}
    return Proven(laid_out.names, modes, [data[at : at + 4] for at in starts], folders)


def _converts(laid_out: LaidOutTree, source: Source) -> bool:
    """Whether an attribute may have changed the bytes of a file, but not their number."""
    places = [os.path.join(source.common, "info", "attributes")]
    places += [os.path.join(source.top, name) for name in laid_out.attributes]
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
