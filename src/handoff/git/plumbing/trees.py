"""Rebuild only the trees on the changed paths, in this process: the cost follows the change, not the repository."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from handoff.git.plumbing.snapshot_repo import FILE, FOLDER, LINK, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

LIMIT = 64
_LARGEST = 8 * 1024 * 1024
_READS = 3
Names = dict[str, tuple[str, str]]
Changes = dict[str, tuple[str, str] | None]


class Trees:
    """Tree objects of the store, each read once, all that are needed in one process."""

    def __init__(self, store: SnapshotRepo) -> None:
        self.store = store
        self._known: dict[str, Names] = {}
        self._written: dict[tuple[str, tuple[str, str]], tuple[bytes, bytes]] = {}

    def load(self, root: str, paths: Iterable[str]) -> None:
        """Read the folders above the paths as they are in `root`."""
        folders = {""}
        for path in paths:
            at = path.rpartition("/")[0]
            while at and at not in folders:
                folders.add(at)
                at = at.rpartition("/")[0]
        ordered = sorted(folders)
        asked = os.fsencode("".join(f"{root}:{folder}\n" if folder else f"{root}\n" for folder in ordered))
        data = self.store.git("cat-file", "--batch", stdin=asked).out
        place = 0
        for _ in ordered:
            end = data.index(b"\n", place)
            words = data[place:end].split(b" ")
            place = end + 1
            if words[-1] == b"missing" or len(words) != 3 or not words[2].isdigit():  # noqa: PLR2004 - name, kind, size
                continue
            size = int(words[2])
            if words[1] == b"tree":
                self._known[words[0].decode()] = _parse(data[place : place + size], len(words[0]) // 2)
            place += size + 1

    def rebuild(self, root: str, changes: Mapping[str, tuple[str, str] | None]) -> str:
        """The tree `root` with some files set and some gone; folders above them must have been loaded."""
        here: Changes = {}
        below: dict[str, Changes] = {}
        for path, value in changes.items():
            first, slash, rest = path.partition("/")
            if slash:
                below.setdefault(first, {})[rest] = value
            else:
                here[first] = value
        names = dict(self._known.get(root, {})) if root else {}
        for name, value in here.items():
            if value is None and names.get(name, (FOLDER, ""))[0] != FOLDER:
                del names[name]
        for name, inside in below.items():
            mode, sha = names.get(name, (FOLDER, ""))
            built = self.rebuild(sha if mode == FOLDER else "", inside)
            if built:
                names[name] = (FOLDER, built)
            elif mode == FOLDER:
                names.pop(name, None)
        names.update({name: value for name, value in here.items() if value is not None})
        if not names:
            return ""
        sha = self.store.write("tree", b"".join(raw for _, raw in sorted(map(self._raw, names.items()))))
        self._known[sha] = names
        return sha

    def _raw(self, item: tuple[str, tuple[str, str]]) -> tuple[bytes, bytes]:
        """One entry by git's order and as git writes it; of a large folder few entries are new from tree to tree."""
        known = self._written.get(item)
        if known is None:
            name, (mode, sha) = item
            encoded = os.fsencode(name)
            order = encoded + b"/" if mode == FOLDER else encoded
            known = self._written[item] = (order, mode.encode() + b" " + encoded + b"\0" + bytes.fromhex(sha))
        return known


def apply_changes(store: SnapshotRepo, root: str, changes: Mapping[str, tuple[str, str] | None]) -> str:
    """One tree with some changes."""
    trees = Trees(store)
    trees.load(root, changes)
    return trees.rebuild(root, changes) or store.write_tree([])


def read_file(store: SnapshotRepo, path: str) -> tuple[str, str] | None:
    """A file of the disk as mode and object in the store; None when it is gone. A file that is being written is read again."""
    for _ in range(_READS):
        try:
            facts = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(facts.st_mode):
            return (LINK, store.write("blob", os.fsencode(os.readlink(path))))
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            data = file.read()
            after = os.fstat(fd)
        if (after.st_size, after.st_mtime_ns) == (facts.st_size, facts.st_mtime_ns) and len(data) == facts.st_size:
            break
    return (PROGRAM if facts.st_mode & stat.S_IXUSR else FILE, store.write("blob", data))


def is_light(top: str, paths: Iterable[str]) -> bool:
    """Whether the paths are few, plain and small enough to be taken in this process."""
    count = 0
    for path in paths:
        count += 1
        if count > LIMIT or "\n" in path:
            return False
        try:
            facts = os.lstat(os.path.join(top, path))
        except OSError:
            continue
        if stat.S_ISDIR(facts.st_mode) or facts.st_size > _LARGEST:
            return False
    return True


def _parse(data: bytes, width: int) -> Names:
    found: Names = {}
    at = 0
    while at < len(data):
        space = data.index(b" ", at)
        end = data.index(b"\0", space)
        sha = data[end + 1 : end + 1 + width].hex()
        found[os.fsdecode(data[space + 1 : end])] = (data[at:space].decode(), sha)
        at = end + 1 + width
    return found
