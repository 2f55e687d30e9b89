"""Run a check command and keep its evidence."""

from __future__ import annotations

import os

from handoff.base.markdown import shell_line
from handoff.base.process import shell
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
_OURS = frozenset("HANDOFF_HOME HANDOFF_HOST HANDOFF_DATABASE_URL HANDOFF_SANDBOX".split())


class Verdict(Record):
    """What a check said: green only on exit 0 within its time."""

    command: str
    code: int
    seconds: float
    tail: str
    timed_out: bool = False

    @property
    def green(self) -> bool:
        return self.code == 0 and not self.timed_out

    @property
    def word(self) -> str:
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
    command: str, *, folder: str, environment: Mapping[str, str], timeout: float, clock: Clock, wrap: Wrap | None = None
) -> Verdict:
    """Run one line of shell in `folder`, inside the sandbox that `wrap` puts around it; what it started ends with it."""
    line, given = command, environment
    if wrap is not None:
        argv, environment = wrap(["/bin/sh", "-c", command], environment)
        line = f"exec {shell_line(argv)}"
    begin = clock.monotonic()
    done = shell(line, environment=environment, cwd=folder, timeout=timeout)
    text = done.out.decode("utf-8", "replace")
    tail = "\n".join(text.rstrip().splitlines()[-TAIL_LINES:])[-_TAIL_CHARS:]
    tail = without_secrets(tail, given)
    return Verdict(command, done.code, clock.monotonic() - begin, tail, done.timed_out)
