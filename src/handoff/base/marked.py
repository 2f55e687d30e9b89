"""Find and end the processes of one session: by the mark in their environment, which children inherit wherever they go."""

from __future__ import annotations

import os
import signal

from handoff.base.process import start_of
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = "HANDOFF_SESSION"


class Running(Record):
    """One process: its number and when it began, so that a later one with the same number is never meant."""

    pid: int
    start: str


def of_session(session: str) -> list[Running]:
    """The living processes that carry the session's mark, without ourselves."""
    return carrying(f"{MARK}={session}")


def carrying(variable: str) -> list[Running]:
    """The living processes with this variable, `NAME=value`, without ourselves."""
    wanted = variable.encode()
    found = []
    for pid, block in _environments():
        if pid != os.getpid() and wanted in block.split(b"\0"):
            start = start_of(pid)
            if start and not _is_zombie(pid):
                found.append(Running(pid, start))
    return found


def descendants(root: int) -> list[Running]:
    """Everything below a process, whatever its environment says."""
    below = _below(root)
    return [Running(pid, start) for pid in below if (start := start_of(pid)) and not _is_zombie(pid)]


def _below(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    if not os.path.isdir("/proc/self"):
        import psutil

        try:
            return [child.pid for child in psutil.Process(root).children(recursive=True)]
        except psutil.Error:
            return []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parents.setdefault(int(file.read().rpartition(b")")[2].split()[1]), []).append(int(name))
        except (OSError, IndexError):
            continue  # it has ended meanwhile
    found, waiting = [], [root]
    while waiting:
        below = parents.pop(waiting.pop(), [])
        found += below
        waiting += below
    return found


def spent_below(root: int) -> float:
    """Seconds of processor time of everything below a process. Where the system names children, nobody else is looked at."""
    if os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        ticks, waiting = 0, _children(root)
        while waiting:
            pid = waiting.pop()
            ticks += _ticks(pid)
            waiting += _children(pid)
        return ticks / os.sysconf("SC_CLK_TCK")
    import psutil

    total = 0.0
    try:
        family = psutil.Process(root).children(recursive=True)
    except psutil.Error:
        return total
    for process in family:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total


def _children(pid: int) -> list[int]:
    """Whom the threads of a process started; one that comes or goes in this moment may be missing."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        return found  # it is gone, or one of its threads is
    return found


def _ticks(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, IndexError):
        return 0


def end(processes: Iterable[Running], number: int = signal.SIGKILL) -> int:
    """Send a signal to exactly these processes; how many it reached."""
    reached = 0
    for process in processes:
        if not process.pid or start_of(process.pid) != process.start:
            continue  # number 0 would be all of our own group
        try:
            os.kill(process.pid, number)
            reached += 1
        except (ProcessLookupError, PermissionError):
            continue
    return reached


def is_alive(process: Running) -> bool:
    """Whether that very process still runs."""
    return bool(process.pid) and start_of(process.pid) == process.start and not _is_zombie(process.pid)


def _environments() -> Iterable[tuple[int, bytes]]:
    if os.path.isdir("/proc/self"):
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/environ", "rb") as file:
                        yield int(name), file.read()
                except OSError:
                    continue
        return
    import psutil

    for process in psutil.process_iter():
        try:
            pairs = process.environ()
        except (psutil.Error, OSError):
            continue
        yield process.pid, "\0".join(f"{name}={value}" for name, value in pairs.items()).encode()


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"Z"
    except (OSError, IndexError):
        return False
