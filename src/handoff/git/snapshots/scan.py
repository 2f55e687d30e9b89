"""Find what changed in a checkout, through an index of our own that a session never sees.

What holds at every moment, also after a `kill -9`:
- No link is followed: a link is kept as its text, and a name behind a linked folder counts as gone.
- Whatever differs between the disk and the tree of the last snapshot is found by git through the private index (`kept`), or
  is named in `pending`. A look more than needed costs time; one less would lose a change.
- Work is done on a copy of the index. `keep` puts it in place only when the snapshot stands.
- Names that git keeps for itself (`.GIT`, `git~1`) can be in no index. They are in `reserved`, and put into the tree by hand.
"""

from __future__ import annotations

import os
import re
import stat

from handoff.base.errors import UserError
from handoff.base.files import FULL, remove
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import git_failure, read_plain
from handoff.git.plumbing.beneath import Beneath, is_reserved
from handoff.git.plumbing.objects import FILE, LINK, POINTER, PROGRAM, Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from handoff.base.process import Completed
    from handoff.git.plumbing import Source
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo


LIMIT = 64  # so many changes, each at most as large as this, are taken in this process
_LARGEST = 8 * 1024 * 1024
_READS, _AT_ONCE = 3, 256
_CHUNK = 1 << 20
_SHOWN = 80
_UNOPENED = re.compile(r"could not open directory '(.*)': ")
DEEPEST = 200
"""So many folders may lie above a file; what lies deeper is named and kept nowhere."""
_OWN_FILES = "/proc/self/fd"
_ADD = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")


