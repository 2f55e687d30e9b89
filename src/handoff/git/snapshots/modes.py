"""Permission bits: what a snapshot keeps of them beside "executable", and how they come back."""

from __future__ import annotations

import os
import stat
from collections import Counter

from handoff.base.files import write_atomic
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import read_plain
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.objects import FILE, LINK, POINTER, PROGRAM, TREE, Entry

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.snapshots.scan import Scan

TOP = "."
_USUAL = {FILE: 0o644, PROGRAM: 0o755, TREE: 0o755}
_OPEN = stat.S_IRWXU


class Modes(Record):
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


class ModeState(Record):
    """What the next look at a checkout begins from, and the commit that holds its bits."""

    commit: str = ""
    modes: Modes = Modes({}, {})
    folders: frozenset[str] = frozenset()
    """Every folder: git has no record of them, so each is looked at whenever all files are."""
    young: frozenset[str] = frozenset()
    """Names that changed in the second of the look, or lie behind a locked door: git may not see one more change of them."""

    @classmethod
    def load(cls, folder: str, commit: str) -> ModeState:
        """What was kept; nothing at the first time, or if it belongs to another snapshot."""
        first, _, rest = read_plain(os.path.join(folder, "modes")).partition(b"\n")
        if not commit or first != commit.encode():
            return cls()
        modes, *lists = rest.split(b"\0\0")
        folders, young = (frozenset(os.fsdecode(one).split("\0")) - {""} for one in lists)
        return cls(commit, Modes.decode(modes), folders, young)

    def save(self, folder: str) -> None:
        """To be called before the index forgets which files have changed."""
        lists = [os.fsencode("\0".join(sorted(one))) for one in (self.folders, self.young)]
        data = self.commit.encode() + b"\n" + b"\0\0".join([self.modes.encode(), *lists])
        write_atomic(os.path.join(folder, "modes"), data, sync=False)


def scan_modes(store: SnapshotRepo, top: str, known: ModeState, scan: Scan, *, clock: str) -> ModeState:
    """Look at the bits of all names at first, later of those that may have changed. What most of a kind have is usual."""
    os.utime(clock)
    now = int(os.stat(clock).st_mtime)  # the second it is by the clock of the disk
    looked = {TOP, *known.young, *(scan.looked if known.commit else scan.names())}
    above = {name.rpartition("/")[0] for name in looked} - {""}
    while above:
        looked |= above
        above = {name.rpartition("/")[0] for name in above} - looked - {""}
    looked |= known.folders if scan.whole else set()
    odd = {name: bits for name, bits in known.modes.odd.items() if name not in looked}
    seen, young, lstat, prefix = {}, set(), os.lstat, top + "/"  # a loop this long is written for speed
    for name in looked:
        try:
            facts = lstat(prefix + name)
        except PermissionError:  # behind a locked door it has the bits it had
            young.add(name)
            odd |= {name: known.modes.odd[name]} if name in known.modes.odd else {}
            continue
        except OSError:
            continue
        seen[name] = facts.st_mode
        if facts.st_ctime >= now:
            young.add(name)
    counted = Counter(seen.values())
    usual = known.modes.usual or _USUAL | {
        _kind(mode): stat.S_IMODE(mode) for mode, _ in reversed(counted.most_common()) if _has_bits(mode)
    }
    unusual = {mode for mode in counted if _has_bits(mode) and stat.S_IMODE(mode) != usual[_kind(mode)]}
    odd |= {name: stat.S_IMODE(mode) for name, mode in seen.items() if mode in unusual} if unusual else {}
    inner = {mode for mode in counted if stat.S_ISDIR(mode)}
    folders = {name for name, mode in seen.items() if mode in inner}
    state = ModeState(
        known.commit, Modes(usual, odd), frozenset(folders | (known.folders - looked)), frozenset(young - folders)
    )
    if state.modes == known.modes:
        return state
    tree = store.graft("", {b"modes": Entry(FILE, store.write("blob", state.modes.encode()))})
    return state._replace(commit=store.write_commit(tree, [], "modes\n", moment=0))


def _kind(mode: int) -> str:
    return TREE if stat.S_ISDIR(mode) else PROGRAM if mode & stat.S_IXUSR else FILE


def _has_bits(mode: int) -> bool:
    return stat.S_ISDIR(mode) or stat.S_ISREG(mode)


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
