"""The parts of a snapshot that are not the working tree: the index, refs, stash, reflogs, settings and permission bits."""

from __future__ import annotations

import os
import stat
from collections import Counter
from contextlib import suppress

from handoff.base.errors import UserError
from handoff.base.files import FileMemory, remove, write_atomic
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import is_sha, read_plain, read_text
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.objects import FILE, LINK, POINTER, PROGRAM, TREE, Entry, digest, parents_named
from handoff.git.plumbing.refs import refs, walk

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from handoff.git.plumbing import Source
    from handoff.git.plumbing.refs import Head
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.snapshots.scan import Scan

_LOG_TAIL_BYTES = 256 * 1024
_KEPT_BYTES = 1024 * 1024
# What git remembers about an unfinished merge, pick, rebase or bisect, and what a person may have set up.
_STATE_FILES = (
    "MERGE_HEAD MERGE_MSG MERGE_MODE CHERRY_PICK_HEAD REVERT_HEAD ORIG_HEAD REBASE_HEAD SQUASH_MSG"
    " BISECT_LOG BISECT_START BISECT_TERMS BISECT_NAMES AUTO_MERGE"
).split()
_STATE_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")
_remembered = FileMemory()
_SHARED_FILES = ("config", "info/exclude", "info/attributes", "info/sparse-checkout")


def logs(source: Source) -> dict[str, bytes]:
    """The newest part of every reflog by its name under `logs/`; HEAD's is this worktree's own."""
    found = {}
    for base in dict.fromkeys((source.common, source.folder)):
        with Beneath(base) as files:
            found.update({name[5:]: _log(files, name, path) for name, path in walk(base, "logs/refs")})
            if base == source.folder and (own := files.read("logs/HEAD")):
                found["HEAD"] = _tail(own)
    return found


def _log(files: Beneath, name: str, path: str) -> bytes:
    """The newest part of one reflog; one that rests is not opened again."""
    try:
        facts = files.facts(name)
    except OSError:
        return b""
    return _remembered.get(path, facts, lambda: _tail(files.read(name)))


def join_logs(logs: dict[str, bytes]) -> bytes:
    """Many reflogs as one text: name, length, lines."""
    return b"".join(os.fsencode(name) + b"\0%d\n" % len(data) + data for name, data in sorted(logs.items()))


def split_logs(data: bytes) -> dict[str, bytes]:
    """The reflogs `join_logs` put together."""
    found = {}
    while data:
        header, _, rest = data.partition(b"\n")
        name, _, length = header.partition(b"\0")
        found[os.fsdecode(name)] = rest[: int(length)]
        data = rest[int(length) :]
    return found


def log_commits(log: bytes) -> list[str]:
    """The commits a reflog names, newest first, each once."""
    found: dict[str, None] = {}
    for line in reversed(log.split(b"\n")):
        for word in reversed(line.split(b" ", 2)[:2]):
            value = word.decode("ascii", "replace")
            if is_sha(value) and value.strip("0"):
                found[value] = None
    return list(found)


def stashes(source: Source) -> list[str]:
    """The stash entries of a checkout, oldest first: a stash is its reflog."""
    with Beneath(source.common) as files:
        lines = _tail(files.read("logs/refs/stash")).decode("utf-8", "surrogateescape").split("\n")
    words = (line.partition("\t")[0].split(" ", 2) for line in lines)
    return [two[1] for two in words if len(two) > 1 and is_sha(two[1])]


def settings_files(source: Source) -> dict[str, tuple[bytes, str]]:
    """Configuration, hooks and unfinished operations: name in the git folder -> bytes and mode.

    A link is its text: what it leads to is not of this folder, and in a session's clone may be anything of the person's.
    """
    shared = [*_SHARED_FILES, *(name for name, _ in walk(source.common, "hooks") if not name.endswith(".sample"))]
    own = [name for folder in _STATE_FOLDERS for name, _ in walk(source.folder, folder)]
    found: dict[str, tuple[bytes, str]] = {}
    with Beneath(source.common) as files:
        found.update(_kept(files, {name: name for name in shared}))
    with Beneath(source.folder) as files:
        if source.folder != source.common:
            found.update(_kept(files, {"config.worktree": "config.worktree"}))
        found.update(_kept(files, {name: f"state/{name}" for name in (*_STATE_FILES, *own)}))
    return found


