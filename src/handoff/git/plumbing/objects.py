"""Objects and trees: loose ones are read and written here, packed ones are asked of git, many questions at a time."""

from __future__ import annotations

import os
import re
import zlib
from contextlib import contextmanager

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import Git, algorithm_of, open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, ClassVar

    from handoff.base.process import Completed

try:  # half the start-up of hashlib, which would load OpenSSL for a few small objects
    from _sha1 import sha1  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # pragma: no cover - a Python without the module
    from hashlib import sha1

FILE, PROGRAM, LINK, TREE, POINTER = "100644", "100755", "120000", "40000", "160000"
_TREE = TREE.encode()
_OBJECT_MODE = 0o444
_FEW = 10  # more objects than these, written together, become one pack
_LARGE = 1 << 20  # from here on OpenSSL is worth its start-up
_HEADER_WORDS = 3  # what `cat-file --batch` says before an object: name, kind, size
_KINDS = ("", "commit", "tree", "blob", "tag")  # by their numbers in a pack
_patterns: dict[int, re.Pattern[bytes]] = {}

RawEntry = tuple[bytes, bytes]  # mode, and the object's name in bytes


class Entry(Record):
    """What a tree says about one name."""

    mode: str
    sha: str


class Found(Record):
    """One object as git tells it; all is empty of what it does not have."""

    sha: str = ""
    kind: str = ""
    data: bytes = b""


def fetch(git: Git, names: Iterable[str], **more: str) -> list[Found]:
    """Several objects, by any name git understands, in one question."""
    wanted = list(names)
    asked = os.fsencode("".join(f"{name}\n" for name in wanted))
    out = git.ask_bytes("cat-file", "--batch", stdin=asked, GIT_NO_REPLACE_OBJECTS="1", **more)
    found, at = [], 0
    for _ in wanted:
        end = out.index(b"\n", at)
        words = out[at:end].split(b" ")
        at = end + 1
        if len(words) != _HEADER_WORDS or not words[2].isdigit():
            found.append(Found())
            continue
        size = int(words[2])
        found.append(Found(words[0].decode(), words[1].decode(), out[at : at + size]))
        at += size + 1
    return found


class Difference(Record):
    """One path that differs between two trees: A, D or M, its new mode and both objects (zeros for none)."""

    path: str
    letter: str
    mode: str
    old: str
    sha: str


def differences(git: Git, old: str, new: str, paths: Sequence[str] = ()) -> list[Difference]:
    """What must happen to one tree or commit to become the other; a rename is a deletion and an addition."""
    words = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new, "--", *paths)
    fields = git.ask(*words).split("\0")
    found = []
    for facts, path in zip(fields[::2], fields[1::2], strict=False):
        _, mode, before, after, letter = facts.split(" ")
        found.append(Difference(path, letter, mode, before, after))
    return found


def commit_bytes(
    tree: str, parents: Sequence[str], message: str, *, author: str, committer: str = "", encoding: str = ""
) -> bytes:
    """A commit as git would write it; author and committer with moment and zone."""
    head = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    head += [f"author {author}", f"committer {committer or author}", *([f"encoding {encoding}"] if encoding else [])]
    return ("\n".join(head) + "\n\n" + message).encode("utf-8", "surrogateescape")


