"""What a workflow is: phases with a role, words, a fence, a check and what follows. Data, no behaviour."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Mapping

DONE = "done"
"""The name of the end in `next`."""

TESTS, CODE, ALL, NOTHING = "tests", "code", "all", "nothing"
SHARES = (TESTS, CODE, ALL, NOTHING)

BLOCK, GATE, ROLL_BACK = "block", "gate", "roll-back"
LAST_RESORTS = (BLOCK, GATE, ROLL_BACK)

OK, FAILED = "ok", "failed"
# What each check may say; `failed` may be led somewhere, else it costs an attempt.
OUTCOMES: dict[str, tuple[str, ...]] = {
    "baseline": (OK,),
    "test-list": ("open", "complete"),
    "red": (OK,),
    "green": (OK,),
    "refactor": (OK,),
    "suite": (OK, FAILED),
    "hidden": (OK,),
    "strength": (OK, FAILED),
    "command": (OK, FAILED),
    "unbroken": (OK, FAILED),
    "document": (OK,),
    "plan": ("open", "complete"),
    "step": ("open", "complete"),
    "review": ("approved", "changes"),
    "none": (OK,),
}
CHECKS_MEANING: dict[str, str] = {
    "baseline": "the suites run three times; what fails each time stays known, and what wavers",
    "test-list": "the list of tests is whole: nothing open vanished, nothing was ticked without proof",
    "red": "all known tests pass and exactly the new one fails, for an assertion or a missing symbol",
    "green": "all tests pass and no test file was changed",
    "refactor": "all tests pass and none was removed, skipped or weakened",
    "suite": "all tests pass on a fresh checkout",
    "hidden": "new test files were written; they are taken out of the tree and kept for the end",
    "strength": "all tests and the hidden ones pass, and enough mutants of the changed lines are noticed",
    "command": "the command ends with exit 0 on a fresh checkout",
    "unbroken": "all tests pass but those that failed before; without a suite it says 'not tested'",
    "document": "the feature's document was written",
    "plan": "the feature's plan can be read and has steps",
    "step": "the check of the plan's current step is green and no test is broken; the box is ticked then",
    "review": "the report begins with 'verdict: approved' or 'verdict: changes'",
    "none": "nothing but what may be written: it says 'not tested'",
}
ALONE = ("baseline", "suite", "strength", "command", "unbroken", "none")
"""Checks that make sense without a session: the orchestrator does such a phase by itself."""

FACTS: dict[str, str] = {
    "request": "what the person asked for",
    "test": "the one test that is handed on",
    "test_list": "the list of tests as it stands",
    "known_tests": "the tests that exist, and which of them are known to fail or to be flaky",
    "new_test": "where the new test is and how it fails",
    "changes": "what was changed in this cycle, as a diff",
    "commits": "the commits of this flow so far",
    "commands": "how the tests are run",
    "goal": "the feature's goal",
    "spec": "the feature's specification",
    "design": "the feature's design",
    "plan": "the feature's plan",
    "step": "the plan's current step",
    "step_check": "the command that proves the step",
    "folder": "where the feature's documents are",
    "review": "what the reviewer said last",
    "tested": "what the tests said about the work so far, and what they lost",
    "survivors": "what no test has noticed so far: mutants, and hidden tests by name",
    "cycle": "which cycle this is",
}


class Phase(Record):
    """One phase. Without a role the orchestrator does it alone; `next` leads on by what the check says."""

    name: str
    role: str
    prompt: str
    may_write: tuple[str, ...]
    told: tuple[str, ...]
    check: str
    next: Mapping[str, str]
    title: str = ""
    prompt_file: str = ""
    command: str = ""
    report: str = ""
    document: str = ""
    commit: str = ""
    retries: int = 3
    back_off_seconds: tuple[float, ...] = ()
    when_used_up: str = BLOCK
    gate: bool = False
    gate_within: float = 0.0
    """Seconds a person has to answer; 0 is for ever."""
    gate_default: str = ""
    agent: str = ""
    model: str = ""
    """The model its client is to use; empty is the client's own choice."""
    minutes: float = 0.0
    turns: int = 0
    money: float = 0.0
    mutants: int = 0
    """How many mutants of the changed lines are tried after the check; 0 is none."""
    score: float = 0.0
    """The share of mutants that must be noticed where the check is `strength`."""
    line: int = 0


class Workflow(Record):
    """A named list of phases; the first one is where it begins."""

    name: str
    title: str
    phases: tuple[Phase, ...]
    path: str = ""
    text: str = ""
    test_list: str = "test-list.md"
    max_cycles: int = 50
    needs_feature: bool = False
    runs_tests: bool = False
    """Whether it cannot do without a test suite."""

    def phase(self, name: str) -> Phase:
        """The phase of that name; the reader has seen to it that there is one."""
        return next(phase for phase in self.phases if phase.name == name)

    def is_back(self, old: str, new: str) -> bool:
        """Whether a move goes back in the list: then another cycle begins."""
        order = [phase.name for phase in self.phases]
        return new != DONE and order.index(new) <= order.index(old)

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(phase.role for phase in self.phases if phase.role))
