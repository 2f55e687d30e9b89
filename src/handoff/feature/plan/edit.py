"""Edit one step of STATE.md and leave every other byte as it was; then the sections that repeat the plan are written anew."""

from __future__ import annotations

import re

from handoff.base.errors import Conflict, Refused, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.feature import plan as plans
from handoff.feature.plan import CURRENT, DONE, DROPPED, PENDING, STUCK, Plan, Step
from handoff.feature.plan.lines import ENDS, closing

if TYPE_CHECKING:
    from collections.abc import Callable

_BOX = r"([ \t]*(?:[-*]|[0-9]+\.) +\[)([ >xX!-])(\])"
_LEAD = r"([ \t]*)([-*]|[0-9]+\.)( +)\["


def finish(text: str, number: int, evidence: str) -> str:
    """Tick a step, write its evidence beside it, and move `[>]` on."""
    plan, step = _step(text, number)
    if step.mark in (DONE, DROPPED):
        raise Conflict(f"Step {number} is already {'done' if step.mark == DONE else 'dropped'}.", "See: handoff status")
    document = _Document(text)
    document.change(
        step.line, mark=DONE, drop=("blocked", "reason", "done"), note=("done", one_line(evidence, "evidence"))
    )
    return _move_on(document.text(), plan, number - 1)


def block(text: str, number: int, reason: str) -> str:
    """Mark a step as waiting for something outside, with the reason, and move `[>]` on."""
    plan, step = _open_step(text, number)
    document = _Document(text)
    document.change(step.line, mark=STUCK, drop=("blocked", "reason"), note=("blocked", one_line(reason, "reason")))
    return _move_on(document.text(), plan, number - 1)


def drop(text: str, number: int, reason: str) -> str:
    """Give a step up, with the reason, and move `[>]` on."""
    plan, step = _open_step(text, number)
    document = _Document(text)
    document.change(step.line, mark=DROPPED, drop=("blocked", "reason"), note=("dropped", one_line(reason, "reason")))
    return _move_on(document.text(), plan, number - 1)


def begin(text: str, number: int) -> str:
    """Make a step the current one; a blocked step is unblocked by it."""
    plan, step = _open_step(text, number)
    document = _Document(text)
    for index, (line, mark, _) in enumerate(plan.marks):
        if mark == CURRENT and index != number - 1:
            document.change(line, mark=PENDING)
    document.change(step.line, mark=CURRENT, drop=("blocked", "reason"))
    return document.text()


def add(text: str, what: str, *, after: int | None, check: str = "") -> str:
    """Write a new pending step after another one, or at the end of the plan."""
    line = one_line(what, "step")
    if check:
        line += f"  (check: {one_line(check, 'check')})"
    plan = plans.parse(text)
    _refuse_invalid(plan)
    document = _Document(text)
    if not plan.marks:
        document.replace_placeholder(f"- [{CURRENT}] {line}")
        return document.text()
    index = _index(plan, after) if after is not None else len(plan.marks) - 1
    model = plan.marks[index]
    mark = PENDING if plan.left else CURRENT
    document.insert_after(_last_line_of(document, plan, index), model[2], mark, line)
    return document.text()


def one_line(text: str, what: str) -> str:
    """Text that fits on a step's line and can be read back."""
    line = " ".join(text.split())
    if not line:
        raise UserError(f"The {what} is empty.", f"Write the {what} in quotes.")
    if closing("(" + line + ")", 0) != len(line) + 1:
        raise UserError(f"The {what} has a parenthesis without its partner: {line}", "Close it, or leave it out.")
    return line


def _step(text: str, number: int) -> tuple[Plan, Step]:
    plan = plans.parse(text)
    _refuse_invalid(plan)
    return plan, plan.step(_index(plan, number))


def _open_step(text: str, number: int) -> tuple[Plan, Step]:
    plan, step = _step(text, number)
    if step.mark in (DONE, DROPPED):
        word = "done" if step.mark == DONE else "dropped"
        raise Refused(f"Step {number} is {word}; finished marks are kept.", "Add a new step: handoff step add TEXT")
    return plan, step


def _index(plan: Plan, number: int) -> int:
    if not 1 <= number <= len(plan.marks):
        raise UserError(f"There is no step {number}; the plan has {len(plan.marks)}.", "See: handoff status")
    return number - 1


