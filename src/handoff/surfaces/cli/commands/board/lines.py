"""Drawing the board: from what is known to styled lines of a given width, without a terminal."""

from __future__ import annotations

import textwrap

from rich.cells import cell_len

from handoff.base.clock import age, time_of_day
from handoff.base.record import TYPE_CHECKING
from handoff.engine.features.overview import LANDED, NEEDS, NEXT, RUNNING, SECTIONS
from handoff.surfaces.cli.commands.board import keys
from handoff.surfaces.cli.commands.board.text import cut, pad
from handoff.surfaces.vocabulary import BAR, BAR_STYLES, LOOKS, bar_counts, cells, clock_of, tally

if TYPE_CHECKING:
    from handoff.engine.features.overview import BatchProgress
    from handoff.surfaces.cli.commands.board.state import BoardRow, BoardState

    Line = list[tuple[str, str]]

NARROW, WIDE = 80, 140
_BARS = 3
_LEAST_LIST = 8
_COLUMNS = ((NEEDS, 32), (RUNNING, 30), (NEXT, 18), (LANDED, 20))
"""The sections side by side, each with its share of a wide screen."""


def draw(state: BoardState, width: int, height: int) -> list[Line]:
    """The whole screen."""
    body = _page(state, width, height - 2) if state.page is not None else _board(state, width, height - 2)
    foot = _foot(state, width)
    room = max(0, height - 2)
    return [_head(state, width), *[*body, *([[]] * room)][:room], foot][:height]


def _head(state: BoardState, width: int) -> Line:
    feed, plain = state.feed, state.ascii_only
    counts = {section: len(feed.order[section]) for section in SECTIONS}
    needs = counts[NEEDS]
    line: Line = [(f" {feed.project or 'every project'} ", "title")]
    if width >= NARROW:
        line.append(
            (
                f" {needs} need you " if needs > 1 else " 1 needs you " if needs else " nothing needs you ",
                "warn" if needs else "dim",
            )
        )
        line.append(
            (
                f" {LOOKS['running'].mark(ascii_only=plain)}{counts[RUNNING]} running ",
                "moving" if counts[RUNNING] else "dim",
            )
        )
        line.append(
            (f" {LOOKS['landed'].mark(ascii_only=plain)}{counts[LANDED]} landed ", "good" if counts[LANDED] else "dim")
        )
    else:
        asks = sum(item.look == "gated" for item in feed.of(NEEDS))
        line.append((f" ?{asks}", "warn" if asks else "dim"))
        line.append((f" {LOOKS['blocked'].mark(ascii_only=plain)}{needs - asks}", "bad" if needs - asks else "dim"))
        line.append((f" {LOOKS['running'].mark(ascii_only=plain)}{counts[RUNNING]}", "moving"))
        line.append((f" {LOOKS['landed'].mark(ascii_only=plain)}{counts[LANDED]} ", "good"))
    if feed.spent or feed.allowed:
        line.append((f" ${feed.spent:.2f}" + (f" of ${feed.allowed:g}" if feed.allowed else ""), ""))
    right = f"{state.live} {time_of_day(feed.now)} "
    room = width - sum(len(text) for text, _ in line) - len(right)
    return [*line, (" " * room, ""), (right, "dim")] if room > 0 else line


