"""Landlock by hand: a launcher that gives up rights the kernel will not give back, then becomes the command."""

from __future__ import annotations

import os
import stat
import sys
from typing import NoReturn

from handoff.agents.sandbox.policy import ALL, Policy
from handoff.base.errors import UserError
from handoff.base.files import SOURCES
from handoff.base.process import replace
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

OLDEST = 3  # before it, a file outside could still be truncated
# Isolated, so that nothing in the workspace is imported; our own code is found by its place.
_LAUNCH = "import sys; sys.path.insert(0, sys.argv.pop(1)); from handoff.agents.sandbox.landlock import {0}; {0}(sys.argv[1:])"
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_NO_NEW_PRIVILEGES, _DIE_WITH_PARENT, _SIGKILL = 38, 1, 9
_EXECUTE, _WRITE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_ALL_V1 = (1 << 13) - 1
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE | _READ_FILE | _TRUNCATE | _IOCTL
_CONNECT = 1 << 1
_SCOPE_SOCKET, _SCOPE_SIGNAL = 1 << 0, 1 << 1
_NETWORK_SINCE, _IOCTL_SINCE, _SCOPE_SINCE = 4, 5, 6
_DEVICES = [f"/dev/{name}" for name in "null tty zero full random urandom ptmx pts shm".split()]


def version() -> int:
    """The kernel's Landlock version; 0 where it has none."""
    if sys.platform != "linux":
        return 0
    import ctypes

    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(_CREATE, None, 0, 1)))


def launcher_words(policy: Policy) -> list[str]:
    """How to start a command under Landlock: Python, this file, and the policy in words."""
    words = [sys.executable, "-I", "-c", _LAUNCH.format("main"), SOURCES, f"--in={policy.workspace}"]
    words += [f"--write={path}" for path in (policy.workspace, policy.temp, *policy.writable)]
    words += [f"--hide={path}" for path in policy.hidden]
    words += [f"--read={path}" for path in policy.visible]
    return words + ([] if policy.network == ALL else ["--offline"])


def holds_abstract_sockets() -> bool:
    """Whether this kernel can keep a session from sockets that have no place on the disk (Linux 6.12)."""
    return version() >= _SCOPE_SINCE


def scope_words() -> list[str]:
    """What stands before a command that shares the machine's network, inside another sandbox: nothing where the kernel cannot."""
    if not holds_abstract_sockets():
        return []
    return [sys.executable, "-I", "-S", "-c", _LAUNCH.format("scope"), SOURCES, "--"]


def scope(words: Sequence[str]) -> NoReturn:
    """Give up abstract sockets and signals of everybody outside, and become the command."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    attributes = (ctypes.c_uint64 * 3)(0, 0, _SCOPE_SIGNAL | _SCOPE_SOCKET)
    ruleset = libc.syscall(_CREATE, ctypes.byref(attributes), ctypes.sizeof(attributes), 0)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if ruleset < 0 or libc.syscall(_RESTRICT, ruleset, 0) != 0:
        raise OSError(ctypes.get_errno(), "Landlock refused")
    os.close(ruleset)
    become(words[1:])


_NOT_STARTED = 127  # as every shell says it


def main(words: Sequence[str]) -> NoReturn:
    """Give up the rights and become the command."""
    split = list(words).index("--")
    options = [word.partition("=") for word in words[:split]]
    values = {
        name: [value for key, _, value in options if key == name] for name in ("--write", "--hide", "--read", "--in")
    }
    restrict(
        values["--write"],
        values["--hide"],
        values["--read"],
        network=not any(key == "--offline" for key, _, _ in options),
    )
    os.chdir(values["--in"][0])
    become(words[split + 1 :])


def become(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> NoReturn:
    """The last step. What goes wrong here is read by a person as the session's last words."""
    try:
        replace(list(argv), environment)
    except UserError as error:
        os.write(2, f"Inside the sandbox: {error} {error.hint}\n".encode())
        sys.exit(_NOT_STARTED)


def restrict(writable: Sequence[str], hidden: Sequence[str], visible: Sequence[str], *, network: bool) -> None:
    """From here on this process and its children write only below `writable` and do not read below `hidden`."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    abi = version()
    handled = _ALL_V1 | _REFER | _TRUNCATE | (_IOCTL if abi >= _IOCTL_SINCE else 0)
    sizes = (handled, _CONNECT if not network and abi >= _NETWORK_SINCE else 0, _SCOPE_SIGNAL | _SCOPE_SOCKET)
    fields = 3 if abi >= _SCOPE_SINCE else 2 if abi >= _NETWORK_SINCE else 1
    attributes = (ctypes.c_uint64 * fields)(*sizes[:fields])
    ruleset = libc.syscall(_CREATE, ctypes.byref(attributes), ctypes.sizeof(attributes), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "Landlock refused")

    class Rule(ctypes.Structure):
        _pack_ = 1
        _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))

    def allow(path: str, rights: int) -> None:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                rights &= _FILE_RIGHTS
            rule = Rule(rights & handled, fd)
            libc.syscall(_ADD, ruleset, 1, ctypes.byref(rule), 0)
        finally:
            os.close(fd)

    allow("/", _READ_DIR)  # names may be listed everywhere, or no program finds its way
    for path in readable(hidden):
        allow(path, _READ)
    for path in visible:
        for part in readable(hidden, path):
            allow(part, _READ)
    for path in (*writable, *devices(hidden)):
        allow(path, handled)
    allow("/proc", _READ | _WRITE | _TRUNCATE)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    libc.prctl(_DIE_WITH_PARENT, _SIGKILL, 0, 0, 0)
    if libc.syscall(_RESTRICT, ruleset, 0) != 0:
        raise OSError(ctypes.get_errno(), "Landlock refused")
    os.close(ruleset)


def devices(hidden: Sequence[str]) -> list[str]:
    """What every program writes to; shared memory is not among it where something that is hidden lies in it."""
    return [path for path in _DEVICES if not any(f"{one}/".startswith(f"{path}/") for one in hidden)]


def readable(hidden: Iterable[str], top: str = "/") -> list[str]:
    """Landlock only allows: to hide a folder, allow everything beside it on the way down to it."""
    secret = sorted({os.path.realpath(path) for path in hidden if os.path.lexists(path)})
    found: list[str] = []

    def walk(folder: str) -> None:
        if folder in secret:
            return
        if not any(path.startswith(folder.rstrip("/") + "/") for path in secret):
            found.append(folder)
            return
        try:
            names = os.listdir(folder)
        except OSError:
            return
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                walk(path)

    walk(top)
    return found
