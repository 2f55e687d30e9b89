"""Files that are never half-written and never edited by two at once."""

from __future__ import annotations

import errno
import os
import stat
import time

from handoff.base.clock import SystemClock
from handoff.base.errors import Away, Conflict, UserError
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")

LOCK_PATIENCE_SECONDS = 30.0
_LOCK_PAUSE_SECONDS = 0.02
_POINTER_BYTES = 4096
_GRAIN_SECONDS, _COARSE_GRAIN_SECONDS = 0.1, 2.0  # how fine the times of files are, told generously
_MOST_REMEMBERED = 50_000
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder our package lies in: what a program started without our settings must find on its path."""
UNPACKED = os.path.join(SOURCES, "bin", "handoff")
"""The program that is there where `handoff.pyz` unpacked itself and nobody installed us."""


def read_bytes(path: str) -> bytes:
    """The file's bytes, or an error that names the file and the cause."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error


def read_text(path: str) -> str:
    """The file as UTF-8 text (a byte-order mark is dropped); other encodings are an error that says where."""
    return as_text(path, read_bytes(path))


def as_text(path: str, data: bytes) -> str:
    """What a file held, as text; where it is none, the error names the file and the line."""
    try:
        return decode(data)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"Cannot read {path}: line {line} is not UTF-8 (byte 0x{data[error.start]:02x}).",
            "Save the file as UTF-8 and try again.",
        ) from error


def decode(data: bytes) -> str:
    """UTF-8 text without its byte-order mark."""
    return (data[3:] if data.startswith(b"\xef\xbb\xbf") else data).decode("utf-8")


def write_atomic(path: str, data: bytes | str, *, mode: int = 0o644, sync: bool = True) -> None:
    """Put `data` at `path` so that a reader sees the old file or the new one, also after a power cut.

    Without `sync` a power cut may lose it: for files that matter only while a process lives.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    folder, name = os.path.split(path)
    temp = os.path.join(folder, f".{name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temp, path)
        if sync:
            sync_folder(folder or ".")
    except OSError as error:
        _unlink_quietly(temp)
        raise failure(f"Cannot write {path}", error) from error


class FileMemory:
    """What was read of files, kept while they are the same files: of thousands that rest, only what changed is opened again."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[tuple[int, ...], Any]] = {}

    def get(self, path: str, facts: os.stat_result, read: Callable[[], T]) -> T:
        """What `read` says of the file that had these facts just now. No program can set the time of its last change.

        One that changed a moment ago is not remembered: it may change again within the same tick of that clock.
        """
        kept = self._kept.get(path)
        if kept is not None and kept[0] == _sign(facts):
            found: T = kept[1]
            return found
        found = read()
        self.keep(path, facts, found)
        return found

    def keep(self, path: str, facts: os.stat_result, found: object) -> None:
        """Remember what was found in the file that had these facts before it was read."""
        grain = _GRAIN_SECONDS if facts.st_ctime_ns % 1_000_000_000 else _COARSE_GRAIN_SECONDS
        if SystemClock().now() - facts.st_ctime > grain:
            if len(self._kept) >= _MOST_REMEMBERED:
                self._kept.clear()
            self._kept[path] = (_sign(facts), found)

    def knows(self, path: str, facts: os.stat_result) -> bool:
        """Whether anything is remembered of the file as it is now."""
        kept = self._kept.get(path)
        return kept is not None and kept[0] == _sign(facts)


def _sign(facts: os.stat_result) -> tuple[int, ...]:
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def sweep(path: str) -> None:
    """Remove what writers of this file that were killed left beside it."""
    folder, name = os.path.split(path)
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for one in names:
        if one.startswith(f".{name}.") and one.endswith(".tmp"):
            writer, _, mark = one[len(name) + 2 : -4].partition("-")
            if writer.isdigit() and mark.isalnum() and not _lives(int(writer)):
                _unlink_quietly(os.path.join(folder, one))


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return True


