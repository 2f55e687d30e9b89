"""The monitor: one small process for each session. It starts the client, adopts what the client leaves behind, ends it, and
writes down how it came out. It outlives a supervisor that is killed, so the exit code is never lost.

Run as `run(FOLDER)` in a fresh interpreter; the words to start are in FOLDER/launch.json."""

from __future__ import annotations

import os
import select
import signal
import sys
import time

from handoff.base.bounds import Bounds, Running, Watch, descendants, end, end_family, of_session, set_rank
from handoff.base.errors import Away, HandoffError
from handoff.base.files import create_exclusive, read_text, write_atomic
from handoff.base.light_json import dumps, loads
from handoff.base.process import detach, start_of
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import from_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import Any, TypeVar

    from handoff.base.redaction import RedactedStream

    _Written = TypeVar("_Written")

_CHUNK = 1 << 16
_FULL = 1 << 20
_LONGEST_TAIL = 4 << 20
_NOTICE_SECONDS = 60.0


class Bounded:
    """What is kept of one stream: its beginning up to a size, and its end; in between it is said that something is left out."""

    def __init__(self, most: int) -> None:
        self._room = most - min(most // 4, _LONGEST_TAIL)
        self._most_tail = most - self._room
        self._tail = bytearray()
        self._is_full = False
        self._dropped = 0
        self._told_at = 0.0

    def feed(self, data: bytes) -> bytes:
        """What of the next piece is written now."""
        if not self._is_full and len(data) <= self._room:
            self._room -= len(data)
            return data
        head = b"" if self._is_full else data[: data.rfind(b"\n", 0, self._room) + 1]
        self._is_full = True
        self._tail += data[len(head) :]
        if len(self._tail) > 2 * self._most_tail:
            self._shorten()
        if not self._dropped or time.monotonic() - self._told_at < _NOTICE_SECONDS:
            return head
        return head + self._notice()  # whoever looks whether anything moves sees that it does

    def rest(self) -> bytes:
        """The end of it, when there is no more."""
        if len(self._tail) > self._most_tail:
            self._shorten()
        return (self._notice() if self._dropped else b"") + bytes(self._tail)

    def _shorten(self) -> None:
        end = len(self._tail) - self._most_tail
        line = self._tail.find(b"\n", end)
        end = line + 1 if line >= 0 else end
        self._dropped += end
        del self._tail[:end]

    def _notice(self) -> bytes:
        self._told_at = time.monotonic()
        return f"[handoff: {self._dropped} bytes are left out here, because this session printed so much]\n".encode()


class Recording:
    """The pipes a client writes into and the files behind them. Nothing is read while a full disk keeps us from writing."""

    def __init__(self, most: int = 64 << 20) -> None:
        self._most = most
        self._bounds: dict[int, Bounded] = {}
        self._files: dict[int, int] = {}
        self._streams: dict[int, RedactedStream] = {}
        self._waiting: dict[int, bytes] = {}
        self._poll = select.poll()

    def pipe(self, path: str) -> int:
        """The end of a new pipe that the client writes into; the other one ends in the file."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        self._files[read] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return write

    def begin(self, ends: Sequence[int], streams: Sequence[RedactedStream]) -> None:
        """The client has its ends now: ours are closed, and it is known what is secret."""
        for write in ends:
            os.close(write)
        for read, stream in zip(self._files, streams, strict=True):
            self._streams[read] = stream
            self._bounds[read] = Bounded(self._most)
            self._poll.register(read, select.POLLIN)

    def take(self, seconds: float) -> None:
        """Write down what comes within so many seconds."""
        for read in list(self._waiting):
            self._write_out(read, b"")
        for read, _ in self._poll.poll(seconds * 1000):
            self._read_some(read)

    def finish(self) -> None:
        """Everything that was said is written, the last line too."""
        for read in list(self._streams):
            while read in self._streams and self._read_some(read):
                continue
        for read, stream in self._streams.items():
            self._write_out(read, self._bounds[read].feed(stream.rest()) + self._bounds[read].rest())
        while self._waiting:  # a full disk
            select.select((), (), (), 1.0)
            for read in list(self._waiting):
                self._write_out(read, b"")

    def _read_some(self, read: int) -> bool:
        """One piece; False when there is no more at present."""
        try:
            data = os.read(read, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._write_out(read, self._bounds[read].feed(self._streams[read].feed(data)))
            return True
        self._poll.unregister(read)
        bound = self._bounds[read]
        self._write_out(read, bound.feed(self._streams.pop(read).rest()) + bound.rest())
        return False

    def _write_out(self, read: int, data: bytes) -> None:
        data = self._waiting.pop(read, b"") + data
        while data:
            try:
                data = data[os.write(self._files[read], data) :]
            except OSError:  # no room: it waits, and the client with it once its pipe is full
                self._waiting[read] = data
                break
        if read in self._streams:
            self._poll.register(read, select.POLLIN if len(self._waiting.get(read, b"")) < _FULL else 0)


MONITOR, LAUNCH, PROCESS, EXIT = "monitor.json", "launch.json", "process.json", "exit.json"
EVENTS, ERRORS = "events.jsonl", "errors.log"
GRACE_SECONDS = 3.0
CANNOT_START = 127
_PAUSE = 0.02
_FULL_PAUSE = 1.0
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux


def main(folder: str) -> int:
    """Start, wait, clean up, tell. The first monitor of a folder has it; a second one, started by a supervisor that could not
    know of the first, ends at once."""
    me = dumps({"pid": os.getpid(), "start": start_of(os.getpid())})
    if not _with_room(lambda: create_exclusive(os.path.join(folder, MONITOR), me, mode=0o600, sync=False)):
        return 0
    order = loads(read_text(os.path.join(folder, LAUNCH)))
    stopping: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        stopping.append(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    here = bool(order.get("terminal"))
    if here:  # what a person types is for the client, which has the same terminal
        signal.signal(signal.SIGINT, lambda *_: None)
    adopt_orphans()

    recording = Recording(*([order["most"]] if "most" in order else []))
    try:
        environment, broker = _inside(folder, order)
        os.chdir(order["cwd"])
        ends = [recording.pipe(os.path.join(folder, name)) for name in (EVENTS, ERRORS) if not here]
        streams = {} if here else {"out": ends[0], "err": ends[1]}
        before = set_rank()
        pid = detach(order["argv"], environment=environment, here=here, **streams)
        set_rank(before)
    except (HandoffError, OSError) as error:
        _tell(folder, {"code": CANNOT_START, "error": str(error), "stragglers": 0, "stopped": False, "over": ""})
        return 1
    _write(folder, PROCESS, {"pid": pid, "start": start_of(pid), "monitor": os.getpid()})
    recording.begin(ends, _streams({**from_environment().environment, **environment}, len(ends)))
    code, over = _wait(pid, stopping, recording, Bounds(**order.get("bounds", {})), here=here)
    if broker:
        _signal_group(broker, signal.SIGKILL)  # what it was still answering had nobody left to answer
    stragglers = clean_up(from_environment().get("HANDOFF_SESSION"))
    recording.finish()
    _tell(folder, {"code": code, "error": "", "stragglers": stragglers, "stopped": bool(stopping), "over": over})
    return 0


def _streams(environment: dict[str, str], count: int) -> list[RedactedStream]:
    from handoff.base.redaction import RedactedStream, secret_values  # the client runs by now, and need not wait for it

    values = secret_values(environment)
    return [RedactedStream(values) for _ in range(count)]


def _inside(folder: str, order: dict[str, Any]) -> tuple[dict[str, str], int]:
    """The client's environment. Inside a sandbox it is another than ours, and a broker is opened for it.

    The client need not wait for that: whoever knocks early stands before the broker until it is there.
    """
    mine = from_environment().environment
    environment = {name: value for name, value in mine.items() if name not in order.get("without", ())}
    environment.update(order.get("with", {}))
    if not order.get("broker"):
        return environment, 0
    return environment, detach([*order["broker"], folder], environment=mine, err=os.path.join(folder, "broker.log"))


def adopt_orphans() -> None:
    """Ask the kernel to give us the children of children that lose their parent; where it cannot, the mark is all we have."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _wait(
    pid: int, stopping: list[int], recording: Recording, bounds: Bounds, *, here: bool = False
) -> tuple[int, str]:
    """Reap until the client itself is over: its exit code, and why it was more than this machine allows.

    Told to stop, it is asked first and forced after a while; what uses too much is not asked.
    """
    asked_at, over, watch = 0.0, "", Watch(os.getpid(), bounds)
    while True:
        found, status = _reap()
        if found == pid:
            return os.waitstatus_to_exitcode(status), over
        if found:
            continue
        if reason := watch.look():
            over = over or reason
            end_family(os.getpid(), group=0 if here else pid)  # in a terminal the group is ours too
            continue
        if stopping and not asked_at:
            asked_at = time.monotonic()
            if here:  # in a terminal it shares our group, and the group must hear nothing
                end([Running(pid, start_of(pid))], signal.SIGTERM)
            _signal_group(pid, signal.SIGTERM)
        elif asked_at and time.monotonic() - asked_at > GRACE_SECONDS:
            _signal_group(pid, signal.SIGKILL)
            end([Running(pid, start_of(pid))])
        recording.take(_PAUSE)


