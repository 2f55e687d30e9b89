"""`handoff`: find the command, run it, turn errors into words and exit codes."""

from __future__ import annotations

import gc
import os
import sys

from handoff import __version__

PIPE_CLOSED = 141


def console() -> int:
    """The console script: the answer of `main`, and out of the process."""
    code = main()
    if "atexit" in sys.modules or "threading" in sys.modules:
        return code  # somebody may want to be told of the end
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            return code  # the interpreter has its own words for that
    os._exit(code)  # a small command is an eighth quicker than by taking the whole interpreter apart


def sibling() -> int:
    """`handoff-dump` is `handoff dump`, and so on: the names handoff-fanout gave its commands, which stand in people's cron lines."""
    folder, name = os.path.split(sys.argv[0])
    sys.argv[:1] = [os.path.join(folder, "handoff"), name.removeprefix("handoff-")]
    return console()


def main(argv: list[str] | None = None) -> int:
    """Run the command the words name; its exit code."""
    words = sys.argv[1:] if argv is None else argv
    if sys.stdout is None or sys.stderr is None or sys.stdin is None:
        # a stream we were started without stays empty: else the next file we open would get its number, and its output
        place = os.open(os.devnull, os.O_RDWR)
        while place <= 2:  # noqa: PLR2004 - standard error is 2
            place = os.open(os.devnull, os.O_RDWR)
        os.close(place)
    if words in (["--version"], ["-V"]):  # the one answer that needs nothing else imported
        return _version()
    from handoff.base.settings import broker_of_session

    broker = broker_of_session()
    if broker:  # inside a sandbox: what needs the relay is done outside, the rest right here
        from handoff.surfaces.cli.broker_client import INSIDE, command_of, pass_on

        if command_of(words) not in INSIDE:
            return pass_on(words, broker)
    gc.set_threshold(50_000, 20, 100)  # a command lives for milliseconds: looking for garbage costs more than it frees
    if words[:1] == ["hook"]:  # every edit of every agent waits for it: no parser, no catalogue
        from handoff.surfaces.hooks import main as hook

        return hook(words[1:])
    from handoff.surfaces.cli import dispatch

    try:
        code = dispatch.dispatch(words)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        from handoff.surfaces.cli.output import close_quietly

        close_quietly()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        from handoff.base.errors import INTERRUPTED

        if sys.stderr is not None:
            sys.stderr.write("\nInterrupted.\n")
        return INTERRUPTED
    return code


def _version() -> int:
    try:
        if sys.stdout is not None:
            sys.stdout.write(f"handoff {__version__}\n")
            sys.stdout.flush()
    except OSError:
        from handoff.surfaces.cli.output import close_quietly

        close_quietly()
        return 1
    return 0 if sys.stdout is not None else 1


if __name__ == "__main__":
    sys.exit(console())
