"""Run a program and believe neither that it ends nor that it is brief: limits on time and on what it says."""

from __future__ import annotations

import os
import selectors
import time

from handoff.base.process import TIMED_OUT, Completed, end_group, spawn, wait_for_end
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.base.process import Child

_TICK = 0.1
_CHUNK = 65536


class Limited(Record):
    """How a program ended that was read within limits; `said` is what it wrote into a channel of its own."""

    completed: Completed
    said: bytes = b""
    too_much: bool = False


def run_limited(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    most: int,
    timeout: float,
    cwd: str | None = None,
    stdin: bytes = b"",
    channel: str = "",
) -> Limited:
    """Run a program, both streams in one, and stop it when time is up or when it says more than `most` bytes.

    It is over when the program itself is, whatever it left running: that is ended with it. Where `channel` stands among the
    words or as a variable, the number of a pipe is put there that only the program holds; what it writes into it comes back apart.
    """
    source, sink = os.pipe()
    try:
        words = [str(sink) if channel and word == channel else word for word in argv]
        named = {key: str(sink) if channel and value == channel else value for key, value in environment.items()}
        child = spawn(words, environment=named, cwd=cwd, talk=True, keep=(sink,) if channel else ())
    except BaseException:
        os.close(source)
        raise
    finally:
        os.close(sink)
    try:
        return _Listener(child, source, stdin, most).listen(timeout)
    finally:
        end_group(child.pid)
        wait_for_end(child.pid, _TICK, sleep=time.sleep)
        child.ended()
        child.talk.close()
        child.heard.close()
        os.close(source)


class _Listener:
    """Reads what a program says and hands it what it wants to read."""

    def __init__(self, child: Child, source: int, stdin: bytes, most: int) -> None:
        self._child, self._source, self._most, self._size = child, source, most, 0
        self._out, self._in = child.heard.fileno(), child.talk.fileno()
        self._given = memoryview(stdin)
        self._heard: dict[int, list[bytes]] = {self._out: [], source: []}

    def listen(self, timeout: float) -> Limited:
        until, late, over = time.monotonic() + timeout, False, False
        with selectors.DefaultSelector() as streams:
            for fd in (self._out, self._source, self._in):
                os.set_blocking(fd, False)
                streams.register(fd, selectors.EVENT_WRITE if fd == self._in else selectors.EVENT_READ)
            while self._size <= self._most and not over:
                over = self._child.ended() is not None  # then once more, for what is still in the pipes
                left = until - time.monotonic()
                if left <= 0 and not over:
                    late = True
                    break
                for key, _ in streams.select(0 if over else min(_TICK, left)):
                    if not (self._give() if key.fd == self._in else self._drain(key.fd)):
                        streams.unregister(key.fd)
                        if key.fd == self._in:
                            self._child.talk.close()
        code = self._child.ended()
        completed = Completed(TIMED_OUT if code is None else code, b"".join(self._heard[self._out]), b"", late)
        return Limited(completed, b"".join(self._heard[self._source]), self._size > self._most)

    def _give(self) -> bool:
        """Hand over what the pipe takes now; whether there is more. A program that does not want it gets no more."""
        try:
            self._given = self._given[os.write(self._in, self._given) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            self._given = self._given[:0]
        return bool(self._given)

    def _drain(self, fd: int) -> bool:
        """All there is in a pipe now, but not much more than the limit; whether more can come."""
        while self._size <= self._most:
            try:
                chunk = os.read(fd, _CHUNK)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self._heard[fd].append(chunk)
            self._size += len(chunk)
        return False
