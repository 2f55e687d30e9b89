"""The broker of a sandboxed session, outside: it listens on a socket bound into the sandbox and carries out what sessions may ask.

Run as `python -m handoff.surfaces.broker FOLDER` by the session's monitor, with the session's own environment. Every call
is answered by a copy of this warm process; it gets the caller's three streams, and neither its folder nor its environment.
"""

from __future__ import annotations

import gc
import io
import os
import select
import signal
import socket
import sys

from handoff.agents import folder as folders
from handoff.base.errors import HandoffError, Refused
from handoff.base.files import make_folder
from handoff.base.process import copy_of_us
from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli import dispatch, output
from handoff.surfaces.cli.allow_list import AllowList, Caller
from handoff.surfaces.cli.broker_client import LARGEST, MARK
from handoff.surfaces.cli.commands.tasks import relay  # noqa: F401 - warm: what most calls need
from handoff.surfaces.hooks import main as hook

if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

LIMIT = 16
BACKLOG = 1024
READING_SECONDS = 10.0
_LOOK_SECONDS = 1.0
_UNREAD_SECONDS, _UNREAD_HURRIED_SECONDS = 60.0, 1.0
_SURE_BYTES = 4096
_UNREAD = 141
_STREAMS = 3
_FAULT = 70


class _Garbage(Exception):
    """What came through the broker is no call."""


def main(folder: str) -> int:
    """Listen until the monitor is gone."""
    monitor = folders.monitor_of(folder).pid
    listening = _listen(folder)
    rules = AllowList(_caller(folder))
    _warm()
    signal.signal(signal.SIGUSR1, _hurry)
    running: set[int] = set()
    while os.getppid() == monitor:
        running = _reaped(running)
        if len(running) >= LIMIT:
            _wait_for_one(running)
            continue
        try:
            talk, _ = listening.accept()
        except TimeoutError:
            continue
        except InterruptedError:
            continue
        running.add(_begin(listening, talk, rules))
        talk.close()
    return 0


def _listen(folder: str) -> socket.socket:
    """The socket, with its last name only: whole paths may be too long for sockets."""
    place = os.path.join(folder, folders.BROKER)
    make_folder(os.path.dirname(place), mode=0o700)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.chdir(os.path.dirname(place))
    temporary = f".{os.getpid()}"
    listening.bind(temporary)
    os.chmod(temporary, 0o600)
    listening.listen(BACKLOG)
    os.rename(temporary, os.path.basename(place))  # there only when somebody listens
    os.chdir("/")
    listening.settimeout(_LOOK_SECONDS)
    return listening


def _caller(folder: str) -> Caller:
    facts = folders.get(folder, folders.FACTS)
    return Caller(
        session=str(facts["session"]),
        project=str(facts["project"]),
        task=str(facts["task"]),
        fence=int(facts["fence"]),
        workspace=str(facts["workspace"]),
        checkout=str(facts["checkout"]),
    )


def _warm() -> None:
    from handoff.base import record  # noqa: F401 - imported once here instead of in every call
    from handoff.engine import app  # noqa: F401 - loaded before it is needed
    from handoff.engine.session import hooks  # noqa: F401 - loaded before it is needed

    gc.collect()
    gc.freeze()


def _reaped(running: set[int]) -> set[int]:
    left = set()
    for pid in running:
        try:
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                left.add(pid)
        except ChildProcessError:
            continue
    return left


def _wait_for_one(running: set[int]) -> None:
    """All hands are busy: callers stand in line until one is free; hands whose caller does not read are to give up soon."""
    from handoff.base.clock import SystemClock

    for pid in running:
        os.kill(pid, signal.SIGUSR1)  # ours until it is reaped
    SystemClock().sleep(0.02)


def _begin(listening: socket.socket, talk: socket.socket, rules: AllowList) -> int:
    return copy_of_us(lambda: _answer(listening, talk, rules))


# --- one call ------------------------------------------------------------------------------------------------


def _answer(listening: socket.socket, talk: socket.socket, rules: AllowList) -> int:
    listening.close()
    try:
        words, streams = _heard(talk)
    except (_Garbage, OSError, UnicodeError):
        return 0  # closed without an answer
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    output.print_on(_text_on)
    code = _carry_out(words, rules)
    try:
        output.flush()
        talk.sendall(bytes([code & 0xFF]))
    except OSError:
        return 0  # the caller has gone; what it asked for is done all the same
    return 0


def _heard(talk: socket.socket) -> tuple[list[str], list[int]]:
    """The words and the streams of a call; whoever dawdles or says too much is not heard."""

    def late(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise _Garbage

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, READING_SECONDS)
    head, streams = _first(talk)
    line, newline, body = head.partition(b"\n")
    size = line.removeprefix(MARK)
    if not newline or not line.startswith(MARK) or not size.isdigit() or not 0 < int(size) <= LARGEST:
        raise _Garbage
    if len(streams) != _STREAMS:
        raise _Garbage
    while len(body) < int(size):
        more = talk.recv(int(size) - len(body))
        if not more:
            raise _Garbage
        body += more
    signal.setitimer(signal.ITIMER_REAL, 0)
    return [os.fsdecode(word) for word in body.split(b"\0")], streams


def _first(talk: socket.socket) -> tuple[bytes, list[int]]:
    data, ancillary, _, _ = talk.recvmsg(4096, socket.CMSG_SPACE(_STREAMS * 4))
    streams: list[int] = []
    for level, kind, raw in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            streams += [int.from_bytes(raw[at : at + 4], sys.byteorder) for at in range(0, len(raw) - 3, 4)]
    if any(stream < _STREAMS for stream in streams):
        raise _Garbage  # our own streams are open, so that the kernel cannot give these numbers away
    return data, streams


# --- a caller that does not read -----------------------------------------------------------------------------

_hurried = False


def _hurry(number: int, frame: FrameType | None) -> None:
    """Others wait for this hand."""
    global _hurried  # noqa: PLW0603 - a signal has no other place to leave its word
    del number, frame
    _hurried = True


class _Stream(io.RawIOBase):
    """A stream of the caller. A full pipe that nobody reads ends the call, sooner when other callers wait."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """A piece that fits into what a pipe has free once it has anything free."""
        from handoff.base.clock import SystemClock

        clock = SystemClock()
        since = clock.monotonic()
        free = select.poll()
        free.register(self._number, select.POLLOUT)
        while not free.poll(100):
            if clock.monotonic() - since > (_UNREAD_HURRIED_SECONDS if _hurried else _UNREAD_SECONDS):
                os._exit(_UNREAD)
        return os.write(self._number, bytes(data[:_SURE_BYTES]))


def _text_on(number: int) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(_Stream(number)), encoding="utf-8", errors="backslashreplace")


def _carry_out(words: list[str], rules: AllowList) -> int:
    """Run one command in the session's name. Only what the rules name gets this far."""
    try:
        if words[:1] == ["hook"]:
            os.chdir(rules.caller.checkout)
            return hook(words[1:])
        return dispatch.dispatch(words, rules=rules)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141
    except (HandoffError, OSError) as error:
        os.write(2, f"{error}\n".encode("utf-8", "replace"))
        return error.exit_code if isinstance(error, Refused) else _FAULT
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
