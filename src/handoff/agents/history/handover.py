"""The text that hands a session on: facts in one order, each once and dated; what does not fit is named."""

from __future__ import annotations

import os

from handoff.agents.history import entries as form
from handoff.base.clock import stamp
from handoff.base.markdown import BATON_END, BATON_MARK, fenced, number_of, one_line
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.agents.history.facts import HistoryFacts, Utterance
    from handoff.agents.history.runs import CommandRun

TOKENS = 2_000
LETTERS = 4
"""So many characters are taken for a token."""
_BOXES = {form.DONE: "[x]", form.DOING: "[>]", form.DROPPED: "[-]"}
_TAIL, _LINE = 700, 300
_SMALLEST, _FRAME = 200, 50
_CARRIED = ("What the person said", "Goal", "Plan", "Dead ends", "Decisions", "Task", "Brief")
"""What a baton holds that stays true when the next session takes over too."""
FIRST, NEWEST, ENDS = "first", "newest", "ends"


class Origin(Record):
    """Where the facts come from and where the next session stands."""

    title: str
    """Of whose session: `Claude Code, session b21d455c`."""
    folder: str
    standing: tuple[str, ...] = ()
    """What is true now: branch, HEAD, what is not committed."""
    limits: tuple[str, ...] = ()
    more: str = ""
    """The command that shows everything."""


class _Part(Record):
    """A section: how much of the room it may take, and which items stay where that is too little."""

    title: str
    items: list[str]
    share: float
    keeps: str = FIRST


def handover(facts: HistoryFacts, origin: Origin, *, tokens: int = TOKENS) -> str:
    """The whole text, at most so many tokens. What counts most has its room first; what it leaves is for the others."""
    head = f"# Go on with the work of {origin.title}\n\n{_opening(facts, origin)}\n"
    ends = "\n".join([f"\n## Limits\n{_list(_limits(facts, origin))}", BATON_END, ""])
    room = max(_SMALLEST, tokens * LETTERS - len(head) - len(ends) - len(BATON_MARK) - 2)
    parts = _parts(facts, origin)
    rooms = _rooms(parts, room)
    told = [_fit(part, size) for part, size in zip(parts, rooms, strict=True)]
    return "\n".join([BATON_MARK, head, "\n".join(one for one in told if one).rstrip("\n"), ends])


def _rooms(parts: list[_Part], room: float) -> list[int]:
    """How much room each section has: what it needs, or its share; what one leaves is for the others."""
    need = [_needed(part) for part in parts]
    found = [0] * len(parts)
    open_ones = [index for index, size in enumerate(need) if size]
    while open_ones:
        weight = sum(parts[index].share for index in open_ones)
        small = [index for index in open_ones if need[index] <= room * parts[index].share / weight]
        for index in small or open_ones:
            found[index] = need[index] if small else int(room * parts[index].share / weight)
        room -= sum(need[index] for index in small)
        open_ones = [index for index in open_ones if index not in small] if small else []
    return found


def _needed(part: _Part) -> int:
    return sum(len(item) + 1 for item in part.items) + len(part.title) + _FRAME if part.items else 0


def _fit(part: _Part, room: int) -> str:
    """A section with as many of its items as there is room for; a line says where some are missing."""
    if not part.items:
        return ""
    room -= len(part.title) + _FRAME
    last = len(part.items) - 1
    order = {
        FIRST: range(last + 1),
        NEWEST: range(last, -1, -1),
        ENDS: [last, *range(min(1, last)), *range(last - 1, 0, -1)],
    }[part.keeps]
    kept: dict[int, str] = {}
    for index in order:
        item = part.items[index]
        if len(item) + 1 > room:
            if room > _SMALLEST:
                kept[index] = f"{item[: room - _FRAME].rstrip()} … ({len(item) - room + _FRAME} more characters)"
            break
        kept[index] = item
        room -= len(item) + 1
    if not kept:
        return ""
    lines, before = [f"## {part.title}"], -1
    for index in [*sorted(kept), last + 1]:
        if index > before + 1:
            lines.append(f"- ({index - before - 1} more here, left out)")
        lines += [kept[index]] if index in kept else []
        before = index
    return "\n".join(lines) + "\n"


def _parts(facts: HistoryFacts, origin: Origin) -> list[_Part]:
    place = origin.folder
    red = {run.command for run in facts.red}
    files = [f"- {file.how} {_short(file.path, place)}" for file in facts.files]
    runs = [_run(run) for run in facts.runs if run.command not in red]
    steps = [
        f"- {_BOXES.get(step.state, '[ ]')} {step.text}" + (f" ({step.state})" if step.state == "blocked" else "")
        for step in facts.todo
    ]
    before = _sections(facts.handed)
    rules = [
        line for name, lines in before.items() if name.startswith("Rules") for line in lines if line.startswith("- ")
    ]
    rules = list(dict.fromkeys([*rules, *(f"- {rule.text}" for rule in facts.rules)]))
    kept = ["\n".join([f"### {name}", *lines]) for name, lines in before.items() if name.startswith(_CARRIED)]
    return [
        _Part("Rules of the person: they hold for everything below", rules, 0.2),
        _Part("Before that session: what was handed to it", kept, 0.2),
        _Part("What the person said, word for word", _instructions(facts), 0.3, ENDS),
        _Part("Where it stands now", [f"- {line}" for line in origin.standing], 0.1),
        _Part("Next action", _next(facts), 0.12),
        _Part("Plan", steps, 0.08),
        _Part("Red now", [_red(run) for run in facts.red], 0.15, NEWEST),
        _Part("Files that the session touched", files, 0.1, NEWEST),
        _Part("Dead ends: do not try them again", [_dated(one, "") for one in facts.dead_ends], 0.07, NEWEST),
        _Part("Decisions", [_dated(one, "") for one in facts.decisions], 0.07, NEWEST),
        _Part("Commands and their last results", runs, 0.06, NEWEST),
        _Part("Its last words", _last_words(facts), 0.05, NEWEST),
        _Part(
            "What the client itself kept when it shortened the conversation",
            [facts.summary] if facts.summary else [],
            0.04,
        ),
    ]


