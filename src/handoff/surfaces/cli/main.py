"""`handoff`: find the command, run it, turn errors into words and exit codes."""

from __future__ import annotations

import gc
import sys

from handoff import __version__

PIPE_CLOSED = 141


def main(argv: list[str] | None = None) -> int:
    """The console script."""
    words = sys.argv[1:] if argv is None else argv
    if words in (["--version"], ["-V"]):  # the one answer that needs nothing else imported
        sys.stdout.write(f"handoff {__version__}\n")
        return 0
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
        sys.stdout.flush()
    except BrokenPipeError:
        from handoff.surfaces.cli.output import close_quietly

        close_quietly()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        from handoff.base.errors import INTERRUPTED

        sys.stderr.write("\nInterrupted.\n")
        return INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