def _board(state: BoardState, width: int, height: int) -> list[Line]:
    bars = [_bar(state, batch, width) for batch in state.feed.batches[:_BARS]] if height > _LEAST_LIST else []
    height -= len(bars)
    if not state.rows:
        body = _empty(state)
    elif width >= WIDE:
        pane = height // 3 if height > 2 * _LEAST_LIST else 0
        body = _columns(state, width, height - pane)
        body += _pane(state, width, pane)
    elif width >= NARROW and height > 2 * _LEAST_LIST:
        pane = max(5, height // 3)
        body = _list(state, width, height - pane)
        body += _pane(state, width, pane)
    else:
        body = _list(state, width, height)
    return [*bars, *body, *([[]] * height)][: height + len(bars)]


def _bar(state: BoardState, batch: BatchProgress, width: int) -> Line:
    counts = bar_counts(batch.counts)
    name = batch.id if state.feed.project else f"{batch.project}/{batch.id}"
    size = max(8, min(30, width // 4))
    line: Line = [(f" {cut(name, 20)}  ", "")]
    line += [(BAR[kind][state.ascii_only] * number, BAR_STYLES[kind]) for kind, number in cells(counts, size).items()]
    used = sum(cell_len(text) for text, _ in line)
    return [*line, (f"  {cut(tally(counts), width - used - 3)}", "dim")]


def _empty(state: BoardState) -> list[Line]:
    if state.filter:
        return [[("", "")], [(f" Nothing has the words '{state.filter}'. esc shows all.", "dim")]]
    program = state.feed.app.settings.program
    lines: list[Line] = [[("", "")], [(" Nothing waits, nothing runs.", "strong")], [("", "")]]
    lines.append([(" Give it work:   ", ""), (f"{program} task add ID 'what to do' --check 'pytest'", "dim")])
    if not state.feed.facts.supervisors:
        lines.append([(" Let it work:    ", ""), (f"{program} work --agent NAME", "dim")])
    return lines


def _list(state: BoardState, width: int, height: int) -> list[Line]:
    at = state.position()
    top = state.scroll("", at, height, len(state.rows))
    return [_row(state, row, width) for row in state.rows[top : top + height]] + [[]] * max(0, height - len(state.rows))


def _row(state: BoardState, row: BoardRow, width: int) -> Line:
    if not row.items:
        return [(f" {row.title}", "warn" if row.section == NEEDS else "strong")]
    return _item(state, row, width)


def _item(state: BoardState, row: BoardRow, width: int) -> Line:
    item, chosen = row.items[0], row.name == state.chosen
    look = LOOKS[item.look]
    names = item.address if len(row.items) == 1 else f"{item.address} and {len(row.items) - 1} more"
    wide = min(max(14, width // 4), 36)
    since = state.feed.now - item.at
    when = clock_of(since) if item.section == RUNNING else age(since)
    text = f" {pad(cut(names, wide), wide)} {when:>7}"
    if width >= NARROW and item.section == RUNNING:
        text += f"  {pad(cut(item.agent or 'a session', 9), 9)}"
        text += f"  try {item.attempt}" if item.attempt > 1 else ""
        text += f"  ${item.money:.2f}" if item.money else ""
    words = state.words_of(item) or ("" if item.section in (RUNNING, LANDED) else look.word)
    words = f"{look.word}, not landed yet: {words}" if item.look == "green" else words
    words = f"{look.word}: {words}" if item.look == "undone" else words
    rest = cut(f"{text}  {words}", width - 3)
    style = "chosen" if chosen else "dim" if item.look in ("waiting", "cancelled") else ""
    return [(" ", style), (look.mark(ascii_only=state.ascii_only), style or look.style), (pad(rest, width - 2), style)]


def _columns(state: BoardState, width: int, height: int) -> list[Line]:
    """The sections side by side, two lines for each item."""
    found: list[list[Line]] = []
    for number, (section, share) in enumerate(_COLUMNS):
        room = (
            width * share // 100 - 2
            if number < len(_COLUMNS) - 1
            else width - sum(width * part // 100 for _, part in _COLUMNS[:-1]) - 1
        )
        rows = [row for row in state.rows if row.section == section and row.items]
        title = next((row.title for row in state.rows if row.section == section and not row.items), section.upper())
        lines: list[Line] = [[(pad(f" {title}", room), "warn" if section == NEEDS and rows else "strong")]]
        fit = max(1, (height - 1) // 2)
        at = next((place for place, row in enumerate(rows) if row.name == state.chosen), -1)
        top = state.scroll(section, at, fit, len(rows))
        for row in rows[top : top + fit]:
            lines += _card(state, row, room)
        found.append([*lines, *([[(" " * room, "")]] * height)][:height])
    split = ("|" if state.ascii_only else "│", "dim")
    return [
        [piece for number, column in enumerate(found) for piece in (*([split] if number else []), *column[y])]
        for y in range(height)
    ]


def _card(state: BoardState, row: BoardRow, room: int) -> list[Line]:
    item = row.items[0]
    look, since = LOOKS[item.look], state.feed.now - item.at
    when = clock_of(since) if item.section == RUNNING else age(since)
    beside = " ".join(
        part
        for part in (item.agent if item.section == RUNNING else "", when, f"${item.money:.2f}" if item.money else "")
        if part
    )
    names = item.address if len(row.items) == 1 else f"{item.address} and {len(row.items) - 1} more"
    first = f" {pad(cut(names, max(6, room - len(beside) - 5)), max(6, room - len(beside) - 4))}{beside}"
    style = "chosen" if row.name == state.chosen else ""
    words = state.words_of(item) or look.word
    return [
        [
            (" ", style),
            (look.mark(ascii_only=state.ascii_only), style or look.style),
            (pad(cut(first, room - 2), room - 2), style),
        ],
        [(pad(f"   {cut(words, room - 4)}", room), "dim")],
    ]


def _pane(state: BoardState, width: int, height: int) -> list[Line]:
    """The last words of the chosen session, or all that is said of the chosen line, with its command."""
    if height < 2:  # noqa: PLR2004 - a title and one line
        return []
    rule = "-" if state.ascii_only else "─"
    item = state.item()
    if item is None:
        return [[]] * height
    what = "last words" if item.section == RUNNING else LOOKS[item.look].word
    title = f" {rule} {item.address} {'-' if state.ascii_only else '·'} {what} "
    lines: list[Line] = [[(title + rule * max(0, width - len(title)), "dim")]]
    body: list[Line] = []
    if item.section == RUNNING:
        body = [[(f" {cut(text, width - 2)}", "")] for text in state.last_words[-(height - 1) :]]
    if not body:
        words = state.words_of(item) or LOOKS[item.look].word
        body = [[(f" {text}", "")] for text in textwrap.wrap(words, max(20, width - 2))[: height - 2]]
        body.append([(f" {cut(item.command, width - 2)}", "dim")])
    return [*lines, *body, *([[]] * height)][:height]


def _page(state: BoardState, width: int, height: int) -> list[Line]:
    page = state.page
    assert page is not None  # noqa: S101 - asked before
    top = page.place(height - 1)
    shown: list[Line] = [[(cut(text, width - 1), style)] for text, style in page.lines[top : top + height - 1]]
    more = len(page.lines) - top - height + 1
    if more > 0:
        told = f"{more} more, G" if page.fresh <= 0 else f"{page.fresh} new, G"
    else:
        told = "following" if page.follows else "end"
    title = f" {page.title}"
    gap = max(1, width - len(title) - len(told) - 1)
    return [[(cut(title, width - len(told) - 2) + " " * gap, "strong"), (told, "dim")], *shown]


def _foot(state: BoardState, width: int) -> Line:
    if state.prompt is not None:
        return [(cut(f" {state.prompt.label} {state.prompt.text}", width - 1), "strong"), (" ", "chosen")]
    if state.message:
        return [(cut(f" {state.message}", width), state.message_style)]
    *first, keys_key, quit_key = keys.footer(state.where, ascii_only=state.ascii_only)
    room = width - sum(len(key) + len(word) + 3 for key, word in (keys_key, quit_key))
    kept = []
    for key, word in first:
        room -= len(key) + len(word) + 3
        if room < 0:
            break
        kept.append((key, word))
    pairs = [*kept, keys_key, quit_key]
    return [piece for key, word in pairs for piece in ((f" {key}", "strong"), (f" {word} ", "dim"))]