def create_exclusive(path: str, data: bytes | str, *, mode: int = 0o644, sync: bool = True) -> bool:
    """Write `path` only if nothing is there; False when something is. The file appears whole."""
    content = data.encode("utf-8") if isinstance(data, str) else data
    folder, name = os.path.split(path)
    temp = os.path.join(folder, f".{name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    write_atomic(temp, content, mode=mode, sync=sync)
    try:
        os.link(temp, path)
    except FileExistsError:
        return False
    except OSError as error:
        raise failure(f"Cannot write {path}", error) from error
    finally:
        _unlink_quietly(temp)
    if sync:
        sync_folder(folder or ".")
    return True


def make_folder(path: str, *, mode: int = 0o755) -> None:
    """The folder and its parents, or an error that names the cause. Above a closed one, those that were missing are closed too."""
    try:
        _make_folders(path, mode)
    except OSError as error:
        raise failure(f"Cannot create the folder {path}", error) from error


def _make_folders(path: str, mode: int) -> None:
    above = os.path.dirname(path)
    if above and not mode & 0o077 and not os.path.lexists(above):
        _make_folders(above, mode)
    os.makedirs(path, mode=mode, exist_ok=True)


def remove(path: str) -> bool:
    """Take a file away; False when it was not there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise failure(f"Cannot remove {path}", error) from error
    return True


def remove_tree(path: str) -> None:
    """Remove a folder with all that is in it, however deep and whatever its modes; a link or a file too. No link is followed.

    Each folder is brought up to the first floor before it is emptied, so that no path is ever long.
    """
    if os.path.islink(path) or not os.path.isdir(path):
        os.unlink(path)
        return
    top = _open_folder(path, None)
    try:
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            fd = _open_folder(folder, top) if folder else top
            try:
                os.fchmod(fd, 0o700)
                for name in os.listdir(fd):
                    if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                        os.unlink(name, dir_fd=fd)
                    elif folder:
                        waiting.append(f"{len(waiting)}.{os.urandom(8).hex()}")
                        os.close(_open_folder(name, fd))  # it must be writable to change its place
                        os.rename(name, waiting[-1], src_dir_fd=fd, dst_dir_fd=top)
                    else:
                        waiting.append(name)
            finally:
                if folder:
                    os.close(fd)
            if folder:
                os.rmdir(folder, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path)


def _open_folder(name: str, inside: int | None) -> int:
    """A folder as itself, with every right of its owner."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, dir_fd=inside)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=inside)
        fd = os.open(name, flags, dir_fd=inside)
    os.fchmod(fd, 0o700)
    return fd


def move(path: str, target: str) -> None:
    """Give a file another place on the same disk."""
    try:
        os.replace(path, target)
    except OSError as error:
        raise failure(f"Cannot move {path} to {target}", error) from error


def names_in(folder: str) -> list[str]:
    """What lies in a folder, in order; nothing where it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def sync_folder(folder: str) -> None:
    """Make a rename or a new name inside `folder` survive a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        # Some network file systems cannot sync a folder; the rename itself has happened.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)


class locked:  # noqa: N801 - reads as a word at its place of use; `contextlib` costs as much as the rest of this file
    """Hold the lock file `path` for one short edit; the kernel frees it if we die."""

    def __init__(self, path: str, *, what: str, patience: float = LOCK_PATIENCE_SECONDS) -> None:
        self._path, self._what, self._patience = path, what, patience
        self._fd = -1

    def __enter__(self) -> None:
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise failure(f"Cannot lock {self._what}: {self._path}", error) from error
        try:
            self._wait()
        except BaseException:
            os.close(self._fd)
            raise

    def _wait(self) -> None:
        import fcntl

        deadline = time.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Conflict(
                        f"Another process has been editing {self._what} for {self._patience:.0f} s.",
                        f"Look for a hung handoff process; the lock is {self._path}.",
                    ) from None
                time.sleep(_LOCK_PAUSE_SECONDS)
            else:
                return

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _unlink_quietly(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def main_checkout(at: str) -> str | None:
    """For a linked worktree, the folder of the main checkout, read from git's own files; None for any other folder, a submodule too."""
    try:
        with open(os.path.join(at, ".git"), encoding="utf-8", errors="surrogateescape") as file:
            words = file.read(_POINTER_BYTES)
        if not words.startswith("gitdir:"):
            return None
        git_dir = os.path.normpath(os.path.join(at, words[7:].strip()))
        with open(os.path.join(git_dir, "commondir"), encoding="utf-8", errors="surrogateescape") as file:
            common = os.path.normpath(os.path.join(git_dir, file.read(_POINTER_BYTES).strip()))
    except OSError:
        return None
    return os.path.dirname(common) if os.path.basename(common) == ".git" else None


def git_home(top: str) -> str:
    """The folder that tells two checkouts apart: git's own, which worktrees share; without git, the folder itself."""
    main = main_checkout(top) or top
    link = os.path.join(main, ".git")
    if os.path.isfile(link):  # a submodule
        with open(link, encoding="utf-8", errors="surrogateescape") as file:
            words = file.read(_POINTER_BYTES)
        link = os.path.normpath(os.path.join(main, words.removeprefix("gitdir:").strip()))
    return os.path.realpath(link if os.path.isdir(link) else main)


def project_of(place: str, home: str) -> str:
    """The project of a git folder as both sides wrote it down: the folder itself, and the home; else nothing."""
    name = told_project(place, home)
    return name if name and place in project_owners(home, name) else ""


def kept_project(place: str, home: str) -> str:
    """The same, also for a git folder that was moved: it says so, and of the folders the home knows none is there any more."""
    name = told_project(place, home)
    owners = project_owners(home, name) if name else []
    return name if place in owners or (owners and not any(map(os.path.exists, owners))) else ""


def told_project(place: str, home: str) -> str:
    """Which project of this home a git folder says it is; a copy of the folder says so too."""
    here = os.path.realpath(home)
    pairs = (line.partition(" ") for line in _lines(os.path.join(place, "handoff-project")))
    return next((name for name, _, where in pairs if where == here and "/" not in name), "")


def project_owners(home: str, name: str) -> list[str]:
    """The git folders a project of this home belongs to."""
    return _lines(os.path.join(home, name, ".checkout"))


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []


def failure(what: str, error: OSError) -> UserError:
    """What the system refused, in a person's words; where only room is missing, it is `Away`."""
    words = f"{what}: {error.strerror}."
    if error.errno in FULL:
        return Away(words, "The disk is full: free some space and run the command again. Nothing was changed.")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return UserError(words, "Check who owns the folder and whether it may be written.")
    return UserError(words)
