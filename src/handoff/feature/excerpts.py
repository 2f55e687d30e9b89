"""Which parts of a feature's documents matter for one step, and what every session must know of it: rules and decisions first, then the goal."""

from __future__ import annotations

import os

from handoff.base.ids import on_one_line
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import PROJECT_FOLDER
from handoff.feature import plan as plans
from handoff.feature.baton import PromptPart, block, estimate, head, plain_text, rules_in
from handoff.feature.folder import Section, sections
from handoff.feature.templates import generated_lines, packaged_template

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_SHORT = 3
_COMMON = frozenset({"and", "the", "for", "with", "that", "this", "from", "into", "when", "not", "all", "are", "its"})
_GOAL = "goal"
_NAMED = 20
_READ_NOTES = 100_000
_SHOWN_APART = frozenset(("state", "current step", "execution plan", "completed steps", "remaining steps", "risks"))


def split_goal(text: str) -> tuple[list[str], str]:
    """What always holds, line by line (the sections of FEATURE.md that are called constraints or rules), and the rest, the goal first."""
    found = sections(text)
    ruling = [part for part in found if part.title.casefold().endswith(("constraints", "rules"))]
    scaffold = _scaffold()
    lines = [
        line.strip().lstrip("-*").strip() for part in ruling for line in part.text.splitlines() if line not in scaffold
    ]
    return [line for line in lines if line], goal_in([part for part in found if part not in ruling]) or text.strip()


def goal_in(found: list[Section]) -> str:
    """What the person wants: all of the sections, the goal first, without the lines the scaffold brought."""
    first = next((index for index, part in enumerate(found) if part.title.casefold() == _GOAL), None)
    if first is None:
        return "\n\n".join(_own_sections(found))
    end = first + 1
    while end < len(found) and found[end].level > found[first].level:
        end += 1
    titles = [part for part in found[:first] if part.level < found[first].level and not part.text.strip()]
    others = [part for part in (*found[:first], *found[end:]) if part not in titles]
    goal_itself = found[first]._replace(title="")
    return "\n\n".join(_own_sections([goal_itself, *found[first + 1 : end], *others]))


def _scaffold() -> set[str]:
    return set(packaged_template("default_feature.md").splitlines()) | generated_lines()


def _own_sections(found: list[Section]) -> list[str]:
    """The sections a person wrote something into; a heading above one of them stays with it."""
    scaffold = _scaffold()
    shown: list[str] = []
    below = 0  # the level of the section after this one that is shown
    for part in reversed(found):
        own = "\n".join(line for line in part.text.splitlines() if line not in scaffold).strip("\n")
        if own.strip():
            shown.append(f"### {part.title}\n{own}" if part.title else own)
        elif part.title and 0 < part.level < below:
            shown.append(f"### {part.title}")
        else:
            continue
        below = part.level
    return shown[::-1]


def cut_goal(text: str, tokens: int, path: str) -> str:
    """The beginning of the goal that fits, and the names of the sections that do not."""
    names = [part.title for part in sections(text) if part.title]
    kept = head(text, tokens, path)
    missing = [name for name in names if f"### {name}" not in kept.split("\n")]
    if not kept or not missing:
        return kept
    room = tokens - estimate(", ".join(missing[:_NAMED])) - estimate(path) - 20
    kept = head(text, room, path)
    missing = [name for name in names if f"### {name}" not in kept.split("\n")]
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    note = f"[sections of {path} not shown: {', '.join(missing[:_NAMED])}{more}]"
    return f"{kept}\n{note}".strip("\n")


def state_notes(text: str) -> str:
    """What STATE.md says beside its plan and its risks, without the lines the scaffold brought."""
    scaffold = set(packaged_template("default_state.md").splitlines())
    shown = []
    for part in sections(text[:_READ_NOTES]):
        own = "\n".join(line for line in part.text.splitlines() if line not in scaffold).strip("\n")
        if part.title.casefold() not in _SHOWN_APART and own.strip():
            shown.append(f"### {part.title}\n{own}" if part.title else own)
    if len(text) > _READ_NOTES:
        shown.append("[STATE.md is longer; what comes after was not read]")
    return "\n\n".join(shown)


def change_lines(paths: Mapping[str, Sequence[str]], counts: Mapping[str, str]) -> list[str]:
    """One line for each path that no commit holds, with how much of it changed, and the sum of all."""
    lines = []
    told: set[str] = set()
    for label, names in paths.items():
        for path in names:
            count = f" ({counts[path]})" if counts.get(path) and path not in told else ""
            lines.append(f"{label}: {on_one_line(path)}{count}")
            told.add(path)
    if not told:
        return ["nothing uncommitted"]
    words = [word for path in told for word in counts.get(path, "").split()]
    more, less = (sum(int(word[1:]) for word in words if word[0] == sign) for sign in "+-")
    files = "1 path" if len(told) == 1 else f"{len(told)} paths"
    counted = f", +{more} -{less} lines" if words else ", too much to count its lines"
    of_folders = not words and all(path.endswith("/") for path in told)  # git names a new folder without what is in it
    lines.insert(0, f"uncommitted: {files}" + ("" if of_folders else counted))
    return lines


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


_MOST_BYTES, _DECISIONS = 1_000_000, 20


def of_feature(root: str, name: str) -> tuple[list[str], list[PromptPart]]:
    """The rules and the goal of a feature, for a session that does one step of it in a place of its own."""
    where = os.path.join(PROJECT_FOLDER, "features", name)
    texts = {
        document: plain_text(os.path.join(root, where, document), limit=_MOST_BYTES)
        for document in ("FEATURE.md", "SESSION.md", "DECISIONS.md")
    }
    rules, goal = rules_and_goal(texts["FEATURE.md"], texts["SESSION.md"], texts["DECISIONS.md"])
    return rules, [goal_part(goal, f"{where}/FEATURE.md", f"The feature `{name}`")]


def rules_and_goal(feature: str, session: str, decisions: str) -> tuple[list[str], str]:
    """The constraints of FEATURE.md, the rules among the notes and the decisions; and what is left of FEATURE.md, the goal first."""
    constraints, goal = split_goal(feature)
    return [*constraints, *rules_in(session), *decisions_in(decisions)], goal


def decisions_in(text: str) -> list[str]:
    """The newest decisions, each with its reason on one line."""
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith("- "):
            found.append(line[2:].strip())
        elif found and line.startswith(" ") and line.strip():
            found[-1] += " " + line.strip()
    return [f"Decided {one.replace(' Because: ', '. Because: ', 1)}" for one in reversed(found[-_DECISIONS:])]


def goal_part(goal: str, path: str, title: str = "Goal") -> PromptPart:
    """The goal as a block; where it must be cut, the sections that are missing are named."""
    part = block(title, goal, 1, path, 0.35)
    return part._replace(shrink=lambda room: cut_goal(goal, room, path))