class Objects(Git):
    """A git whose objects we read and write ourselves. What was read of trees is kept until `forget`."""

    held: dict[str, tuple[str, bytes]] | None = None  # written, but not on the disk yet

    def __init__(self, objects: str, top: str, environment: Mapping[str, str], **how: Any) -> None:
        super().__init__(top, environment, **how)
        self.objects = objects
        self._algorithm = ""
        self.packs: list[bytes] = []  # what was written together, for a checkout that needs the same objects
        self.forget()

    def forget(self) -> None:
        """Begin without anything kept; what lies behind a name never changes, so this is only for the memory."""
        self._packed_trees: dict[str, bytes] = {}
        self._entries: dict[str, dict[bytes, RawEntry]] = {}

    @property
    def algorithm(self) -> str:
        """By which sum objects are named here."""
        if not self._algorithm:
            self._algorithm = algorithm_of(os.path.dirname(self.objects))
        return self._algorithm

    @property
    def durable(self) -> bool:
        """Whether each object must survive a power cut by itself."""
        return False

    # --- objects ----------------------------------------------------------------------------------

    def write(self, kind: str, data: bytes) -> str:
        """Put one object into the repository (once) and return its name."""
        content = b"%s %d\0%s" % (kind.encode(), len(data), data)
        if self.algorithm == "sha1" and len(content) < _LARGE:
            name = digest(content)
        else:
            import hashlib

            name = hashlib.new(self.algorithm, content, usedforsecurity=False).hexdigest()
        if self.held is not None:
            self.held.setdefault(name, (kind, data))
            return name
        folder = f"{self.objects}/{name[:2]}"
        path = f"{folder}/{name[2:]}"
        if os.path.exists(path):
            return name
        temp = os.path.join(folder, f"tmp_obj_{os.urandom(6).hex()}")  # git's own name for it, so that its gc finds it
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            fd = os.open(temp, flags, _OBJECT_MODE)
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)
            fd = os.open(temp, flags, _OBJECT_MODE)
        try:
            view = memoryview(zlib.compress(content, 1))
            while view:
                view = view[os.write(fd, view) :]
            if self.durable:
                os.fsync(fd)
            os.rename(temp, path)
        except OSError:
            os.unlink(temp)
            raise
        finally:
            os.close(fd)
        return name

    def read(self, name: str, *, borrow: str = "") -> bytes:
        """One object's bytes, without its head."""
        if name in self._packed_trees:
            return self._packed_trees[name]
        if self.held and name in self.held:
            return self.held[name][1]
        try:
            with open(f"{self.objects}/{name[:2]}/{name[2:]}", "rb") as file:
                return zlib.decompress(file.read()).partition(b"\0")[2]
        except (OSError, zlib.error):
            found = fetch(self, [name], borrow=borrow)[0]
        if not found.kind:
            raise self._lack(name)
        return found.data

    def _lack(self, name: str) -> UserError:
        return UserError(f"{self.objects} lacks {name}, or it cannot be read.", "Check the repository: git fsck")

    def has_loose(self, name: str) -> bool:
        """Whether the object lies in a file of its own, or is about to."""
        return bool(self.held and name in self.held) or os.path.exists(f"{self.objects}/{name[:2]}/{name[2:]}")

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Inside, new objects are kept in memory until git or the end needs them, and are written together."""
        self.forget()
        self.held = {}
        try:
            yield
            self.flush()
        finally:
            self.held = None

    def git(self, *words: str, **options: Any) -> Completed:
        """One git call; it finds on the disk what was written before."""
        self.flush()
        return super().git(*words, **options)

    def begin(self, *words: str, **options: Any) -> Callable[[], Completed]:
        """The same, running beside us."""
        self.flush()
        return super().begin(*words, **options)

    def flush(self) -> None:
        """Put on the disk what waits, for another git that reads it. A file for each of many would be most of the time: one pack."""
        if not self.held:
            return
        waiting, self.held = self.held, None
        try:
            if len(waiting) <= _FEW:
                for kind, data in waiting.values():
                    self.write(kind, data)
                return
            self.packs.append(pack(waiting.values(), self.algorithm))
            if self.git("index-pack", "--stdin", stdin=self.packs[-1]).code:
                raise UserError(f"{self.objects} cannot be written.", "Look at it: is the disk full?")
        finally:
            self.held = {}

    # --- trees ------------------------------------------------------------------------------------

    def tree(self, name: str) -> dict[bytes, RawEntry]:
        """The entries of one tree in git's order; they are kept, so do not change them."""
        if not name:
            return {}
        known = self._entries.get(name)
        if known is None:
            found = _pattern(len(name) // 2).findall(self.read(name))
            known = self._entries[name] = {entry: (mode, sha) for mode, entry, sha in found}
        return known

    def look_up(self, tree: str, path: bytes) -> Entry | None:
        """What a tree says about a path, or None."""
        folder, _, last = path.rpartition(b"/")
        for part in folder.split(b"/") if folder else ():
            mode, sha = self.tree(tree).get(part, (b"", b""))
            if mode != _TREE:
                return None
            tree = sha.hex()
        found = self.tree(tree).get(last)
        return Entry(found[0].decode(), found[1].hex()) if found else None

    def load(self, name: str, paths: Iterable[bytes]) -> str:
        """The tree of a commit, or the tree itself; what the paths need of it is read along, all that is packed in one question."""
        return self.load_all([(name, paths)])[0]

    def load_all(self, wanted: Iterable[tuple[str, Iterable[bytes]]]) -> list[str]:
        """The same for many, each with its own paths: one question for all of them."""
        trees: list[str] = []
        asked: list[str] = []
        far: list[tuple[int, int]] = []  # whose tree is still to be told, and where its answer begins
        for name, paths in wanted:
            folders = sorted({path[:at] for path in paths for at in range(len(path)) if path[at : at + 1] == b"/"})
            near = (tree_named(self.read(name)) or name) if self.has_loose(name) else ""
            if not near or not all(self._is_near(near, folder) for folder in (b"", *folders)):
                far.append((len(trees), len(asked)))
                askable = [os.fsdecode(folder) for folder in folders if b"\n" not in folder]
                asked += [name, f"{name}^{{tree}}", *(f"{name}:{folder}" for folder in askable)]
            trees.append(near)
        found = fetch(self, asked) if asked else []
        self._packed_trees.update((one.sha, one.data) for one in found if one.kind == "tree")
        for at, first in far:
            if found[first].kind not in ("commit", "tree"):
                raise self._lack(asked[first])
            trees[at] = tree_named(found[first].data) or asked[first]
        return trees

    def _is_near(self, tree: str, folder: bytes) -> bool:
        """Whether every tree down to the folder can be read without git."""
        parts = folder.split(b"/") if folder else []
        while tree in self._entries or tree in self._packed_trees or self.has_loose(tree):
            mode, sha = self.tree(tree).get(parts.pop(0), (b"", b"")) if parts else (b"", b"")
            if mode != _TREE:
                return True
            tree = sha.hex()
        return False

    def graft(self, tree: str, changes: Mapping[bytes, Entry | None]) -> str:
        """The tree with `changes` put in (None removes). Only the trees on the way are rebuilt: the cost follows the change."""
        return self._graft(tree, changes) or self.write("tree", b"")

    def _graft(self, tree: str, changes: Mapping[bytes, Entry | None]) -> str:
        """Like `graft`, but empty when no entry is left."""
        old = self.tree(tree)
        entries = dict(old)
        touched: set[bytes] = set()
        below: dict[bytes, dict[bytes, Entry | None]] = {}
        for path, entry in changes.items():
            first, slash, rest = path.partition(b"/")
            touched.add(first)
            if slash:
                below.setdefault(first, {})[rest] = entry
            elif entry is not None:
                entries[first] = (entry.mode.encode(), bytes.fromhex(entry.sha))
            elif first in entries and entries[first][0] != _TREE:
                del entries[first]
        for name, inside in below.items():
            mode, sha = entries.get(name, (b"", b""))
            if mode and mode != _TREE and not any(inside.values()):
                continue  # a file stands where the removed ones were
            new = self._graft(sha.hex() if mode == _TREE else "", inside)
            if new:
                entries[name] = (_TREE, bytes.fromhex(new))
            else:
                entries.pop(name, None)
        if not entries:
            return ""
        # git sorts a folder as if its name ended in a slash. What only replaces its like keeps the order.
        if any(name in entries and _kind(entries, name) != _kind(old, name) for name in touched):
            entries = dict(sorted(entries.items(), key=lambda item: item[0] + b"/" if item[1][0] == _TREE else item[0]))
        made = self.write("tree", b"".join([b"%s %s\0%s" % (mode, name, sha) for name, (mode, sha) in entries.items()]))
        self._entries[made] = entries
        return made


def pack(objects: Iterable[tuple[str, bytes]], algorithm: str) -> bytes:
    """The bytes of a pack that holds the objects whole."""
    import hashlib

    parts = [part for kind, data in objects for part in (_pack_head(kind, len(data)), zlib.compress(data, 1))]
    body = b"PACK" + (2).to_bytes(4, "big") + (len(parts) // 2).to_bytes(4, "big") + b"".join(parts)
    return body + hashlib.new(algorithm, body, usedforsecurity=False).digest()


def _pack_head(kind: str, size: int) -> bytes:
    """Kind and length as git writes them: four bits, then seven at a time, a set top bit says that more follow."""
    first = (_KINDS.index(kind) << 4) | (size & 15)
    size >>= 4
    found = bytearray()
    while size:
        found.append(first | 0x80)
        first = size & 0x7F
        size >>= 7
    found.append(first)
    return bytes(found)


def _pattern(size: int) -> re.Pattern[bytes]:
    """What finds all entries of a tree at once."""
    if size not in _patterns:
        _patterns[size] = re.compile(rb"([0-7]+) ([^\0]+)\0([\s\S]{%d})" % size)
    return _patterns[size]


def _kind(entries: Mapping[bytes, RawEntry], name: bytes) -> bool | None:
    """Whether the name stands for a folder; None if it is not there."""
    return entries[name][0] == _TREE if name in entries else None


def digest(data: bytes) -> str:
    """A sum to name something by, or to tell whether it changed."""
    return str(sha1(data, usedforsecurity=False).hexdigest())


def parents_named(commit: bytes) -> list[str]:
    """The parents a commit names."""
    head = commit.partition(b"\n\n")[0].split(b"\n")
    return [line[7:].decode() for line in head if line.startswith(b"parent ")]


def tree_named(commit: bytes) -> str:
    """The tree a commit names; empty for what is a tree itself."""
    return commit[5 : commit.index(b"\n")].decode() if commit.startswith(b"tree ") else ""


MANY_NAMES = 500
_OFF = ("false", "no", "off", "0", "")


class FileStamp(Record):
    """A file as it was when it was looked at; if this is still so, its content still is."""

    mode: int
    size: int
    mtime: int
    ctime: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileStamp:
        return cls(found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def look(path: str | bytes, *, follow: bool = False) -> FileStamp | None:
    """How a file is now; None if there is none. What may not be looked at is an error, unless links are followed."""
    try:
        return FileStamp.of(os.stat(path, follow_symlinks=follow))
    except OSError as error:
        if follow or isinstance(error, FileNotFoundError | NotADirectoryError):
            return None
        raise


class GitSettings(Record):
    """git's settings, with the files they came from, so that a change is noticed without asking git again."""

    values: dict[str, str]
    stamps: dict[str, FileStamp | None]
    lasting: bool  # whether they depend on their files alone

    def get(self, key: str, default: str = "") -> str:
        return self.values.get(key, default)

    def yes(self, key: str, *, default: bool = False) -> bool:
        value = self.values.get(key)
        return default if value is None else value.lower() not in _OFF

    def are_current(self) -> bool:
        """Whether no file of theirs has changed."""
        return self.lasting and all(look(path, follow=True) == was for path, was in self.stamps.items())


class Repository(Objects):
    """One checkout. Keep it for several commits. Names are literal, no daemon is left behind, the person's hooks run."""

    always: ClassVar = {"GIT_LITERAL_PATHSPECS": "1"}

    def __init__(self, top: str, environment: Mapping[str, str]) -> None:
        self.source = open_source(os.path.abspath(top))
        self.folder, self.common = self.source.folder, self.source.common
        self.turn = -1  # the lock of the line while it is held
        self._settings: GitSettings | None = None
        super().__init__(self.source.objects, self.source.top, environment, settings=("core.fsmonitor=false",))

    def forget(self) -> None:
        """Drop what was kept for one commit."""
        super().forget()
        self._settings_checked = False

    @property
    def settings(self) -> GitSettings:
        """git's settings; looked at again once for each commit."""
        known = self._settings
        if known is None or not (self._settings_checked or known.are_current()):
            known = self._settings = self._read_settings()
        self._settings_checked = True
        return known

    def _read_settings(self) -> GitSettings:
        home = self.environment.get("HOME", "")
        candidates = {
            os.path.join(self.common, "config"),
            os.path.join(self.folder, "config.worktree"),
            os.path.join(home, ".gitconfig"),
            os.path.join(self.environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git", "config"),
        }
        fields = iter(self.ask_bytes("config", "--list", "--show-origin", "-z").split(b"\0"))
        values: dict[str, str] = {}
        for origin, pair in zip(fields, fields, strict=False):
            key, found, value = pair.decode("utf-8", "surrogateescape").partition("\n")
            values[key] = value if found else "true"
            if origin.startswith(b"file:"):
                candidates.add(os.path.join(self.top, os.fsdecode(origin[5:])))
        by_branch = any(key.startswith("includeif.") for key in values)
        return GitSettings(values, {path: look(path, follow=True) for path in candidates}, lasting=not by_branch)

    @property
    def id_bytes(self) -> int:
        return 20 if self.algorithm == "sha1" else 32

    @property
    def durable(self) -> bool:
        """Whether the person asked git to make objects survive a power cut."""
        parts = self.settings.get("core.fsync").split(",")
        wanted = {"all", "added", "committed", "objects", "loose-object"} & set(parts) and "-loose-object" not in parts
        return bool(wanted) or self.settings.yes("core.fsyncobjectfiles")

    def listed(self, paths: Sequence[bytes], *flags: str, index: str = "") -> list[bytes]:
        """What `git ls-files` says about the paths; of very many it is asked at once, not by name."""
        wanted = set(paths)
        names = [os.fsdecode(path) for path in paths] if len(paths) <= MANY_NAMES else []
        out = self.ask_bytes("ls-files", "-z", *flags, "--", *names, index=index).split(b"\0")
        return [line for line in out if line and (names or line.partition(b"\t")[2] in wanted or line[2:] in wanted)]

    def staged(self, paths: Sequence[bytes] = (), *, index: str = "") -> Iterator[tuple[bytes, str, Entry]]:
        """What an index holds for the paths, or for all there are: path, stage, entry."""
        lines = self.listed(paths, "-s", index=index) if paths else self.ask_bytes("ls-files", "-s", "-z").split(b"\0")
        for line in filter(None, lines):
            facts, _, path = line.partition(b"\t")
            mode, sha, stage = facts.decode().split(" ")
            yield path, stage, Entry(mode, sha)
