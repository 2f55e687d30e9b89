"""What a client says goes through the monitor into its files: without secrets, so that the original is never on the disk."""

from __future__ import annotations

import os
import select

from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.base.redaction import RedactedStream

_CHUNK = 1 << 16
_FULL = 1 << 20


class Recording:
    """The pipes a client writes into and the files behind them. Nothing is read while a full disk keeps us from writing."""

    def __init__(self) -> None:
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
        for end in ends:
            os.close(end)
        for read, stream in zip(self._files, streams, strict=True):
            self._streams[read] = stream
            self._poll.register(read, select.POLLIN)

    def take(self, seconds: float) -> None:
        """Write down what comes within so many seconds."""
        for read in list(self._waiting):
            self._write(read, b"")
        for read, _ in self._poll.poll(seconds * 1000):
            self._read(read)

    def finish(self) -> None:
        """Everything that was said is written, the last line too."""
        for read in list(self._streams):
            while read in self._streams and self._read(read):
                continue
        for read, stream in self._streams.items():
            self._write(read, stream.rest())
        while self._waiting:  # a full disk
            select.select((), (), (), 1.0)
            for read in list(self._waiting):
                self._write(read, b"")

    def _read(self, read: int) -> bool:
        """One piece; False when there is no more at present."""
        try:
            data = os.read(read, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._write(read, self._streams[read].feed(data))
            return True
        self._poll.unregister(read)
        self._write(read, self._streams.pop(read).rest())
        return False

    def _write(self, read: int, data: bytes) -> None:
        data = self._waiting.pop(read, b"") + data
        while data:
            try:
                data = data[os.write(self._files[read], data) :]
            except OSError:  # no room: it waits, and the client with it once its pipe is full
                self._waiting[read] = data
                break
        if read in self._streams:
            self._poll.register(read, select.POLLIN if len(self._waiting.get(read, b"")) < _FULL else 0)
