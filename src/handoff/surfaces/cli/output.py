"""The only place that prints. Text for people, JSON for programs, nothing half."""

from __future__ import annotations

import os
import sys

from handoff.base.ids import STEERING, VISIBLE
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

    from handoff.base.clock import Clock
    from handoff.base.settings import Settings
    from handoff.engine.app import App
    from handoff.engine.work.act import ActDone

_STYLES = {
    "title": "1;36",
    "good": "32",
    "warn": "33",
    "bad": "31",
    "dim": "2",
    "strong": "1",
    "moving": "36",
}


_AS_JSON = {
    code: "".join(f"\\u{unit}" for unit in chr(code).encode("utf-16-be").hex("-", 2).split("-"))
    for code in STEERING
    if code > 126  # noqa: PLR2004 - JSON escapes the others itself
}


_MARKS = {style: chr(0xFDD0 + index) for index, style in enumerate(_STYLES)}  # no text has these characters
_END = "\ufddf"
_COLOURED = VISIBLE | {ord(mark): f"\x1b[{_STYLES[style]}m" for style, mark in _MARKS.items()} | {ord(_END): "\x1b[0m"}


def shown(text: str, colour: bool = False) -> str:
    """Text with its control characters made visible; ends of lines, tabs and, with `colour`, our own styles stay."""
    if text.isprintable():
        return text
    return text.translate(_COLOURED if colour else VISIBLE).replace("\\x0d\n", "\r\n")


class Output:
    """Standard output carries the answer; everything else goes to standard error."""

    def __init__(self, settings: Settings, *, json_wanted: bool = False) -> None:
        self.json_wanted = json_wanted
        self.trouble = ""
        """Why the answer could not be written."""
        self.colour = _wants_colour(settings, sys.stdout)
        self._error_colour = _wants_colour(settings, sys.stderr)
        self._width = settings.get("COLUMNS")
        self._progress: ProgressLine | None = None
        self.shows_progress = (
            not json_wanted and settings.get("TERM") != "dumb" and sys.stderr is not None and sys.stderr.isatty()
        )

    @property
    def person(self) -> bool:
        """Whether a person's terminal is there to look at the answer."""
        return sys.stdout is not None and sys.stdout.isatty()

    @property
    def can_ask(self) -> bool:
        return sys.stdin is not None and sys.stdin.isatty()

    def style(self, text: str, style: str) -> str:
        """Text for a line, marked with how it is to look; what a line is told by others cannot be marked so."""
        return f"{_MARKS[style]}{text}{_END}" if self.colour and text and style else text

    def line(self, text: str = "", style: str = "") -> None:
        """One line of the answer; silent under --json, where `data` is the answer."""
        if not self.json_wanted:
            text = self.style(text, style) if style else text
            self._send(shown(text, self.colour) + "\n")

    def lines(self, *texts: str) -> None:
        for text in texts:
            self.line(text)

    def raw(self, text: str) -> None:
        """Bytes as they are: prompts, scripts, documents. On a person's terminal nothing in them steers it."""
        self._send(shown(text, self.colour) if self.person else text)

    def ring(self, app: App, text: str) -> None:
        """Call the person whose terminal this is; nobody else hears it."""
        if self.person and not self.json_wanted:
            from handoff.engine.features.calling import call

            self._send(call(app, text))

    def redraw(self, text: str, *, over: bool) -> None:
        """A line without its end on a person's terminal; `over` the one that stood there."""
        self._send(("\r\x1b[2K" if over else "") + shown(text, self.colour))

    def progress(self, clock: Clock, what: str, done: int, total: int) -> None:
        """Tell a person who looks how far something long has come; nothing is loaded for it before there is something to tell."""
        if not self.shows_progress:
            return
        if self._progress is None:
            self._progress = ProgressLine(clock, self._draw_progress)
        self._progress.tell(what, done, total)

    def leave_screen(self) -> None:
        """Somebody else draws on the terminal from here on: no line of ours comes in between."""
        self.end_progress()
        self.shows_progress = False

    def end_progress(self) -> None:
        if self._progress is not None:
            self._progress.close()
            self._progress = None

    def _draw_progress(self, text: str) -> None:
        width = int(self._width) if self._width.isdigit() else _terminal_columns()
        _write(sys.stderr, f"\r\x1b[2K{shown(text)[: max(10, width - 1)]}", end="")

    def _send(self, text: str) -> None:
        """Write to standard output. Where that cannot be, the work goes on, and the end of the command tells."""
        if self._progress is not None:
            self._progress.clear()
        if self.trouble:
            return
        if sys.stdout is None:
            self.trouble = "standard output is closed"
            return
        stream = getattr(sys.stdout, "buffer", None)
        if stream is None:
            sys.stdout.write(text)
            return
        try:
            sys.stdout.flush()
            stream.write(text.encode("utf-8", "surrogateescape"))
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            self.trouble = error.strerror or str(error)
            close_quietly()

    def data(self, value: Any) -> None:
        """The answer for a program, when --json was given."""
        if self.json_wanted:
            import json

            text = json.dumps(value, ensure_ascii=False, indent=2, default=_plain)
            text = text if text.isascii() else text.translate(_AS_JSON)
            self._send(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") + "\n")

    def done(self, act: ActDone, *, data: bool = True) -> int:
        """What came of an act, and the exit code; without `data` where a program has its answer already."""
        if data:
            self.data(act.facts)
        for line in act.text.splitlines():
            self.line(line, act.style)
        self.lines(*act.hint.splitlines())
        for note in act.notes:
            self.note(note, "warn" if note.startswith("Warning: ") else "")
        if act.refusal is not None:
            self.error(act.refusal.message, act.refusal.hint)
            return act.refusal.exit_code
        return 0 if act.ok else 1

    def note(self, text: str, style: str = "") -> None:
        """Something a person should know that is not the answer."""
        if self._progress is not None:
            self._progress.clear()
        text = shown(text)
        _write(sys.stderr, f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and self._error_colour else text)

    def warning(self, text: str) -> None:
        self.note(f"Warning: {text}", "warn")

    def error(self, message: str, hint: str = "") -> None:
        self.note(f"Error: {message}", "bad")
        if hint:
            self.note(f"Hint: {hint}")

    def _asked(self, question: str) -> str:
        """The line that a person types below a question, with its end; nothing when stdin is closed."""
        self.end_progress()  # else its next line would be drawn over the question
        _write(sys.stderr, f"{shown(question)} ", end="")
        return sys.stdin.readline() if sys.stdin is not None else ""

    def ask(self, question: str, *, enter: bool = False) -> bool:
        """A yes-or-no question; Enter alone means `enter`, and no answer (a closed stdin) means no."""
        answer = self._asked(f"{question} [{'Y/n' if enter else 'y/N'}]:")
        if not answer.endswith("\n"):
            _write(sys.stderr, "")
        return answer.strip().lower() in ("y", "yes") or (enter and answer.strip() == "" and answer != "")

    def ask_words(self, question: str, default: str) -> str:
        """A question for words; Enter alone or no answer means `default`."""
        return self._asked(f"{question} [{default}]:").strip() or default

    def answer(self, question: str) -> str:
        """One line of words; nothing when stdin is closed."""
        return self._asked(question).strip()

    def choose(self, question: str, letters: str) -> str:
        """One of some letters; no answer (a closed stdin) means the last one."""
        while True:
            answer = self._asked(question)
            word = answer.strip().lower()[:1]
            if not answer:
                return letters[-1]
            if word and word in letters:
                return word


def print_on(make: Callable[[int], TextIO]) -> None:
    """Print on streams of another kind, made for the numbers of the two."""
    sys.stdout, sys.stderr = make(1), make(2)


def flush() -> None:
    """Nothing that was printed is left here."""
    sys.stdout.flush()


def _write(stream: TextIO | None, text: str, end: str = "\n") -> None:
    if stream is None:
        return
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + end)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError:
        return  # nowhere is left to say it; the exit code still does


