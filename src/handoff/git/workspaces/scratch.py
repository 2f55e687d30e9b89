"""A folder in which an exact tree is laid out, again and again: only what differs is written, what was left is cleaned away."""

from __future__ import annotations

import os
import shutil
import stat

from handoff.base.errors import Conflict, UserError
from handoff.base.files import locked, make_folder, write_atomic
from handoff.base.process import capture
from handoff.base.record import TYPE_CHECKING
from handoff.git.plumbing.query import open_source
from handoff.git.plumbing.snapshot_repo import trusted_environment
from handoff.git.workspaces.kinds import erase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from handoff.base.process import Completed

_SLOTS = 32
_NAMES = (40, 64)  # how long an object's whole name is
_CONFIG = (
    "[core]\n\trepositoryformatversion = {version}\n\tbare = false\n\tlogAllRefUpdates = false\n[gc]\n\tauto = 0\n"
)


class Scratch:
    """One slot of a project: `tree` holds files and nothing of git, so that nothing run there can reach its git folder.

    Use it in a `with`: the slot is held as long, and a second verdict at the same time takes another one.
    """

    def __init__(self, home: str, repository: str, environment: Mapping[str, str], *, store: str = "") -> None:
        self._home = home
        self._store = store  # its objects can be laid out too: what a snapshot kept is in no commit of the repository
        self._source = open_source(repository)
        self._environment = trusted_environment(environment)
        self._lock: locked | None = None
        self.folder = self.tree = self.temp = ""

    def __enter__(self) -> Self:
        make_folder(self._home, mode=0o700)
        for number in range(_SLOTS):
            folder = os.path.join(self._home, f"slot-{number}")
            lock = locked(f"{folder}.lock", what="a scratch tree", patience=0)
            try:
                lock.__enter__()
            except Conflict:
                continue
            self._lock = lock
            self.folder, self.tree, self.temp = folder, os.path.join(folder, "tree"), os.path.join(folder, "tmp")
            return self
        raise Conflict(f"{_SLOTS} checks of this project run already.", "Wait for one of them, or end it.")

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.temp, ignore_errors=True)
        if self._lock is not None:
            self._lock.__exit__()

    def lay_out(self, tree: str, *, keep: Sequence[str] = ()) -> None:
        """Make the folder hold exactly this tree (or the tree of a commit), but for what shall be kept."""
        self._make()
        name = tree if len(tree) in _NAMES and not tree.strip("0123456789abcdef") else self._resolve(tree)
        kept = [word for pattern in keep for word in ("-e", f"/{pattern.strip('/')}")]
        # What does not belong goes first: a folder that became a link would make git believe what lies behind it.
        try:
            _fix(self.tree, [os.path.join(self.tree, pattern.strip("/")) for pattern in keep])
            done = (
                not self._git("clean", "-ffdxq", *kept).code and not self._git("read-tree", "--reset", "-u", name).code
            )
        except OSError:
            done = False
        if not done:
            self._start_over(name)
        make_folder(self.temp, mode=0o700)

    def _resolve(self, name: str) -> str:
        """What a branch, a tag or a short name means in the repository: the scratch has no names of its own."""
        words = ["git", f"--git-dir={self._source.folder}", "rev-parse", "--verify", "-q", "--end-of-options"]
        answer = capture([*words, f"{name}^{{tree}}"], environment=self._environment)
        if answer.code:
            raise UserError(f"'{name}' is no commit or tree of {self._source.top}.", "Name one: git log --oneline")
        return answer.text.strip()

    def _start_over(self, name: str) -> None:
        """Something stood in git's way, such as a folder nobody may enter: nothing of it is kept."""
        erase(self.tree)
        make_folder(self.tree)
        index = os.path.join(self.folder, "git", "index")
        for path in (index, f"{index}.lock"):
            if os.path.lexists(path):
                os.unlink(path)
        self._ask("read-tree", "--reset", "-u", name)

    def _make(self) -> None:
        """The slot's own git folder: it borrows the repository's objects and none of its settings."""
        folder = os.path.join(self.folder, "git")
        places = [os.path.join(folder, "objects") for folder in (self._source.common, self._store) if folder]
        borrowed = "".join(f"{place}\n" for place in places if os.path.isdir(place))
        alternates = os.path.join(folder, "objects", "info", "alternates")
        if not os.path.isfile(os.path.join(folder, "HEAD")):
            for name in ("objects/info", "objects/pack", "refs"):
                make_folder(os.path.join(folder, name), mode=0o700)
            wide = self._is_wide()
            config = _CONFIG.format(version=1 if wide else 0)
            write_atomic(
                os.path.join(folder, "config"), config + ("[extensions]\n\tobjectFormat = sha256\n" if wide else "")
            )
            write_atomic(os.path.join(folder, "HEAD"), "ref: refs/heads/none\n")
        known = ""
        if os.path.isfile(alternates):
            with open(alternates, encoding="utf-8", errors="surrogateescape") as file:
                known = file.read()
        if known != borrowed:
            write_atomic(alternates, borrowed.encode("utf-8", "surrogateescape"))
        make_folder(self.tree)

    def _is_wide(self) -> bool:
        try:
            with open(os.path.join(self._source.common, "config"), encoding="utf-8", errors="replace") as file:
                return "sha256" in file.read()
        except OSError:
            return False

    def _git(self, *words: str) -> Completed:
        folder = os.path.join(self.folder, "git")
        return capture(
            ["git", "-C", self.tree, f"--git-dir={folder}", f"--work-tree={self.tree}", *words],
            environment=self._environment,
        )

    def _ask(self, *words: str) -> str:
        answer = self._git(*words)
        if answer.code:
            raise UserError(
                f"git {words[0]} failed for a clean checkout: {answer.error_text}", f"Look at {self._source.top}."
            )
        return answer.text


