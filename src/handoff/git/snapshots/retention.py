"""Which snapshots may go: by age, thinned to hours and days, and by the size of the store."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.files import locked
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.snapshots.take import Snapshot

HOUR, DAY = 3600.0, 86400.0
_GRACE = "1.hour.ago"


class RetentionRules(Record):
    """What is kept: all of the last day, then one an hour for a week, then one a day until `days`; always the newest few."""

    days: float = 30.0
    newest: int = 10
    size: int = 2 * 1024**3


def expendable(snapshots: Sequence[Snapshot], rules: RetentionRules, *, now: float) -> list[Snapshot]:
    """Snapshots the rules no longer need, oldest first. What an operation of ours can undo is kept as long as any."""
    kept_slots: set[tuple[str, str, int]] = set()
    counted: dict[str, int] = {}
    found = []
    for one in sorted(snapshots, key=lambda item: item.time, reverse=True):
        counted[one.workspace] = counted.get(one.workspace, 0) + 1
        age = now - one.time
        if counted[one.workspace] <= rules.newest or age < DAY:
            continue
        if age > rules.days * DAY:
            found.append(one)
            continue
        if one.operation:
            continue
        width = HOUR if age < 7 * DAY else DAY
        slot = (one.workspace, "hour" if width == HOUR else "day", int(one.time // width))
        if slot in kept_slots:
            found.append(one)
        kept_slots.add(slot)
    return found[::-1]


def size_of(store: SnapshotRepo) -> int:
    """Bytes the store takes on the disk."""
    total = 0
    for folder, _, files in os.walk(store.path):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                continue
    return total


def drop(store: SnapshotRepo, snapshots: Sequence[Snapshot]) -> None:
    """Forget these snapshots and free what only they needed. A snapshot being taken right now is not touched."""
    with locked(store.housekeeping, what="the snapshot store"):
        if snapshots:
            lines = "".join(f"delete {one.ref} {one.sha}\n" for one in snapshots)
            answer = store.git("update-ref", "--stdin", stdin=lines.encode())
            if answer.code:
                raise UserError(f"Cannot drop snapshots: {answer.error_text}", f"Look at {store.path}.")
        for words in (
            ("pack-refs", "--all"),
            ("repack", "-q", "-d", "-A", f"--unpack-unreachable={_GRACE}"),
            ("prune", f"--expire={_GRACE}"),
        ):
            answer = store.git(*words)
            if answer.code:
                raise UserError(f"Cannot tidy the snapshot store: {answer.error_text}", f"Look at {store.path}.")


def faults(store: SnapshotRepo) -> list[str]:
    """What git finds wrong with the store; an empty list means every snapshot can be read in full."""
    answer = store.git("fsck", "--full", "--no-dangling", "--no-progress", "--connectivity-only")
    return (
        [] if answer.code == 0 else [line for line in answer.error_text.splitlines() + answer.text.splitlines() if line]
    )


def oldest(snapshots: Sequence[Snapshot], rules: RetentionRules) -> list[Snapshot]:
    """The oldest tenth of what may go when the store is too large; the newest of every workspace never goes."""
    counted: dict[str, int] = {}
    found = []
    for one in sorted(snapshots, key=lambda item: item.time, reverse=True):
        counted[one.workspace] = counted.get(one.workspace, 0) + 1
        if counted[one.workspace] > min(rules.newest, 3):
            found.append(one)
    return found[-max(1, len(found) // 10) :] if found else []
