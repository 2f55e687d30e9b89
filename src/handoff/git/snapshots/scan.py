"""Find what changed in a checkout, through an index of our own that a session never sees."""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING

from handoff.base.errors import UserError
from handoff.git.plumbing.trees import apply_changes, is_light, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from handoff.base.process import Completed
    from handoff.git.plumbing.query import Source
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

_RETRIES = 40
_UNABLE = "fatal: Unable to process path "


class Scan:
    """One look at a checkout. The private index is worked on as a copy and replaced only when all went well."""

    def __init__(self, store: SnapshotRepo, source: Source, folder: str, ignore_files: Sequence[str]) -> None:
        self.store = store
        self.source = source
        self.kept = os.path.join(folder, "index")
        self.pending = os.path.join(folder, "pending")
        self.index = os.path.join(folder, f"index.{os.getpid()}.work")
        self.ignore_files = [path for path in ignore_files if os.path.isfile(path)]
        self.seeded = False
        self._empty = False
        self.left: list[str] = []
        self.unread: list[str] = []
        self.looked: set[str] = set()  # every name this look was about
        self.whole = False
        self._named: set[str] = set()

    def open(self) -> None:
        """Begin from our own index of last time, else from a copy of the session's."""
        folder = os.path.dirname(self.index)
        for name in os.listdir(folder):
            if name.startswith("index.") and name != os.path.basename(self.index):
                os.unlink(os.path.join(folder, name))  # left by somebody who died; we hold the lock
        if not _is_index(self.kept):
            self._seed()

    def start_over(self) -> None:
        """Forget what the index claims and read every file."""
        names = self._git("ls-files", "-z").out
        if os.path.exists(self.index):
            os.unlink(self.index)
        self._named = {name for name in os.fsdecode(names).split("\0") if name}
        self.seeded, self._empty = False, True

    def update(self, paths: Sequence[str] | None, *, ignored: bool = False, tree: str = "") -> str:
        """The working tree as a tree object: everything looked at, or only the named paths on top of `tree`."""
        light = bool(tree) and not (self.seeded or self._empty or ignored or self._named)
        known = set(self._pending())
        self.whole = paths is None or self.seeded
        changed = self._scan(ignored=ignored) if self.whole else set()
        if paths is not None:
            changed |= self._expand(paths)
        changed |= known
        self.looked = changed
        if light and not changed:
            return tree
        if light and is_light(self.source.top, changed):
            self.left = sorted(changed)
            return self._light(tree, self.left)
        self._own_copy()
        changed |= self._named  # the same set: these were looked at too
        gone, present = self._sort(changed)
        if gone:
            zero = "0" * 40
            lines = "".join(f"0 {zero}\t{name}\0" for name in gone)
            self._git("update-index", "-z", "--index-info", stdin=os.fsencode(lines))
        self._add(present)
        answer = self._git("write-tree", *(("--missing-ok",) if self.seeded else ()))
        if answer.code:
            raise UserError(f"Cannot write the snapshot's tree: {answer.error_text}", f"Look at {self.store.path}.")
        self.left = []
        return answer.text.strip()

    def names(self) -> set[str]:
        """Every name of the tree, and those just looked at."""
        listed = self._git("ls-files", "-z").out
        return self.looked | {name for name in os.fsdecode(listed).split("\0") if name}

    def _light(self, tree: str, names: list[str]) -> str:
        """A few files: hash them here and rebuild the trees above them. The private index learns of them later."""
        gone, present = self._sort(names)
        changes: dict[str, tuple[str, str] | None] = dict.fromkeys(gone)
        for name in present:
            try:
                changes[name] = read_file(self.store, os.path.join(self.source.top, name))
            except OSError:
                self.unread.append(name)
        return apply_changes(self.store, tree, changes)

    def _own_copy(self) -> None:
        if not (self.seeded or self._empty) and not os.path.exists(self.index) and os.path.exists(self.kept):
            _copy(self.kept, self.index)

    def _pending(self) -> list[str]:
        """Paths taken since the private index was last brought up to date."""
        try:
            with open(self.pending, "rb") as file:
                return [name for name in os.fsdecode(file.read()).split("\0") if name]
        except OSError:
            return []

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
        for path in (self.index, self.index + ".lock", self.index + ".pending"):
            if os.path.lexists(path):
                os.unlink(path)

    # --- the parts --------------------------------------------------------------------------------

    def _git(self, *words: str, stdin: bytes | None = None) -> Completed:
        index = self.index if self.seeded or self._empty or os.path.exists(self.index) else self.kept
        return self.store.git(*words, index=index, top=self.source.top, stdin=stdin)

    def _seed(self) -> None:
        """Start from the session's index: its stat data spares us from reading every file. What it hides, we look at."""
        self.seeded = True
        if not os.path.exists(self.source.index_file):
            return
        _copy(self.source.index_file, self.index)
        listed = self._git("ls-files", "-z", "-s", "-v")
        if listed.code:  # a split index or one from a newer git: ask for its names, read the files
            os.unlink(self.index)
            names = self.store.look(self.source, "ls-files", "-z")
            self._named = {name for name in os.fsdecode(names.out).split("\0") if name}
            return
        hidden, sparse, sizes = [], [], {}
        for line in os.fsdecode(listed.out).split("\0"):
            facts, tab, name = line.partition("\t")
            if not tab:
                continue
            tag, mode, sha, stage = facts.split(" ")
            if stage != "0":
                self._named.add(name)
            if tag.islower():
                hidden.append(name)
            if tag.upper() == "S" and os.path.lexists(os.path.join(self.source.top, name)):
                sparse.append(name)
            elif tag.upper() != "S" and mode != "160000":
                sizes[name] = sha
        for flag, names_ in (("--no-assume-unchanged", hidden), ("--no-skip-worktree", sparse)):
            if names_:
                self._git("update-index", flag, "-z", "--stdin", stdin=_nul(names_))
        self._drop(self._converted(sizes))

    def _converted(self, shas: dict[str, str]) -> set[str]:
        """Files whose bytes on the disk are not the blob's: line ends, encodings, large-file pointers, keywords."""
        if not shas:
            return set()
        asked = "\n".join(shas.values()) + "\n"
        answer = self.store.git(
            "cat-file", "--buffer", "--batch-check=%(objectsize)", stdin=asked.encode(), borrow=self.source.objects
        )
        found = set()
        attributes = any(name.rpartition("/")[2] == ".gitattributes" for name in shas)
        for (name, _), size in zip(shas.items(), answer.text.splitlines(), strict=False):
            try:
                if size != str(os.lstat(os.path.join(self.source.top, name)).st_size):
                    found.add(name)
            except OSError:
                continue
        if attributes or os.path.exists(os.path.join(self.source.common, "info", "attributes")):
            found |= self._filtered(list(shas))
        return found

    def _filtered(self, names: list[str]) -> set[str]:
        answer = self.store.look(
            self.source, "check-attr", "--stdin", "-z", "filter", "ident", "working-tree-encoding", stdin=_nul(names)
        )
        words = os.fsdecode(answer.out).split("\0")
        return {words[at] for at in range(0, len(words) - 2, 3) if words[at + 2] not in ("unspecified", "unset")}

    def _drop(self, names: Iterable[str]) -> None:
        listed = list(names)
        if listed:
            self._named.update(listed)
            self._git("update-index", "--force-remove", "-z", "--stdin", stdin=_nul(listed))

    def _scan(self, *, ignored: bool) -> set[str]:
        words = ["ls-files", "-z", "-t", "-o"]
        if not ignored:
            words += ["--exclude-standard", *(f"--exclude-from={path}" for path in self.ignore_files)]
        answer = self._git(*words)
        if answer.code:
            raise UserError(f"Cannot look through {self.source.top}: {answer.error_text}")
        found = set()
        for line in os.fsdecode(answer.out).split("\0"):
            name = line[2:]
            if name.endswith("/"):
                found.update(self._nested(name[:-1], ignored=ignored))
            elif name:
                found.add(name)
        # Not `ls-files -m`: that reads a file whose stat data changed and is silent when only its mode did.
        answer = self._git("diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=dirty")
        if answer.code:
            raise UserError(f"Cannot look through {self.source.top}: {answer.error_text}")
        found.update(name for name in os.fsdecode(answer.out).split("\0") if name)
        return found

    def _nested(self, name: str, *, ignored: bool) -> set[str]:
        """The files of a repository inside this one, taken as plain files."""
        inside = os.path.join(self.source.top, name)
        words = ["ls-files", "-z", "-o"] + ([] if ignored else ["--exclude-standard"])
        answer = self.store.git(*words, index=self.index + ".none", top=inside)
        found = set()
        for line in os.fsdecode(answer.out).split("\0"):
            if line.endswith("/") and line != "./":
                found.update(self._nested(f"{name}/{line[:-1]}", ignored=ignored))
            elif line and line != "./":
                found.add(f"{name}/{line}")
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
        if missing:
            listed = self._git("ls-files", "-z", "--", *missing)
            found.update(name for name in os.fsdecode(listed.out).split("\0") if name)
        return found

    def _sort(self, names: Iterable[str]) -> tuple[list[str], list[str]]:
        """Names that are no longer there as themselves, and names to read."""
        gone, present = [], []
        linked: dict[str, bool] = {}
        for name in sorted(names):
            try:
                mode = os.lstat(os.path.join(self.source.top, name)).st_mode
            except OSError:
                gone.append(name)
                continue
            if self._behind_link(os.path.dirname(name), linked):
                gone.append(name)
            elif stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
                present.append(name)
            else:
                gone.append(name)
        return gone, present

    def _behind_link(self, folder: str, linked: dict[str, bool]) -> bool:
        if not folder:
            return False
        if folder not in linked:
            linked[folder] = os.path.islink(os.path.join(self.source.top, folder)) or self._behind_link(
                os.path.dirname(folder), linked
            )
        return linked[folder]

    def _add(self, names: list[str]) -> None:
        """Read the files into the store. One that cannot be read is left out and named, never a reason to stop."""
        left = names
        for _ in range(_RETRIES):
            if not left:
                return
            answer = self._git("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=_nul(left))
            if answer.code == 0:
                return
            _, found, after = answer.err.decode("utf-8", "surrogateescape").partition(_UNABLE)
            name = after.rstrip("\n")
            if not found or name not in left:
                raise UserError(f"Cannot read {self.source.top}: {answer.error_text}")
            if self.unread.count(name) or not _stable(os.path.join(self.source.top, name)):
                left = [one for one in left if one != name]
            self.unread.append(name)
        readable = [name for name in left if _stable(os.path.join(self.source.top, name))]
        self.unread += [name for name in left if name not in set(readable)]
        if self._git("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=_nul(readable)).code:
            raise UserError(f"Too many files of {self.source.top} cannot be read.", "Check who owns them.")


def _stable(path: str) -> bool:
    """Whether the file can be opened for reading."""
    if os.path.islink(path):
        return True
    return os.access(path, os.R_OK)


def _is_index(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"DIRC"
    except OSError:
        return False


def _copy(old: str, new: str) -> None:
    """Copy an index with its time: git tells by it which entries it must not trust."""
    shutil.copyfile(old, new)
    facts = os.stat(old)
    os.utime(new, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _nul(names: Iterable[str]) -> bytes:
    return os.fsencode("".join(name + "\0" for name in names))
