"""The sections of STATE.md that repeat the plan: they are written anew whenever a step was moved."""

from __future__ import annotations

import re

from handoff.base.record import TYPE_CHECKING
from handoff.feature.plan import plan as plans
from handoff.feature.plan.lines import ENDS

if TYPE_CHECKING:
    from collections.abc import Callable

_LISTED = 40  # a longer list says no more than the plan itself
_EMPTY = frozenset(
    ("", "none", "none.", "unknown", "unknown.", "not started", "not started.", "- none", "nothing", "nothing.")
)
_COUNTED = r"\d+ steps, see the plan\."
_ITEM = r"[ \t]*(?:[-*+]|[0-9]+[.)])[ \t]+(?:\[[ >xX!-]\][ \t]*)?(.*)"
# 'Step 2: ' and 'Step 2 of 5' before the words of a step, or alone.
_NUMBERED = r"(?i)(?:step[ \t]*)?\d+(?:[ \t]*(?:of|/)[ \t]*\d+)?[ \t]*(?:[:.)\u2013\u2014-][ \t]*|$)"
# A line that only counts: three, three of five, three steps left.
_COUNT = (
    r"(?i)\W*(?:(?:remaining|completed|left|open|done|steps)\W+)?(\d+)(?:[ \t]*(?:of|/)[ \t]*(\d+))?"
    r"(?:[ \t]+(?:steps?|left|remaining|remain|to|go|open|done|completed?|finished|in|all|so|far))*\W*"
)


def keep_in_step(text: str) -> str:
    """The document with 'Current Step', 'Completed Steps' and 'Remaining Steps' as the plan says; other words there stay.

    Only sections that are there are touched, and of those only what a plan can say: its own steps and 'None'.
    """
    plan = plans.parse(text)
    if not plan.marks or plan.problems:
        return text
    steps = [plan.step(index) for index in range(len(plan.marks))]
    texts = {step.text for step in steps}
    done = [step.text for step in steps if step.mark == plans.DONE]
    left = [step.text for step in steps if step.mark not in (plans.DONE, plans.DROPPED)]
    text = _rewrite(text, "Current Step", lambda body: _current(body, plan, texts))
    text = _rewrite(text, "Completed Steps", lambda body: _listed(body, done, texts, len(steps)))
    return _rewrite(text, "Remaining Steps", lambda body: _listed(body, left, texts, len(steps)))


def _current(body: list[str], plan: plans.Plan, texts: set[str]) -> list[str]:
    """The first line names the step; what a session wrote below it stays while it is about that step."""
    word = plan.current.text if plan.current is not None else "Blocked" if plan.left else "All steps are done"
    first = next((line.strip() for line in body if line.strip()), "")
    if first == word:
        return body
    known = _is_ours(first, texts) or _words(first) in {"", *texts} or first in ("Blocked", "All steps are done")
    rest = [line for line in body if line.strip()]
    return [word, *(rest[1:] if known else rest)]


def _listed(body: list[str], steps: list[str], texts: set[str], total: int) -> list[str]:
    """The steps as a list, below whatever is not about a step; where a number stands for them, the right number."""
    others = [_recounted(line, len(steps), total) for line in body if not _is_ours(line, texts)]
    if len(others) == len(body) and any(re.fullmatch(_COUNT, line) for line in others):
        return others
    if len(steps) > _LISTED:
        ours = [f"{len(steps)} steps, see the plan."]
    else:
        ours = [f"- {step}" for step in steps] or ([] if others else ["None"])
    return [*others, *ours]


def _recounted(line: str, count: int, total: int) -> str:
    """The line with the right numbers, if it does nothing but count."""
    found = re.fullmatch(_COUNT, line)
    if found is None:
        return line
    if found.group(2):
        line = f"{line[: found.start(2)]}{total}{line[found.end(2) :]}"
    return f"{line[: found.start(1)]}{count}{line[found.end(1) :]}"


def _words(line: str) -> str:
    """A step's words without the number before them."""
    return re.sub(_NUMBERED, "", line.strip(), count=1)


def _is_ours(line: str, texts: set[str]) -> bool:
    if line.strip().casefold() in _EMPTY or re.fullmatch(_COUNTED, line.strip()):
        return True
    item = re.fullmatch(_ITEM, line)
    said = item.group(1).strip() if item is not None else ""
    return bool(said) and (said in texts or _words(said) in texts or said.casefold() in _EMPTY)


def _rewrite(text: str, title: str, change: Callable[[list[str]], list[str]]) -> str:
    """The first section of that name with another body; everything around it stays, byte for byte."""
    found = next(((start, end) for name, start, end in plans.sections(text) if name == title), None)
    if found is None:
        return text
    parts = re.split(ENDS, text)
    lines, ends = parts[::2], [*parts[1::2], ""]
    start, end = found
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    body = lines[start:end]
    fresh = change(body)
    if fresh == body:
        return text
    newline = next((mark for mark in ends if mark), "\n")
    if body:
        tail = ends[end - 1]
    else:
        start = end = found[0]
        tail, ends[start - 1] = newline, newline
    head = "".join(line + mark for line, mark in zip(lines[:start], ends[:start], strict=True))
    rest = "".join(line + mark for line, mark in zip(lines[end:], ends[end:], strict=True))
    return head + newline.join(fresh) + tail + rest