def _kept(files: Beneath, names: dict[str, str]) -> dict[str, tuple[bytes, str]]:
    """Those of the files that are there, each under the name it is kept by."""
    found = {}
    for name, kept in names.items():
        try:
            facts = files.facts(name)
            if stat.S_ISLNK(facts.st_mode):
                found[kept] = (files.link(name), LINK)
            elif stat.S_ISREG(facts.st_mode) and facts.st_size <= _KEPT_BYTES:
                found[kept] = (files.read(name), PROGRAM if facts.st_mode & stat.S_IXUSR else FILE)
        except OSError:
            continue
    return found


def _tail(data: bytes) -> bytes:
    if len(data) <= _LOG_TAIL_BYTES:
        return data
    return data[-_LOG_TAIL_BYTES:].partition(b"\n")[2]


_REFLOG_COMMITS = 1000


class LastSnapshot(Record):
    """What the last snapshot of a workspace was made of, so that unchanged parts are used again."""

    tree: str = ""
    staged: str = ""
    staged_sum: str = ""
    refs: str = ""
    refs_sum: str = ""
    top: str = ""
    modes: str = ""

    @classmethod
    def load(cls, folder: str) -> LastSnapshot:
        """What was kept; nothing at the first time."""
        lines = read_text(os.path.join(folder, "state")).split("\n")
        values = dict(line.split(" ", 1) for line in lines if " " in line)
        return cls(**{name: values.get(name, "") for name in cls._fields})

    def save(self, folder: str) -> None:
        text = "".join(f"{name} {value}\n" for name, value in self._asdict().items())
        write_atomic(os.path.join(folder, "state"), text.encode("utf-8", "surrogateescape"))


class SnapshotSide(Record):
    """A commit that holds one side of a snapshot, and the sum of what it was made from."""

    commit: str
    sum: str