class Scan:
    """One look at a checkout. The private index is worked on as a copy and replaced only when all went well."""

    def __init__(self, store: SnapshotRepo, source: Source, folder: str, ignore_files: Sequence[str]) -> None:
        self.told: Callable[[str, int, int], None] | None = None
        self.store, self.source = store, source
        self.kept = os.path.join(folder, "index")
        self.pending = os.path.join(folder, "pending")
        self.index = os.path.join(folder, f"index.{os.getpid()}.work")
        self.ignore_files = [path for path in ignore_files if os.path.isfile(path)]
        self.seeded = self._empty = False
        self.left: list[str] = []
        self.reserved: list[str] = []
        self.unread: list[str] = []
        self.looked: set[str] = set()  # every name this look was about
        self.whole = False
        self._named: set[str] = set()

    def open(self, *, checked_out: bool = False) -> None:
        """Begin from our own index of last time, else from a copy of the session's; if git has just written that, it is true."""
        folder = os.path.dirname(self.index)
        for name in os.listdir(folder):
            if name.startswith("index.") and name != os.path.basename(self.index):
                os.unlink(os.path.join(folder, name))  # left by somebody who died; we hold the lock
        if checked_out:
            _copy(self.source.index_file, self.index)
            self.seeded = self.whole = True
        elif not _is_index(self.kept):
            self._seed()

    def start_over(self) -> None:
        """Forget what the index claims and read every file."""
        self._named = _names(self._git("ls-files", "-z"))
        remove(self.index)
        self.seeded, self._empty = False, True

    def update(self, paths: Sequence[str] | None, *, ignored: bool = False, tree: str = "") -> str:
        """The working tree as a tree object: everything looked at, or only the named paths on top of `tree`."""
        light = bool(tree) and not (self.seeded or self._empty or ignored or self._named)
        known = set(self._pending())
        self.whole = paths is None or self.seeded
        changed = self._scan(ignored=ignored) if self.whole else set()
        if paths is not None:
            changed |= self._expand(paths)
        changed |= known  # the index does not know them yet: each is looked at again until it does
        deep = {name for name in changed | self._named if is_too_deep(name)}
        self.unread += sorted({f"{name[:_SHOWN]}… (deeper than {DEEPEST} folders)" for name in deep})
        self._named -= deep
        changed -= deep
        self.looked = changed
        if light and self._is_light(changed):
            self.left = sorted(changed)
            self.reserved = [name for name in self._sort(changed)[1] if is_reserved(name)]
            return self._light(tree, self.left) if changed else tree
        self._own_copy()
        changed |= self._named  # the same set: these were looked at too
        gone, present = self._sort(changed)
        self.reserved = [name for name in present if is_reserved(name)]
        if gone:
            lines = "".join(f"0 {'0' * 40}\t{name}\0" for name in gone)
            self._git("update-index", "-z", "--index-info", stdin=os.fsencode(lines))
        self._add([name for name in present if name not in self.reserved] if self.reserved else present)
        answer = self._git("write-tree", *(("--missing-ok",) if self.seeded else ()))
        if answer.code:
            raise git_failure("Cannot write the snapshot's tree", answer, f"Look at {self.store.path}.")
        self.left = self.reserved  # looked at every time: no index will ever know them
        return answer.text.strip()

    def with_reserved(self, tree: str) -> str:
        """The tree with what no index can hold; to be asked when the store has all of it."""
        return self._light(tree, self.reserved) if self.reserved else tree

    def names(self) -> set[str]:
        """Every name of the tree, and those just looked at."""
        return self.looked | _names(self._git("ls-files", "-z"))

    def keep(self) -> None:
        """Use this index as the starting point of the next snapshot, and remember what it does not know yet."""
        if self.left != self._pending():
            temp = self.index + ".pending"
            with open(temp, "wb") as file:
                file.write(_nul(self.left))
            if os.path.exists(self.index):  # the index knows more than the list says: first the index, then the list
                os.replace(self.index, self.kept)
            os.replace(temp, self.pending)
        elif os.path.exists(self.index):
            os.replace(self.index, self.kept)

    def close(self) -> None:
        """Leave nothing behind."""
        for end in ("", ".lock", ".pending"):
            remove(self.index + end)

    # --- a few changes, taken in this process -----------------------------------------------------

    def _is_light(self, names: Sequence[str] | set[str]) -> bool:
        """Whether the names are few, plain and small enough."""
        if len(names) > LIMIT or any("\n" in name for name in names):
            return False
        for name in names:
            facts = _lstat(os.path.join(self.source.top, name))
            if facts and (stat.S_ISDIR(facts.st_mode) or facts.st_size > _LARGEST):
                return False
        return True

    def _light(self, tree: str, names: list[str]) -> str:
        """Hash the files here and rebuild the trees above them. The private index learns of them later."""
        gone, present = self._sort(names)
        changes: dict[bytes, Entry | None] = {os.fsencode(name): None for name in gone}
        with Beneath(self.source.top) as files:
            for name in present:
                try:
                    changes[os.fsencode(name)] = self._read(files, name)
                except OSError as error:
                    if error.errno in FULL:
                        raise
                    self.unread.append(name)
        self.store.load(tree, changes)
        return self.store.graft(tree, changes)

    def _read(self, files: Beneath, name: str) -> Entry | None:
        """A file of the disk as an object; None when it is gone. A file that is being written is read again."""
        for _ in range(_READS):
            try:
                facts = files.facts(name)
            except (FileNotFoundError, NotADirectoryError):
                return None
            if stat.S_ISLNK(facts.st_mode):
                return Entry(LINK, self.store.write("blob", files.link(name)))
            with os.fdopen(files.file(name), "rb") as file:
                data = file.read()
                after = os.fstat(file.fileno())
            if (after.st_size, after.st_mtime_ns) == (facts.st_size, facts.st_mtime_ns) and len(data) == facts.st_size:
                break
        return Entry(PROGRAM if facts.st_mode & stat.S_IXUSR else FILE, self.store.write("blob", data))

    # --- the private index ------------------------------------------------------------------------

    def _git(self, *words: str, stdin: bytes | None = None) -> Completed:
        return self.store.git(*words, index=self._current(), top=self.source.top, stdin=stdin)

    def _current(self) -> str:
        return self.index if self.seeded or self._empty or os.path.exists(self.index) else self.kept

    def _own_copy(self) -> None:
        if not (self.seeded or self._empty) and not os.path.exists(self.index) and os.path.exists(self.kept):
            _copy(self.kept, self.index)

    def _pending(self) -> list[str]:
        """Paths taken since the private index was last brought up to date."""
        return [name for name in os.fsdecode(read_plain(self.pending)).split("\0") if name]

    def _seed(self) -> None:
        """Start from the session's index: its stat data spares us from reading every file. What it hides, we look at."""
        self.seeded = True
        if not os.path.exists(self.source.index_file):
            return
        _copy(self.source.index_file, self.index)
        listed = self._git("ls-files", "-z", "-s", "-v")
        if listed.code:  # a split index or one from a newer git: ask for its names, read the files
            os.unlink(self.index)
            self._named = _names(self.store.look(self.source, "ls-files", "-z"))
            return
        seed = read_seed(self.store, self.source, listed.out)
        self._named |= seed.unmerged | seed.converted
        for flag, names in (
            ("--no-assume-unchanged", seed.hidden),
            ("--no-skip-worktree", seed.sparse),
            ("--force-remove", seed.converted),
        ):
            if names:
                self._git("update-index", flag, "-z", "--stdin", stdin=_nul(names))

    # --- looking at the disk ----------------------------------------------------------------------

    def _scan(self, *, ignored: bool) -> set[str]:
        words = ["ls-files", "-z", "-t", "-o"]
        if not ignored:
            words += ["--exclude-standard", *(f"--exclude-from={path}" for path in self.ignore_files)]
        wait = self.store.begin(*words, index=self._current(), top=self.source.top)  # both walk over all files
        # Not `ls-files -m`: that reads a file whose stat data changed and is silent when only its mode did.
        changed = self._git("diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=dirty")
        others = wait()
        for answer in (others, changed):
            if answer.code:
                raise UserError(f"Cannot look through {self.source.top}: {answer.error_text}")
        found = _names(changed)
        # git holds every folder on its way open: below some thousand it lists nothing more, and only warns.
        found |= {path for path in _UNOPENED.findall(others.error_text) if is_too_deep(path)}
        for line in _names(others):
            name = line[2:]
            found |= self._nested(name[:-1], ignored=ignored) if name.endswith("/") else {name}
        return found

    def _nested(self, name: str, *, ignored: bool) -> set[str]:
        """The files of a repository inside this one, taken as plain files."""
        words = ["ls-files", "-z", "-o"] + ([] if ignored else ["--exclude-standard"])
        found, waiting = set(), [name]
        while waiting:
            at = waiting.pop()
            inside = os.path.join(self.source.top, at)
            for line in _names(self.store.git(*words, index=self.index + ".none", top=inside)) - {"./"}:
                if line.endswith("/") and not is_too_deep(at):
                    waiting.append(f"{at}/{line[:-1]}")
                else:
                    found.add(f"{at}/{line}")
        return found

    def _expand(self, paths: Sequence[str]) -> set[str]:
        """Named paths relative to the top; a folder means what is in it, a missing one what was in it."""
        top = self.source.top
        found: set[str] = set()
        missing = []
        for path in paths:
            name = os.path.relpath(os.path.join(top, path), top)
            if name in ("..", ".git") or name.startswith(("../", ".git/")):
                continue
            full = os.path.join(top, name)
            if os.path.isdir(full) and not os.path.islink(full):
                for folder, folders, files in os.walk(full):
                    folders[:] = [one for one in folders if one != ".git"]
                    links = [one for one in folders if os.path.islink(os.path.join(folder, one))]
                    found.update(
                        os.path.relpath(os.path.join(folder, one), top) for one in (*files, *links) if one != ".git"
                    )
                missing.append(name)
            else:
                found.add(name)
                if not os.path.lexists(full):
                    missing.append(name)
        return found | _names(self._git("ls-files", "-z", "--", *missing)) if missing else found

    def _sort(self, names: Iterable[str]) -> tuple[list[str], list[str]]:
        """Names that are no longer there as themselves, and names to read."""
        gone: list[str] = []
        present: list[str] = []
        linked: dict[str, bool] = {}
        for name in sorted(names):
            facts = _lstat(os.path.join(self.source.top, name))
            kind = stat.S_IFMT(facts.st_mode) if facts else 0
            there = kind in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR)  # behind a link is another folder
            (present if there and not behind_link(self.source.top, name, linked) else gone).append(name)
        return gone, present

    def _add(self, names: list[str]) -> None:
        """Read the files into the store. One that cannot be read is left out and named, never a reason to stop.

        git is given files that we have opened, not names: a folder on the way could become a link before it reads.
        """
        with Beneath(self.source.top) as files:
            for at in range(0, len(names), _AT_ONCE):
                if self.told is not None:
                    self.told("Reading files into the snapshot", at, len(names))
                self._add_some(files, names[at : at + _AT_ONCE])
        if names:
            # The times and sizes that tell the next look what changed: git reads for them, and keeps none of what it reads.
            self._git("update-index", "-q", "--refresh")

    def _add_some(self, files: Beneath, names: Sequence[str]) -> None:
        lines: list[str] = []
        opened: dict[str, int] = {}
        pointers: list[str] = []
        try:
            for name in names:
                try:
                    facts = files.facts(name)
                    if stat.S_ISLNK(facts.st_mode):
                        lines.append(f"{LINK} {self.store.write('blob', files.link(name))}\t{name}\0")
                    elif stat.S_ISDIR(facts.st_mode):
                        files.facts(f"{name}/.git")  # a repository of its own; another folder is no entry of the index
                        pointers.append(name)
                    else:
                        opened[name] = files.file(name)
                except (FileNotFoundError, NotADirectoryError):
                    lines.append(f"0 {'0' * 40}\t{name}\0")
                except OSError as error:
                    if error.errno in FULL:
                        raise
                    self.unread.append(name)
            modes = [PROGRAM if os.fstat(fd).st_mode & stat.S_IXUSR else FILE for fd in opened.values()]
            shas = self._hash(list(opened.values()))
        finally:
            for fd in opened.values():
                os.close(fd)
        lines += [f"{mode} {sha}\t{name}\0" for name, mode, sha in zip(opened, modes, shas, strict=True)]
        self._must(self._git("update-index", "-z", "--index-info", stdin=os.fsencode("".join(lines))))
        for name in pointers:  # git reads where its HEAD stands, nothing else
            if self._git(*_ADD, stdin=_nul([name])).code:
                self.unread.append(name)

    def _hash(self, opened: Sequence[int]) -> list[str]:
        """Open files as objects, in the order given."""
        if not opened:
            return []
        if not os.path.isdir(_OWN_FILES):
            return [self.store.write("blob", _whole(fd)) for fd in opened]
        paths = "".join(f"/proc/{os.getpid()}/fd/{fd}\n" for fd in opened)
        answer = self.store.git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=paths.encode())
        self._must(answer)
        return answer.text.split()

    def _must(self, answer: Completed) -> None:
        if answer.code:
            raise git_failure(f"Cannot keep {self.source.top}", answer, f"Look at {self.store.path}.")