def _fix(tree: str, kept: Sequence[str]) -> None:
    """What git itself passes by: repositories, pipes and sockets a run made, and rights it took away (of a mode git sees the x alone)."""
    at = [tree]
    while at:
        with os.scandir(at.pop()) as entries:
            for entry in entries:
                mode = entry.stat(follow_symlinks=False).st_mode
                if entry.path in kept:
                    continue
                if entry.name.lower() == ".git":
                    _remove(entry.path)
                elif stat.S_ISDIR(mode):
                    if mode & 0o700 != 0o700:  # noqa: PLR2004 - all the owner can have
                        os.chmod(entry.path, 0o700)
                    at.append(entry.path)
                elif not stat.S_ISLNK(mode) and (not stat.S_ISREG(mode) or mode & 0o600 != 0o600):  # noqa: PLR2004
                    os.unlink(entry.path)  # laid out again if it belongs there


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def idle_slots(home: str, *, before: float) -> list[str]:
    """Slots nobody holds and nobody has used since then; a slot that is dropped is made again when it is needed."""
    found = []
    for name in sorted(os.listdir(home)) if os.path.isdir(home) else ():
        folder = os.path.join(home, name)
        if name.startswith("slot-") and os.path.isdir(folder) and os.stat(folder).st_mtime < before:
            try:
                with locked(f"{folder}.lock", what="a scratch tree", patience=0):
                    found.append(folder)
            except Conflict:
                continue
    return found


def drop_slot(folder: str) -> None:
    """Remove one slot, unless somebody has taken it in the meantime."""
    try:
        with locked(f"{folder}.lock", what="a scratch tree", patience=0):
            erase(os.path.join(folder, "tree"))
            shutil.rmtree(folder, ignore_errors=True)
    except Conflict:
        return


class Changed:
    """Which files differ between two trees, and their texts when asked."""

    def __init__(self, repository: str, environment: Mapping[str, str]) -> None:
        self._source = open_source(repository)
        self._environment = trusted_environment(environment)

    def paths(self, old: str, new: str) -> dict[str, tuple[str, str]]:
        """By path the objects on both sides; an empty one where the path does not exist."""
        answer = self._git("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
        if answer.code:
            raise UserError(
                f"git cannot compare {old[:10]} and {new[:10]}: {answer.error_text}", f"In {self._source.top}."
            )
        words = answer.text.split("\0")
        found = {}
        for head, path in zip(words[::2], words[1::2], strict=False):
            _mode, _mode_new, before, after, _kind = head.lstrip(":").split(" ")
            found[path] = (before.strip("0") and before, after.strip("0") and after)
        return found

    def texts(self, objects: Sequence[str]) -> dict[str, str]:
        """The texts of some objects, in one git process."""
        wanted = [sha for sha in dict.fromkeys(objects) if sha]
        if not wanted:
            return {}
        data = self._git("cat-file", "--batch", stdin=("\n".join(wanted) + "\n").encode()).out
        found, place = {}, 0
        for sha in wanted:
            end = data.find(b"\n", place)
            words = data[place:end].split(b" ")
            place = end + 1
            if len(words) == 3 and words[2].isdigit():  # noqa: PLR2004 - name, kind, size
                size = int(words[2])
                if words[1] == b"blob":
                    found[sha] = data[place : place + size].decode("utf-8", "replace")
                place += size + 1
        return found

    def _git(self, *words: str, stdin: bytes | None = None) -> Completed:
        return capture(["git", f"--git-dir={self._source.folder}", *words], environment=self._environment, stdin=stdin)
