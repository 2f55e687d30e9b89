"""What unittest does, said line by line as it happens; and whether the runner stayed itself."""

from __future__ import annotations

import os
import sys
import traceback
import unittest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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
    if job.get("inside"):
        asked, results = ours("asking").asked_tests(say, job, ours), ours("unittest_results")
        open_tree()()
        os.chdir(job["path"][-1])
        asked.ask(list(_named(results.suite_here())), run_item)
        return 0
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


def _named(suite: unittest.TestSuite) -> Iterator[tuple[str, Any]]:
    """Each test with the name its result has."""
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from _named(one)
        else:
            file = getattr(sys.modules.get(type(one).__module__), "__file__", None)
            place = os.path.relpath(file, os.getcwd()) if file else ""
            yield f"{place}::{'::'.join(str(one.id()).split('.')[-2:])}", one


def run_item(test: Any) -> tuple[str, str, str] | None:
    """Run one test; what was raised, where and in which words, where it failed."""
    outcome, told = unittest.TestResult(), []

    def keep(*given: Any) -> None:
        told.extend([given[-1]] if given[-1] else [])

    vars(outcome).update(addFailure=keep, addError=keep, addSubTest=keep)
    unittest.TestSuite([test]).run(outcome)
    if not told:
        return None
    frames = traceback.extract_tb(told[0][2])
    return told[0][0].__name__, frames[-1].filename if frames else "", str(told[0][1])[-300:]


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
        "text": text,
        "seconds": round(one["seconds"], 5),
    }
