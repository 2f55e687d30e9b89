"""The shared index: brought up to date for our own paths alone, in the same breath as the branch moves.

What holds at every moment, also after a `kill -9`:
- The shared index is only ever replaced whole, by renaming a private one over it while `index.lock` is in our hand.
- `index.lock` is ours as long as it holds our mark, which appears with the file; any other content is some other git's.
- Before the branch moves, the note says which commit is about to land and which private index belongs to it. So who comes next
  can tell a commit that landed (its index is put in place) from one that did not (the lock is freed): `fix`.
- Entries of other people's paths come from the shared index itself: a private index begins as its copy, and is made anew
  when the shared one was replaced meanwhile.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager

from handoff.base.errors import UserError
from handoff.base.process import start_of
from handoff.base.record import TYPE_CHECKING
from handoff.git.plumbing import read_plain, read_text
from handoff.git.plumbing.queue import unlink
from handoff.git.plumbing.repository import FileStamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from handoff.git.plumbing.objects import Entry
    from handoff.git.plumbing.repository import Repository


PATIENCE_SECONDS = 15.0
_PAUSE_SECONDS = 0.004
LANDING = b"handoff land "  # what the lock holds while a landing moves branch, index and files
_JOURNAL = "landing"
_INSTALLED = "installed"


class Busy(UserError):
    """Another git has held the index for too long."""


def place(repo: Repository) -> str:
    """The folder for what belongs to one commit in the making."""
    folder = os.path.join(repo.folder, "handoff")
    if not os.path.isdir(folder):
        os.makedirs(folder, exist_ok=True)
    return folder


def copy(repo: Repository, name: str) -> tuple[str, FileStamp | None]:
    """A private copy of the shared index. Its time is kept: git tells by it which entries it must look at again."""
    target = os.path.join(place(repo), name)
    try:
        source = os.open(repo.source.index_file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        unlink(target)
        return target, None
    with open(source, "rb") as old:
        found = os.fstat(source)
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, found.st_mode & 0o777)
        with open(fd, "wb") as new:
            while chunk := old.read(1 << 20):
                new.write(chunk)
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    return target, FileStamp.of(found)


def put(repo: Repository, index: str, changes: Mapping[bytes, Entry | None], *, unchanged: set[bytes]) -> None:
    """Write `changes` into a private index. For files still as committed git notes their times, too."""
    fresh = [path for path in changes if path in unchanged]
    rest = {path: entry for path, entry in changes.items() if path not in unchanged}
    if fresh:
        words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        repo.ask(*words, stdin=b"".join(path + b"\0" for path in fresh), index=index)
    if rest:
        repo.ask("update-index", "-z", "--index-info", stdin=index_info(rest, repo.id_bytes), index=index)


def index_info(changes: Mapping[bytes, Entry | None], id_bytes: int) -> bytes:
    """Changes in the form `git update-index --index-info` reads; removals first, so that a file may become a folder."""
    gone = [b"0 %s\t%s\0" % (b"0" * id_bytes * 2, path) for path, entry in changes.items() if entry is None]
    kept = [f"{entry.mode} {entry.sha}\t".encode() + path + b"\0" for path, entry in changes.items() if entry]
    return b"".join(gone + kept)


@contextmanager
def hold(repo: Repository, *, patience: float = PATIENCE_SECONDS) -> Iterator[str]:
    """Hold index.lock, as git itself does while it commits.

    Before the lock exists a note says that it is ours: whoever comes next after a `kill -9` finishes or undoes it.
    """
    lock = repo.source.index_file + ".lock"
    mark = os.path.join(place(repo), f"index-{os.getpid()}-{os.urandom(4).hex()}.mark")
    with open(mark, "xb") as file:
        file.write(_mark(repo))
    try:
        announce(repo, "", "")
        deadline = time.monotonic() + patience
        while not link(mark, lock):  # appears with its content: an empty lock is some other git's
            if time.monotonic() > deadline:
                hint = f"If no git is running in this repository, it was killed: remove the file with  rm '{lock}'"
                if read_plain(lock).startswith(LANDING):
                    hint = "A landing was cut short there. Finish it with  handoff land"
                raise Busy(
                    f"Another git has held {lock} for {patience:.0f} s; nothing was committed.",
                    f"{hint}  and try again.",
                )
            time.sleep(_PAUSE_SECONDS)
        try:
            yield lock
        finally:
            if read_plain(lock) == _mark(repo):
                unlink(lock)
    finally:
        unlink(_note(repo))
        unlink(mark)


def announce(repo: Repository, new: str, private: str) -> None:
    """Say which commit is about to land and which index belongs to it."""
    temp = f"{_note(repo)}.{os.getpid()}"
    with open(temp, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{new}\n{private}\n{_identity(private) if private else ''}\n")
    os.rename(temp, _note(repo))


def install(repo: Repository, private: str) -> None:
    """Make the private index the shared one; the lock in our hand stays until whoever read the old one has met it."""
    if not os.path.exists(private):
        return
    shared = repo.source.index_file
    foreign = _identity(shared) != read_text(_installed(repo)).strip()
    os.rename(private, shared)
    fd = os.open(_installed(repo), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    os.pwrite(fd, f"{_identity(shared):<79}\n".encode(), 0)  # always as long: a file cut first would wait for the disk
    os.close(fd)
    if foreign:  # bare git writes here, too
        outwait(os.path.realpath(repo.top))


def fix(repo: Repository) -> str:
    """After a `kill -9` between lock and index: finish what landed, undo what did not. Only for who holds the turn."""
    if not os.path.exists(_note(repo)):
        return ""
    new, private, identity = (*read_text(_note(repo)).split("\n"), "", "", "")[:3]
    lock = repo.source.index_file + ".lock"
    landed = bool(new) and repo.git("merge-base", "--is-ancestor", new, "HEAD").code == 0
    done = ""
    if read_plain(lock) == _mark(repo):
        done = "Freed the index lock of a process that had been killed."
        if landed and private and _identity(private) == identity:
            install(repo, private)
            done = "Finished the index of a commit whose process had been killed."
        unlink(lock)
    if private:
        unlink(private)
    unlink(_note(repo))
    return done


def _installed(repo: Repository) -> str:
    return os.path.join(repo.folder, "handoff", _INSTALLED)


def _note(repo: Repository) -> str:
    return os.path.join(repo.folder, "handoff", _JOURNAL)


def _identity(path: str) -> str:
    """What tells a file from every other that had its name: a rename does not change it."""
    try:
        found = os.stat(path)
    except OSError:
        return "none"
    return f"{found.st_ino} {found.st_mtime_ns} {found.st_size}"


def link(source: str, target: str) -> bool:
    """Give a file a second name that appears with its content; False if the name is taken."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except OSError:  # a disk without second names
        try:
            with open(target, "xb") as file:
                file.write(read_plain(source))
        except FileExistsError:
            return False
    return True


