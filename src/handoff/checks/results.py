"""What a run of a suite gave: its cases and its report, the output that readers read, and what is wrong with results as a whole."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.commands import NOT_STARTED

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.checks.suite import Suite

PASSED, FAILED, ERROR, SKIPPED = "passed", "failed", "error", "skipped"
STATUSES = (PASSED, FAILED, ERROR, SKIPPED)
# Why a test is not green. The first three show that behaviour is not there yet, the others that the test is broken.
ASSERTION, MISSING, RAISED = "assertion", "missing", "raised"
SYNTAX, COLLECTION, TIMEOUT, OTHER = "syntax", "collection", "timeout", "other"
REASONS = (ASSERTION, MISSING, RAISED, SYNTAX, COLLECTION, TIMEOUT, OTHER)
_MESSAGE_CHARS = 2000


class Case(Record):
    """One test. `file` is relative to the top of the tree; a case without a name is a whole file that did not load."""

    id: str
    file: str
    name: str
    status: str
    reason: str = ""
    message: str = ""
    seconds: float = 0.0
    held: int = 0
    """How many assertions were seen to hold in it; only a sealed run can tell."""

    @property
    def bad(self) -> bool:
        return self.status in (FAILED, ERROR)

    @property
    def plain(self) -> str:
        """The id without the values of a parametrised test or the name of a sub-test: what a person calls one test."""
        head = self.id[: len(self.id) - len(self.name)]
        name = self.name.partition("[")[0]
        return head + (name.partition("/")[0] if self.file.endswith(".go") else name)


class Flaw(Record):
    """Something about a run that is not as it must be: its name, where, and a sentence. One that was there before counts no more."""

    code: str
    where: str
    words: str

    @property
    def id(self) -> str:
        return f"{self.code}:{self.where}"


class Report(Record):
    """One suite, run once. `trouble` says why there are no results to trust; empty when there are.

    `fault` is the trouble's name where it has one. `sealed` tells that the results came line by line from the runner itself.
    """

    suite: str
    command: str
    code: int
    seconds: float
    tail: str
    cases: tuple[Case, ...] = ()
    trouble: str = ""
    timed_out: bool = False
    tests: tuple[str, ...] = ()
    fault: str = ""
    sealed: bool = False
    flaws: tuple[Flaw, ...] = ()
    named: bool = True
    """Whether it tells its tests apart; else the exit code alone speaks."""

    @property
    def fails_as_one(self) -> bool:
        """Whether it ran and failed, and nothing but that is known."""
        known = self.named or self.timed_out or self.fault or self.code in NOT_STARTED
        return bool(self.trouble) and not known

    @property
    def green(self) -> bool:
        return not self.trouble and not any(case.bad for case in self.cases)

    def counts(self) -> dict[str, int]:
        """How many tests passed, failed, broke and were skipped."""
        found = dict.fromkeys(STATUSES, 0)
        for case in self.cases:
            found[case.status] += 1
        return found

    def record(self) -> dict[str, Any]:
        """The report as plain values, for rows, notes and --json."""
        lists = {"cases": [case._asdict() for case in self.cases], "flaws": [flaw._asdict() for flaw in self.flaws]}
        return {**self._asdict(), "tests": list(self.tests), **lists}


def case(
    suite: str, *, file: str, name: str, status: str, reason: str = "", message: str = "", seconds: float = 0.0
) -> Case:
    """A case with the id every reader gives it: suite, file, name."""
    identity = f"{suite}:{file}::{name}" if name else f"{suite}:{file}"
    return Case(
        id=identity,
        file=file,
        name=name,
        status=status,
        reason=reason,
        message=message.strip()[:_MESSAGE_CHARS],
        seconds=round(seconds, 4),
    )


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
    ) -> Case:
        """A case of this run, with the id every reader gives it; without a name it is a whole file that did not load."""
        return case(
            self.suite.name, file=file, name=name, status=status, reason=reason, message=message, seconds=float(seconds)
        )

    def tests(self, name: str) -> bool:
        """Whether a file a traceback names is a test."""
        return self.is_test(self.path(name))


class Unreadable(Exception):
    """The results are not there or make no sense; the words say why."""


FORGED, CUT_SHORT, TOO_BIG = "results-forged", "run-cut-short", "results-too-big"


class Broken(Exception):
    """The lines are not what our reporter wrote, or not all of it; the code says which."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code
