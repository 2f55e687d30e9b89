"""The processes of a session: found and ended by the mark in their environment, which children inherit wherever they go; and how much
memory and how many processes they may use together, with a watch that says when it is more.
"""

from __future__ import annotations

import os
import re
import signal
import time

from handoff.base.errors import ConfigError
from handoff.base.process import start_of
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psutil

    from handoff.base.settings import Config

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
    if not os.path.isdir("/proc/self"):
        return [child.pid for child in _children_elsewhere(root)]
    parents: dict[int, list[int]] = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if fields := _stat(pid):
            parents.setdefault(int(fields[1]), []).append(pid)
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
    for process in _children_elsewhere(root):
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


def _children_elsewhere(root: int) -> list[psutil.Process]:
    """Everything below a process, on a system without /proc."""
    import psutil

    try:
        return psutil.Process(root).children(recursive=True)
    except psutil.Error:
        return []


def _ticks(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, IndexError):
        return 0


def _stat(pid: int) -> list[str]:
    """What the kernel says of a process, behind its name; nothing when it has ended."""
    return _text(f"/proc/{pid}/stat").rpartition(")")[2].split()


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
    return _stat(pid)[:1] == ["Z"]


_SIZES = {"%": 0, "M": 20, "G": 30, "T": 40}
_MACHINE = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""What a container has of its machine."""
_GLANCE_SECONDS, _LOOK_SECONDS, _NEWS = 0.1, 5.0, 8
_END_SECONDS = 3.0
_RANK, FIRST = "/proc/self/oom_score_adj", "500"
TO_BE_FIRST = ("/bin/sh", "-c", f'{{ echo {FIRST} > {_RANK}; }} 2>/dev/null; exec "$0" "$@"')
"""The same for one command, before its words."""


class Bounds(Record):
    """The most that is allowed, in bytes and processes (0: nothing is asked), as it stands in the settings at `path`."""

    memory: int = 0
    processes: int = 0
    said: str = ""
    path: str = ""


UNBOUNDED = Bounds()


def bounds_of(config: Config) -> Bounds:
    """What the settings of the home allow a session, and a check."""
    said = config.text("session_memory")
    found = re.fullmatch(r"\s*(\d+)\s*([%MGT])B?\s*", said, re.IGNORECASE)
    number, unit = (int(found[1]), found[2].upper()) if found else (0, "")
    if not number or (unit == "%" and number > 100):  # noqa: PLR2004 - per cent
        raise ConfigError(
            f"{config.path}: session_memory is '{said}'.",
            'It is a share of this machine\'s memory, "90%", or an amount: "16G", "500M".',
        )
    memory = _whole_memory() * number // 100 if unit == "%" else number << _SIZES[unit]
    return Bounds(memory, int(config.number("session_processes")), said, config.path)


def _whole_memory() -> int:
    """The memory of this machine, or of the container that we run in."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _MACHINE:
        text = _text(path).strip()
        sizes += [int(text)] if text.isdigit() else []
    return min(sizes)