def _mark(repo: Repository) -> bytes:
    """What our lock holds until the new index takes its place: no index begins like this."""
    return b"handoff safe-commit " + os.fsencode(repo.folder) + b"\n"


def sweep(repo: Repository, older_than: float) -> None:
    """Remove what killed processes left in our folder."""
    folder = os.path.join(repo.folder, "handoff")
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        if name.startswith(("index-", "message-", "expected-")):
            try:
                if os.stat(path).st_mtime < older_than:
                    os.unlink(path)
            except OSError:
                continue


_GLANCE_SECONDS = 0.001
_LONGEST_SECONDS = 2.0
_YOUNG = 4000  # so many processes are not started while one git is between its reading and its locking


def outwait(top: str) -> int:
    """Wait until every git that may have read this checkout's index before now has ended; how many there were.

    Called with git's own index.lock in hand: whoever read the index before we replaced it fails at the lock, as git means it
    to, instead of writing the old one over ours. A git that runs for long is past that point: it is not waited for.
    """
    waiting = _gits(top)
    found, deadline = len(waiting), time.monotonic() + _LONGEST_SECONDS
    while waiting and time.monotonic() < deadline:
        time.sleep(_GLANCE_SECONDS)
        waiting = {pid: start for pid, start in waiting.items() if start_of(int(pid)) == start}
    return found


def _gits(top: str) -> dict[str, str]:
    """The young gits in a checkout, with the moment each was started. Where there is no /proc, none is seen."""
    found = {}
    own = str(os.getpid())
    try:
        with open("/proc/uptime", encoding="ascii") as file:
            oldest = (float(file.read().split()[0]) - _LONGEST_SECONDS) * os.sysconf("SC_CLK_TCK")
        with open("/proc/loadavg", encoding="ascii") as file:
            newest = int(file.read().split()[-1])
        with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
            numbers = int(file.read())
        names = os.listdir("/proc")
    except (OSError, ValueError):
        return {}
    for pid in names:  # numbers are given in their order, and begin anew at the end
        if pid.isdigit() and (newest - int(pid)) % numbers < _YOUNG and pid != own and _is_git(pid):
            try:
                place = os.readlink(f"/proc/{pid}/cwd")
            except OSError:  # gone, or somebody else's
                continue
            start = start_of(int(pid))
            if start and int(start) >= oldest and (place == top or place.startswith(top + os.sep)):
                found[pid] = start
    return found


def _is_git(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/comm", "rb", buffering=0) as file:
            return file.read(16).startswith(b"git")
    except OSError:
        return False