def clean_up(session: str) -> int:
    """End everything that is left of the session: asked once, then forced; how many were still there."""
    deadline = time.monotonic() + GRACE_SECONDS
    left = _left(session)
    count = len(left)
    end(left, signal.SIGTERM)
    while left and time.monotonic() < deadline:
        left = _left(session)
        time.sleep(_PAUSE)
    while left := _left(session):
        end(left, signal.SIGKILL)
        time.sleep(_PAUSE)
    return count


def _left(session: str) -> list[Running]:
    """What is left of the session. A process that forks and ends again and again may escape one look at the list of processes.

    All of them become children of ours, so the kernel is asked too: as long as it knows a child, we look again.
    """
    deadline = time.monotonic() + GRACE_SECONDS
    while True:
        more = _reap_all()
        found = {process.pid: process for process in descendants(os.getpid())}
        if session:
            found.update((process.pid, process) for process in of_session(session))
        found.pop(os.getpid(), None)
        if found or not more or time.monotonic() > deadline:
            return list(found.values())


def _reap() -> tuple[int, int]:
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return 0, 0


def _reap_all() -> bool:
    """Whether a child is left that has not ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return False
    return True


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _write(folder: str, name: str, value: dict[str, object]) -> None:
    _with_room(lambda: write_atomic(os.path.join(folder, name), dumps(value), mode=0o600, sync=False))


def _with_room(write: Callable[[], _Written]) -> _Written:
    """Write, and where the disk is full wait for room: how the client came out must not be lost."""
    while True:
        try:
            return write()
        except Away:
            time.sleep(_FULL_PAUSE)


def _tell(folder: str, value: dict[str, object]) -> None:
    _write(folder, EXIT, value)


def run() -> int:
    """The monitor as a program: its folder is the first word."""
    return main(sys.argv[1])


if __name__ == "__main__":
    sys.exit(run())
