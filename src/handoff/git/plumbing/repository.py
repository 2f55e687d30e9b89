"""A repository for committing: its folders, its settings, its objects. What is packed is asked of git, the rest is read here."""

from __future__ import annotations

import os
import re
import time
import zlib

from handoff.base.errors import UserError
from handoff.base.process import Completed, capture
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

try:  # half the start-up of hashlib, which would load OpenSSL for a few small objects
    from _sha1 import sha1  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # pragma: no cover - a Python without the module
    from hashlib import sha1

FILE, PROGRAM, LINK, TREE, POINTER = b"100644", b"100755", b"120000", b"40000", b"160000"
OBJECT_MODE = 0o444
MANY_NAMES = 500
_OFF = ("false", "no", "off", "0", "")


class Entry(Record):
    """What a tree says about one name."""

    mode: bytes
    sha: str


RawEntry = tuple[bytes, bytes]  # mode, and the object's name in bytes
_patterns: dict[int, re.Pattern[bytes]] = {}


def _pattern(size: int) -> re.Pattern[bytes]:
    """What finds all entries of a tree at once."""
    if size not in _patterns:
        _patterns[size] = re.compile(rb"([0-7]+) ([^\0]+)\0([\s\S]{%d})" % size)
    return _patterns[size]


class GitSettings(Record):
    """git's settings, with the files they came from, so that a change is noticed without asking git again."""

    values: dict[str, str]
    stamps: tuple[tuple[str, tuple[int, int, int]], ...]

    def get(self, key: str, default: str = "") -> str:
        return self.values.get(key, default)

    def yes(self, key: str, *, default: bool = False) -> bool:
        value = self.values.get(key)
        return default if value is None else value.lower() not in _OFF


