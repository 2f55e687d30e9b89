"""Bring back what a snapshot holds: files, index, refs, stash, reflogs, settings. Nothing is overwritten unsaved."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from handoff.base.errors import Conflict, UserError
from handoff.base.files import remove, write_atomic
from handoff.base.process import start_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import is_sha, read_text
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.objects import LINK, POINTER, PROGRAM, differences, fetch, tree_named
from handoff.git.plumbing.refs import refs
from handoff.git.snapshots.parts import logs, stashes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from handoff.git.plumbing import Source
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.snapshots.parts import Modes

_CHUNK = 200
_PLANTED = ("info/attributes", "info/sparse-checkout", "config.worktree")
_NOBODY = "0" * 40
_SIDES = {b"index": "staged", b"refs": "refs", b"modes": "modes", b"then": "then"}


class TreeChange(Record):
    """One path that differs between two trees: what restoring would do to it."""

    kind: str  # add, change, delete; mode where only the permission bits differ
    path: str
    mode: str
    sha: str


class GitStep(Record):
    """One ref or one file of git's own: what it is before and after; empty for nothing."""

    name: str
    old: str
    new: str


def tree_of(store: SnapshotRepo, commit: str) -> str:
    """The tree of a snapshot commit; where it lies in a file of its own, without a process."""
    if is_sha(commit) and store.has_loose(commit) and (tree := tree_named(store.read(commit))):
        return tree
    return store.ask("rev-parse", f"{commit}^{{tree}}").strip()


class Sides(Record):
    """The commits that hold a snapshot's index, refs, permission bits and what was done next; nothing where it has none."""

    staged: str = ""
    refs: str = ""
    modes: str = ""
    then: str = ""


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
    store: SnapshotRepo,
    top: str,
    wanted: Sequence[TreeChange],
    *,
    modes: Modes | None = None,
    told: Callable[[str, int, int], None] | None = None,
) -> list[str]:
    """Delete and write the changed files one by one, each whole or not at all. What is worth saying."""
    notes: list[str] = []
    obstacles = {change.path for change in wanted if change.kind == "delete"}
    writes = [change for change in wanted if change.kind != "delete" and change.mode != POINTER]
    with Beneath(top) as files:
        for path in sorted(obstacles, reverse=True):
            _unlink(files, path)
        found = zip(writes, blobs(store, (change.sha for change in writes)), strict=True)
        for number, (change, data) in enumerate(found):
            if told is not None:
                told("Writing files", number, len(writes))
            _clear_way(files, change.path, obstacles, notes)
            bits = modes.of(change.path, change.mode) if modes and change.mode != LINK else None
            _put(*files.place(change.path), change.mode, data, bits)
    return notes + [f"{one.path} is a submodule: only its pointer is kept" for one in wanted if one.mode == POINTER]


def _put(folder: int, name: str, mode: str, data: bytes, bits: int | None) -> None:
    temp = f"{name}.{os.getpid()}-{os.urandom(3).hex()}.handoff"
    if mode == LINK:
        os.symlink(data, os.fsencode(temp), dir_fd=folder)
    else:
        wanted = 0o600 if bits is not None else 0o777 if mode == PROGRAM else 0o666
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(temp, flags, wanted, dir_fd=folder)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            if bits is None:
                _keep_mode(folder, name, file.fileno(), runs=mode == PROGRAM)
            else:
                os.fchmod(file.fileno(), bits)
            os.fsync(file.fileno())
    os.replace(temp, name, src_dir_fd=folder, dst_dir_fd=folder)


def _keep_mode(folder: int, name: str, fd: int, *, runs: bool) -> None:
    """A file that was readable by its owner alone stays so."""
    try:
        old = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return
    if stat.S_ISREG(old.st_mode) and bool(old.st_mode & stat.S_IXUSR) == runs:
        os.fchmod(fd, stat.S_IMODE(old.st_mode))


def _clear_way(files: Beneath, path: str, obstacles: set[str], notes: list[str]) -> None:
    """Make room for `path`: parents become folders, a folder in its place goes if all it held is in the snapshot."""
    at = ""
    for part in path.split("/")[:-1]:
        at = f"{at}/{part}" if at else part
        if not files.is_folder(at):
            files.remove(at)
            files.make_folder(at)
    if not files.is_folder(path):
        return
    for name in sorted((one for one in obstacles if one.startswith(path + "/")), reverse=True):
        _unlink(files, name)
    files.remove_empty(path)
    if files.is_folder(path):  # something no snapshot holds (a nested .git, a socket): put aside, never deleted
        aside = f"{path}.{os.urandom(3).hex()}.aside"
        files.rename(path, aside)
        notes.append(f"{path} was a folder with things no snapshot holds; it is now {os.path.basename(aside)}")


def _unlink(files: Beneath, path: str) -> None:
    """Remove one file by its real place, never through a link, and the folders it leaves empty."""
    with suppress(OSError):  # what is not there, or not empty, is left alone
        files.unlink(path)
        while path := os.path.dirname(path):
            files.remove_folder(path)


# --- the other parts ----------------------------------------------------------------------------------


