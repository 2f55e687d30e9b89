"""Read STATE.md so that the plan is never misread: what is not understood makes it invalid, with the line and the fix.

A plan is the section `# Execution Plan`. A step is a list item (`- `, `* `, `1. `) with a box: `[ ]` pending,
`[>]` current, `[x]` done, `[!]` blocked and `[-]` dropped, the last two with a reason. Whatever else looks like a
step is never skipped in silence: skipping it is how an unfinished plan gets called complete.
"""

from __future__ import annotations

import itertools
import re

from handoff.base.record import Record
from handoff.feature.plan import lines as look

VALID, COMPLETE, EMPTY, INVALID, BLOCKED = "valid", "complete", "not initialized", "invalid", "blocked"

PENDING, CURRENT, DONE, STUCK, DROPPED = " ", ">", "x", "!", "-"
MARK_WORDS = {PENDING: "pending", CURRENT: "current", DONE: "done", STUCK: "blocked", DROPPED: "dropped"}

PLAN_SECTION = "Execution Plan"
_OTHER_SECTIONS = (
    "State|Current Step|Completed Steps|Remaining Steps|Known Issues|Risks|Architectural Notes|Drift Warnings"
)
SECTIONS = frozenset((PLAN_SECTION, *_OTHER_SECTIONS.split("|")))

NOT_PLANNED = ("not yet generated", "not yet generated.")

_STEP = r"[ \t]*(?:[-*]|[0-9]+\.) +\[([ >xX!-])\]"  # compiled when a line first needs it: most plans never do
_COMPARED = 2000  # steps compared with 'Current Step', for a warning only
_NOTE = r"\((check|done|blocked|dropped|reason):[ \t]*"


class Step(Record):
    """One step as it stands in the file."""

    number: int
    line: int
    mark: str
    text: str
    indent: int = 0
    check: str = ""
    reason: str = ""
    done: str = ""


class PlanProblem(Record):
    """A line that makes the plan untrustworthy, and how to fix it."""

    line: int
    fault: str
    fix: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.fault} {self.fix}"


class Plan(Record):
    """What STATE.md says. `marks` are (line, mark, raw line), one for every step, in file order."""

    verdict: str
    marks: tuple[tuple[int, str, str], ...] = ()
    problems: tuple[PlanProblem, ...] = ()
    warnings: tuple[str, ...] = ()
    position: int | None = None
    risks: tuple[str, ...] = ()
    counts: dict[str, int] = {}  # noqa: RUF012 - never written to

    def step(self, index: int) -> Step:
        """The step at a place in the plan, counted from 0."""
        line, mark, raw = self.marks[index]
        return read_step(index + 1, line, mark, raw)

    @property
    def current(self) -> Step | None:
        """The step to work on: the one marked `[>]`, else the first pending one."""
        return None if self.position is None else self.step(self.position)

    def count(self, mark: str) -> int:
        return self.counts.get(mark, 0)

    @property
    def done(self) -> int:
        return self.count(DONE)

    @property
    def left(self) -> int:
        """Steps that are neither done nor dropped."""
        return len(self.marks) - self.count(DONE) - self.count(DROPPED)

    @property
    def guard(self) -> str:
        """Why nothing may be continued from this plan; empty when it may."""
        if self.verdict == INVALID:
            if any("multiple current steps" in problem.fault for problem in self.problems):
                return "Invalid execution plan: multiple current steps ([>]) found."
            return "Invalid execution plan: some lines cannot be trusted."
        if self.verdict == COMPLETE:
            return "No remaining steps to continue."
        if self.verdict == BLOCKED:
            return "Every remaining step is blocked."
        return "Execution plan not initialized." if self.verdict == EMPTY else ""


