"""The text that hands a session on: its facts in the sections and the order of every baton, each once and dated."""

from __future__ import annotations

import os

from handoff.agents.history import entries as form
from handoff.base.clock import stamp
from handoff.base.markdown import fenced, number_of, one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.features.recall import own_words
from handoff.feature import baton
from handoff.feature.baton import GOAL, LIMITS, NEXT, RULES, STATE, TRIED, PromptPart, estimate, pin, rule_parts

if TYPE_CHECKING:
    from handoff.agents.history.facts import HistoryFacts, Utterance
    from handoff.agents.history.runs import CommandRun

TOKENS = 2_000
_BOXES = {form.DONE: "[x]", form.DOING: "[>]", form.DROPPED: "[-]"}
_TAIL, _LINE, _MOST_RULES, _SAID = 700, 300, 40, 12
_SMALLEST = 40
_CARRIED = ("What the person said", "Goal", "Plan", "Dead ends", "Decisions")
"""What a baton holds that stays true when the next session takes over too."""
_FIRST, _NEWEST, _ENDS = "first", "newest", "ends"


class Origin(Record):
    """Where the facts come from and where the next session stands."""

    title: str
    """Of whose session: `Claude Code, session b21d455c`."""
    folder: str
    home: str = ""
    standing: tuple[str, ...] = ()
    """What is true now: branch, HEAD, what is not committed."""
    limits: tuple[str, ...] = ()
    more: str = ""
    """The command that shows everything."""


def handover(facts: HistoryFacts, origin: Origin, *, tokens: int = TOKENS) -> str:
    """The whole text, at most so many tokens; what counts most has its room first."""
    place, red = origin.folder, {run.command for run in facts.red}
    before = _sections(facts.handed)
    handed = [line[2:] for name, lines in before.items() if name == "Rules" for line in lines if line.startswith("- ")]
    rules = [rule[:_LINE] for rule in dict.fromkeys([*handed, *(one_line(rule.text) for rule in facts.rules)])]
    carried = [
        "\n".join([f"#### {name}", *lines]) for name, lines in before.items() if lines and name.startswith(_CARRIED)
    ]
    files = [f"- {file.how} {_short(file.path, place)}" for file in facts.files]
    runs = [_run(run) for run in facts.runs if run.command not in red]
    steps = [
        f"- {_BOXES.get(step.state, '[ ]')} {step.text}" + (f" ({step.state})" if step.state == "blocked" else "")
        for step in facts.todo
    ]
    said = [f"- {f'({_time(at)}) ' if at else ''}{text}" for at, text in own_words(facts)][:_SAID]
    summary = [facts.summary] if facts.summary else []
    sections = {
        RULES: rule_parts(origin.home, "", place, rules[-_MOST_RULES:]),
        GOAL: [
            _part("What the person said, word for word", _instructions(facts), 1, 0.5, _ENDS),
            _part("Before that session: what was handed to it", carried, 2, 0.5),
        ],
        STATE: [
            pin(_opening(facts, origin)),
            _part("Now", [f"- {line}" for line in origin.standing], 2, 0.4),
            _part("Red now", [_red(run) for run in facts.red], 3, 0.5, _NEWEST),
            _part("Files that the session touched", files, 3, 0.4, _NEWEST),
            _part("Plan", steps, 4),
        ],
        TRIED: [
            _part("Dead ends: do not try them again", [_dated(one) for one in facts.dead_ends], 4, 0.4, _NEWEST),
            _part("Decisions", [_dated(one) for one in facts.decisions], 4, 0.4, _NEWEST),
            _part("Commands and their last results", runs, 5, 0.4, _NEWEST),
            _part("What it said, newest first", said, 6),
            _part("What the client itself kept when it shortened the conversation", summary, 8),
        ],
        NEXT: [pin("\n".join(_next(facts)))],
        LIMITS: [pin("\n".join(f"- {line}" for line in _limits(facts, origin)))],
    }
    return baton.compose(f"Go on with the work of {origin.title}", sections, tokens=tokens).text


def _part(title: str, items: list[str], priority: int, share: float = 0.5, keeps: str = _FIRST) -> PromptPart:
    """A list of facts that may lose some of them."""
    return PromptPart(
        title=title,
        text="\n".join(items),
        priority=priority,
        share=share,
        shrink=lambda room: _shortened(items, room, keeps),
    )


def _shortened(items: list[str], room: int, keeps: str) -> str:
    """As many items as there is room for; a line says where some are missing."""
    last = len(items) - 1
    order = {
        _FIRST: range(last + 1),
        _NEWEST: range(last, -1, -1),
        _ENDS: [last, *range(min(1, last)), *range(last - 1, 0, -1)],
    }[keeps]
    kept: dict[int, str] = {}
    room -= 10
    for index in order:
        size = estimate(items[index]) + 1
        if size > room:
            if room > _SMALLEST and not kept:
                kept[index] = f"{items[index][: room * 3].rstrip()} … (the rest is cut)"
            break
        kept[index] = items[index]
        room -= size
    lines: list[str] = []
    before = -1
    for index in [*sorted(kept), last + 1]:
        if index > before + 1:
            lines.append(f"- ({index - before - 1} more here, left out)")
        lines += [kept[index]] if index in kept else []
        before = index
    return "\n".join(lines) if kept else ""


def _sections(baton: str) -> dict[str, list[str]]:
    """The parts of a baton by their headings; one in it that was handed on before is a part too."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in baton.splitlines():
        if line.startswith(("## ", "### ", "#### ")):
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
    times = f"{run.times} runs" if run.times > 1 else ""
    more = ", ".join(filter(None, (_time(run.at) if run.at else "", times)))
    return f"`{one_line(run.command)[:_LINE]}` {run.verdict}" + (f" ({more})" if more else "")


def _dated(said: Utterance) -> str:
    return f"- {f'({_time(said.at)}) ' if said.at else ''}{one_line(said.text)}"


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


def _time(at: float) -> str:
    return stamp(at)[:16].replace("T", " ") if at else ""


def _short(path: str, folder: str) -> str:
    return os.path.relpath(path, folder) if os.path.isabs(path) and path.startswith(folder + os.sep) else path
