"""What a session in the person's own checkout did to git itself, so that git no longer sees or has their work."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import is_sha, read_plain
from handoff.git.plumbing.refs import refs
from handoff.git.snapshots.restore import parts_of, side_files

if TYPE_CHECKING:
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.snapshots.take import Snapshot

HIDDEN, IGNORED, OBJECTS_GONE = "files-hidden", "files-ignored", "objects-gone"
_FLAGS = {"assume-unchanged": "hsmrck", "skip-worktree": "sS"}  # the tags of `ls-files -v` that tell of each
_EXCLUDE = "info/exclude"
_NAMED = 20


class Blinded(Record):
    """One thing git does not see or have any more, and the commands that undo it."""

    kind: str
    what: str
    names: tuple[str, ...]
    fixes: tuple[tuple[str, ...], ...]


def look(snapshot_store: SnapshotStore, start: Snapshot) -> list[Blinded]:
    """Compared with how it was when the session began; what was so before is the person's own wish."""
    return [*_hidden(snapshot_store, start), *_ignored(snapshot_store, start), *_lost_objects(snapshot_store, start)]


def _hidden(snapshot_store: SnapshotStore, start: Snapshot) -> list[Blinded]:
    store, source = snapshot_store.store, snapshot_store.source
    staged = parts_of(store, start.sha).staged
    before = store.git("cat-file", "blob", f"{staged}^1:extras").text if staged else ""
    now = store.look(source, "ls-files", "-z", "-v").text
    lines = {line.partition("\t")[2]: line[:1] for line in before.split("\0") if line}
    sparse = "S" in lines.values() or store.look(source, "config", "--bool", "core.sparseCheckout").text == "true\n"
    fixes, names = [], []
    for flag, tags in _FLAGS.items():
        if sparse and flag == "skip-worktree":
            continue  # git sets it itself, for every file it leaves out
        listed = ((line[:1], line[2:]) for line in now.split("\0") if line)
        found = [name for tag, name in listed if tag in tags and lines.get(name, "H") not in tags]
        names += found
        if found:
            fixes.append(("git", "-C", source.top, "update-index", f"--no-{flag}", "--", *found))
    if len(names) > _NAMED:
        fixes = [_restore(snapshot_store, start, "--index")]
    what = "files were hidden from git, which no longer tells when they change"
    return [Blinded(kind=HIDDEN, what=what, names=tuple(names), fixes=tuple(fixes))] if names else []


def _ignored(snapshot_store: SnapshotStore, start: Snapshot) -> list[Blinded]:
    store, side = snapshot_store.store, parts_of(snapshot_store.store, start.sha).refs
    _, sha = side_files(store, side).get(_EXCLUDE, ("", "")) if side else ("", "")
    before = store.read(sha) if sha else b""
    now = read_plain(os.path.join(snapshot_store.source.common, _EXCLUDE))
    new = [line for line in _patterns(now) if line not in _patterns(before)]
    if not new:
        return []
    fix = _restore(snapshot_store, start, "--setting", _EXCLUDE)
    what = f"git was told in .git/{_EXCLUDE} to ignore more files"
    return [Blinded(kind=IGNORED, what=what, names=tuple(new), fixes=(fix,))]


def _patterns(data: bytes) -> list[str]:
    lines = (os.fsdecode(line).strip() for line in data.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _lost_objects(snapshot_store: SnapshotStore, start: Snapshot) -> list[Blinded]:
    """The tips of all names, and every file of the last commit: what a person works with next."""
    store, source = snapshot_store.store, snapshot_store.source
    if not start.head:
        return []
    listed = (line.partition("\t")[0].split(" ") for line in store.git("ls-tree", "-r", start.head).text.splitlines())
    blobs = [sha for _, kind, sha in listed if kind == "blob"]
    tips = (value for value in refs(source).values() if is_sha(value))
    known = store.readable(list(dict.fromkeys([start.head, *tips, *blobs])))  # a partial clone never had all of them
    gone = sorted(known.keys() - store.readable(list(known), objects=source.objects).keys())
    if not gone:
        return []
    fix = _restore(snapshot_store, start, "--refs")
    what = "objects of the repository were deleted or emptied"
    return [Blinded(kind=OBJECTS_GONE, what=what, names=tuple(sha[:12] for sha in gone), fixes=(fix,))]


def _restore(snapshot_store: SnapshotStore, start: Snapshot, *words: str) -> tuple[str, ...]:
    return ("handoff", "-C", snapshot_store.source.top, "snapshot", "restore", start.sha, *words)
