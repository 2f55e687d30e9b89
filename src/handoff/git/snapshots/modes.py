"""Permission bits: what a snapshot keeps of them beside "executable", and how they come back."""

from __future__ import annotations

import os
import stat
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from handoff.base.files import write_atomic
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.objects import FILE, LINK, POINTER, PROGRAM, TREE, Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

TOP = "."
_USUAL = {FILE: 0o644, PROGRAM: 0o755, TREE: 0o755}
_MANY = 1000
_OPEN = stat.S_IRWXU


class Modes(NamedTuple):
    """The usual bits of files, programs and folders, and every path whose bits are others."""

    usual: Mapping[str, int]
    odd: Mapping[str, int]

    def of(self, path: str, kind: str) -> int:
        return self.odd.get(path, self.usual[kind])

    def encode(self) -> bytes:
        first = " ".join(f"{self.usual[kind]:o}" for kind in _USUAL)
        lines = [f"{mode:o} {path}" for path, mode in sorted(self.odd.items())]
        return os.fsencode("\0".join([first, *lines]))

    @classmethod
    def decode(cls, data: bytes) -> Modes:
        first, *lines = os.fsdecode(data).split("\0")
        usual = {kind: int(word, 8) for kind, word in zip(_USUAL, first.split(" "), strict=True)}
        pairs = (line.split(" ", 1) for line in lines)
        return cls(usual, {path: int(mode, 8) for mode, path in pairs})