class Repository:
    """One checkout. Keep it for several commits: settings are read once as long as their files stay the same."""

    def __init__(self, top: str, environment: Mapping[str, str]) -> None:
        self.top = os.path.abspath(top)
        self.environment = dict(environment)
        self.folder = _git_folder(self.top)
        self.common = _common_folder(self.folder)
        self.objects = os.path.join(self.common, "objects")
        self._settings: GitSettings | None = None
        self._settings_checked = False
        self.turn = -1  # the lock of the line while it is held
        self._trees: dict[str, bytes] = {}
        self._entries: dict[str, dict[bytes, RawEntry]] = {}

    # --- git --------------------------------------------------------------------------------------

    def git(self, *words: str, stdin: bytes | None = None, index: str = "", **extra: str) -> Completed:
        """One git call in this checkout; names are literal, and no daemon is left behind."""
        environment = {**self.environment, "GIT_LITERAL_PATHSPECS": "1", **extra}
        if index:
            environment["GIT_INDEX_FILE"] = index
        return capture(
            ["git", "-C", self.top, "-c", "core.fsmonitor=false", *words], environment=environment, stdin=stdin
        )

    def ask(self, *words: str, stdin: bytes | None = None, index: str = "", **extra: str) -> bytes:
        """Like `git`, but a failure is an error with git's own words."""
        answer = self.git(*words, stdin=stdin, index=index, **extra)
        if answer.code:
            raise UserError(f"git {words[0]} failed: {answer.error_text or f'exit {answer.code}'}", f"In {self.top}.")
        return answer.out

    # --- settings ---------------------------------------------------------------------------------

    @property
    def settings(self) -> GitSettings:
        """git's settings; looked at again once for each commit."""
        if self._settings is not None and self._settings_checked:
            return self._settings
        if self._settings is None or any(_stamp(path) != stamp for path, stamp in self._settings.stamps):
            self._settings = self._read_settings()
        self._settings_checked = True
        return self._settings

    def _read_settings(self) -> GitSettings:
        home = self.environment.get("HOME", "")
        candidates = {
            os.path.join(self.common, "config"),
            os.path.join(self.folder, "config.worktree"),
            os.path.join(home, ".gitconfig"),
            os.path.join(self.environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git", "config"),
        }
        fields = iter(self.ask("config", "--list", "--show-origin", "-z").split(b"\0"))
        values: dict[str, str] = {}
        for origin, pair in zip(fields, fields, strict=False):
            key, found, value = pair.decode("utf-8", "surrogateescape").partition("\n")
            values[key] = value if found else "true"
            if origin.startswith(b"file:"):
                candidates.add(os.path.join(self.top, os.fsdecode(origin[5:])))
        stamps = [(path, _stamp(path)) for path in sorted(candidates)]
        if any(key.startswith("includeif.") for key in values):
            stamps.append(("", (-1, -1, -1)))  # depends on the branch: always read anew
        return GitSettings(values, tuple(stamps))

    # --- objects ----------------------------------------------------------------------------------

    @property
    def hash(self) -> Callable[[bytes], object]:
        if self.settings.get("extensions.objectformat", "sha1") == "sha1":
            return sha1  # type: ignore[no-any-return,unused-ignore]
        import hashlib

        return hashlib.sha256

    @property
    def id_bytes(self) -> int:
        return 20 if self.settings.get("extensions.objectformat", "sha1") == "sha1" else 32

    @property
    def sync(self) -> bool:
        """Whether the person asked git to make objects survive a power cut."""
        parts = self.settings.get("core.fsync").split(",")
        wanted = {"all", "added", "committed", "objects", "loose-object"} & set(parts) and "-loose-object" not in parts
        return bool(wanted) or self.settings.yes("core.fsyncobjectfiles")

    def write(self, kind: bytes, data: bytes) -> str:
        """Put one object into the repository and return its name."""
        content = b"%s %d\0%s" % (kind, len(data), data)
        name: str = self.hash(content).hexdigest()  # type: ignore[attr-defined]
        folder = f"{self.objects}/{name[:2]}"
        path = f"{folder}/{name[2:]}"
        if os.path.exists(path):
            return name
        temp = f"{folder}/tmp_obj_{os.urandom(6).hex()}"  # noqa: S108 - git's own name for it, so that its gc finds it
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            fd = os.open(temp, flags, OBJECT_MODE)
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)
            fd = os.open(temp, flags, OBJECT_MODE)
        try:
            view = memoryview(zlib.compress(content, 1))
            while view:
                view = view[os.write(fd, view) :]
            if self.sync:
                os.fsync(fd)
            os.rename(temp, path)
        except OSError:
            os.unlink(temp)
            raise
        finally:
            os.close(fd)
        return name

    def read(self, name: str) -> bytes:
        """One object's bytes, without its head."""
        known = self._trees.get(name)
        if known is not None:
            return known
        try:
            with open(f"{self.objects}/{name[:2]}/{name[2:]}", "rb") as file:
                return zlib.decompress(file.read()).partition(b"\0")[2]
        except (OSError, zlib.error):
            return self.fetch([name])[0]

    def fetch(self, names: Iterable[str]) -> list[bytes]:
        """Several objects in one question; what git does not have is empty."""
        wanted = list(names)
        out = self.ask(
            "--no-replace-objects", "cat-file", "--batch", stdin="".join(name + "\n" for name in wanted).encode()
        )
        found: list[bytes] = []
        at = 0
        for _ in wanted:
            end = out.index(b"\n", at)
            head = out[at:end].split(b" ")
            if head[-1] == b"missing":
                found.append(b"")
                at = end + 1
                continue
            size = int(head[-1])
            data = out[end + 1 : end + 1 + size]
            if head[1] == b"tree":
                self._trees[head[0].decode()] = data
            found.append(data)
            at = end + 2 + size
        return found

    def loose(self, name: str) -> bool:
        return os.path.exists(f"{self.objects}/{name[:2]}/{name[2:]}")

    def forget(self) -> None:
        """Drop what was kept for one commit."""
        self._settings_checked = False
        self._trees.clear()
        self._entries.clear()

    # --- trees ------------------------------------------------------------------------------------

    def tree(self, name: str) -> dict[bytes, RawEntry]:
        """The entries of one tree; kept for one commit, so do not change them."""
        if not name:
            return {}
        known = self._entries.get(name)
        if known is None:
            found = _pattern(self.id_bytes).findall(self.read(name))
            known = self._entries[name] = {entry: (mode, sha) for mode, entry, sha in found}
        return known

    def listed(self, paths: Sequence[bytes], *flags: str, index: str = "") -> list[bytes]:
        """What `git ls-files` says about the paths; of very many it is asked at once, not by name."""
        wanted = set(paths)
        names = [os.fsdecode(path) for path in paths] if len(paths) <= MANY_NAMES else []
        out = self.ask("ls-files", "-z", *flags, "--", *names, index=index).split(b"\0")
        return [line for line in out if line and (names or line.partition(b"\t")[2] in wanted or line[2:] in wanted)]

    def write_tree(self, entries: Mapping[bytes, RawEntry]) -> str:
        """A tree from its entries, which must be in git's order."""
        return self.write(
            b"tree", b"".join([b"%s %s\0%s" % (mode, name, sha) for name, (mode, sha) in entries.items()])
        )

    def look_up(self, tree: str, path: bytes) -> Entry | None:
        """What a tree says about a path, or None."""
        folder = tree
        parts = path.split(b"/")
        for part in parts[:-1]:
            mode, sha = self.tree(folder).get(part, (b"", b""))
            if mode != TREE:
                return None
            folder = sha.hex()
        found = self.tree(folder).get(parts[-1])
        return Entry(found[0], found[1].hex()) if found else None

    def graft(self, tree: str, changes: Mapping[bytes, Entry | None]) -> str:
        """The tree with `changes` put in (None removes); only the trees on the way are rebuilt. Empty means no tree left."""
        old = self.tree(tree)
        entries = dict(old)
        plain: list[bytes] = []
        below: dict[bytes, dict[bytes, Entry | None]] = {}
        for path, entry in changes.items():
            first, slash, rest = path.partition(b"/")
            if slash:
                below.setdefault(first, {})[rest] = entry
            elif entry is not None:
                plain.append(first)
                entries[first] = (entry.mode, bytes.fromhex(entry.sha))
            elif first in entries and entries[first][0] != TREE:
                del entries[first]
        for name, inside in below.items():
            mode, sha = entries.get(name, (b"", b""))
            if mode and mode != TREE and not any(inside.values()):
                continue  # a file stands where the removed ones were
            new = self.graft(sha.hex() if mode == TREE else "", inside)
            if new:
                entries[name] = (TREE, bytes.fromhex(new))
            else:
                entries.pop(name, None)
        # What only replaces its like keeps the order.
        if any((name in entries and entries[name][0] == TREE) != _was_tree(old, name) for name in (*plain, *below)):
            entries = dict(sorted(entries.items(), key=lambda item: item[0] + b"/" if item[1][0] == TREE else item[0]))
        return self.write_tree(entries) if entries else ""

    def prefetch(self, commit: str, paths: Iterable[bytes]) -> str:
        """The tree of a commit; if it is packed, everything the paths need is fetched with it at once."""
        if self.loose(commit):
            tree = _tree_of(self.read(commit))
            if self.loose(tree):
                return tree
        folders = sorted({path[:at] for path in paths for at in range(len(path)) if path[at : at + 1] == b"/"})
        askable = [os.fsdecode(folder) for folder in folders if b"\n" not in folder]
        return _tree_of(self.fetch([commit, f"{commit}^{{tree}}", *(f"{commit}:{folder}" for folder in askable)])[0])


