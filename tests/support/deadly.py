"""Points at which a process is to die: `package.module.function:call` or `:return`, each met once by whoever comes first.

Nothing of ours is replaced: the interpreter's own profiler tells where a process is. The one that makes a point's marker
dies by SIGKILL at that very place.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import Any

_MUST_RETURN = {"supervisor.supervisor._claim"}  # an idle look that claims nothing is not the point


def arm(points: list[str], folder: str, *, with_sessions_of: str = "") -> None:
    """Die at these points; with a home named, every process of its sessions dies first, as when a whole host goes."""
    left = {tuple(point.rsplit(":", 1)) for point in points}

    def look(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if "handoff" not in code.co_filename:
            return
        place = code.co_filename.removesuffix(".py").split(os.sep)[-2:]
        name = ".".join([*place, code.co_name])
        if (name, event) not in left or (event == "return" and argument is None and name in _MUST_RETURN):
            return
        try:
            os.close(os.open(os.path.join(folder, f"{name}-{event}"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            left.discard((name, event))
            return
        if with_sessions_of:
            for pid in session_processes(with_sessions_of):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(look)
    sys.setprofile(look)


def session_processes(home: str) -> list[int]:
    """Processes of a home's sessions that are alive: monitors and whatever they started."""
    mark, found = f"HANDOFF_HOME={home}".encode(), []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{name}/stat", "rb") as file:
                dead = file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
        except (OSError, IndexError):
            continue
        if mark in words and not dead and any(word.startswith(b"HANDOFF_SESSION=") for word in words):
            found.append(int(name))
    return found
