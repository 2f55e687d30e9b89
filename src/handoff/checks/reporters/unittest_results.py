"""Run a project's unittest tests with its own Python and write what each did. Stands alone: nothing of ours is imported."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
import unittest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Results(unittest.TextTestResult):
    """Keeps one line for each test, beside what a person sees."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.found: list[dict[str, Any]] = []
        self.began = time.perf_counter()

    def startTest(self, test: Any) -> None:  # noqa: N802 - unittest's name
        super().startTest(test)
        self.began = time.perf_counter()

    def keep(self, test: Any, status: str, error: Any = None, words: str = "") -> None:
        loading = type(test).__name__ in ("_FailedTest", "_ErrorHolder")
        module = sys.modules.get(type(test).__module__)
        text = "".join(traceback.format_exception(*error)) if error else ""
        if type(test).__name__ == "_FailedTest" and error is not None:
            text = str(error[1])
        self.found.append(
            {
                "module": getattr(test, "_testMethodName", str(test)) if loading else type(test).__module__,
                "file": "" if loading else getattr(module, "__file__", "") or "",
                "name": "" if loading else ".".join(str(test.id()).split(".")[-2:]),
                "status": status,
                "loading": loading,
                "text": text or words,
                "seconds": time.perf_counter() - self.began,
            }
        )

    def addSuccess(self, test: Any) -> None:  # noqa: N802 - unittest's name
        super().addSuccess(test)
        self.keep(test, "passed")

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802 - unittest's name
        super().addFailure(test, err)
        self.keep(test, "failed", err)

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802 - unittest's name
        super().addError(test, err)
        self.keep(test, "error", err)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802 - unittest's name
        super().addSkip(test, reason)
        self.keep(test, "skipped", words=reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802 - unittest's name
        super().addExpectedFailure(test, err)
        self.keep(test, "skipped", err)

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802 - unittest's name
        super().addUnexpectedSuccess(test)
        self.keep(test, "failed", words="AssertionError: unexpected success")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802 - unittest's name
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.keep(test, "failed" if issubclass(err[0], test.failureException) else "error", err)


def suite_here() -> unittest.TestSuite:
    """Everything discovery finds from here, and in folders of tests that are no packages."""
    loader = unittest.defaultTestLoader
    found = [loader.discover(".", pattern="test*.py", top_level_dir=".")]
    for name in ("tests", "test"):
        if os.path.isdir(name) and not os.path.exists(os.path.join(name, "__init__.py")):
            loader._top_level_dir = None  # type: ignore[attr-defined]  # noqa: SLF001 - else the first call decides for all
            found.append(loader.discover(name, pattern="test*.py"))
    return unittest.TestSuite(found)


def main(target: str) -> int:
    """Run, write, and say by the exit code whether all passed."""
    sys.path[:1] = [os.getcwd()]
    outcome: Any = unittest.TextTestRunner(resultclass=Results, verbosity=1, buffer=True).run(suite_here())
    with open(target, "w", encoding="utf-8") as file:
        json.dump(outcome.found, file)
    return 0 if outcome.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
