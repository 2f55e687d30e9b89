"""Edit one step of STATE.md and leave every other byte as it was."""

from __future__ import annotations

import re

from handoff.base.errors import Conflict, Refused, UserError
from handoff.feature.plan import plan as plans
from handoff.feature.plan.lines import ENDS, closing
from handoff.feature.plan.plan import CURRENT, DONE, DROPPED, PENDING, STUCK, Plan, Step

_BOX = r"([ \t]*(?:[-*]|[0-9]+\.) +\[)([ >xX!-])(\])"
_LEAD = r"([ \t]*)([-*]|[0-9]+\.)( +)\["


def finish(text: str, number: int, evidence: str) -> str:
    """Tick a step, write its evidence beside it, and move `[>]` on."""
    plan, step = _step(text, number)
    if step.mark in (DONE, DROPPED):
        raise Conflict(f"Step {number} is already {'done' if step.mark == DONE else 'dropped'}.", "See: handoff status")
    document = _Document(text)
    document.change(step.line, mark=DONE, drop=("blocked", "reason", "done"), note=("done", evidence))
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