def give_objects(store: SnapshotRepo, source: Source, commits: Sequence[str], *, apart: str = "") -> None:
    """Copy what the commits need into the checkout's own objects, so that its git can use them.

    What refs that begin with `apart` hold is not asked for: of a large batch there are many, with little in common.
    """
    wanted = [sha for sha in commits if sha]
    if not wanted or _complete(store, source, wanted):
        return
    named = refs(source).items()
    theirs = {value for name, value in named if is_sha(value) and not (apart and name.startswith(apart))}
    known = list(store.readable(sorted(theirs)))  # believed whole at first; checked below, and not believed again
    for excluded in (known, []):
        answer = store.give(source.objects, wanted, excluded)
        if answer.code:
            raise UserError(f"Cannot bring the snapshot's objects back: {answer.error_text}", f"Look at {store.path}.")
        if _complete(store, source, wanted):
            return
    raise UserError(f"{source.objects} cannot be fixed.", "Clone the repository anew and restore with --into.")


def _complete(store: SnapshotRepo, source: Source, commits: Sequence[str]) -> bool:
    return store.git("rev-list", "--objects", "--quiet", *commits, "--", objects=source.objects).code == 0


def side_files(store: SnapshotRepo, commit: str) -> dict[str, tuple[str, str]]:
    """The files one side of a snapshot holds: name -> mode and object."""
    listed = store.ask("ls-tree", "-r", "-z", commit)
    found = {}
    for line in listed.split("\0"):
        facts, tab, name = line.partition("\t")
        if tab:
            mode, _, sha = facts.split(" ")
            found[name] = (mode, sha)
    return found


def put_refs(
    store: SnapshotRepo,
    source: Source,
    commit: str,
    steps: Sequence[GitStep],
    kept: Mapping[str, bytes],
    *,
    message: str,
) -> None:
    """Move the refs, each only if it still stands where the plan found it; stash and reflog lines come back."""
    give_objects(store, source, [commit])
    for name, (_, sha) in side_files(store, commit).items() if commit else ():
        if name.startswith("tags/"):
            store.git("hash-object", "-t", "tag", "-w", "--stdin", objects=source.objects, stdin=store.read(sha))
    _clear_broken(source, [one.name for one in steps])
    lines = [
        f"update {one.name} {one.new} {one.old or _NOBODY}\n" if one.new else f"delete {one.name} {one.old}\n"
        for one in steps
        if one.name != "HEAD"
    ]
    if lines:
        answer = store.look(source, "update-ref", "-m", message, "--stdin", stdin=os.fsencode("".join(lines)))
        if answer.code:
            raise Conflict(f"The refs could not be put back: {answer.error_text}", "Run the command again.")
    for one in steps:
        if one.name == "HEAD":
            words = ("symbolic-ref",) if one.new.startswith("refs/") else ("update-ref", "--no-deref")
            store.look(source, *words, "-m", message, "HEAD", one.new)
    _put_logs(source, kept)
    # the stash is its reflog: with the lines back, the ref must name the newest of them
    entries = stashes(source)
    newest = entries[-1] if entries else ""
    if kept.get("refs/stash", b"") and newest and refs(source).get("refs/stash") != newest:
        os.makedirs(os.path.join(source.common, "refs"), exist_ok=True)
        write_atomic(os.path.join(source.common, "refs", "stash"), newest + "\n")


def _clear_broken(source: Source, names: Sequence[str]) -> None:
    """Remove ref files that say nothing git understands: they hold no work, and git will not write over them."""
    for name in names:
        path = os.path.join(source.common, name)
        text = read_text(path).strip()
        if os.path.isfile(path) and not is_sha(text) and not text.startswith("ref:"):
            os.unlink(path)


def missing_lines(saved: bytes, now: bytes) -> list[bytes]:
    """The lines of a reflog that it no longer has."""
    there = set(now.splitlines())
    return [line for line in saved.splitlines() if line not in there]


def _put_logs(source: Source, saved_logs: Mapping[str, bytes]) -> None:
    there = logs(source)
    for name, saved in saved_logs.items():
        base = source.folder if name == "HEAD" else source.common
        path = os.path.join(base, "logs", name)
        now = there.get(name, b"")
        if missing_lines(saved, now):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_atomic(path, b"\n".join([*saved.splitlines(), *missing_lines(now, saved)]) + b"\n")


def put_settings(store: SnapshotRepo, source: Source, steps: Sequence[GitStep]) -> None:
    """Make configuration, hooks and unfinished operations what they shall be; a hook that shall not be is put aside."""
    for one in steps:
        path = _settings_path(source, one.name)
        if not one.new:
            os.rename(path, path + ".planted.sample") if is_planted(one.name) else os.unlink(path)
            continue
        mode, _, sha = one.new.partition(" ")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if mode == LINK:
            with Beneath(os.path.dirname(path)) as files:
                _put(*files.place(os.path.basename(path)), mode, store.read(sha), None)
            continue
        write_atomic(path, store.read(sha), mode=0o755 if mode == PROGRAM else 0o644)


def is_planted(name: str) -> bool:
    """Whether git would obey this file of its folder."""
    return name.startswith("hooks/") or name in _PLANTED


def _settings_path(source: Source, name: str) -> str:
    if name.startswith("state/"):
        return os.path.join(source.folder, name[6:])
    return os.path.join(source.folder if name == "config.worktree" else source.common, name)


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
