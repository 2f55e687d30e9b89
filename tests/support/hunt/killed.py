"""A verb that is killed in its middle, and the one answer no verb gives: it was killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import warnings
from typing import TYPE_CHECKING, Any

from handoff.base.errors import HandoffError

if TYPE_CHECKING:
    from collections.abc import Callable

_SUBREAPER = 36
# Every call into the system or the database that a verb makes is a point at which it can die.
_POINTS = frozenset(
    "execute executemany commit fsync rename replace unlink link write flock mkdir open posix_spawn posix_spawnp".split()
)


class Killed(HandoffError):
    """The verb was killed before it could answer."""


def run_killed(verb: Callable[[], Any], point: int) -> Killed:
    """The verb in a child that dies by SIGKILL at its n-th call into the system; what it began may end by itself."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)  # what the child started is waited for, so that a step is a step
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of the test runner do nothing in the child
        child = os.fork()
    if not child:
        try:
            os.setpgid(0, 0)
            _die_at(point)
            verb()
        finally:
            sys.setprofile(None)
            os._exit(0)
    killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    while True:
        try:
            os.waitpid(-child, 0)
        except ChildProcessError:
            break
    return Killed("killed" if killed else "killed too late", "nobody heard the answer")


def _die_at(left: int) -> None:
    def look(_frame: Any, event: str, function: Any) -> None:
        nonlocal left
        if event == "c_call" and function.__name__ in _POINTS:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(look)