class Parts:
    """Makes the two sides of one snapshot, each only if it changed; what git cannot read is noted, not fatal."""

    def __init__(self, store: SnapshotRepo, source: Source, before: LastSnapshot, known: Sequence[str]) -> None:
        self.store = store
        self.source = source
        self.before = before
        self.known = [sha for sha in known if sha]
        self.troubles: list[str] = []

    def own(self, wanted: Sequence[str], *more: str) -> bool:
        """Have the store hold everything behind `wanted` itself."""
        known = [*self.known, *(sha for sha in more if sha)]
        return self.store.own(wanted, known, borrow=self.source.objects)

    def own_lone(self, commit: str, *more: str) -> bool:
        """The same for a commit without parents: git would copy each of its files again, were the known trees not named too."""
        known = [sha for sha in (*self.known, *more) if sha]
        with suppress(UserError):  # whatever cannot be read is asked for again
            if any(self.store.has_loose(sha) and commit in parents_named(self.store.read(sha)) for sha in known):
                return True
        return self.own([commit], *more, *(f"{sha}^{{tree}}" for sha in known))

    def index(self, folder: str, *, tree: str = "") -> SnapshotSide:
        """The index as a commit: its tree, where the caller does not know it, and beside it what a tree cannot say."""
        data = read_plain(self.source.index_file)
        if not data and not os.path.lexists(self.source.index_file):
            return SnapshotSide("", "")
        mark = digest(data[-32:] + str(len(data)).encode() if any(data[-20:]) else data)
        before = SnapshotSide(self.before.staged, self.before.staged_sum)
        if before.commit and mark == before.sum:
            return before
        if not data:  # it cannot be read
            self.troubles.append("index")
            return before
        built = (tree, [], b"") if tree else self._index_tree(os.path.join(folder, f"index.{os.getpid()}.copy"), data)
        if built is None:
            self.troubles.append("index")
            return before
        tree, stages, extras = built
        parents = []
        if extras:
            entries = {f"stage-{number}".encode(): entry for number, entry in enumerate(stages)}
            entries[b"extras"] = Entry(FILE, self.store.write("blob", extras))
            parents.append(self.store.write_commit(self.store.graft("", entries), [], "index extras\n", moment=0))
        commit = self.store.write_commit(tree, parents, "index\n", moment=0)
        if not self.own_lone(commit):
            self.troubles.append("index")
            return before
        if not self.known:  # the first snapshot of a project: the history need not bring all of it a second time
            self.known = [f"{commit}^{{tree}}"]
        return SnapshotSide(commit, mark)

    def _index_tree(self, copy: str, data: bytes) -> tuple[str, list[Entry], bytes] | None:
        """The tree of an index, and its conflict stages and flags; worked out on a copy of it."""
        try:
            with open(copy, "wb") as file:
                file.write(data)
            return self._tree_of(copy)
        finally:
            remove(copy)
            remove(copy + ".lock")

    def _tree_of(self, copy: str) -> tuple[str, list[Entry], bytes] | None:
        top, borrow = self.source.top, self.source.objects
        listed = self.store.git("ls-files", "-z", "-s", "-v", index=copy, top=top, borrow=borrow)
        if listed.code:  # a split index has its other half beside the original: let git join them
            listed = self.store.look(self.source, "ls-files", "-z", "-s", "-v")
            os.unlink(copy)
            lines = b"".join(line[2:] + b"\0" for line in listed.out.split(b"\0") if line)
            self.store.git("update-index", "-z", "--index-info", index=copy, top=top, stdin=lines)
        odd, stages, unmerged = [], [], set()
        for line in listed.out.split(b"\0"):
            facts, _, name = line.partition(b"\t")
            if line and (facts[:2] != b"H " or facts[-2:] != b" 0"):
                odd.append(line)
                _, mode, sha, stage = facts.decode().split(" ")
                if stage != "0":
                    stages.append(Entry(mode, sha))
                    unmerged.add(name)
        if unmerged:
            gone = b"".join(b"0 " + b"0" * 40 + b"\t" + name + b"\0" for name in unmerged)
            self.store.git("update-index", "-z", "--index-info", index=copy, top=top, stdin=gone)
        answer = self.store.git("write-tree", "--missing-ok", index=copy, borrow=borrow)
        return None if answer.code else (answer.text.strip(), stages, b"\0".join(odd))

    def refs(self, head: Head) -> SnapshotSide:
        """Refs, reflogs, stash and settings as a commit whose parents keep every tip alive."""
        found, logged, files = refs(self.source), logs(self.source), settings_files(self.source)
        lines = [f"HEAD {head.ref or head.commit}", *(f"{value} {name}" for name, value in sorted(found.items()))]
        files["refs"] = ("\n".join(lines).encode("utf-8", "surrogateescape") + b"\n", FILE)
        files["logs"] = (join_logs(logged), FILE)  # one object, however many branches there are
        mark = digest(
            b"\0".join(os.fsencode(name) + b"\0" + data + mode.encode() for name, (data, mode) in sorted(files.items()))
        )
        before = SnapshotSide(self.before.refs, self.before.refs_sum)
        if before.commit and mark == before.sum:
            return before
        wanted = dict.fromkeys([head.commit, *(value for value in found.values() if is_sha(value))])
        for log in logged.values():
            wanted.update(dict.fromkeys(log_commits(log)[:_REFLOG_COMMITS]))
        wanted.pop("", None)
        commit = self._refs_from(files, list(wanted))
        if not commit:
            self.troubles.append("refs")
            return before
        return SnapshotSide(commit, mark)

    def _refs_from(self, files: dict[str, tuple[bytes, str]], wanted: list[str]) -> str:
        borrow, before = self.source.objects, self._held_before()
        kinds = dict.fromkeys(before.intersection(wanted), "commit")
        kinds |= self.store.readable([sha for sha in wanted if sha not in before], borrow=borrow)
        parents = [sha for sha in wanted if kinds.get(sha) == "commit"]
        entries: dict[bytes, Entry | None] = {}
        for sha, kind in kinds.items():
            if kind == "tag":
                files[f"tags/{sha}"] = (self.store.read(sha, borrow=borrow), FILE)
                peeled = self.store.readable([sha + "^{}"], borrow=borrow)
                parents += [name for name, what in peeled.items() if what == "commit" and name not in parents]
            elif kind in ("tree", "blob"):
                entries[sha.encode()] = Entry(TREE if kind == "tree" else FILE, sha)
        tree = self.store.graft(
            "",
            {os.fsencode(name): Entry(mode, self.store.write("blob", data)) for name, (data, mode) in files.items()},
        )
        if entries:
            parents.append(self.store.write_commit(self.store.graft("", entries), [], "what refs name\n", moment=0))
        commit = self.store.write_commit(tree, parents, "refs\n", moment=0)
        new = [sha for sha in parents if sha not in before]
        if self.own(new):  # the rest is written by us just now, or was held before
            return commit
        whole = [sha for sha in parents if sha in before or self.own([sha])]
        self.troubles.append(f"{len(parents) - len(whole)} tips")
        commit = self.store.write_commit(tree, whole, "refs\n\nSome tips could not be read.\n", moment=0)
        return commit if self.own([commit]) else ""

    def _held_before(self) -> set[str]:
        """The tips of the last snapshot, which the store holds whole: of a large batch all but the newest."""
        with suppress(UserError):  # it is gone: everything is asked for again
            return set(parents_named(self.store.read(self.before.refs))) if self.before.refs else set()
        return set()


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
