"""Bare git at work in the same checkout: `git commit` reads the index before it locks it, and would bring an old one back."""

from __future__ import annotations

import os
import time

from handoff.base.process import start_of

_PAUSE_SECONDS = 0.001
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
        time.sleep(_PAUSE_SECONDS)
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