def _was_tree(old: Mapping[bytes, RawEntry], name: bytes) -> bool | None:
    """Whether the name stood for a folder; None if it was not there."""
    return old[name][0] == TREE if name in old else None


def _tree_of(commit: bytes) -> str:
    if not commit.startswith(b"tree "):
        raise UserError("HEAD does not name a commit that can be read.", "Check the repository: git fsck")
    return commit[5 : commit.index(b"\n")].decode()


def offset(moment: float) -> str:
    """The local zone as git writes it: +0200."""
    seconds = time.localtime(moment).tm_gmtoff
    sign = "-" if seconds < 0 else "+"
    return f"{sign}{abs(seconds) // 3600:02d}{abs(seconds) % 3600 // 60:02d}"


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _git_folder(top: str) -> str:
    place = os.path.join(top, ".git")
    if os.path.isdir(place):
        return place
    try:
        with open(place, encoding="utf-8", errors="surrogateescape") as file:
            word, _, target = file.read().partition(": ")
    except OSError as error:
        raise UserError(f"{top} is not the top of a git checkout.", "Go to your project first.") from error
    if word != "gitdir":
        raise UserError(f"{place} does not name a git folder.")
    return os.path.normpath(os.path.join(top, target.rstrip("\n")))


def _common_folder(folder: str) -> str:
    try:
        with open(os.path.join(folder, "commondir"), encoding="utf-8", errors="surrogateescape") as file:
            return os.path.normpath(os.path.join(folder, file.read().rstrip("\n")))
    except OSError:
        return folder