def _sections(baton: str) -> dict[str, list[str]]:
    """The parts of a baton by their headings; one in it that was handed on before is a part too."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in baton.splitlines():
        if line.startswith(("## ", "### ")):
            name = line.lstrip("# ")
            found.setdefault(name, [])
        elif line.strip():
            found.setdefault(name, []).append(line)
    return found


def _opening(facts: HistoryFacts, origin: Origin) -> str:
    told = [
        f"You take over in {origin.folder}. A program took these facts from that session's own record; nothing is guessed."
    ]
    about = [
        f"model {facts.model}" if facts.model else "",
        f"{facts.tokens:,} tokens" if facts.tokens else "",
        f"${facts.cost:.2f}" if facts.cost else "",
    ]
    known = ", ".join(one for one in about if one)
    when = f"It worked from {stamp(facts.began)} to {stamp(facts.at)}" if facts.at else ""
    told += [f"{when}{' (' + known + ')' if known else ''}." if when else ""]
    told += [f"It ended so: {one_line(facts.ended)}." if facts.ended else ""]
    told += ["Do not begin again: look at what is there, then do the next action. Times are UTC."]
    return "\n".join(one for one in told if one)


def _instructions(facts: HistoryFacts) -> list[str]:
    shown = []
    for number, said in enumerate(facts.instructions, 1):
        when = ", ".join(one for one in (_time(said.at), "said while it worked" if said.how else "") if one)
        text = said.text.replace("\n", "\n   ")
        shown.append(f"{number}. {f'({when}) ' if when else ''}{text}")
    return shown


def _next(facts: HistoryFacts) -> list[str]:
    """What is open decides: a call without an end, what the person asked last, then what the session itself meant to do."""
    items = [f"- It was in the middle of: {one_line(call)}" for call in facts.open_calls[-3:]]
    last = facts.instructions[-1] if facts.instructions else None
    planned = facts.next_action
    if planned is not None and (last is None or planned.at >= last.at):
        items.append(f"- {_said('The session said', planned)}")
    elif last is not None:
        items.append(f"- {_said('The person asked last', last)}")
        if planned is not None:
            items.append(f"- {_said('Before that the session said', planned)}")
    items += [f"- Open in the plan: {step.text}" for step in facts.todo if step.state in (form.DOING, form.PENDING)][:3]
    items += [f"- Make green: `{one_line(run.command)[:_LINE]}`" for run in facts.red[-2:]]
    return items


def _said(who: str, said: Utterance) -> str:
    return f"{who}{f' ({_time(said.at)})' if said.at else ''}: {one_line(said.text)[:_LINE]}"


def _red(run: CommandRun) -> str:
    failing = f"; failing: {', '.join(run.failing)}" if run.failing else ""
    return f"- {_result(run)}{failing}\n{fenced(run.tail[-_TAIL:])}" if run.tail else f"- {_result(run)}{failing}"


def _run(run: CommandRun) -> str:
    last = run.tail.strip().splitlines()[-1][:120] if run.tail.strip() else ""
    return f"- {_result(run)}" + (f": {last}" if last else "")


def _result(run: CommandRun) -> str:
    word = (
        "green"
        if run.ok
        else "result unknown"
        if run.ok is None
        else f"exit {run.exit}"
        if run.exit is not None
        else "failed"
    )
    times = f", {run.times} runs" if run.times > 1 else ""
    when = f", {_time(run.at)}" if run.at else ""
    return f"`{one_line(run.command)[:_LINE]}` ({word}{when}{times})"


def _dated(said: Utterance, mark: str) -> str:
    return f"- {f'({_time(said.at)}) ' if said.at else ''}{mark}{one_line(said.text)}"


def _last_words(facts: HistoryFacts) -> list[str]:
    return [_dated(said, "") for said in facts.statements[-12:]]


def _limits(facts: HistoryFacts, origin: Origin) -> list[str]:
    rows = sum(count for _, count in facts.unread)
    kinds = ", ".join(name for name, _ in facts.unread[:5])
    found = [
        *origin.limits,
        f"{number_of(rows, 'row')} of the record {'were' if rows > 1 else 'was'} not understood: {kinds}."
        if rows
        else "",
        f"{number_of(facts.left_out, 'instruction')} did not fit." if facts.left_out else "",
        f"The client shortened the conversation {number_of(facts.compactions, 'time')}." if facts.compactions else "",
        f"Sub-agents worked for it: {', '.join(facts.agents[-5:])}." if facts.agents else "",
        "Results are those of that session: run a check again before you rely on it. Secrets were taken out.",
        f"More of it: {origin.more}" if origin.more else "",
    ]
    return [one for one in found if one]


def _list(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _time(at: float) -> str:
    return stamp(at)[:16].replace("T", " ") if at else ""


def _short(path: str, folder: str) -> str:
    return os.path.relpath(path, folder) if os.path.isabs(path) and path.startswith(folder + os.sep) else path
