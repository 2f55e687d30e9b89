"""Points at which a process is to die: `package.module.function:call` or `:return`, each met once by whoever comes first.

Nothing of ours is replaced: the interpreter's own tracer tells where a process is. The one that makes a point's marker dies
by SIGKILL at that very place.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import Any

_MUST_RETURN = {"supervisor.runs._claim"}  # an idle look that claims nothing is not the point


def arm(points: list[str], folder: str, *, with_sessions_of: str = "") -> None:
    """Die at these points; with a home named, every process of its sessions dies first, as when a whole host goes."""
    left = {tuple(point.rsplit(":", 1)) for point in points}
    functions = {name.rpartition(".")[2] for name, _ in left}

    def entered(frame: Any, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        if code.co_name not in functions or "handoff" not in code.co_filename:  # asked at every call: names first
            return None
        place = code.co_filename.removesuffix(".py").split(os.sep)[-2:]
        name = ".".join([*place, code.co_name])
        if (name, "call") in left:
            meet(name, "call")
        if (name, "return") not in left:
            return None
        frame.f_trace_lines = False

        def inside(_frame: Any, event: str, argument: Any) -> Any:
            if event == "return" and not (argument is None and name in _MUST_RETURN):
                meet(name, "return")
            return inside

        return inside

    def meet(name: str, event: str) -> None:
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

    threading.settrace(entered)
    sys.settrace(entered)


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