def _whole(fd: int) -> bytes:
    with os.fdopen(os.dup(fd), "rb") as file:
        return file.read()


def behind_link(top: str, name: str, known: dict[str, bool]) -> bool:
    """Whether one of the folders above a name is a link; what is found out is kept in `known`."""
    way: list[str] = []
    found, folder = False, os.path.dirname(name)
    while folder and not found:
        if folder in known:
            found = known[folder]
            break
        way.append(folder)
        found, folder = os.path.islink(os.path.join(top, folder)), os.path.dirname(folder)
    known.update(dict.fromkeys(way, found))  # all of them lie below that link, or none is behind one
    return found


def is_too_deep(name: str) -> bool:
    """Whether a file lies deeper than anybody means it."""
    return name.count("/") > DEEPEST


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _is_index(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"DIRC"
    except OSError:
        return False


def _copy(old: str, new: str) -> None:
    """Copy an index with its time: git tells by it which entries it must not trust."""
    with open(old, "rb") as source, open(new, "wb") as target:  # `shutil` loads what no snapshot needs
        while data := source.read(_CHUNK):
            target.write(data)
    facts = os.stat(old)
    os.utime(new, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _names(answer: Completed) -> set[str]:
    return {name for name in os.fsdecode(answer.out).split("\0") if name}


def _nul(names: Iterable[str]) -> bytes:
    return os.fsencode("".join(name + "\0" for name in names))


_ORDINARY = ("H 10", "H 12")  # a file or a link without a flag
_SIZES = ("cat-file", "--buffer", "--batch-check=%(objectsize)")
_FILTERS = ("check-attr", "--stdin", "-z", "filter", "ident", "working-tree-encoding")


class Seed(Record):
    """The names of an index whose files it hides from us, or of which the disk has other bytes than its blob."""

    hidden: list[str]
    sparse: list[str]
    unmerged: set[str]
    converted: set[str]


def read_seed(store: SnapshotRepo, source: Source, listed: bytes) -> Seed:
    """What `ls-files -z -s -v` told, held against the disk. A loop this long is written for speed."""
    shas: dict[str, str] = {}
    odd = []
    for line in os.fsdecode(listed).split("\0"):
        facts, _, name = line.partition("\t")
        if facts[:4] in _ORDINARY and facts[-2:] == " 0":
            shas[name] = facts[9:-2]
        elif name:
            odd.append((name, *facts.split(" ")))
    hidden, sparse, unmerged = [], [], set()
    for name, tag, mode, sha, stage in odd:
        if stage != "0":
            unmerged.add(name)
        if tag.islower():
            hidden.append(name)
        if tag.upper() == "S":
            if os.path.lexists(os.path.join(source.top, name)):
                sparse.append(name)
        elif mode != POINTER:
            shas[name] = sha
    return Seed(
        hidden=hidden,
        sparse=sparse,
        unmerged=unmerged,
        converted=_converted(store, source, shas, _sizes(source.top, shas)),
    )


def _sizes(top: str, names: Iterable[str]) -> dict[str, str]:
    found, lstat, prefix = {}, os.lstat, top + "/"
    for name in names:
        try:
            found[name] = str(lstat(prefix + name).st_size)
        except OSError:
            continue
    return found


def _converted(store: SnapshotRepo, source: Source, shas: Mapping[str, str], lengths: Mapping[str, str]) -> set[str]:
    """Files whose bytes on the disk are not the blob's: line ends, encodings, large-file pointers, keywords."""
    if not shas:
        return set()
    asked = "\n".join(shas.values()) + "\n"
    sizes = store.git(*_SIZES, stdin=asked.encode(), borrow=source.objects).text.splitlines()
    found = {name for name, size in zip(shas, sizes, strict=False) if lengths.get(name, size) != size}
    attributes = any(name.endswith(".gitattributes") for name in shas)
    if attributes or read_plain(os.path.join(source.common, "info", "attributes")).strip():
        names = os.fsencode("".join(name + "\0" for name in shas))
        fields = os.fsdecode(store.look(source, *_FILTERS, stdin=names).out).split("\0")
        values = zip(fields[::3], fields[2::3], strict=False)
        found |= {name for name, value in values if value not in ("unspecified", "unset")}
    return found
