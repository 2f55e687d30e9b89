"""Bring back what a snapshot holds: files, index, refs, stash, reflogs, settings. Nothing is overwritten unsaved."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from handoff.base.errors import Conflict, UserError
from handoff.base.files import write_atomic
from handoff.git.plumbing import is_sha, read_text
from handoff.git.plumbing.git_folder import logs, settings_files, split_logs, stashes
from handoff.git.plumbing.objects import LINK, POINTER, PROGRAM, differences, fetch
from handoff.git.plumbing.refs import head, refs
from handoff.git.snapshots.scan import behind_link

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from handoff.git.plumbing import Source
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.snapshots.modes import Modes

_CHUNK = 200
_PLANTED = ("info/attributes", "info/sparse-checkout", "config.worktree")
_NOBODY = "0" * 40
_SIDES = {b"index": "staged", b"refs": "refs", b"modes": "modes"}


class TreeChange(NamedTuple):
    """One path that differs between two trees: what restoring would do to it."""

    kind: str  # add, change, delete; mode where only the permission bits differ
    path: str
    mode: str
    sha: str


def tree_of(store: SnapshotRepo, commit: str) -> str:
    """The tree of a snapshot commit."""
    return store.ask("rev-parse", f"{commit}^{{tree}}").strip()


class Sides(NamedTuple):
    """The commits that hold a snapshot's index, refs and permission bits; nothing where it has none."""

    staged: str = ""
    refs: str = ""
    modes: str = ""


def parts_of(store: SnapshotRepo, commit: str) -> Sides:
    """What a snapshot holds beside its tree."""
    found = {}
    for parent in store.ask("rev-parse", f"{commit}^@").split():
        subject = store.read(parent).partition(b"\n\n")[2]
        name = subject.partition(b"\n")[0]
        if name in _SIDES:
            found[_SIDES[name]] = parent
    return Sides(**found)


def changes(store: SnapshotRepo, old: str, new: str, paths: Sequence[str] = ()) -> list[TreeChange]:
    """What must happen to tree `old` so that it becomes `new`, within `paths`."""
    kinds = {"A": "add", "D": "delete"}
    listed = differences(store, old, new, paths)
    return [TreeChange(kinds.get(one.letter, "change"), one.path, one.mode, one.sha) for one in listed]


def blobs(store: SnapshotRepo, shas: Iterable[str]) -> Iterator[bytes]:
    """The bytes of many blobs, in order, a handful of processes for all."""
    listed = list(shas)
    for at in range(0, len(listed), _CHUNK):
        part = listed[at : at + _CHUNK]
        for sha, found in zip(part, fetch(store, part), strict=True):
            if not found.kind:
                raise UserError(f"The snapshot store lacks {sha}.", f"Check it: git --git-dir {store.path} fsck")
            yield found.data


def put_files(
    store: SnapshotRepo, top: str, wanted: Sequence[TreeChange], *, exact: bool, modes: Modes | None = None
) -> list[str]:
    """Write the changed files one by one, each whole or not at all; delete only when `exact`. What is worth saying."""
    notes: list[str] = []
    obstacles = {change.path for change in wanted if change.kind == "delete"}
    for path in sorted(obstacles, reverse=True) if exact else ():
        _unlink(top, path)
    writes = [change for change in wanted if change.kind != "delete" and change.mode != POINTER]
    for change, data in zip(writes, blobs(store, (change.sha for change in writes)), strict=True):
        _clear_way(top, change.path, obstacles, notes)
        bits = modes.of(change.path, change.mode) if modes and change.mode != LINK else None
        _put(os.path.join(top, change.path), change.mode, data, bits)
    return notes + [f"{one.path} is a submodule: only its pointer is kept" for one in wanted if one.mode == POINTER]


def _put(path: str, mode: str, data: bytes, bits: int | None) -> None:
    temp = f"{path}.{os.getpid()}-{os.urandom(3).hex()}.handoff"
    if mode == LINK:
        os.symlink(data, os.fsencode(temp))
    else:
        wanted = 0o600 if bits is not None else 0o777 if mode == PROGRAM else 0o666
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, wanted)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            if bits is None:
                _keep_mode(path, file.fileno(), runs=mode == PROGRAM)
            else:
                os.fchmod(file.fileno(), bits)
            os.fsync(file.fileno())
    os.replace(temp, path)