class Watch:
    """Looks at everything below a process, `root`, and at what shares its terminal session.

    A look costs a read for each process of the machine: it is worth that when there are clearly more processes than at the last
    one, or clearly less memory is free, and once every few seconds.
    """

    def __init__(self, root: int, bounds: Bounds) -> None:
        self._root, self._bounds = root, bounds
        self._glanced = self._looked = float("-inf")
        self._seen = (0, 0)
        self._machine = os.path.isdir("/proc/self")

    def look(self) -> str:
        """Why this is too much; empty while it is not."""
        now = time.monotonic()
        if not (self._bounds.memory or self._bounds.processes) or now - self._glanced < _GLANCE_SECONDS:
            return ""
        self._glanced = now
        if now - self._looked < _LOOK_SECONDS and not self._has_news():
            return ""
        self._looked, self._seen = now, _machine() if self._machine else (0, 0)
        return self._judge()

    def _has_news(self) -> bool:
        if not self._machine:
            return False
        (tasks, free), (before, had) = _machine(), self._seen
        more, less = self._bounds.processes // _NEWS, self._bounds.memory // _NEWS
        return (self._bounds.processes > 0 and tasks - before > more) or (self._bounds.memory > 0 and had - free > less)

    def _judge(self) -> str:
        found, bounds = family(self._root), self._bounds
        if 0 < bounds.processes < len(found):
            return (
                f"it ran {len(found)} processes at once, and session_processes allows {bounds.processes}:"
                f" if the work needs more, raise it in {bounds.path}"
            )
        if 0 < bounds.memory < sum(found.values()):  # which counts pages that several share for each of them
            used = sum(_share(one.pid, held) for one, held in found.items())
            if used > bounds.memory:
                return (
                    f"it used {used >> 20} MB of memory, and session_memory = {bounds.said} allows {bounds.memory >> 20} MB:"
                    f" if the work needs more, raise it in {bounds.path}"
                )
        return ""


def family(root: int) -> dict[Running, int]:
    """Everything below a process and in its terminal session, without itself, and how many bytes of memory each holds."""
    if not os.path.isdir("/proc/self"):
        return _family_elsewhere(root)
    children: dict[int, list[int]] = {}
    known: dict[int, tuple[Running, int]] = {}
    page = os.sysconf("SC_PAGE_SIZE")
    found: dict[Running, int] = {}
    waiting = [root]
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        fields = _stat(pid)
        if not fields or fields[0] in "ZX":
            continue
        children.setdefault(int(fields[1]), []).append(pid)
        known[pid] = Running(pid, fields[19]), int(fields[21]) * page
        if int(fields[3]) == root:
            waiting.append(pid)
    done: set[int] = set()
    while waiting:
        pid = waiting.pop()
        if pid not in done:
            done.add(pid)
            waiting += children.get(pid, ())
            if pid != root and pid in known:
                found[known[pid][0]] = known[pid][1]
    return found


def _family_elsewhere(root: int) -> dict[Running, int]:
    import psutil

    found: dict[Running, int] = {}
    for one in _children_elsewhere(root):
        try:
            found[Running(one.pid, str(one.create_time()))] = int(one.memory_info().rss)
        except psutil.Error:
            continue
    return found


def end_family(root: int, *, group: int = 0) -> None:
    """End everything below a process, its process group first: with bubblewrap all inside ends with that.

    The others are stopped before they are ended, so that none starts another one meanwhile.
    """
    stopped: set[Running] = set()
    until = time.monotonic() + _END_SECONDS
    new = set(family(root))
    if group:
        _end_group(group)
    while new:
        end(new, signal.SIGSTOP)
        stopped |= new
        new = family(root).keys() - stopped
    end(stopped)
    while (left := family(root)) and time.monotonic() < until:
        end(left)


def _end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # it is over


def set_rank(rank: str = FIRST) -> str:
    """Whom the kernel ends where the machine runs out of memory sooner than we look: us, and what we start from now on, before
    others. What it was before comes back."""
    before = _text(_RANK).strip()
    try:
        with open(_RANK, "w", encoding="ascii") as file:
            file.write(rank)
    except OSError:
        return before  # no Linux
    return before


def _share(pid: int, held: int) -> int:
    """Its bytes of memory, of pages that it shares with others its share; all that it holds where nobody says."""
    found = re.search(r"^Pss:\s+(\d+) kB", _text(f"/proc/{pid}/smaps_rollup"), re.MULTILINE)
    return int(found[1]) << 10 if found else held


def _machine() -> tuple[int, int]:
    """How many threads this machine has, and how many bytes of its memory are free."""
    threads = _text("/proc/loadavg").split()[3:4]
    free = re.search(r"^MemAvailable:\s+(\d+) kB", _text("/proc/meminfo"), re.MULTILINE)
    return int(threads[0].partition("/")[2]) if threads else 0, int(free[1]) << 10 if free else 0


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