def _wants_colour(settings: Settings, stream: TextIO | None) -> bool:
    if settings.get("NO_COLOR"):
        return False
    if settings.get("FORCE_COLOR") not in ("", "0") or settings.get("CLICOLOR_FORCE") not in ("", "0"):
        return True
    if settings.get("CLICOLOR") == "0" or settings.get("TERM") == "dumb":
        return False
    return stream is not None and stream.isatty()


def _terminal_columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def close_quietly() -> None:
    """Point standard output at nothing after the reader has gone, so that the interpreter's own flush is quiet."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(devnull, sys.stdout.fileno())
    except (OSError, ValueError):
        return


_FIRST_SECONDS = 2.0
_AGAIN_SECONDS = 0.5
_MINUTE = 60
_LEAST_SHARE = 0.02


class ProgressLine:
    """What is being done at present. A thread of its own draws it, because the work is busy with itself."""

    def __init__(self, clock: Clock, draw: Callable[[str], None]) -> None:
        self._clock, self._draw = clock, draw
        self._began = self._what_began = clock.monotonic()
        self._now = ("", 0, 0)
        self._shown = False
        import threading  # a command that tells no progress does without

        self._lock = threading.RLock()
        self._over = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def tell(self, what: str, done: int, total: int) -> None:
        """What is being done, and how much of it is."""
        with self._lock:
            if what != self._now[0]:
                self._what_began = self._clock.monotonic()
            self._now = (what, done, total)

    def clear(self) -> None:
        """Make room for a line of somebody else; it comes back by itself."""
        with self._lock:
            if self._shown:
                self._draw("")
                self._shown = False

    def close(self) -> None:
        self._over.set()
        self.clear()

    def _run(self) -> None:
        pause = _FIRST_SECONDS
        while not self._over.wait(pause):
            pause = _AGAIN_SECONDS
            with self._lock:
                if not self._over.is_set() and self._now[0]:
                    self._draw(self.words())
                    self._shown = True

    def words(self) -> str:
        """`Reading files: 1200 of 5000, 24 %, 6 s, about 19 s more`."""
        what, done, total = self._now
        passed = self._clock.monotonic() - self._what_began
        share = done / total if total else 0.0
        parts = [f"{done} of {total}, {share:.0%}"] if total > 1 else []
        parts.append(_seconds(self._clock.monotonic() - self._began))
        if total > 1 and share > _LEAST_SHARE:
            parts.append(f"about {_seconds(passed * (1 - share) / share)} more")
        return f"{what}: {', '.join(parts)}"


def _seconds(amount: float) -> str:
    whole = round(amount)
    return f"{whole} s" if whole < _MINUTE else f"{whole // _MINUTE}:{whole % _MINUTE:02d} min"