def read_step(number: int, line: int, mark: str, raw: str) -> Step:
    """Take one step line apart: text, check, reason, evidence."""
    match = None if look.is_plain(raw) else re.match(_STEP, raw)
    body = raw[match.end() if match else look.PLAIN_CHARS if look.is_plain(raw) else 0 :].strip()
    notes: dict[str, str] = {}
    text, rest = body, body
    while "(" in rest and ":" in rest and (note := re.search(_NOTE, rest)) is not None:
        end = look.closing(rest, note.start())
        value = rest[note.end() : end].strip()
        notes.setdefault(note.group(1), value)
        rest = rest[: note.start()].rstrip() + " " + rest[end + 1 :].lstrip()
        text = rest.strip()
    reason = notes.get("blocked") or notes.get("dropped") or notes.get("reason") or ""
    return Step(
        number=number,
        line=line,
        mark=mark,
        text=text,
        indent=len(raw) - len(raw.lstrip(" \t")),
        check=notes.get("check", ""),
        reason=reason,
        done=notes.get("done", ""),
    )


def parse(text: str) -> Plan:
    """Read a whole STATE.md."""
    lines = look.split(text)
    if not text.strip():
        empty = PlanProblem(1, "STATE.md is empty.", "Restore it, or run init again to write a fresh one.")
        return Plan(verdict=INVALID, problems=(empty,))
    ends = look.Regions(text, lines)
    problems = [PlanProblem(*found) for found in ends.problems]
    spans, heading_faults = _sections(text, lines, ends)
    problems += heading_faults or _stray_steps(lines, spans, ends)
    plans = [span for span in spans if span[0] == PLAN_SECTION]
    if not plans:
        missing = PlanProblem(1, "There is no section '# Execution Plan'.", "Add that heading above the steps.")
        return Plan(verdict=INVALID, problems=tuple(sorted(problems or [missing])))
    fix = "Move its steps into the first one and delete it."
    problems += [PlanProblem(start, "A second '# Execution Plan' begins here.", fix) for _, start, _ in plans[1:]]
    _, start, end = plans[0]
    marks, asleep, odd = _steps(lines, start, end, ends)
    problems += odd
    if ends:
        asleep += _asleep_below(lines, spans, start, ends)
    every = [mark for _, mark, _ in marks]
    problems += _current_faults(marks, every)
    current_text = next((line.strip() for line in _body_of("Current Step", lines, spans) if line.strip()), "Unknown")
    risks = (line.strip().lstrip("-* ").strip() for line in _body_of("Risks", lines, spans))
    known = tuple(risk for risk in risks if risk and risk.rstrip(".").casefold() != "none")
    body = lines[start:end] if not marks or "enerated" in text else []
    return _judge(body, start, marks, every, asleep, problems, current_text, known)


def sections(text: str) -> list[tuple[str, int, int]]:
    """The top-level sections as (title, first line, end), the lines counted from 0 and the end not among them."""
    lines = look.split(text)
    return _sections(text, lines, look.Regions(text, lines))[0]


def _judge(
    body: list[str],
    start: int,
    marks: list[tuple[int, str, str]],
    every: list[str],
    asleep: list[int],
    problems: list[PlanProblem],
    current_text: str,
    risks: tuple[str, ...],
) -> Plan:
    position = _position(every)
    counts = {mark: every.count(mark) for mark in (PENDING, CURRENT, DONE, STUCK, DROPPED)}
    left = len(every) - counts[DONE] - counts[DROPPED]
    if not marks and not problems:
        items = () if _is_unplanned(body) else (n for n, line in enumerate(body, start + 1) if look.is_item(line))
        bullet = next(iter(items), 0)
        if not bullet:
            return Plan(verdict=EMPTY, risks=risks)
        problems.append(PlanProblem(bullet, "The plan has list items but no boxes.", "Begin each step with '- [ ] '."))
    if marks and not left:
        fault, fix = "An open box stands inside a code block or a comment.", "Delete it, or make it a step of the plan."
        problems += [PlanProblem(number, fault, fix) for number in asleep]
        problems += _unticked_inside(marks)
    verdict = INVALID if problems else COMPLETE if not left else BLOCKED if position is None else VALID
    warnings = _warnings(body, marks, asleep, position, current_text) if verdict == VALID else []
    return Plan(
        verdict=verdict,
        marks=tuple(marks),
        problems=tuple(sorted(problems)),
        warnings=tuple(warnings),
        position=position,
        risks=risks,
        counts=counts,
    )


