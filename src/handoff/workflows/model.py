"""What a workflow is: phases with a role, words, a fence, a check and what follows; and its picture, text for a terminal, SVG for a page."""

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


_WIDTH, _HEIGHT, _GAP, _LEFT, _TOP = 300, 58, 46, 150, 20
_LANE = 26


def as_text(workflow: Workflow) -> list[str]:
    """One line a phase, with what it leads to."""
    lines = [f"{workflow.name}: {workflow.title}", ""]
    for at, phase in enumerate(workflow.phases):
        after = workflow.phases[at + 1].name if at + 1 < len(workflow.phases) else DONE
        lines.append(f"  ┌ {phase.name}" + (" ⏸" if phase.gate else "") + f"  {_who(phase)}")
        lines.append(f"  │   writes {_writes(phase)}; check: {phase.check}" + _commit(phase))
        for said, target in phase.next.items():
            word = "" if len(phase.next) == 1 else f"{said} "
            if target == DONE:
                lines.append(f"  └ {word}■ done")
            elif target == after:
                lines.append(f"  └ {word}▼ {target}")
            else:
                back = "▲" if workflow.is_back(phase.name, target) else "▼"
                lines.append(f"  └ {word}{back} {target}" + (" (next cycle)" if back == "▲" else ""))
        lines.append("")
    return lines


def _who(phase: Phase) -> str:
    return f"({phase.role})" if phase.role else "(the orchestrator)"


def _writes(phase: Phase) -> str:
    return ", ".join(phase.may_write)


def _commit(phase: Phase) -> str:
    return f"; commit: {phase.commit}:" if phase.commit else ""


def as_svg(workflow: Workflow) -> str:
    """Boxes from top to bottom; arrows down on the left, back on the right."""
    order = [phase.name for phase in workflow.phases]
    height = _TOP * 2 + len(order) * (_HEIGHT + _GAP) + 30
    lanes = 0
    parts: list[str] = []
    for at, phase in enumerate(workflow.phases):
        y = _y(at)
        parts.append(
            f'<rect x="{_LEFT}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="8" class="{"gate" if phase.gate else "box"}"/>'
        )
        parts.append(_text(_LEFT + 14, y + 22, f"{phase.name} {_who(phase)}", "name"))
        parts.append(
            _text(_LEFT + 14, y + 42, f"writes {_writes(phase)} · check {phase.check}{_commit(phase)}", "small")
        )
        for said, target in phase.next.items():
            word = "" if len(phase.next) == 1 else said
            to = len(order) if target == DONE else order.index(target)
            if to == at + 1:
                parts.append(_down(at, to, word))
            else:
                lanes += 1
                parts.append(_around(at, to, word, lanes, final=target == DONE))
    end = _y(len(order))
    parts.append(f'<circle cx="{_LEFT + _WIDTH // 2}" cy="{end + 14}" r="12" class="end"/>')
    parts.append(_text(_LEFT + _WIDTH // 2 + 20, end + 19, "done", "name"))
    width = _LEFT + _WIDTH + 60 + lanes * _LANE + 60
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{_escaped(workflow.title)}">\n<style>text{{font:14px sans-serif;fill:#222}}'
        ".small{font-size:11px;fill:#555}.name{font-weight:bold}.word{font-size:11px;fill:#06c}"
        ".box{fill:#eef4ff;stroke:#36c}.gate{fill:#fff6dd;stroke:#c80}.end{fill:#2a7}path{fill:none;stroke:#36c}</style>\n"
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" style="fill:#36c"/></marker></defs>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _y(at: int) -> int:
    return _TOP + at * (_HEIGHT + _GAP)


def _down(at: int, to: int, word: str) -> str:
    x = _LEFT + _WIDTH // 2
    path = f'<path d="M{x} {_y(at) + _HEIGHT}L{x} {_y(to) - 1}" marker-end="url(#a)"/>'
    return path + (_text(x + 8, _y(at) + _HEIGHT + 26, word, "word") if word else "")


def _around(at: int, to: int, word: str, lane: int, *, final: bool) -> str:
    right, x = _LEFT + _WIDTH, _LEFT + _WIDTH + 20 + lane * _LANE
    begin, end = _y(at) + _HEIGHT // 2, _y(to) + (14 if final else _HEIGHT // 2 - 8)
    stop = _LEFT + _WIDTH // 2 + 14 if final else right
    path = f'<path d="M{right} {begin}L{x} {begin}L{x} {end}L{stop} {end}" marker-end="url(#a)"/>'
    return path + (_text(right + 6, begin - 5, word, "word") if word else "")


def _text(x: int, y: int, words: str, kind: str) -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{_escaped(words)}</text>'


def _escaped(words: str) -> str:
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
