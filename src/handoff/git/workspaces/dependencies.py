"""What git does not carry into a workspace: files a project names are copied, installed dependencies are linked, never its own to write."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress

from handoff.base.errors import Conflict
from handoff.base.files import locked, remove_tree
from handoff.base.record import TYPE_CHECKING
from handoff.git.obeyed import INCLUDE, Trust
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.untrusted import beside
from handoff.git.snapshots.scan import behind_link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from handoff.git.plumbing.snapshot_repo import Location, SnapshotRepo
    from handoff.git.workspaces import Workspace

NAMES = (".venv", "venv", "node_modules", "vendor")
_PACKAGES = "node_modules"
_CACHES = (".cache", ".vite", ".vite-temp", ".vitest")
_EXCLUDE = ".git/info/exclude"
_MOST = 50


def find_dependencies(place: Location, store: SnapshotRepo) -> dict[str, str]:
    """Folders of dependencies in the person's checkout that git does not carry, each with where it really is."""
    words = ("ls-files", "-z", "-o", "--directory")  # ignored or not: what is not, a clone of a dirty tree has as files
    listed = [name.rstrip("/") for name in store.look(place.source, *words).text.split("\0") if name]
    found: dict[str, str] = {}
    for name in listed:
        real = os.path.realpath(os.path.join(place.source.top, name))
        known = os.path.basename(name) in NAMES or os.path.isfile(os.path.join(real, "pyvenv.cfg"))
        if known and os.path.isdir(real) and len(found) < _MOST:
            found[name] = real
    return found


def lend(place: Location, store: SnapshotRepo, workspace: Workspace) -> Workspace:
    """Link them into the workspace where it has none of its own; the record says which, git there does not see them.

    Each session is lent what the checkout has by then, also packages that were added to a folder it has already.
    """
    found = find_dependencies(place, store)
    with Beneath(workspace.tree) as files:
        new = {name: source for name, source in found.items() if link_dependency(files, source, name)}
        for name in workspace.lent:
            if os.path.basename(name) == _PACKAGES and name in found and name not in new:
                _link_packages(files, found[name], name)
        lent = {**workspace.lent, **new}
        known = files.read(_EXCLUDE)
        lines = [os.fsencode(f"/{_quoted(name)}") for name in lent]
        unknown = [line for line in lines if line not in known.splitlines()]
        if unknown:
            files.write(_EXCLUDE, b"\n".join([*known.splitlines(), *unknown, b""]))
    return workspace._replace(lent=lent)


def _quoted(name: str) -> str:
    """A name as a pattern that means only itself."""
    return "".join(f"\\{letter}" if letter in "\\*?[]! #" else letter for letter in name)


def link_dependency(files: Beneath, source: str, name: str) -> bool:
    """A link to a folder of dependencies, if its place is free; of `node_modules` a folder with a link for each package.

    Tools keep caches in there, and a package of the repository itself must lead to the workspace, not to the checkout.
    """
    try:
        if os.path.basename(name) != _PACKAGES:
            files.make_link(source, name)
            return True
        files.make_folder(name)
    except OSError:
        return False  # something stands there, or its folder is not in this workspace
    _link_packages(files, source, name)
    return True


def _link_packages(files: Beneath, source: str, name: str) -> None:
    """A link for each package that has none there yet."""
    for entry in os.scandir(source):
        target = f"{name}/{entry.name}"
        if entry.name.startswith("@") and entry.is_dir(follow_symlinks=False):
            with suppress(FileExistsError):
                files.make_folder(target)
            for below in os.scandir(entry.path):
                with suppress(OSError):  # it is there
                    files.make_link(_leads_to(source, below), f"{target}/{below.name}")
        elif entry.name not in _CACHES:
            with suppress(OSError):
                files.make_link(_leads_to(source, entry), target)


def _leads_to(packages: str, entry: os.DirEntry[str]) -> str:
    """Where a package's link leads: to the checkout's copy, and of a package of the repository itself to where it is here."""
    words = os.readlink(entry.path) if entry.is_symlink() else ""
    leads = os.path.normpath(os.path.join(os.path.dirname(entry.path), words))
    own = words and not os.path.isabs(words) and not leads.startswith(packages + os.sep)
    return words if own else entry.path


