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
    text = _rewrite(text, "Completed Steps", lambda body: _listed(body, done, texts))
    return _rewrite(text, "Remaining Steps", lambda body: _listed(body, left, texts))


def _current(body: list[str], plan: plans.Plan, texts: set[str]) -> list[str]:
    """The first line names the step; what a session wrote below it stays while it is about that step."""
    word = plan.current.text if plan.current is not None else "Blocked" if plan.left else "All steps are done"
    first = next((line.strip() for line in body if line.strip()), "")
    if first == word:
        return body
    known = first in texts or first.casefold() in _EMPTY or first in ("Blocked", "All steps are done")
    rest = [line for line in body if line.strip()]
    return [word, *(rest[1:] if known else rest)]


def _listed(body: list[str], steps: list[str], texts: set[str]) -> list[str]:
    """The steps as a list, below whatever is not about a step."""
    others = [line for line in body if not _is_ours(line, texts)]
    if len(steps) > _LISTED:
        ours = [f"{len(steps)} steps, see the plan."]
    else:
        ours = [f"- {step}" for step in steps] or ([] if others else ["None"])
    return [*others, *ours]


def _is_ours(line: str, texts: set[str]) -> bool:
    if line.strip().casefold() in _EMPTY or re.fullmatch(_COUNTED, line.strip()):
        return True
    item = re.fullmatch(_ITEM, line)
    return item is not None and (item.group(1).strip() in texts or item.group(1).strip().casefold() in _EMPTY)


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