def _unticked_inside(marks: list[tuple[int, str, str]]) -> list[PlanProblem]:
    """Finished steps whose words hold another, open box: it was never ticked."""
    seen = [one for one in marks if look.find_open_box(one[2][look.PLAIN_CHARS :])]
    found = [(line, look.find_open_box(read_step(0, line, mark, raw).text)) for line, mark, raw in seen]
    return [PlanProblem(line, *fault) for line, fault in found if fault is not None]


def _sections(
    text: str, lines: list[str], regions: look.Regions
) -> tuple[list[tuple[str, int, int]], list[PlanProblem]]:
    """The top-level sections as (title, first line after the heading, last line), counted from 1 and exclusive."""
    spans: list[tuple[str, int, int]] = []
    faults: list[PlanProblem] = []
    title, begin = "", 0
    # Only headings, and lines that could say 'Execution Plan': large files stay quick.
    for number in look.holding(lines, text, ("#", "lan", "LAN")):
        line = lines[number - 1]
        kind = look.heading(lines, number - 1)
        if not kind or regions.covers(number):
            continue
        level, found = kind
        if level == 1 and line.strip().startswith("# "):
            spans.append((title, begin, number - 1))
            title, begin = found, number
            if found in SECTIONS:
                continue
        if " ".join(found.strip(" :*_#").split()).casefold() == PLAN_SECTION.casefold():
            fix = "Write it exactly: # Execution Plan"
            faults.append(PlanProblem(number, "This heading is almost '# Execution Plan'.", fix))
    spans.append((title, begin, len(lines)))
    return spans, faults


def _stray_steps(lines: list[str], spans: list[tuple[str, int, int]], regions: look.Regions) -> list[PlanProblem]:
    """Steps under a heading we do not know, or in it: they would be forgotten."""
    found: list[PlanProblem] = []
    for title, start, end in spans:
        if title in SECTIONS and title != "State":
            continue
        for number in range(max(start, 1), end + 1):
            line = lines[number - 1]
            if not title and line.startswith(">") and not look.quoted_box(line):
                continue  # a word about the file at its top
            if look.has_box(line) and not regions.covers(number) and look.step_like(line):
                where = f"under '# {title}'" if title else "above every heading"
                fix = f"Write line {start} as '## {title}' inside '# Execution Plan', or move the steps there."
                fix = "Move it below '# Execution Plan'." if title in ("", "State") else fix
                found.append(PlanProblem(number, f"A step stands {where}, outside the plan.", fix))
                break
    return found


def _asleep_below(lines: list[str], spans: list[tuple[str, int, int]], plan: int, regions: look.Regions) -> list[int]:
    """Open boxes inside code or comments under a heading that may have been meant as part of the plan."""
    return [
        number
        for title, start, end in spans
        if title not in SECTIONS and start > plan
        for number in range(start + 1, end + 1)
        if regions.covers(number) and look.has_box(lines[number - 1]) and look.open_box(lines[number - 1])
    ]