@contextmanager
def as_lent(workspace: Workspace) -> Iterator[list[str]]:
    """What was lent is as it was lent for a while, whatever the session put there: it must not choose what judges it.

    The names of what had to be put aside come out; afterwards all is the session's again. Where a second check of the same
    clone runs meanwhile, the first one sees to it.
    """
    lock = locked(beside(workspace.folder, "lent.lock"), what="what is shared with it", patience=0)
    try:
        lock.__enter__()
    except Conflict:
        yield []
        return
    try:
        yield from _in_place(workspace)
    finally:
        lock.__exit__()


def _in_place(workspace: Workspace) -> Iterator[list[str]]:
    aside: dict[str, str] = {}
    linked: list[str] = []
    with Beneath(workspace.tree) as files:
        for name, source in workspace.lent.items():
            if os.path.basename(name) == _PACKAGES or not _is_link_to(files, name, source):
                with suppress(OSError):  # the session has removed it, or it came to the checkout later
                    aside[name] = _put_aside(workspace, files, name)
                if link_dependency(files, source, name):
                    linked.append(name)
    try:
        yield [name for name in aside if os.path.basename(name) != _PACKAGES]
    finally:
        with Beneath(workspace.tree) as files:
            for name in linked:
                with suppress(OSError):
                    remove_tree(_put_aside(workspace, files, name))  # with what the check left in there
            for name, kept in aside.items():
                with suppress(OSError):
                    folder, last = files.place(name)
                    os.rename(kept, last, dst_dir_fd=folder)


def _put_aside(workspace: Workspace, files: Beneath, name: str) -> str:
    """Take it out of the session's reach, into a place that goes with the workspace."""
    place = os.path.join(workspace.folder, f"gone-{os.urandom(3).hex()}")
    folder, last = files.place(name)
    os.rename(last, place, src_dir_fd=folder)
    return place


def _is_link_to(files: Beneath, name: str, source: str) -> bool:
    try:
        return files.link(name) == os.fsencode(source)
    except OSError:
        return False


def withdraw(workspace: Workspace) -> Workspace:
    """Take the links away again: whoever works there now could write through them."""
    if not workspace.lent:
        return workspace
    with Beneath(workspace.tree) as files, suppress(OSError):
        for name in workspace.lent:
            _unlink(files, name)
    return workspace._replace(lent={})


def _unlink(files: Beneath, name: str) -> None:
    if not files.is_folder(name):
        files.remove(name)
        return
    for entry in files.names(name):
        below = f"{name}/{entry}"
        if not files.is_folder(below):
            files.remove(below)
        elif entry.startswith("@"):
            _unlink(files, below)
    with suppress(OSError):
        files.remove_folder(name)  # not where somebody has put more


_FICLONE = 0x40049409


def files_to_include(place: Location, store: SnapshotRepo) -> list[str]:
    """Untracked and ignored files of the person's checkout that their `.worktreeinclude` (in git's ignore syntax) names.

    What a session changed there and landed does not count: it would bring the person's files into the next clone.
    """
    rules = Trust(place.project).read(place.source.top, INCLUDE)
    if not rules:
        return []
    with tempfile.NamedTemporaryFile(suffix=".rules") as file:
        file.write(rules)
        file.flush()
        answer = store.look(place.source, "ls-files", "-z", "-o", "-i", f"--exclude-from={file.name}")
    return [name for name in answer.text.split("\0") if name and not name.endswith("/")]


def copy_included(place: Location, store: SnapshotRepo, tree: str) -> list[str]:
    """Copy those files into the workspace; what is there already stays."""
    copied = []
    for name in files_to_include(place, store):
        source, target = os.path.join(place.source.top, name), os.path.join(tree, name)
        if os.path.lexists(target) or behind_link(tree, name, {}):
            continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.islink(source):
            os.symlink(os.readlink(source), target)
        elif os.path.isfile(source):
            clone_file(source, target)
        else:
            continue
        copied.append(name)
    return copied


def clone_file(source: str, target: str) -> None:
    """Copy one file with its mode; on a disk that can share blocks until one side writes, it does."""
    with open(source, "rb") as old, open(target, "xb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError:
            shutil.copyfileobj(old, new, 1024 * 1024)
    shutil.copystat(source, target)
