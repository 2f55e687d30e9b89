"""What a run left behind, as every reader is given it."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks import results

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.checks.suite import Suite


class RunOutput(Record):
    """What a run left behind: the result files, the printed text, and how to tell paths."""

    suite: Suite
    top: str
    files: tuple[str, ...]
    output: str
    is_test: Callable[[str], bool]
    foreign: Callable[[str], bool]

    def path(self, name: str) -> str:
        """A framework's file name, from the top of the tree where it lies inside."""
        home = os.path.join(self.top, self.suite.folder)
        whole = os.path.normpath(os.path.join(home, name.removeprefix("file://")))
        real = os.path.realpath(self.top)
        for top in (os.path.normpath(self.top), real):
            if whole.startswith(top + os.sep):
                return whole[len(top) + 1 :]
        return name

    def place(self, name: str) -> str:
        """Where a file of the suite's folder lies on the disk."""
        return os.path.join(self.top, self.suite.folder, name)

    def case(
        self, file: str, name: str, status: str, reason: str = "", message: str = "", seconds: float = 0.0
    ) -> results.Case:
        """A case of this run, with the id every reader gives it; without a name it is a whole file that did not load."""
        return results.case(
            self.suite.name, file=file, name=name, status=status, reason=reason, message=message, seconds=float(seconds)
        )

    def tests(self, name: str) -> bool:
        """Whether a file a traceback names is a test."""
        return self.is_test(self.path(name))


class Unreadable(Exception):
    """The results are not there or make no sense; the words say why."""
