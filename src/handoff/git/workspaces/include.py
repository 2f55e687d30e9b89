"""Files git does not carry but a workspace needs: what `.worktreeinclude` names, copied without costing disk where it can."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from handoff.git.control import INCLUDE, Trust
from handoff.git.snapshots.scan import behind_link

if TYPE_CHECKING:
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.snapshots.location import Location

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
