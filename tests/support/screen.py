"""A terminal as a person sees it: the program talks to a real pseudo-terminal, and its control words move a cursor."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
from typing import Any

from handoff.base.clock import SystemClock

_WORD = re.compile(
    r"\x1b\[([?<=>0-9;$]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\r|\n|[^\x1b\r\n]+|\x1b"
)


class Screen:
    """A program on a terminal of its own."""

    def __init__(self, words: list[str], *, columns: int = 100, lines: int = 40, **options: Any) -> None:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process = subprocess.Popen(
            words, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, **options
        )
        os.close(theirs)
        self.lines = [""]
        self._row = self._column = 0
        self.cursor_shown = True
        self.title = ""

    def look(self, seconds: float = 0.05) -> str:
        """The screen after whatever came within a moment."""
        while select.select([self._ours], [], [], seconds)[0]:
            try:
                data = os.read(self._ours, 65536)
            except OSError:  # the program is gone
                break
            if not data:
                break
            self._draw(data.decode("utf-8", "replace"))
        return "\n".join(self.lines)

    def until(self, *texts: str, patience: float = 200.0) -> str:
        clock = SystemClock()
        deadline = clock.monotonic() + patience
        while not all(text in (seen := self.look()) for text in texts):
            assert clock.monotonic() < deadline, f"never seen: {texts}\n{seen}"
        return seen

    def after(self, seconds: float) -> str:
        """The screen after a while, however busy it was."""
        clock = SystemClock()
        deadline = clock.monotonic() + seconds
        while clock.monotonic() < deadline:
            self.look()
        return self.look(0)

    def _draw(self, text: str) -> None:
        for word in _WORD.finditer(text):
            whole, amount = word.group(), word.group(1) or ""
            if whole.startswith("\x1b]2;"):
                self.title = whole[4:].rstrip("\x07")
            elif whole == "\r":
                self._column = 0
            elif whole == "\n":
                self._row += 1
                self.lines += [""] * (self._row + 1 - len(self.lines))
            elif word.group(2) == "A":
                self._row = max(0, self._row - int(amount or 1))
            elif word.group(2) == "H":
                row, _, column = amount.partition(";")
                self._row, self._column = int(row or 1) - 1, int(column or 1) - 1
                self.lines += [""] * (self._row + 1 - len(self.lines))
            elif word.group(2) == "K":
                self.lines[self._row] = ""
            elif amount.startswith("?25"):
                self.cursor_shown = word.group(2) == "h"
            elif not whole.startswith("\x1b"):
                line = self.lines[self._row].ljust(self._column)
                self.lines[self._row] = line[: self._column] + whole + line[self._column + len(whole) :]
                self._column += len(whole)

    def type(self, text: str) -> None:
        """As if a person typed it."""
        os.write(self._ours, text.encode())

    def hang_up(self) -> None:
        """The window is gone, and nobody says so to the program."""
        os.close(self._ours)
        self._ours = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._ours >= 0:
            os.close(self._ours)
