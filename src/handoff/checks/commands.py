"""Run a program within limits of time, output, memory and processes; run a check command so, and keep its evidence."""

from __future__ import annotations

import os
import selectors
import time

from handoff.base.bounds import TO_BE_FIRST, UNBOUNDED, Bounds, Watch, end_family
from handoff.base.markdown import shell_line
from handoff.base.process import TIMED_OUT, Child, Completed, end_group, spawn, wait_for_end
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.redaction import without_secrets
from handoff.base.settings import without_guard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from handoff.base.clock import Clock

    Wrap = Callable[[Sequence[str], Mapping[str, str]], tuple[Sequence[str], Mapping[str, str]]]

TAIL_LINES = 40
NOT_STARTED = (126, 127)
"""Exit codes of a shell whose command it could not start: neither a yes nor a no."""
_TAIL_CHARS = 6000
_MOST_BYTES = 1 << 20
_OURS = frozenset("HANDOFF_HOME HANDOFF_HOST HANDOFF_DATABASE_URL HANDOFF_SANDBOX".split())


class Verdict(Record):
    """What a check said: green only on exit 0 within its time."""

    command: str
    code: int
    seconds: float
    tail: str
    timed_out: bool = False
    over: str = ""
    """Why it was ended: it used more memory or processes than it may."""

    @property
    def green(self) -> bool:
        return self.code == 0 and not self.timed_out and not self.over

    @property
    def word(self) -> str:
        if self.over:
            return f"red ({self.over})"
        if self.timed_out:
            return f"red (no answer within {self.seconds:.0f} s)"
        if self.code in NOT_STARTED:
            return f"not run (exit {self.code})"
        return "green" if self.green else f"red (exit {self.code})"


def check_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The person's own variables for a check: nothing that speaks for a session. A sandbox around it keeps what its own list allows."""
    kept = {name: value for name, value in environment.items() if not name.startswith("HANDOFF_") or name in _OURS}
    return {**kept, "PATH": without_guard(environment.get("PATH", os.defpath))}


def run_check(
    command: str,
    *,
    folder: str,
    environment: Mapping[str, str],
    timeout: float,
    clock: Clock,
    wrap: Wrap | None = None,
    bounds: Bounds = UNBOUNDED,
) -> Verdict:
    """Run one line of shell in `folder`, inside the sandbox that `wrap` puts around it; what it started ends with it."""
    line, given = command, environment
    if wrap is not None:
        argv, environment = wrap(["/bin/sh", "-c", command], environment)
        line = f"exec {shell_line(argv)}"
    begin = clock.monotonic()
    ran = run_limited(
        ["/bin/sh", "-c", line],
        environment=environment,
        cwd=folder,
        timeout=timeout,
        most=_MOST_BYTES,
        forgets=True,
        bounds=bounds,
    )
    done = ran.completed
    text = done.out.decode("utf-8", "replace")
    tail = "\n".join(text.rstrip().splitlines()[-TAIL_LINES:])[-_TAIL_CHARS:]
    tail = without_secrets(tail, given)
    return Verdict(
        command=command,
        code=done.code,
        seconds=clock.monotonic() - begin,
        tail=tail,
        timed_out=done.timed_out,
        over=ran.over,
    )


_TICK = 0.1
_CHUNK = 65536
_AT_ONCE = 256


class Limited(Record):
    """How a program ended that was read within limits; `said` is what it wrote into a channel of its own, `over` why it used too much."""

    completed: Completed
    said: bytes = b""
    too_much: bool = False
    over: str = ""


def run_limited(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    most: int,
    timeout: float,
    cwd: str | None = None,
    stdin: bytes = b"",
    channel: str = "",
    terminal: bool = False,
    bounds: Bounds = UNBOUNDED,
    forgets: bool = False,
) -> Limited:
    """Run a program, both streams in one, and stop it when time is up, when it uses more than its bounds, or when it says more than
    `most` bytes. One that `forgets` may say more, and the last of it is kept.

    It is over when the program itself is, whatever it left running: that is ended with it. Where `channel` stands among the
    words or as a variable, the number of a pipe is put there that only the program holds; what it writes into it comes back apart.
    """
    source, sink = os.pipe()
    try:
        words = [*TO_BE_FIRST, *(str(sink) if channel and word == channel else word for word in argv)]
        named = {key: str(sink) if channel and value == channel else value for key, value in environment.items()}
        keep = (sink,) if channel else ()
        child = spawn(words, environment=named, cwd=cwd, talk=not terminal, terminal=terminal, keep=keep)
    except BaseException:
        os.close(source)
        raise
    finally:
        os.close(sink)
    watch = Watch(child.pid, bounds)
    try:
        ran = _Listener(child, source, stdin, most, forgets=forgets).listen(timeout, watch)
        if ran.over:
            end_family(child.pid, group=child.pid)
        return ran
    finally:
        end_group(child.pid)
        wait_for_end(child.pid, _TICK, sleep=time.sleep)
        child.ended()
        child.talk.close()
        child.heard.close()
        os.close(source)


class _Listener:
    """Reads what a program says and hands it what it wants to read."""

    def __init__(self, child: Child, source: int, stdin: bytes, most: int, *, forgets: bool) -> None:
        self._child, self._source, self._most, self._size = child, source, most, 0
        self._forgets = forgets
        self._out, self._in = child.heard.fileno(), child.talk.fileno()
        self._given = memoryview(stdin)
        self._heard: dict[int, list[bytes]] = {self._out: [], source: []}

    def listen(self, timeout: float, watch: Watch) -> Limited:
        until, late, over, reason = time.monotonic() + timeout, False, False, ""
        with selectors.DefaultSelector() as streams:
            for fd in (self._out, self._source, self._in):
                os.set_blocking(fd, False)
                streams.register(fd, selectors.EVENT_WRITE if fd == self._in else selectors.EVENT_READ)
            while self._size <= self._most and not over and not (reason := watch.look()):
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
        return Limited(completed, b"".join(self._heard[self._source]), self._size > self._most, reason)

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
        for _ in range(_AT_ONCE):  # then time and bounds are looked at again
            if self._size > self._most:
                return False
            try:
                chunk = os.read(fd, _CHUNK)
            except BlockingIOError:
                return True
            except OSError:
                return False  # a terminal that nobody has open any more
            if not chunk:
                return False
            self._heard[fd].append(chunk)
            self._size += len(chunk)
            while self._forgets and self._size > self._most:
                self._size -= len(self._heard[fd].pop(0))
        return True
