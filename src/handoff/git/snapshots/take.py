"""Take a snapshot: the whole working tree, the index, refs, stash, reflogs and settings of one checkout; and which may go again."""

from __future__ import annotations

import os
from contextlib import suppress

from handoff.base.clock import stamp
from handoff.base.errors import UserError
from handoff.base.files import locked, make_folder
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import is_sha, read_text
from handoff.git.plumbing.objects import tree_named
from handoff.git.plumbing.refs import head, packed_value
from handoff.git.plumbing.snapshot_repo import LENT, SNAP, SnapshotRepo
from handoff.git.plumbing.untrusted import is_clone
from handoff.git.snapshots.parts import LastSnapshot, ModeState, Parts, scan_modes
from handoff.git.snapshots.scan import Scan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from handoff.git.plumbing import Source
    from handoff.git.plumbing.refs import Head
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

LAST = "refs/handoff/last/"
_KNOWN = 8
_TOLD = ("workspace", "session", "operation", "head", "branch", "top", "undone")  # fields as the message has them
_MICRO = 1_000_000


class Snapshot(Record):
    """One snapshot as its commit tells it. Its parents hold the index, refs and settings, and permission bits."""

    sha: str
    ref: str
    workspace: str
    time: float
    reason: str
    session: str = ""
    operation: str = ""
    head: str = ""
    branch: str = ""
    top: str = ""
    undone: str = ""
    unread: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()
    """What it holds under names that git keeps for itself: no index can hold them, and no branch shall."""
    fresh: bool = False

    @property
    def short(self) -> str:
        return self.sha[:10]

    def shown(self) -> dict[str, Any]:
        """The snapshot as a list shows it to programs."""
        return {
            "id": self.sha,
            "workspace": self.workspace,
            "session": self.session,
            "time": stamp(self.time),
            **{name: getattr(self, name) for name in ("reason", "operation", "head", "branch", "top", "fresh")},
            "unread": list(self.unread),
            "incomplete": list(self.incomplete),
        }


class SnapshotRequest(Record):
    """Why a snapshot is taken, and how much of the tree must be looked at."""

    reason: str
    session: str = ""
    operation: str = ""
    undone: str = ""
    paths: Sequence[str] | None = None
    ignored: bool = False
    force: bool = False
    checked_out: str = ""
    """The tree that git has checked out just now, byte by byte, in a folder nobody else knows yet: no file need be looked at."""
    then: Callable[[str, str], str] | None = None  # tree and index as found -> the commit that says what is done next


def take(
    store: SnapshotRepo,
    source: Source,
    workspace: str,
    request: SnapshotRequest,
    *,
    now: float,
    ignore_files: Sequence[str] = (),
    told: Callable[[str, int, int], None] | None = None,
) -> Snapshot:
    """Put the checkout as it is now into the store. If nothing changed since the last one, that one is the answer."""
    store.create(source.common)
    store.forget()
    store.fix()
    if not is_clone(source.top):
        store.follow(source)
    folder = os.path.join(store.path, "handoff", workspace)
    make_folder(folder)
    with locked(os.path.join(folder, "lock"), what=f"the snapshots of {workspace}"):
        scan = Scan(store, source, folder, ignore_files)
        scan.told = told
        taken = _take(store, source, folder, request, scan, now=now)
    if taken.fresh:
        store.join_packs()
    return taken


def _take(
    store: SnapshotRepo,
    source: Source,
    folder: str,
    request: SnapshotRequest,
    scan: Scan,
    *,
    now: float,
) -> Snapshot:
    workspace = os.path.basename(folder)
    before = LastSnapshot.load(folder)
    previous = _last(store, workspace)
    parts = Parts(store, source, before, [previous] if previous else _others(store))
    stands = head(source)
    try:
        known = request.checked_out if not previous else ""
        scan.open(checked_out=bool(known))
        index = parts.index(folder, tree=known)
        tree = known or _working_tree(parts, scan, request, before.tree, index.commit)
        refs = parts.refs(stands)
        # After the files: what changes a file's rights from here on also makes git look at it again next time.
        known_modes = ModeState.load(folder, before.modes)
        modes = scan_modes(store, source.top, known_modes, scan, clock=os.path.join(folder, "lock"))
        state = LastSnapshot(
            tree=tree,
            staged=index.commit,
            staged_sum=index.sum,
            refs=refs.commit,
            refs_sum=refs.sum,
            top=source.top,
            modes=modes.commit,
        )
        if previous and state == before and not (request.force or request.operation or parts.troubles):
            if not request.ignored:
                _save(modes, known_modes, folder, scan)
            return read_snapshot(store, previous)
        then = request.then(tree, index.commit) if request.then else ""
        parents = [parent for parent in (index.commit, refs.commit, modes.commit, then) if parent]
        message = _message(
            workspace, source, stands, request, now=now, faults=(scan.unread, parts.troubles, scan.reserved)
        )
        sha = store.write_commit(tree, parents, message, moment=int(now))
        ref = f"{SNAP}{workspace}/{int(now * _MICRO):020d}-{os.urandom(2).hex()}"
        if request.force or request.operation not in ("", "start"):  # something is about to be overwritten or removed
            store.sync()
        store.point(ref, sha)
        store.point(LAST + workspace, sha)
        # First what the tree is, then what the index knows: killed in between, more is looked at, never less.
        state._replace(tree="" if request.ignored else tree).save(folder)
        if not request.ignored:
            _save(modes, known_modes, folder, scan)
    finally:
        scan.close()
    return parse_snapshot(sha, ref, message)._replace(fresh=True)


