"""A fault of ours becomes a log that can be pasted into a report."""

from __future__ import annotations

import os

from handoff import __version__
from handoff.base.clock import stamp

BUG = 70


def report_bug(error: BaseException, words: list[str], *, home: str, now: float) -> str:
    """Write the log and return its path, or nothing if even that fails. Arguments may be private: only counted."""
    import platform
    import traceback

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
    moment = stamp(now).replace("-", "").replace(":", "")
    path = os.path.join(home, "logs", f"error-{moment}-{os.getpid()}.md")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return ""
    return path
