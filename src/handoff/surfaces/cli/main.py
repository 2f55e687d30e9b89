"""`handoff`: find the command, run it, turn errors into words and exit codes."""

from __future__ import annotations

import os
import sys

from handoff import __version__

BUG = 70
INTERRUPTED = 130
PIPE_CLOSED = 141


def main(argv: list[str] | None = None) -> int:
    """The console script."""
    words = sys.argv[1:] if argv is None else argv
    if words in (["--version"], ["-V"]):  # the one answer that needs nothing else imported
        sys.stdout.write(f"handoff {__version__}\n")
        return 0
    from handoff.surfaces.cli import dispatch  # noqa: PLC0415 - after the fast answer

    try:
        code = dispatch.dispatch(words)
        sys.stdout.flush()
    except BrokenPipeError:
        from handoff.surfaces.cli.output import close_quietly  # noqa: PLC0415

        close_quietly()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted.\n")
        return INTERRUPTED
    return code


def report_bug(error: BaseException, words: list[str], home: str) -> str:
    """Write a log that can be pasted into a bug report and return its path (or nothing if even that fails)."""
    import platform  # noqa: PLC0415 - only when things went wrong
    import time  # noqa: PLC0415
    import traceback  # noqa: PLC0415

    text = "\n".join(
        (
            f"handoff {__version__} on Python {platform.python_version()}, {platform.platform()}",
            f"command: handoff {' '.join(words[:1])} (+{max(0, len(words) - 1)} arguments)",
            "",
            "```",
            "".join(traceback.format_exception(error)).rstrip(),
            "```",
            "",
        )
    )
    path = os.path.join(home, "logs", time.strftime("error-%Y%m%d-%H%M%S-") + f"{os.getpid()}.md")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        sys.stderr.write(text)
        return ""
    return path


if __name__ == "__main__":
    sys.exit(main())
