"""What unittest does, said line by line as it happens; and whether the runner stayed itself."""

from __future__ import annotations

import os
import unittest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_LONGEST = 40_000
RUNNER = ("unittest.case", "unittest.suite", "unittest.result", "unittest.runner", "unittest.loader")


def run(
    say: Callable[[dict[str, Any]], None],
    job: dict[str, Any],
    open_tree: Callable[[], Callable[[], None]],
    ours: Callable[[str], ModuleType],
) -> int:
    """Everything discovery finds; the exit code."""
    results, prints = ours("unittest_results"), ours("fingerprints")
    before = prints.fingerprints(RUNNER)
    opened = open_tree()
    opened()

    class Said(results.Results):  # type: ignore[misc,name-defined]
        """The results of a run, each said at once."""

        def keep(self, test: Any, status: str, error: Any = None, words: str = "") -> None:
            super().keep(test, status, error, words)
            say(body_of(self.found[-1]))

    os.chdir(job["path"][-1])
    outcome: Any = unittest.TextTestRunner(resultclass=Said, verbosity=1, buffer=True).run(results.suite_here())
    say({"t": "patched", "names": prints.changed_parts(before, RUNNER)})
    return 0 if outcome.wasSuccessful() else 1


def body_of(one: dict[str, Any]) -> dict[str, Any]:
    """A result as a line: a test, or a file that did not load."""
    file = one["file"] or one["module"].replace(".", "/") + ".py"
    place = os.path.relpath(file, os.getcwd()) if os.path.isabs(file) else file
    text = one["text"][-_LONGEST:]
    if one["loading"]:
        return {
            "t": "load",
            "id": place,
            "outcome": "skipped" if one["status"] == "skipped" else "failed",
            "text": text,
        }
    return {
        "t": "case",
        "id": f"{place}::{one['name'].replace('.', '::')}",
        "when": "setup" if one["status"] == "error" else "call",
        "outcome": one["status"] if one["status"] in ("passed", "skipped") else "failed",
        "raw": "",
        "held": 0,
        "called": [],
        "emptied": 0,
        "text": text,
        "seconds": round(one["seconds"], 5),
    }