class ModeScan:
    """Keeps the bits of one checkout up to date: of changed files, and of folders, which git has no record of."""

    def __init__(self, store: SnapshotRepo, top: str, folder: str) -> None:
        self.store = store
        self.top = top
        self.path = os.path.join(folder, "modes")
        self.commit = ""
        self._limit = 0
        self._odd: dict[str, int] = {}
        self._usual: Mapping[str, int] = _USUAL
        self._folders: set[str] = set()
        self._young: set[str] = set()
        self._now = 0
        self._stored = False

    def update(self, before: str, changed: Iterable[str], *, whole: bool, names: Callable[[], Collection[str]]) -> str:
        """The commit that holds the bits: of all `names` at first, later what `changed` may have changed."""
        self._now = self._second()
        self._stored = self._load(before)
        if not self._stored:
            self._look_at_all(names)
        else:
            was, young = (dict(self._odd), set(self._folders)), set(self._young)
            self._look_again({*changed, *young}, whole=whole)
            self._stored = (self._odd, self._folders) == was and self._young == young
            if self._odd == was[0]:
                return before
            if len(self._odd) > self._limit:  # what was unusual is usual now
                self._look_at_all(names)
        data = Modes(self._usual, self._odd).encode()
        tree = self.store.graft("", {b"modes": Entry(FILE, self.store.write("blob", data))})
        self.commit = self.store.write_commit(tree, [], "modes\n", moment=0)
        return self.commit

    def keep(self) -> None:
        """Begin from here next time. To be called before the index forgets which files have changed."""
        if self._stored:
            return
        data = Modes(self._usual, self._odd).encode()
        first = f"{self.commit} {self._limit} {len(data)}\n".encode()
        lists = os.fsencode("\0".join([*sorted(self._folders), "", *sorted(self._young)]))
        write_atomic(self.path, first + data + lists, sync=False)

    def _second(self) -> int:
        """The second it is by the clock of the disk."""
        path = os.path.join(os.path.dirname(self.path), "lock")
        os.utime(path)
        return int(os.stat(path).st_mtime)

    def _load(self, before: str) -> bool:
        try:
            with open(self.path, "rb") as file:
                first, _, rest = file.read().partition(b"\n")
        except OSError:
            return False
        words = first.decode("ascii", "replace").split(" ")
        if not before or words[0] != before:
            return False
        self.commit, self._limit, size = words[0], int(words[1]), int(words[2])
        modes = Modes.decode(rest[:size])
        self._usual, self._odd = modes.usual, dict(modes.odd)
        lists = os.fsdecode(rest[size:]).split("\0")
        end = lists.index("")
        self._folders, self._young = set(lists[:end]), set(lists[end + 1 :])
        return True

    def _look_at_all(self, names: Callable[[], Collection[str]]) -> None:
        """Every file and folder once. What most of a kind have is usual."""
        self._odd, self._folders, self._young = {}, {TOP}, set()
        all_names = names()
        seen, folders = self._look_at_files(all_names), {name.rpartition("/")[0] for name in all_names}
        for mode, several in seen.items():
            if stat.S_ISDIR(mode):
                self._folders.update(several)
        for folder in folders:
            self._above(folder + "/")
        self._usual = {**_USUAL, TREE: -1}
        for folder in list(self._folders):
            self._folder(folder)
        plain = {stat.S_IMODE(mode): several for mode, several in seen.items() if stat.S_ISREG(mode)}
        self._usual = {
            FILE: _most({mode: len(several) for mode, several in plain.items() if not mode & stat.S_IXUSR}, FILE),
            PROGRAM: _most({mode: len(several) for mode, several in plain.items() if mode & stat.S_IXUSR}, PROGRAM),
            TREE: _most(Counter(self._odd.values()), TREE),
        }
        self._odd = {name: mode for name, mode in self._odd.items() if mode != self._usual[TREE]}
        for mode, several in plain.items():
            if mode != self._usual[_kind(mode)]:
                self._odd.update(dict.fromkeys(several, mode))
        self._limit = 2 * len(self._odd) + _MANY

    def _look_at_files(self, names: Iterable[str]) -> Mapping[int, list[str]]:
        """Names by their rights, and which of them are young; a loop this long is written for speed."""
        lstat, prefix, now = os.lstat, self.top + "/", self._now
        seen: dict[int, list[str]] = {}
        for name in names:
            try:
                facts = lstat(prefix + name)
            except OSError:
                continue
            seen.setdefault(facts.st_mode, []).append(name)
            if facts.st_ctime >= now:
                self._young.add(name)
        return seen

    def _look_again(self, changed: Iterable[str], *, whole: bool) -> None:
        near: set[str] = set()
        known = self._folders
        self._folders = near
        for name in changed:
            self._file(name)
        self._folders = known | near
        for folder in list(self._folders) if whole else near:
            self._folder(folder)

    def _above(self, name: str) -> None:
        """Note the folders above a name."""
        at = name.rpartition("/")[0]
        while at and at not in self._folders:
            self._folders.add(at)
            at = at.rpartition("/")[0]

    def _file(self, name: str) -> None:
        """One name of the tree: a file, or the folder of a submodule; the folders above it are looked at later."""
        known = self._odd.pop(name, None)
        self._young.discard(name)
        self._above(name)
        try:
            facts = os.lstat(os.path.join(self.top, name))
        except PermissionError:  # behind a locked door it has the bits it had: to be looked at when the door is open
            self._young.add(name)
            if known is not None:
                self._odd[name] = known
            return
        except OSError:
            return
        mode = facts.st_mode
        if int(facts.st_ctime) >= self._now:  # git tells by the second: it may not see one more change in this one
            self._young.add(name)
        if stat.S_ISDIR(mode):
            self._folders.add(name)
        elif stat.S_ISREG(mode):
            bits = stat.S_IMODE(mode)
            if bits != self._usual[_kind(bits)]:
                self._odd[name] = bits

    def _folder(self, name: str) -> None:
        try:
            mode = os.lstat(os.path.join(self.top, name)).st_mode
        except OSError:
            mode = 0
        if not stat.S_ISDIR(mode):
            self._folders.discard(name)
            if not stat.S_ISREG(mode):
                self._odd.pop(name, None)
        elif stat.S_IMODE(mode) != self._usual[TREE]:
            self._odd[name] = stat.S_IMODE(mode)
        else:
            self._odd.pop(name, None)


def _kind(mode: int) -> str:
    return PROGRAM if mode & stat.S_IXUSR else FILE


def _most(counted: Mapping[int, int], kind: str) -> int:
    return max(counted, key=lambda mode: (counted[mode], mode)) if counted else _USUAL[kind]


# --- bringing them back -------------------------------------------------------------------------------


def read_modes(store: SnapshotRepo, commit: str) -> Modes | None:
    """The bits a snapshot holds; None for one from before they were kept."""
    return Modes.decode(os.fsencode(store.ask("cat-file", "blob", f"{commit}:modes"))) if commit else None


