"""What `handoff` alone answers, at most one screen: what needs you, what runs, what landed, what is next, each with its command."""

from __future__ import annotations

from handoff.base.clock import age, stamp, time_of_day
from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import terminal_width
from handoff.engine.features import status
from handoff.feature import plan as plans
from handoff.surfaces.vocabulary import BAR as CELLS
from handoff.surfaces.vocabulary import (
    BAR_STYLES,
    LOOKS,
    bar_counts,
    cells,
    clock_of,
    finished_words,
    fold,
    money,
    tally,
    wants_ascii,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from handoff.engine.features.status import View
    from handoff.engine.work.overview import BatchProgress, Overview, OverviewItem
    from handoff.surfaces.cli.command import Context

_UNCUT = 10_000
_NEEDS, _RUNS, _BATCHES, _NAMED = 6, 4, 2, 6
_BAR = 16
_LONGEST_ADDRESS = 28
_LEAST_WORDS = 24
_FOLDED = 3
_PLAN_CELLS = 40


def what_now(ctx: Context) -> int:
    """Tell what needs a person in this folder, and what comes next."""
    view, fault = _feature(ctx)
    found = relay_of(ctx)
    advice = status.advise(view, ctx.settings.program) if view else None
    ctx.out.data(
        {
            "feature": view.feature.name if view else None,
            **({"status": advice.status, "blocked": advice.blocked} if advice else {}),
            **({"error": fault.message, "hint": fault.hint} if fault else {}),
            "next": {"command": advice.command, "focus": advice.focus}
            if advice
            else {"command": f"{ctx.settings.program} init my-feature"},
            **as_data(found),
        }
    )
    ctx.out.line(_head(ctx, view, found), "title")
    if fault:
        ctx.out.line(fault.message, "warn")
        ctx.out.line(fault.hint)
    if found is not None:
        tell_relay(ctx, found)
    if view and advice:
        _tell_plan(ctx, view)
        ctx.out.line(_row(ctx, f"{ctx.out.style('Now', 'strong')}  {advice.focus}", advice.command, below=True))
    elif not fault:
        _tell_beginning(ctx, found)
    ctx.out.line(
        f"More: {ctx.settings.program} status, {ctx.settings.program} board, {ctx.settings.program} --help", "dim"
    )
    tell_older(ctx)
    if found is not None and ctx.out.person and not ctx.out.json_wanted:
        from handoff.engine.work import overview as engine

        engine.note_look(ctx.app, found)
    return 0


def tell_older(ctx: Context, *, every: bool = False) -> None:
    """Say that live work of handoff-fanout is not on the board: of this project, or of every one."""
    from handoff.engine.place.fanout import older

    if not older.homes(ctx.app):
        return
    try:
        home = older.home_with_work(ctx.app, "" if every else project_here(ctx))
    except HandoffError:
        return  # whoever needs the project says what is wrong with it
    if home:
        words = f"{home} holds live work of handoff-fanout that is not on the board."
        ctx.out.note(f"{words} To see it and take it in: {ctx.settings.program} import fanout")


def _feature(ctx: Context) -> tuple[View | None, HandoffError | None]:
    if status.is_without_feature(ctx.app):
        return None, None
    try:
        return status.look(ctx.app), None
    except HandoffError as error:
        return None, error


def relay_of(ctx: Context) -> Overview | None:
    """The rows of this project, or of every one outside a repository; nothing where the relay was never used."""
    if not ctx.app.has_rows:
        return None
    from handoff.engine.work import overview as engine

    try:
        return engine.look(ctx.app, project=project_here(ctx))
    except HandoffError as error:
        ctx.out.warning(f"the relay cannot be read: {error.message}")
        return None


def project_here(ctx: Context, name: str = "") -> str:
    """The project that is said, else the one of this repository; outside of one it is every project."""
    from handoff.engine.app.home import find_project
    from handoff.git.plumbing import find_top

    inside = name or find_top(ctx.settings.here) or ctx.settings.get("HANDOFF_PROJECT")
    return find_project(ctx.app, name=name).name if inside else ""


def as_data(found: Overview | None) -> dict[str, Any]:
    """The same for programs."""
    from handoff.engine.work.overview import SECTIONS

    if found is None:
        return {"needs_you": [], "running": [], "landed": [], "coming": [], "batches": [], "supervisors": 0}
    names = dict(zip(("needs_you", "running", "landed", "coming"), SECTIONS, strict=True))
    return {
        "project": found.project,
        "since": stamp(found.since),
        **{name: [_item_data(item) for item in found.of(section)] for name, section in names.items()},
        "batches": [{"project": one.project, "batch": one.id, "parts": one.counts} for one in found.batches],
        "supervisors": found.supervisors,
        "spent": round(found.spent, 4),
        "unknown_cost": found.unpriced,
    }


def _item_data(item: OverviewItem) -> dict[str, Any]:
    return {
        "address": item.address,
        "state": LOOKS[item.look].word,
        "at": stamp(item.at),
        "words": item.words,
        "command": item.command,
        "agent": item.agent,
        "attempt": item.attempt,
        "money": item.money,
    }


def _head(ctx: Context, view: View | None, found: Overview | None) -> str:
    import os

    name = found.project if found and found.project else os.path.basename(ctx.settings.here) or "/"
    parts = [name if found is None or found.project else "every project"]
    if view:
        total = len(view.plan.marks)
        parts.append(f"{view.feature.name} {view.plan.done}/{total}" if total else view.feature.name)
    if found and found.supervisors:
        parts.append("1 supervisor" if found.supervisors == 1 else f"{found.supervisors} supervisors")
    if found and (found.spent or found.allowed):
        parts.append(money(found.spent, found.allowed))
    if found and found.unpriced:
        parts.append(f"{found.unpriced} session{'s' * (found.unpriced > 1)} of unknown cost")
    clock = time_of_day(ctx.app.clock.now())
    text = " · ".join(parts) if not wants_ascii(ctx.settings) else " - ".join(parts)
    gap = _width(ctx) - columns(text) - len(clock)
    return f"{text}{' ' * min(gap, 60)}{clock}" if ctx.out.person and gap > 1 else text


def tell_relay(ctx: Context, found: Overview, coming_word: str = "Next") -> None:
    """The four sections, in the order of a person's questions, each line with its command."""
    needs, running, landed, coming = (found.of(section) for section in ("needs you", "running", "landed", "next"))
    if needs:
        ctx.out.line("Needs you", "warn")
        folded, untold = fold(needs), needs
        wide, left = _widest([_group_names(group) for group in folded[:_NEEDS]]), _NEEDS
        for group in folded:
            text = _item_text(ctx, found, group, wide)
            left -= 1 + text.count("\n")
            if left < 0:
                break
            ctx.out.lines(*text.split("\n"))
            untold = untold[len(group) :]
        stops = [item for item in untold if item.look == "paused"]  # why nothing new starts is never cut off
        untold = [item for item in untold if item not in stops]
        ctx.out.lines(*(f"  {item.address}: {item.words}" for item in stops))
        _tell_more(ctx, len(untold), "gate list" if untold and untold[0].look == "gated" else "task list")
    if running:
        ctx.out.line("Running", "strong")
        wide = _widest([item.address for item in running[:_RUNS]])
        for item in running[:_RUNS]:
            _tell_running(ctx, found, item, wide)
        _tell_more(ctx, len(running) - _RUNS, "task list --state running")
    for batch in found.batches[:_BATCHES]:
        ctx.out.line(_row(ctx, f"  {batch_words(ctx, batch, every=not found.project)}", ""))
    _tell_more(ctx, len(found.batches) - _BATCHES, "board")
    if landed:
        told = f"{ctx.out.style('Finished', 'good')} {_moment(found)}, {finished_words(landed)}: "
        ctx.out.line(_names(ctx, told, landed))
    if coming:
        ctx.out.line(_names(ctx, f"{ctx.out.style(coming_word, 'strong')} ", coming))
        if not found.supervisors and not running and any(item.look == "ready" for item in coming):
            ctx.out.line(_row(ctx, "  Nobody works on it.", f"{ctx.settings.program} work --agent NAME"))
    if not (needs or running or coming):
        ctx.out.line("Nothing waits, nothing runs.", "dim")


def _moment(found: Overview) -> str:
    if found.at - found.since < 20 * 3600:
        return f"since {time_of_day(found.since)}"
    return f"in the last {age(found.at - found.since)}"


def _widest(names: Sequence[str]) -> int:
    return min(_LONGEST_ADDRESS, max(map(columns, names)))


def _group_names(group: list[OverviewItem]) -> str:
    more = len(group) - _FOLDED
    return ", ".join(one.address for one in group[:_FOLDED]) + (f" and {more} more" if more > 0 else "")


def _item_text(ctx: Context, found: Overview, group: list[OverviewItem], wide: int) -> str:
    item = group[0]
    look = LOOKS[item.look]
    mark = ctx.out.style(look.mark(ascii_only=wants_ascii(ctx.settings)), look.style)
    text = f"  {mark} {_group_names(group):<{wide}}  {age(found.at - item.at):>6}  {item.words or look.word}"
    return _row(ctx, text, item.command, below=True)


def _tell_running(ctx: Context, found: Overview, item: OverviewItem, wide: int) -> None:
    look = LOOKS[item.look]
    mark = ctx.out.style(look.mark(ascii_only=wants_ascii(ctx.settings)), look.style)
    parts = [f"  {mark} {item.address:<{wide}}  {clock_of(found.at - item.at):>6}", item.agent or "a session"]
    parts += [f"try {item.attempt}"] if item.attempt > 1 else []
    parts += [money(item.money)] if item.money else []
    parts += [words] if (words := item.words or _last_words(ctx, item)) else []
    ctx.out.line(_row(ctx, "  ".join(parts), ""))


def _last_words(ctx: Context, item: OverviewItem) -> str:
    if not status.has_folder(ctx.app, project=item.project, session=item.session):
        return ""  # a person's tab says nothing, and what would read it is much to load
    from handoff.engine.place import transcripts

    return transcripts.last_words(ctx.app, project=item.project, session=item.session, agent=item.agent)


def batch_words(ctx: Context, batch: BatchProgress, *, every: bool) -> str:
    """A batch with its bar, which tells green from red, and its counts."""
    counts = bar_counts(batch.counts)
    ascii_only = wants_ascii(ctx.settings)
    drawn = "".join(
        ctx.out.style(CELLS[kind][ascii_only] * number, BAR_STYLES[kind])
        for kind, number in cells(counts, _BAR).items()
    )
    name = f"{batch.project}/{batch.id}" if every else batch.id
    return f"batch {name}  {drawn}  {tally(counts)}"


def _names(ctx: Context, begin: str, items: Sequence[OverviewItem]) -> str:
    """As many names as the line holds, and how many it does not."""
    ascii_only, line = wants_ascii(ctx.settings), begin
    room = _width(ctx) - len("  and 1000 more") if len(items) > 1 else _width(ctx)
    for number, item in enumerate(items):
        look = LOOKS[item.look]
        beside = f" ({look.word})" if item.look in ("green", "undone", "paused") else ""
        name = f"  {ctx.out.style(look.mark(ascii_only=ascii_only), look.style)} {item.address}{beside}"
        if number and (number >= _NAMED or columns(line + name) > room):
            return f"{line}  and {len(items) - number} more"
        line += name
    return fit(line, _width(ctx))


def _tell_more(ctx: Context, more: int, command: str) -> None:
    if more > 0:
        ctx.out.line(f"  and {more} more: {ctx.settings.program} {command}", "dim")


def _tell_plan(ctx: Context, view: View) -> None:
    marks = {plans.DONE: "done", plans.CURRENT: "running", plans.STUCK: "blocked", plans.DROPPED: "cancelled"}
    steps = [LOOKS[marks.get(mark, "ready")] for _, mark, _ in view.plan.marks]
    if not steps or view.plan.verdict == plans.INVALID:
        return
    ascii_only = wants_ascii(ctx.settings)
    drawn = "".join(ctx.out.style(look.mark(ascii_only=ascii_only), look.style) for look in steps[:_PLAN_CELLS])
    more = "" if len(steps) <= _PLAN_CELLS else "…" if not ascii_only else "..."
    ctx.out.line(f"{ctx.out.style('Plan', 'strong')}  {drawn}{more}  {view.plan.done} of {len(steps)} steps done")


def _tell_beginning(ctx: Context, found: Overview | None) -> None:
    program, say = ctx.settings.program, ctx.out.line
    if found is None or not found.items:
        say("No feature is kept here yet.")
        say(_row(ctx, "  Keep a feature's goal, plan and notes between sessions", f"{program} init my-feature"))
        say(_row(ctx, "  See it work in a scratch repository", f"{program} demo"))
    if found is None or not any(found.of(section) for section in ("needs you", "running", "next")):
        say(_row(ctx, "  Write a task down for a session", f"{program} task add ID 'what to do'"))


def _row(ctx: Context, text: str, command: str, *, below: bool = False) -> str:
    """Words and the command they lead to; what does not fit is cut, the command never."""
    width, shown = _width(ctx), ctx.out.style(command, "dim")
    if not command:
        return fit(text, width)
    room = width - columns(command) - 2
    if width == _UNCUT or columns(text) <= room:
        return f"{text}  {shown}"
    if room >= _LEAST_WORDS + columns(text.partition("  ")[0]) and not below:
        return f"{fit(text, room)}  {shown}"
    return f"{fit(text, width)}\n      {shown}"


def _width(ctx: Context) -> int:
    return max(40, terminal_width(ctx.settings)) if ctx.out.person or ctx.settings.get("COLUMNS") else _UNCUT


def columns(text: str) -> int:
    """How many columns a terminal needs for it: wide characters take two, combining ones and our own styles none."""
    return sum(map(_columns, text))


def fit(text: str, room: int) -> str:
    """Cut to what a terminal can show; a style that is cut is ended."""
    if room >= _UNCUT or columns(text) <= room:
        return text
    used, kept, cut = 0, "", False
    for character in text:
        size = _columns(character)
        if size and (cut or used + size > room - 3):
            cut = True
            continue  # only what ends a style is still taken
        used += size
        kept += character
    return kept + "..."[: max(0, room - used)]


def _columns(character: str) -> int:
    if character.isascii():
        return int(character >= " ")
    import unicodedata

    if 0xFDD0 <= ord(character) <= 0xFDEF or unicodedata.combining(character):  # noqa: PLR2004 - marks of our styles
        return 0
    if unicodedata.category(character) in ("Cf", "Cc"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
