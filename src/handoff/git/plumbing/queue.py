"""One committer at a time per repository, in the order they came. The kernel frees a place when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager

from handoff.base.errors import Conflict, UserError
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAUSE_SECONDS = 0.01


@contextmanager
def hold(lock: str, *, patience: float | None = None) -> Iterator[None]:
    """Hold a lock file that somebody named, if any: whoever shares it takes turns with us."""
    if not lock:
        yield
        return
    holder = _open(lock, os.path.dirname(lock) or ".")
    try:
        _wait(holder, None if patience is None else time.monotonic() + patience, lock)
        _sign(holder)
        yield
    finally:
        os.close(holder)


@contextmanager
def turn(folder: str, *, patience: float | None = None) -> Iterator[int]:
    """Wait in line for the repository whose queue lives in `folder`, then hold it.

    The one lock excludes. The tickets only keep the order: each waiter holds its own and waits for the one before it,
    so a waiter that dies lets the next look further ahead.
    """
    lock = os.path.join(folder, "commit.lock")
    line = os.path.join(folder, "line")
    holder = _open(lock, line)
    ticket = -1
    name = ""
    deadline = None if patience is None else time.monotonic() + patience
    try:
        if _tickets(line) or not _try(holder):
            name, ticket = _take_ticket(line)
            _wait_for_those_before(line, name, deadline, lock)
            _wait(holder, deadline, lock)
        _sign(holder)
        _leave(line, name, ticket)
        name, ticket = "", -1
        yield holder
    finally:
        _leave(line, name, ticket)
        os.close(holder)


def _open(lock: str, line: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(lock, flags, 0o644)
    except FileNotFoundError:
        os.makedirs(line, exist_ok=True)
        os.makedirs(os.path.dirname(lock), exist_ok=True)
        return os.open(lock, flags, 0o644)
    except IsADirectoryError as error:
        raise UserError(f"The lock {lock} is a folder.", "HANDOFF_SAFE_COMMIT_LOCK must name a file.") from error
    except OSError as error:
        raise UserError(f"Cannot queue for the commit: {lock}: {error.strerror}.") from error


def _tickets(line: str) -> list[str]:
    try:
        return sorted(os.listdir(line))
    except FileNotFoundError:
        os.makedirs(line, exist_ok=True)
        return []


def _take_ticket(line: str) -> tuple[str, int]:
    """A number after every other, held as long as we wait.

    Between its making and its locking somebody may take it for abandoned and remove it: then another may come in
    before us, which is all that can happen.
    """
    while True:
        last = _tickets(line)[-1:]
        name = f"{int(last[0]) + 1 if last and last[0].isdigit() else 1:012d}"
        try:
            fd = os.open(os.path.join(line, name), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            continue  # somebody else came at the same moment
        fcntl.flock(fd, fcntl.LOCK_EX)
        return name, fd


def _wait_for_those_before(line: str, name: str, deadline: float | None, lock: str) -> None:
    while True:
        before = [ticket for ticket in _tickets(line) if ticket < name]
        if not before:
            return
        path = os.path.join(line, before[-1])
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            _wait(fd, deadline, lock)
            # Free means its holder went in (and took the name away) or died: then the name is ours to take away.
            if os.fstat(fd).st_nlink:
                unlink(path)
        finally:
            os.close(fd)


def _wait(fd: int, deadline: float | None, lock: str) -> None:
    if deadline is None:
        fcntl.flock(fd, fcntl.LOCK_EX)
        return
    while not _try(fd):
        if time.monotonic() > deadline:
            raise Conflict(f"Others are still committing here: {_who(lock)}.", f"Try again; the lock is {lock}.")
        time.sleep(_PAUSE_SECONDS)


def _try(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(fd: int) -> None:
    os.pwrite(fd, b"pid=%-10d\n" % os.getpid(), 0)  # always as long: nothing to cut off


def _who(lock: str) -> str:
    try:
        with open(lock, encoding="utf-8", errors="replace") as file:
            return file.readline().strip() or "nobody signed the lock"
    except OSError:
        return "nobody signed the lock"


def _leave(line: str, name: str, ticket: int) -> None:
    if name:
        unlink(os.path.join(line, name))
    if ticket >= 0:
        os.close(ticket)


def unlink(path: str) -> None:
    """Take a file away, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