def _keep_mode(path: str, fd: int, *, runs: bool) -> None:
    """A file that was readable by its owner alone stays so."""
    try:
        old = os.lstat(path)
    except OSError:
        return
    if stat.S_ISREG(old.st_mode) and bool(old.st_mode & stat.S_IXUSR) == runs:
        os.fchmod(fd, stat.S_IMODE(old.st_mode))


def _clear_way(top: str, path: str, obstacles: set[str], notes: list[str]) -> None:
    """Make room for `path`: parents become folders, a folder in its place goes if all it held is in the snapshot."""
    at = top
    for part in path.split("/")[:-1]:
        at = os.path.join(at, part)
        if os.path.islink(at) or (os.path.lexists(at) and not os.path.isdir(at)):
            os.unlink(at)
        if not os.path.isdir(at):
            os.mkdir(at)
    full = os.path.join(top, path)
    if not os.path.isdir(full) or os.path.islink(full):
        return
    for name in sorted((one for one in obstacles if one.startswith(path + "/")), reverse=True):
        _unlink(top, name)
    for folder, _, _ in os.walk(full, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            continue
    if os.path.isdir(full):  # something no snapshot holds (a nested .git, a socket): put aside, never deleted
        aside = f"{full}.{os.urandom(3).hex()}.aside"
        os.rename(full, aside)
        notes.append(f"{path} was a folder with things no snapshot holds; it is now {os.path.basename(aside)}")


def _unlink(top: str, path: str) -> None:
    """Remove one file by its real place, never through a link, and the folders it leaves empty."""
    at = os.path.join(top, path)
    with suppress(OSError):  # what is not there, or not empty, is left alone
        if not behind_link(top, path, {}):
            os.unlink(at)
            while (at := os.path.dirname(at)) != top:
                os.rmdir(at)


# --- the other parts ----------------------------------------------------------------------------------


def give_objects(store: SnapshotRepo, source: Source, commits: Sequence[str]) -> None:
    """Copy what the commits need into the checkout's own objects, so that its git can use them."""
    wanted = [sha for sha in commits if sha]
    if not wanted or _complete(store, source, wanted):
        return
    theirs = {value for value in refs(source).values() if is_sha(value)}
    known = list(store.readable(sorted(theirs)))  # believed whole at first; checked below, and not believed again
    os.makedirs(os.path.join(source.objects, "pack"), exist_ok=True)
    for excluded in (known, []):
        answer = store.pack_into(source.objects, wanted, excluded)
        if answer.code:
            raise UserError(f"Cannot bring the snapshot's objects back: {answer.error_text}", f"Look at {store.path}.")
        if _complete(store, source, wanted):
            return
    raise UserError(f"{source.objects} cannot be fixed.", "Clone the repository anew and restore with --into.")


def _complete(store: SnapshotRepo, source: Source, commits: Sequence[str]) -> bool:
    return store.git("rev-list", "--objects", "--quiet", *commits, "--", objects=source.objects).code == 0


def _side_files(store: SnapshotRepo, commit: str) -> dict[str, tuple[str, str]]:
    listed = store.ask("ls-tree", "-r", "-z", commit)
    found = {}
    for line in listed.split("\0"):
        facts, tab, name = line.partition("\t")
        if tab:
            mode, _, sha = facts.split(" ")
            found[name] = (mode, sha)
    return found


def put_refs(store: SnapshotRepo, source: Source, commit: str, *, only: Sequence[str] = ()) -> list[str]:
    """Bring back deleted and moved refs, stash entries and reflog lines: all, or `only` some. Refs made since stay."""
    if not commit:
        return []
    give_objects(store, source, [commit])
    files = _side_files(store, commit)
    for name, (_, sha) in files.items():
        if name.startswith("tags/"):
            store.git("hash-object", "-t", "tag", "-w", "--stdin", objects=source.objects, stdin=store.read(sha))
    lines = os.fsdecode(store.read(files["refs"][1])).splitlines()
    if only:
        lines = [lines[0], *(line for line in lines[1:] if line.partition(" ")[2] in only)]
    _clear_broken(source, [line.partition(" ")[2] for line in lines[1:]])
    now = refs(source)
    notes, moves = [], []
    for line in lines[1:]:
        value, _, name = line.partition(" ")
        if value.startswith("ref:") or name == "refs/stash" or now.get(name) == value:
            continue
        moves.append(f"update {name} {value} {now.get(name, _NOBODY)}")
        notes.append(f"{name} -> {value[:10]}")
    saved = {line.partition(" ")[2] for line in lines[1:]}
    for name in now:
        if (
            name.startswith("refs/replace/") and name not in saved and not only
        ):  # such a ref changes what every other one means
            moves.append(f"delete {name} {now[name]}")
            notes.append(f"{name} removed")
    if moves:
        answer = store.look(source, "update-ref", "--stdin", stdin=os.fsencode("\n".join(moves) + "\n"))
        if answer.code:
            raise Conflict(f"The refs could not be put back: {answer.error_text}", "Run the restore again.")
    wanted = lines[0].partition(" ")[2]
    if not only and wanted and wanted != (head(source).ref or head(source).commit):
        words = ["symbolic-ref"] if wanted.startswith("refs/") else ["update-ref", "--no-deref"]
        store.look(source, *words, "HEAD", wanted)
        notes.append(f"HEAD -> {wanted}")
    saved_logs = split_logs(store.read(files["logs"][1])) if "logs" in files else {}
    if only:
        saved_logs = {name: log for name, log in saved_logs.items() if name in only}
    return notes + _put_logs(source, saved_logs) + _put_stash(source, saved_logs.get("refs/stash", b""))


def _clear_broken(source: Source, names: Sequence[str]) -> None:
    """Remove ref files that say nothing git understands: they hold no work, and git will not write over them."""
    for name in names:
        path = os.path.join(source.common, name)
        text = read_text(path).strip()
        if os.path.isfile(path) and not is_sha(text) and not text.startswith("ref:"):
            os.unlink(path)


def _put_stash(source: Source, log: bytes) -> list[str]:
    """The stash is its reflog: with the lines back, the ref must name the newest of them."""
    entries = stashes(source)
    newest = entries[-1] if entries else ""
    if not log or not newest or refs(source).get("refs/stash") == newest:
        return []
    os.makedirs(os.path.join(source.common, "refs"), exist_ok=True)
    write_atomic(os.path.join(source.common, "refs", "stash"), newest + "\n")
    return [f"the stash ({len(entries)} entries)"]


def _put_logs(source: Source, saved_logs: dict[str, bytes]) -> list[str]:
    notes = []
    there = logs(source)
    for name, saved in saved_logs.items():
        base = source.folder if name == "HEAD" else source.common
        path = os.path.join(base, "logs", name)
        now = there.get(name, b"").splitlines()
        old = saved.splitlines()
        missing = [line for line in old if line not in set(now)]
        if missing:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_atomic(path, b"\n".join([*old, *(line for line in now if line not in set(old))]) + b"\n")
            notes.append(f"{len(missing)} reflog lines of {name}")
    return notes


def put_settings(store: SnapshotRepo, source: Source, commit: str, *, only: Sequence[str] = ()) -> list[str]:
    """Make configuration, hooks and unfinished operations what they were; hooks planted since are moved aside."""
    if not commit:
        return []
    files = _side_files(store, commit)
    now = settings_files(source)
    notes = []
    for name, (mode, sha) in files.items():
        if name in ("refs", "logs") or name.startswith("tags/") or (only and name not in only):
            continue
        data, runs = store.read(sha), mode == PROGRAM
        if now.get(name) != (data, runs):
            path = _settings_path(source, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_atomic(path, data, mode=0o755 if runs else 0o644)
            notes.append(name)
    for name in now:
        if (name.startswith("hooks/") or name in _PLANTED) and name not in files and (not only or name in only):
            path = _settings_path(source, name)
            os.rename(path, path + ".planted.sample")
            notes.append(f"{name} (put aside)")
    return notes


def _settings_path(source: Source, name: str) -> str:
    if name.startswith("state/"):
        return os.path.join(source.folder, name[6:])
    return os.path.join(source.folder if name == "config.worktree" else source.common, name)