def missing_folders(top: str, paths: Iterable[str]) -> set[str]:
    """The folders above the paths that are not there: whoever writes the files will make them."""
    found: set[str] = set()
    for path in paths:
        at = path.rpartition("/")[0]
        while at and at not in found and not os.path.isdir(os.path.join(top, at)):
            found.add(at)
            at = at.rpartition("/")[0]
    return found


def open_up(top: str, names: Iterable[str], git_folder: str) -> tuple[dict[str, int], list[str]]:
    """Let the owner in again where somebody locked him out: what had which bits, and what is worth saying."""
    closed: dict[str, int] = {}
    for name in sorted({TOP, *names}, key=lambda one: (one != TOP, one)):
        if _open_one(top, name, closed):
            for folder, folders, files in os.walk(os.path.join(top, name)):
                folders[:] = [one for one in folders if one != ".git"]
                for one in (*folders, *files):
                    _open_one(top, os.path.relpath(os.path.join(folder, one), top), closed)
    if os.lstat(git_folder).st_mode & _OPEN == _OPEN:
        return closed, []
    _allow(git_folder, _OPEN)
    for folder, folders, files in os.walk(git_folder):
        for one in folders:  # before the walk goes in there
            _allow(os.path.join(folder, one), _OPEN)
        if f"{os.sep}objects" not in folder[len(git_folder) :]:
            for one in files:
                _allow(os.path.join(folder, one), stat.S_IRUSR | stat.S_IWUSR)
    return closed, [f"{git_folder} was locked; its owner may write there again"]


def _open_one(top: str, name: str, closed: dict[str, int]) -> bool:
    """Open one path to its owner; True for a folder that could not be entered before."""
    path = os.path.join(top, name)
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    folder = stat.S_ISDIR(mode)
    if not (folder or stat.S_ISREG(mode)) or os.access(path, os.R_OK | (os.W_OK | os.X_OK if folder else 0)):
        return False
    if not _allow(path, _OPEN if folder else stat.S_IRUSR):
        return False
    closed.setdefault(name, stat.S_IMODE(mode))
    return folder


def _allow(path: str, bits: int) -> bool:
    """Give the owner these rights; False where we are not the owner, or nothing was to do."""
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode) or stat.S_IMODE(mode) | bits == stat.S_IMODE(mode):
        return False
    try:
        os.chmod(path, stat.S_IMODE(mode) | bits)
    except PermissionError:
        return False
    return True


def kinds_of(store: SnapshotRepo, tree: str, paths: Sequence[str] = ()) -> dict[str, str]:
    """Every path of the tree that has permission bits of its own: within `paths` and the folders above them."""
    found = {TOP: TREE}
    for line in store.ask("ls-tree", "-r", "-t", "-z", tree, "--", *paths).split("\0"):
        facts, tab, name = line.partition("\t")
        kind = facts.split(" ")[0].lstrip("0")
        if tab and kind != LINK:
            found[name] = TREE if kind == POINTER else kind
    return found


def differing_modes(
    top: str,
    kinds: Mapping[str, str],
    modes: Modes,
    *,
    paths: Sequence[str] = (),
    made: Container[str] = (),
    opened: Container[str] = (),
) -> dict[str, int]:
    """Which paths must get other bits than they have: of `paths` only, and of what was `made`; `opened` ones always."""
    found = {}
    for name, kind in kinds.items():
        if paths and name not in made and not any(name == path or name.startswith(path + "/") for path in paths):
            continue
        try:
            mode = os.lstat(os.path.join(top, name)).st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode) != (kind == TREE) or not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            continue
        if name in opened or stat.S_IMODE(mode) != modes.of(name, kind):
            found[name] = modes.of(name, kind)
    return found


def put_modes(top: str, wanted: Mapping[str, int]) -> list[str]:
    """Set the bits: folders after what they hold, since a closed folder lets nobody in. What is another's is said."""
    refused = []
    with Beneath(top) as files:
        for name in sorted(wanted, key=lambda one: (one != TOP, one), reverse=True):
            try:
                files.chmod(name, wanted[name])
            except PermissionError:
                refused.append(f"{name} belongs to somebody else: its rights stay as they are")
            except OSError:
                continue  # no longer there as itself
    return refused