def _steps(
    lines: list[str], start: int, end: int, regions: look.Regions
) -> tuple[list[tuple[int, str, str]], list[int], list[PlanProblem]]:
    """Every step of the section, the open boxes inside code or comments, and the lines that are not understood."""
    marks: list[tuple[int, str, str]] = []
    if regions:
        numbered = list(enumerate(lines[start:end], start + 1))
    else:
        numbered = look.take_plain(lines[start:end], start + 1, marks)
    asleep: list[int] = []
    problems: list[PlanProblem] = []
    legend: list[PlanProblem] = []
    add, covers = marks.append, regions.covers if regions else None
    for number, line in [pair for pair in numbered if pair[1] not in look.SCAFFOLD]:
        step = re.match(_STEP, line) if "[" in line else None
        if step is not None:
            mark = step[1]
            if covers is not None and covers(number):
                if mark not in "xX":
                    asleep.append(number)
                continue
            if mark == "X":
                mark = DONE
            elif mark in "!-" and not read_step(0, number, mark, line).reason:
                fix = f"Add '({'blocked' if mark == STUCK else 'dropped'}: why)' to the line, or change the box."
                problems.append(PlanProblem(number, f"[{mark}] needs its reason.", fix))
            add((number, mark, line))
        elif look.has_box(line):
            fault = look.step_like(line)
            if not fault:
                continue
            if covers is not None and covers(number):
                if look.open_box(line):
                    asleep.append(number)
                continue
            problem = PlanProblem(number, *fault)
            (legend if look.quoted_box(line) else problems).append(problem)
    if _is_legend(lines, legend, unplanned=not marks and _is_unplanned(lines[start:end])):
        # An open box shown as an example without its word might be a real step: it keeps the plan from being complete.
        shown = [(problem.line, lines[problem.line - 1]) for problem in legend]
        asleep += [number for number, line in shown if look.open_box(line) and not look.legend_mark(line)]
    else:
        problems += legend
    marks.sort()
    return marks, asleep, problems


def _is_legend(lines: list[str], quoted: list[PlanProblem], *, unplanned: bool) -> bool:
    """Quoted boxes that explain the marks: all of them in a scaffold, else several different ones, each with its word."""
    marks = [look.legend_mark(lines[problem.line - 1], examples=True) for problem in quoted]
    return unplanned or ("" not in marks and len(set(marks)) > 1)


def _current_faults(marks: list[tuple[int, str, str]], every: list[str]) -> list[PlanProblem]:
    """More than one `[>]`, unless each stands inside the one before it (a parent and its part)."""
    if every.count(CURRENT) <= 1:
        return []
    currents = [(line, raw) for line, mark, raw in marks if mark == CURRENT]
    depth = {line: len(raw) - len(raw.lstrip(" \t")) for line, raw in currents}
    chain = all(depth[a] < depth[b] for (a, _), (b, _) in itertools.pairwise(currents))
    if chain and _nested(marks, currents[0][0], currents[-1][0], depth):
        return []
    fault = f"There are multiple current steps ([>]), on lines {', '.join(str(line) for line, _ in currents)}."
    return [PlanProblem(currents[1][0], fault, "Keep [>] on one of them.")]


def _nested(marks: list[tuple[int, str, str]], first: int, last: int, depth: dict[int, int]) -> bool:
    """Whether nothing between the outer and the inner `[>]` leaves the outer one's part of the list."""
    outer = depth[first]
    return all(len(raw) - len(raw.lstrip(" \t")) > outer for line, _, raw in marks if first < line <= last)


def _position(every: list[str]) -> int | None:
    """Where work goes on: the innermost `[>]`, else the first pending step."""
    if CURRENT in every:
        return len(every) - 1 - every[::-1].index(CURRENT)
    return every.index(PENDING) if PENDING in every else None


def _warnings(
    body: list[str], marks: list[tuple[int, str, str]], asleep: list[int], position: int | None, current_text: str
) -> list[str]:
    found = []
    if position is not None and marks[position][1] != CURRENT:
        found.append("No step is marked [>]; the first pending one is taken as current.")
    if _is_unplanned(body):
        found.append("The plan still says 'Not yet generated.' above real steps; delete that line.")
    if asleep:
        where = ", ".join(map(str, asleep[:5]))
        found.append(f"Open boxes inside code or comments are not steps (line {where}).")
    if position is not None and current_text not in marks[position][2]:
        for index, (line, mark, raw) in enumerate(marks[:_COMPARED]):
            if current_text in raw and mark == PENDING and read_step(0, line, mark, raw).text == current_text:
                found.append(f"'Current Step' names step {index + 1}, but the plan is at another; the plan counts.")
                break
    return found


def _is_unplanned(body: list[str]) -> bool:
    return any("enerated" in line and line.strip().casefold() in NOT_PLANNED for line in body)


def _body_of(title: str, lines: list[str], spans: list[tuple[str, int, int]]) -> list[str]:
    """The lines of the first section of that name."""
    return next((lines[start:end] for found, start, end in spans if found == title), [])
