"""Files git does not carry but a workspace needs: what `.worktreeinclude` names, copied without costing disk where it can."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from typing import TYPE_CHECKING

from handoff.git.snapshots.scan import behind_link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.snapshots.location import Location

INCLUDE = ".worktreeinclude"
_FICLONE = 0x40049409
_OF_SESSION = re.compile(r"^Handoff-(?:Task|Flow|Branch|Workspace): ", re.MULTILINE)
"""What we write into the message of every commit that brings a session's work in."""


def files_to_include(place: Location, store: SnapshotRepo) -> list[str]:
    """Untracked and ignored files of the person's checkout that their `.worktreeinclude` (in git's ignore syntax) names."""
    rules = list_of_person(place, store)
    if not rules:
        return []
    with tempfile.NamedTemporaryFile(suffix=".rules") as file:
        file.write(rules)
        file.flush()
        answer = store.look(place.source, "ls-files", "-z", "-o", "-i", f"--exclude-from={file.name}")
    return [name for name in answer.text.split("\0") if name and not name.endswith("/")]


def list_of_person(place: Location, store: SnapshotRepo) -> bytes:
    """`.worktreeinclude` as the person wrote it: in their editor now, else as they last committed it themselves.

    What a session changed there and landed does not count: it would bring the person's files into the next clone.
    """
    path = os.path.join(place.source.top, INCLUDE)
    if not os.path.isfile(path) or os.path.islink(path):
        return b""
    with open(path, "rb") as file:
        now = file.read()
    committed = store.look(place.source, "cat-file", "blob", f"HEAD:{INCLUDE}")
    if committed.code or committed.out.split() != now.split():
        return now  # a session's work arrives as a commit
    words = ("log", "--format=%H%x00%B%x00", "HEAD", "--", INCLUDE)
    for commit, message in _pairs(store.look(place.source, *words).text.split("\0")):
        if _OF_SESSION.search(message) is None:
            return store.look(place.source, "cat-file", "blob", f"{commit.strip()}:{INCLUDE}").out
    return b""


def is_of_session(place: Location, store: SnapshotRepo) -> bool:
    """Whether the list in the checkout says something else than the person's own."""
    path = os.path.join(place.source.top, INCLUDE)
    if not os.path.isfile(path) or os.path.islink(path):
        return False
    with open(path, "rb") as file:
        return file.read().split() != list_of_person(place, store).split()


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    return zip(words[::2], words[1::2], strict=False)


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