def _save(modes: ModeState, before: ModeState, folder: str, scan: Scan) -> None:
    """Begin from here next time: first what is known of rights, then the index, which forgets what has changed."""
    if modes != before:
        modes.save(folder)
    scan.keep()


def _working_tree(parts: Parts, scan: Scan, request: SnapshotRequest, before: str, staged: str) -> str:
    """The files as they lie on the disk, as a tree of which the store has every object."""
    tree = scan.update(request.paths, ignored=request.ignored, tree=before)
    unknown = scan.seeded and not (
        staged and tree_named(parts.store.read(staged)) == tree
    )  # else it came with the index
    seed = parts.store.write_commit(tree, [], "seed\n", moment=0) if unknown else ""
    if seed and not parts.own_lone(seed, staged):
        # An object the index names cannot be read: take every byte from the disk instead.
        scan.start_over()
        tree = scan.update(None, ignored=request.ignored)
    return scan.with_reserved(tree)


def _message(
    workspace: str,
    source: Source,
    stands: Head,
    request: SnapshotRequest,
    *,
    now: float,
    faults: tuple[list[str], list[str], list[str]],
) -> str:
    unread, troubles, reserved = faults
    fields = {
        "Workspace": workspace,
        "Session": request.session,
        "Operation": request.operation,
        "Undone": request.undone,
        "Time": f"{stamp(now)} {now:.6f}",
        "Head": stands.commit,
        "Branch": stands.ref,
        "Top": source.top,
    }
    lines = [f"{key}: {_one_line(value)}" for key, value in fields.items() if value]
    lines += [f"Unread: {_one_line(name)}" for name in unread]
    lines += [f"Incomplete: {part}" for part in troubles]
    lines += [f"Reserved: {_one_line(name)}" for name in reserved]
    return _one_line(request.reason) + "\n\n" + "\n".join(lines) + "\n"


def read_snapshot(store: SnapshotRepo, sha: str, ref: str = "") -> Snapshot:
    """The record behind one snapshot commit."""
    text = store.read(sha).decode("utf-8", "surrogateescape")
    return parse_snapshot(sha, ref, text.partition("\n\n")[2])


def parse_snapshot(sha: str, ref: str, message: str) -> Snapshot:
    """A snapshot's record from its commit message."""
    reason, _, rest = message.partition("\n")
    fields: dict[str, list[str]] = {}
    for line in rest.split("\n"):
        key, colon, value = line.partition(": ")
        if colon:
            fields.setdefault(key, []).append(value.replace("\\n", "\n").replace("\\\\", "\\"))
    one = {key: values[0] for key, values in fields.items()}
    moment = one.get("Time", "").partition(" ")[2]
    return Snapshot(
        sha=sha,
        ref=ref,
        time=float(moment or 0),
        reason=reason,
        unread=tuple(fields.get("Unread", ())),
        incomplete=tuple(fields.get("Incomplete", ())),
        reserved=tuple(fields.get("Reserved", ())),
        fresh=False,
        **{name: one.get(name.capitalize(), "") for name in _TOLD},
    )


def snapshots(store: SnapshotRepo, workspace: str = "") -> list[Snapshot]:
    """Every snapshot in the store, newest first."""
    if not store.exists:
        return []
    answer = store.git(
        "for-each-ref",
        "--format=%(objectname) %(refname)%00%(contents)%00%00",
        SNAP + (workspace + "/" if workspace else ""),
    )
    if answer.code:
        raise UserError(f"The snapshot store cannot be read: {answer.error_text}", f"Look at {store.path}.")
    found = []
    for record in answer.text.split("\0\0\n"):
        name, _, message = record.partition("\0")
        sha, _, ref = name.partition(" ")
        if ref:
            found.append(parse_snapshot(sha, ref, message))
    return sorted(found, key=lambda one: one.time, reverse=True)


def _last(store: SnapshotRepo, workspace: str) -> str:
    found = read_text(os.path.join(store.path, LAST + workspace)).strip()
    return found or packed_value(store.path, LAST + workspace)  # packed by our own housekeeping


def holds_head(store: SnapshotRepo, workspace: str, commit: str) -> bool:
    """Whether the store has all of a commit that a checkout stands on; where it does not know that at once, it says no."""
    if os.path.exists(os.path.join(store.path, LENT + commit)):
        return True
    last = _last(store, workspace)
    return bool(last) and read_snapshot(store, last).head == commit


def _others(store: SnapshotRepo) -> list[str]:
    """What was taken or lent last: a new workspace has much of it. Asked of the disk, as of a large batch there are many."""
    found = []
    for folder in (LAST, LENT):
        with suppress(OSError), os.scandir(os.path.join(store.path, folder)) as entries:
            found += [(entry.stat().st_mtime_ns, entry.path) for entry in entries]
    values = (read_text(path).strip() for _, path in sorted(found, reverse=True)[:_KNOWN])
    known = [value for value in values if is_sha(value)]
    if known:
        return known
    words = ("for-each-ref", "--sort=-committerdate", f"--count={_KNOWN}", "--format=%(objectname)")
    return store.git(*words, LAST, LENT).text.split()  # packed by our own housekeeping


def _one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n") if "\n" in text or "\\" in text else text


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