def _refuse_invalid(plan: Plan) -> None:
    if plan.verdict == plans.INVALID:
        where = "; ".join(str(problem) for problem in plan.problems[:3])
        raise Refused(f"{plan.guard} STATE.md {where}", "Fix the lines named, then run: handoff validate")


def _move_on(text: str, before: Plan, index: int) -> str:
    """Put `[>]` on the next pending step if the finished one carried it (or nobody does)."""
    plan = plans.parse(text)
    currents = [i for i, (_, mark, _) in enumerate(plan.marks) if mark == CURRENT]
    pending = [i for i, (_, mark, _) in enumerate(plan.marks) if mark == PENDING]
    if not pending:
        return text
    following = [i for i in pending if i > index]
    if not currents:
        target = following[0] if following else pending[0]
    else:
        parent = currents[-1]
        if before.position != index or not following or not _inside(plan, parent, following[0]):
            return text
        target = following[0]
    document = _Document(text)
    document.change(plan.marks[target][0], mark=CURRENT)
    return document.text()


def _inside(plan: Plan, parent: int, child: int) -> bool:
    depth = plan.step(parent).indent
    return parent < child and all(plan.step(i).indent > depth for i in range(parent + 1, child + 1))


def _last_line_of(document: _Document, plan: Plan, index: int) -> int:
    """The last line that still belongs to a step: its indented continuation, not the next step or a gap."""
    line, _, raw = plan.marks[index]
    depth = len(raw) - len(raw.lstrip(" \t"))
    limit = plan.marks[index + 1][0] - 1 if index + 1 < len(plan.marks) else document.count
    while line < limit:
        below = document.line(line + 1)
        if not below.strip() or len(below) - len(below.lstrip(" \t")) <= depth:
            break
        line += 1
    return line


class _Document:
    """Lines with their own ends, so that only the changed line differs."""

    def __init__(self, text: str) -> None:
        self._parts = re.split(ENDS, text)

    @property
    def count(self) -> int:
        return (len(self._parts) + 1) // 2

    def line(self, number: int) -> str:
        return self._parts[2 * (number - 1)]

    def text(self) -> str:
        return "".join(self._parts)

    def change(
        self, number: int, *, mark: str, drop: tuple[str, ...] = (), note: tuple[str, str] | None = None
    ) -> None:
        raw = re.sub(_BOX, lambda m: m.group(1) + mark + m.group(3), self.line(number), count=1)
        for kind in drop:
            raw = _without(raw, kind)
        if note is not None:
            body = raw.rstrip()
            raw = f"{body}  ({note[0]}: {note[1]}){raw[len(body) :]}"
        self._parts[2 * (number - 1)] = raw

    def insert_after(self, last: int, model: str, mark: str, text: str) -> None:
        lead = re.match(_LEAD, model)
        indent, bullet, space = lead.groups() if lead else ("", "-", " ")
        if bullet not in "-*":
            bullet = f"{int(bullet[:-1]) + 1}."
        new = f"{indent}{bullet}{space}[{mark}] {text}"
        at = 2 * (last - 1)
        end = self._parts[at + 1] if at + 1 < len(self._parts) else self._newline()
        if at + 1 < len(self._parts):
            self._parts[at + 1 : at + 1] = [end, new]
        else:
            self._parts += [end, new]

    def replace_placeholder(self, new: str) -> None:
        """Write the first step of a plan that has none: over 'Not yet generated.', else below the heading."""
        heading = 0
        for number in range(1, self.count + 1):
            stripped = self.line(number).strip()
            if heading and stripped.casefold() in plans.NOT_PLANNED:
                self._parts[2 * (number - 1)] = new
                return
            if stripped == f"# {plans.PLAN_SECTION}":
                heading = number
            elif heading and stripped.startswith("# "):
                break
        newline = self._newline()
        at = 2 * (heading - 1)
        self._parts[at + 1 : at + 2] = [newline, new, newline] if at + 1 < len(self._parts) else [newline, new]

    def _newline(self) -> str:
        return self._parts[1] if len(self._parts) > 1 else "\n"


def _without(raw: str, kind: str) -> str:
    """The line without its note of one kind."""
    start = raw.find(f"({kind}:")
    if start < 0:
        return raw
    end = closing(raw, start)
    return (raw[:start].rstrip() + raw[end + 1 :]) if end < len(raw) else raw[:start].rstrip()


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
