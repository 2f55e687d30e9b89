"""A folder in which an exact tree is laid out, again and again: only what differs is written, what was left is cleaned away."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from handoff.base.errors import Conflict, UserError
from handoff.base.files import locked, make_folder, remove, remove_tree
from handoff.base.record import TYPE_CHECKING
from handoff.git.plumbing import algorithm_of, is_sha, open_source, read_text
from handoff.git.plumbing.objects import differences, fetch
from handoff.git.plumbing.untrusted import distrusting, make_git_folder
from handoff.git.workspaces.kinds import erase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from handoff.git.plumbing import Git

_SLOTS = 32
_SETTINGS = "\tbare = false\n\tlogAllRefUpdates = false\n[gc]\n\tauto = 0\n"
_OWNER_ALL, _OWNER_FILE = 0o700, 0o600  # all the owner can have of a folder, and needs of a file


class Scratch:
    """One slot of a project: `tree` holds files and nothing of git, so that nothing run there can reach its git folder.

    Use it in a `with`: the slot is held as long, and a second verdict at the same time takes another one.
    """

    def __init__(self, home: str, repository: str, environment: Mapping[str, str], *, store: str = "") -> None:
        self._home = home
        self._store = store  # its objects can be laid out too: what a snapshot kept is in no commit of the repository
        self._source = open_source(repository)
        self._environment = environment
        self._lock: locked | None = None
        self.folder = self.tree = self.temp = ""

    @property
    def _git(self) -> Git:
        return distrusting(os.path.join(self.folder, "git"), self._environment, self.tree)

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
        with suppress(OSError):
            remove_tree(self.temp)
        if self._lock is not None:
            self._lock.__exit__()

    def lay_out(self, tree: str, *, keep: Sequence[str] = ()) -> None:
        """Make the folder hold exactly this tree (or the tree of a commit), but for what shall be kept."""
        self._make()
        name = tree if is_sha(tree) else self._resolve(tree)
        kept = [word for pattern in keep for word in ("-e", f"/{pattern.strip('/')}")]
        # What does not belong goes first: a folder that became a link would make git believe what lies behind it.
        try:
            _fix(self.tree, [os.path.join(self.tree, pattern.strip("/")) for pattern in keep])
            steps = (("clean", "-ffdxq", *kept), ("read-tree", "--reset", "-u", name))
            done = not any(self._git.git(*words).code for words in steps)
        except OSError:
            done = False
        if not done:
            self._start_over(name)
        make_folder(self.temp, mode=0o700)

    def _resolve(self, name: str) -> str:
        """What a branch, a tag or a short name means in the repository: the scratch has no names of its own."""
        git = distrusting(self._source.folder, self._environment)
        answer = git.git("rev-parse", "--verify", "-q", "--end-of-options", f"{name}^{{tree}}")
        if answer.code:
            raise UserError(f"'{name}' is no commit or tree of {self._source.top}.", "Name one: git log --oneline")
        return answer.text.strip()

    def _start_over(self, name: str) -> None:
        """Something stood in git's way, such as a folder nobody may enter: nothing of it is kept."""
        erase(self.tree)
        make_folder(self.tree)
        index = os.path.join(self.folder, "git", "index")
        remove(index)
        remove(f"{index}.lock")
        self._git.ask("read-tree", "--reset", "-u", name)

    def _make(self) -> None:
        """The slot's own git folder: it borrows the repository's objects and none of its settings."""
        folder = os.path.join(self.folder, "git")
        places = [os.path.join(place, "objects") for place in (self._source.common, self._store) if place]
        borrowed = [place for place in places if os.path.isdir(place)]
        known = read_text(os.path.join(folder, "objects", "info", "alternates"))
        if known != "".join(f"{place}\n" for place in borrowed) or not os.path.isfile(os.path.join(folder, "HEAD")):
            algorithm = algorithm_of(self._source.common)
            make_git_folder(folder, algorithm, _SETTINGS, head="ref: refs/heads/none", borrow=borrowed)
        make_folder(self.tree)


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
                    remove_tree(entry.path)
                elif stat.S_ISDIR(mode):
                    if mode & _OWNER_ALL != _OWNER_ALL:
                        os.chmod(entry.path, _OWNER_ALL)
                    at.append(entry.path)
                elif not stat.S_ISLNK(mode) and (not stat.S_ISREG(mode) or mode & _OWNER_FILE != _OWNER_FILE):
                    os.unlink(entry.path)  # laid out again if it belongs there


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
            with suppress(OSError):
                remove_tree(folder)
    except Conflict:
        return


class Changed:
    """Which files differ between two trees, and their texts when asked."""

    def __init__(self, repository: str, environment: Mapping[str, str]) -> None:
        self._git = distrusting(open_source(repository).folder, environment)

    def paths(self, old: str, new: str) -> dict[str, tuple[str, str]]:
        """By path the objects on both sides; an empty one where the path does not exist."""
        listed = differences(self._git, old, new)
        return {one.path: (one.old.strip("0") and one.old, one.sha.strip("0") and one.sha) for one in listed}

    def modes(self, old: str, new: str) -> dict[str, str]:
        """By path that differs its new mode."""
        return {one.path: one.mode for one in differences(self._git, old, new)}

    def texts(self, objects: Sequence[str]) -> dict[str, str]:
        """The texts of some objects, in one git process."""
        wanted = [sha for sha in dict.fromkeys(objects) if sha]
        found = fetch(self._git, wanted) if wanted else []
        return {one.sha: one.data.decode("utf-8", "replace") for one in found if one.kind == "blob"}

    def listing(self, tree: str) -> dict[str, str]:
        """Every file of a tree or commit, with its object; links and what belongs to submodules too."""
        lines = self._git.ask("ls-tree", "-r", "-z", tree).split("\0")
        entries = (line.partition("\t") for line in lines if line)
        return {path: head.split(" ")[2] for head, _, path in entries}
