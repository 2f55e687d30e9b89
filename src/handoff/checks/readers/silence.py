"""What it means that a run left no result file behind."""

from __future__ import annotations

import os
import re

from handoff.base.record import TYPE_CHECKING
from handoff.checks import results
from handoff.checks.readers.found import RunOutput, Unreadable
from handoff.checks.readers.reasons import plain_reason, script_reason

if TYPE_CHECKING:
    from collections.abc import Callable

_PATH = re.compile(r"[\w./@-]+\.(?:[cm]?[jt]sx?|php|cs|fs|rb|py|java|kt)\b")


def nothing_ran(found: RunOutput) -> list[results.Case]:
    """It always writes results: without them nothing is known."""
    raise Unreadable(f"{found.suite.framework} wrote no results")


def not_built(found: RunOutput) -> list[results.Case]:
    """It writes nothing when one file does not build: the test file its words name is the one."""
    return _broken(found, lambda: plain_reason(found.output, building=True))


def not_loaded(found: RunOutput) -> list[results.Case]:
    """The same for scripts, which are not built but loaded."""
    return _broken(found, lambda: script_reason(found.output, loading=True, is_test=found.tests))


def _broken(found: RunOutput, why: Callable[[], str]) -> list[results.Case]:
    for match in _PATH.finditer(found.output):
        path = found.path(match[0].removeprefix("@").removeprefix("./"))  # mocha says: SyntaxError[ @/path ]
        if found.is_test(path) and os.path.isfile(os.path.join(found.top, path)):
            words = [line for line in found.output.splitlines() if re.search(r"error", line, re.IGNORECASE)]
            return [found.case(path, "", results.ERROR, why(), "\n".join(words[:5]))]
    return nothing_ran(found)
