"""Bring back the index a snapshot holds: staged blobs, conflict stages, flags."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from handoff.base.errors import Conflict, UserError
from handoff.base.files import remove
from handoff.base.process import start_of
from handoff.git.snapshots.restore import give_objects

if TYPE_CHECKING:
    from handoff.git.plumbing import Source
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo


def put_index(store: SnapshotRepo, source: Source, commit: str) -> None:
    """Make the checkout's index what the snapshot's was: staged blobs, conflict stages, flags."""
    if not commit:
        return
    give_objects(store, source, [commit])
    lock = source.index_file + ".lock"
    temp = source.index_file + f".{os.getpid()}.handoff"
    try:
        answer = store.git("read-tree", f"{commit}^{{tree}}", index=temp)
        if answer.code:
            raise UserError(f"Cannot rebuild the index: {answer.error_text}")
        _put_extras(store, source, commit, temp)
        store.git("update-index", "-q", "--refresh", index=temp, top=source.top)
        _clear_dead(source.index_file)
        try:
            os.link(temp, lock)  # git's own lock: whoever writes the index now keeps it, and we stop
        except FileExistsError:
            raise Conflict(
                f"{lock} exists: git is at work there.", "Wait for it, or remove the file if git died."
            ) from None
        os.replace(lock, source.index_file)
    finally:
        remove(temp)
        remove(temp + ".lock")


def _clear_dead(index: str) -> None:
    """Remove what a restore that was killed left beside the index: its file, and git's lock if it is the same file."""
    folder, own = os.path.split(index)
    for name in os.listdir(folder):
        first, _, pid = name.removesuffix(".handoff").rpartition(".")
        if first != own or not name.endswith(".handoff") or not pid.isdigit() or start_of(int(pid)):
            continue
        left, lock = os.path.join(folder, name), index + ".lock"
        if os.path.exists(lock) and os.path.samefile(left, lock):
            os.unlink(lock)
        os.unlink(left)


def _put_extras(store: SnapshotRepo, source: Source, commit: str, index: str) -> None:
    answer = store.git("cat-file", "blob", f"{commit}^1:extras")
    if answer.code:
        return
    stages, flags = [], {"--assume-unchanged": b"", "--skip-worktree": b""}
    for line in answer.out.split(b"\0"):
        facts, _, name = line.partition(b"\t")
        tag, mode, sha, stage = facts.split(b" ")
        if stage != b"0":
            stages.append(mode + b" " + sha + b" " + stage + b"\t" + name + b"\0")
        if tag.islower():
            flags["--assume-unchanged"] += name + b"\0"
        if tag.upper() == b"S":
            flags["--skip-worktree"] += name + b"\0"
    if stages:
        store.git("update-index", "-z", "--index-info", index=index, top=source.top, stdin=b"".join(stages))
    for flag, names in flags.items():
        if names:
            store.git("update-index", flag, "-z", "--stdin", index=index, top=source.top, stdin=names)
