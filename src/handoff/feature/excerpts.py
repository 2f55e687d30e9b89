"""Which parts of a long document or plan matter for one step."""

from __future__ import annotations

from handoff.feature.budget import estimate
from handoff.feature.documents import Section, body_of, sections
from handoff.feature.plan import plan as plans
from handoff.feature.templates import packaged_template

_SHORT = 3
_COMMON = frozenset({"and", "the", "for", "with", "that", "this", "from", "into", "when", "not", "all", "are", "its"})
_REQUESTS = ("Requirements", "Tech Constraints", "Deliverables", "Acceptance Criteria", "Non-Goals", "Constraints")


def goal(text: str) -> str:
    """What the person wants, from FEATURE.md without the scaffold's example lines."""
    scaffold = set(packaged_template("default_feature.md").splitlines())
    parts = [body_of(text, "Goal") or text.strip()]
    for section in sections(text):
        own = [line for line in section.text.splitlines() if line not in scaffold]
        if section.title in _REQUESTS and any(map(str.strip, own)):
            parts.append(f"### {section.title}\n" + "\n".join(own).strip())
    return "\n\n".join(parts)


def words_of(text: str) -> set[str]:
    """The words worth matching: identifiers, requirement numbers, names; no fillers."""
    plain = "".join(c if c.isalnum() or c == "_" else " " for c in text.casefold())
    return {
        word for word in plain.split() if (len(word) >= _SHORT or any(map(str.isdigit, word))) and word not in _COMMON
    }


def relevant(text: str, about: str, tokens: int, path: str) -> str:
    """The sections that share most words with the step, in the document's own order, as far as they fit."""
    wanted = words_of(about)
    parts = [part for part in sections(text) if part.text.strip()]
    scores = {
        index: 3 * len(wanted & words_of(part.title)) + len(wanted & words_of(part.text))
        for index, part in enumerate(parts)
    }
    note = f"[only the sections nearest to the current step; all of it is in {path}]"
    room = tokens - estimate(note) - 1
    chosen: list[int] = []
    for index in sorted(scores, key=lambda i: (-scores[i], i)):
        cost = estimate(_shown(parts[index])) + 2
        if cost <= room:
            room -= cost
            chosen.append(index)
    if not chosen:
        return ""
    return "\n\n".join([*(_shown(parts[index]) for index in sorted(chosen)), note])


def _shown(part: Section) -> str:
    return f"**{part.title}**\n{part.text}" if part.title else part.text


def plan_text(plan: plans.Plan) -> str:
    """Every step, as it stands."""
    return "\n".join(f"{index + 1:>3}. {_step_line(plan, index)}" for index in range(len(plan.marks)))


def plan_window(plan: plans.Plan, tokens: int) -> str:
    """The steps around the current one, as many as fit, and what lies outside."""
    total = len(plan.marks)
    centre = plan.position if plan.position is not None else max(0, total - 1)
    first = last = centre
    room = tokens - 40
    lines = {centre: _step_line(plan, centre)}
    room -= estimate(lines[centre]) + 3
    while room > 0 and (first > 0 or last < total - 1):
        # Two steps ahead for each one behind: what comes next matters more than what is done.
        for index in (last + 1, last + 2, first - 1):
            if not 0 <= index < total or index in lines:
                continue
            line = _step_line(plan, index)
            room -= estimate(line) + 3
            if room <= 0:
                break
            lines[index] = line
            first, last = min(first, index), max(last, index)
    shown = [f"{index + 1:>3}. {lines[index]}" for index in sorted(lines)]
    if first > 0:
        shown.insert(
            0, f"     ({first} steps before, {sum(1 for m in plan.marks[:first] if m[1] == plans.DONE)} of them done)"
        )
    if last < total - 1:
        shown.append(f"     ({total - 1 - last} more steps after)")
    return "\n".join(shown)


def _step_line(plan: plans.Plan, index: int) -> str:
    step = plan.step(index)
    text = f"[{step.mark}] {step.text}"
    if step.check:
        text += f"  (check: {step.check})"
    if step.reason:
        text += f"  ({'blocked' if step.mark == plans.STUCK else 'dropped'}: {step.reason})"
    return f"{text}   <- current" if index == plan.position else text
