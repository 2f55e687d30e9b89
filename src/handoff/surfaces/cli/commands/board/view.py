"""The board on a terminal: one widget that draws lines, gathers what happens and draws four times a second."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from contextlib import suppress
from functools import partial

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.app import App, SuspendNotSupported
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from handoff.base.clock import age, time_of_day
from handoff.base.errors import HandoffError
from handoff.base.process import pass_through, run
from handoff.base.record import TYPE_CHECKING
from handoff.engine.features.calling import call
from handoff.engine.session.agent_programs import own_words
from handoff.engine.work.overview import LANDED, NEEDS, NEXT, RUNNING, SECTIONS
from handoff.surfaces.acting import ActResult, on_thread, perform_apart
from handoff.surfaces.cli.commands.board import acts, keys
from handoff.surfaces.cli.commands.board.text import clean, cut, pad, shorten, wrap
from handoff.surfaces.vocabulary import BAR, BAR_STYLES, LOOKS, bar_counts, cells, clock_of, finished_words, tally

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

    from textual import events
    from textual.app import ComposeResult

    from handoff.engine.work.act import Act
    from handoff.engine.work.overview import BatchProgress
    from handoff.surfaces.cli.commands.board.state import BoardRow, BoardState, LinePrompt

    Line = list[tuple[str, str]]

EVERY_SECONDS = 0.25
_COMMAND_SECONDS = 600.0
_COLOURS = {
    "title": Style(bold=True, color="cyan"),
    "good": Style(color="green"),
    "warn": Style(color="yellow"),
    "bad": Style(color="red"),
    "moving": Style(color="cyan"),
    "dim": Style(dim=True),
    "strong": Style(bold=True),
    "chosen": Style(reverse=True),
}
_KEEP_NAME, _OLD_NAME = "\x1b[22;2t", "\x1b[23;2t"  # the window's name as it was, put aside and brought back
_PLAIN = {name: Style(bold=style.bold, dim=style.dim, reverse=style.reverse) for name, style in _COLOURS.items()}


class BoardView(Widget):
    """Lines of text; only those that have changed are drawn anew."""

    can_focus = True

    def __init__(self, state: BoardState, *, colour: bool) -> None:
        super().__init__()
        self._state, self._styles = state, _COLOURS if colour else _PLAIN
        self._lines: list[Line] = []

    def redraw(self) -> None:
        """Draw what there is now."""
        fresh = draw(self._state, self.size.width, self.size.height)
        old, self._lines = self._lines, fresh
        if len(old) != len(fresh):
            self.refresh()
            return
        changed = [Region(0, y, self.size.width, 1) for y, line in enumerate(fresh) if old[y] != line]
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        """One line; a piece without a style would stop the terminal's filter for NO_COLOR."""
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width, Style())
        pieces = [Segment(text, self._styles.get(style, Style())) for text, style in self._lines[y] if text]
        return Strip(pieces).adjust_cell_length(width, Style())

    def on_resize(self) -> None:
        self._lines = []
        self.redraw()


class BoardApp(App[None]):
    """The board, until the person leaves."""

    CSS = """
    Screen { background: ansi_default; }
    BoardView { width: 1fr; height: 1fr; background: ansi_default; }
    Input, Input:focus { dock: bottom; height: 1; border: none; padding: 0 1; background: ansi_default; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[Any]] = []

    def __init__(self, state: BoardState, *, colour: bool = True) -> None:
        super().__init__(ansi_color=True)
        self.state = state
        self.view = BoardView(state, colour=colour)
        self.line = Input()
        self.line.display = False
        self._asked: LinePrompt | None = None
        self.title = "handoff"
        self.leaving: Callable[[], None] | None = None
        """What must be done before the board may end: a supervisor that works behind it is asked to leave."""
        self.over = False
        """Set from outside when there is nothing more to stay for."""
        self._rung = len(state.feed.order[NEEDS])
        self._left = 0
        self._named = ""
        self._on_terminal = False

    def compose(self) -> ComposeResult:
        yield self.view
        yield self.line

    def on_mount(self) -> None:
        self.view.focus()
        self._on_terminal = not self.is_headless and sys.stdin.isatty()
        self.set_interval(EVERY_SECONDS, self.tick)
        for number in (signal.SIGTERM, signal.SIGHUP):
            with suppress(NotImplementedError, RuntimeError, ValueError):
                asyncio.get_running_loop().add_signal_handler(number, self.leave)

    def tick(self) -> None:
        """Gather what has happened, then draw."""
        state = self.state
        if self.over:
            self.exit()
            return
        if self._on_terminal and not sys.stdin.isatty():
            self.leave()  # the window is gone and no signal came: reading from it would never end
            return
        try:
            state.feed.look()
            state.live = "live"
        except HandoffError as error:
            state.live = "not live:"
            state.tell(error.message, "bad")
        state.gather()
        state.listen()
        state.age_message()
        if state.page is not None and state.page.again is not None:
            state.page.lines = state.page.again()
        needs, left = len(state.feed.order[NEEDS]), len(state.feed.order[RUNNING]) + len(state.feed.order[NEXT])
        if needs > self._rung:
            self._ring(f"{state.feed.of(NEEDS)[0].address} needs you." if needs == 1 else f"{needs} things need you.")
        elif self._left and not left and not needs:
            self._ring("All is done.")
        self._rung, self._left = needs, left
        self._name_window(needs)
        self.view.redraw()

    def on_key(self, event: events.Key) -> None:
        state = self.state
        if state.prompt is not None and event.key not in ("escape", "ctrl+c", "enter") and not event.is_printable:
            return  # it moves in the line
        event.prevent_default()
        event.stop()
        if state.prompt is not None and event.key == "enter":
            self._typed(self.line.value)
        elif state.prompt is not None and event.is_printable:  # typed faster than the line was there
            self.line.insert_text_at_cursor(event.character or "")
        elif state.prompt is not None:
            state.prompt = None
        elif state.confirm is not None:
            words, run = state.confirm
            state.confirm = None
            state.tell("" if event.character == "y" else f"Left as it was: {words}")
            if event.character == "y":
                run()
        else:
            state.tell("")
            state.typed = event.character or ""
            act = keys.act_of(event.key, event.character, state.where)
            if act:
                acts.ACTS[act](self)
        self._show_line()
        self.view.redraw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in the line."""
        self._typed(event.value)

    def _typed(self, text: str) -> None:
        prompt, self.state.prompt = self.state.prompt, None
        if prompt is not None:
            prompt.done(text.strip())
        self._show_line()
        self.view.redraw()

    def _show_line(self) -> None:
        """The line to type in is there while something is asked, and has the keys."""
        prompt = self.state.prompt
        if prompt is self._asked:
            return
        self._asked, self.line.display = prompt, prompt is not None
        if prompt is not None:
            self.line.value, self.line.cursor_position = prompt.text, len(prompt.text)
        self.screen.set_focus(self.view if prompt is None else self.line)

    def action_help_quit(self) -> None:
        """Ctrl-C leaves, as everywhere."""
        self.leave()

    def leave(self) -> None:
        """End the board; what runs goes on."""
        if self.leaving is not None:
            leaving, self.leaving = self.leaving, None
            self.state.tell("Leaving; agents go on ...")
            self.view.redraw()
            leaving()
        else:
            self.exit()

    def perform(self, act: Act, *, then: Callable[[ActResult], None] | None = None) -> None:
        """Do an act and tell what came of it: in one line, on a page where it is long, or as `then` does."""
        settings = self.state.feed.app.settings
        self._after(act.line(settings.program), partial(perform_apart, settings, act), then or self._tell)

    def run_command(self, words: list[str], *, page: str) -> None:
        """Run a command line as the person would type it, and show what it printed on a page."""
        settings = self.state.feed.app.settings
        shown = shlex.join([settings.program, *words])
        environment = {**settings.environment, "NO_COLOR": "1"}

        def printed() -> ActResult:
            argv = [*own_words(), *words]
            done = run(argv, environment=environment, cwd=settings.here, timeout=_COMMAND_SECONDS, merge=True)
            return ActResult(shown, done.code, done.text)

        self._after(shown, printed, partial(self._tell, page=page))

    def lend_terminal(self, words: list[str]) -> bool:
        """Give the terminal to a command of ours until it ends; False where the board has none to give."""
        settings = self.state.feed.app.settings
        try:
            with self.suspend():
                pass_through([*own_words(), *words], environment=settings.environment, cwd=settings.here)
        except SuspendNotSupported:
            return False
        return True

    def _after(self, shown: str, call: Callable[[], ActResult], then: Callable[[ActResult], None]) -> None:
        async def work() -> None:
            try:
                then(await on_thread(call))
            except HandoffError as error:
                self.state.tell(error.message, "bad")
            self.tick()

        self.state.tell(shown, "dim")
        self.run_worker(work(), exclusive=False)

    def _tell(self, result: ActResult, page: str = "") -> None:
        acts.tell_result(self.state, result, page)

    def _ring(self, text: str) -> None:
        if self._driver is not None and self._on_terminal:
            self._driver.write(call(self.state.feed.app, text))

    def _name_window(self, needs: int) -> None:
        """The window says how many things need the person, also while another one is looked at."""
        text = f"({needs}) handoff" if needs else "handoff"
        if text != self._named and self._driver is not None:
            self._driver.write(("" if self._named else _KEEP_NAME) + f"\x1b]2;{text}\x07")
            self._named = text

    def on_unmount(self) -> None:
        if self._named and self._driver is not None:
            self._driver.write(_OLD_NAME)


# --- Drawing the board: from what is known to styled lines of a given width, without a terminal

NARROW, WIDE = 80, 140
_BARS = 3
_LEAST_LIST = 8
_LEFT = 58
"""The share of a wide screen that the list has; the rest is for the words of the chosen line."""


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
            (
                f" {LOOKS['landed'].mark(ascii_only=plain)}{finished_words(feed.of(LANDED)) or '0 landed'} ",
                "good" if counts[LANDED] else "dim",
            )
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
        left = width * _LEFT // 100
        words = _pane(state, width - left - 2, height)
        split = [("|" if state.ascii_only else "│", "dim"), (" ", "")]
        rows = zip(_list(state, left, height), words, strict=False)
        body = [[*_filled(line, left), *split, *beside] for line, beside in rows]
    elif width >= NARROW and height > 2 * _LEAST_LIST:
        pane = max(5, height // 3)
        body = _list(state, width, height - pane)
        body += _pane(state, width, pane)
    else:
        body = _list(state, width, height)
    return [*bars, *body, *([[]] * height)][: height + len(bars)]


def _filled(line: Line, width: int) -> Line:
    return [*line, (" " * max(0, width - sum(cell_len(text) for text, _ in line)), "")]


def _bar(state: BoardState, batch: BatchProgress, width: int) -> Line:
    counts = bar_counts(batch.counts)
    name = batch.id if state.feed.project else f"{batch.project}/{batch.id}"
    size = max(8, min(30, width // 8))
    line: Line = [(f" {shorten(name, 24, ascii_only=state.ascii_only)}  ", "")]
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
    room, wide = height - len(state.rows), set()
    for section in SECTIONS:  # two lines an item, as far as there is room
        room -= sum(bool(row.items) for row in state.rows if row.section == section)
        if room >= 0:
            wide.add(section)
    if wide:
        lines: list[Line] = []
        for row in state.rows:
            lines += _card(state, row, width) if row.items and row.section in wide else [_row(state, row, width)]
        return lines + [[]] * (height - len(lines))
    at = state.position()
    top = state.scroll("", at, height, len(state.rows))
    return [_row(state, row, width) for row in state.rows[top : top + height]] + [[]] * max(0, height - len(state.rows))


def _row(state: BoardState, row: BoardRow, width: int) -> Line:
    if not row.items:
        folder = [(f"  {cut(row.shown, max(0, width - len(row.title) - 3))}", "dim")] if row.shown else []
        return [(f" {row.title}", "warn" if row.section == NEEDS else "strong"), *folder]
    return _item(state, row, width)


def _item(state: BoardState, row: BoardRow, width: int) -> Line:
    item, chosen = row.items[0], row.name == state.chosen
    look = LOOKS[item.look]
    wide = min(max(14, width // 3), 48)
    since = state.feed.now - item.at
    when = clock_of(since) if item.section == RUNNING else age(since)
    text = f" {pad(shorten(row.shown, wide, ascii_only=state.ascii_only), wide)} {when:>7}"
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


def _card(state: BoardState, row: BoardRow, room: int) -> list[Line]:
    item = row.items[0]
    look, since = LOOKS[item.look], state.feed.now - item.at
    when = clock_of(since) if item.section == RUNNING else age(since)
    beside = " ".join(
        part
        for part in (
            item.agent if item.section == RUNNING else "",
            f"try {item.attempt}" if item.attempt > 1 else "",
            when,
            f"${item.money:.2f}" if item.money else "",
        )
        if part
    )
    wide = max(6, room - len(beside) - 5)
    first = f" {pad(shorten(row.shown, wide, ascii_only=state.ascii_only), wide + 1)}{beside}"
    style = "chosen" if row.name == state.chosen else ""
    words = state.words_of(item) or look.word
    words = f"{look.word}, not landed yet: {words}" if item.look == "green" else words
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
        said = [piece for text in state.last_words[-(height - 1) :] for piece in wrap(clean(text), width - 2)]
        body = [[(f" {text}", "")] for text in said[-(height - 1) :]]
    if not body:
        words = state.words_of(item) or LOOKS[item.look].word
        body = [[(f" {text}", "")] for text in wrap(clean(words), max(20, width - 2))[: height - 2]]
        body += [[(f" {text}", "dim")] for text in wrap(clean(item.command), width - 2)]
    return [*lines, *body, *([[]] * height)][:height]


def _page(state: BoardState, width: int, height: int) -> list[Line]:
    page = state.page
    assert page is not None  # noqa: S101 - asked before
    top = page.place(width - 1, height - 1)
    shown: list[Line] = [[(text, style)] for text, style in page.laid[top : top + height - 1]]
    more = len(page.laid) - top - height + 1
    if more > 0:
        told = f"{more} more, G" if page.fresh <= 0 else f"{page.fresh} new, G"
    else:
        told = "following" if page.follows else "end"
    title = f" {page.title}"
    gap = max(1, width - len(title) - len(told) - 1)
    return [[(cut(title, width - len(told) - 2) + " " * gap, "strong"), (told, "dim")], *shown]


def _foot(state: BoardState, width: int) -> Line:
    if state.prompt is not None:
        return [(cut(f" {state.prompt.label}", width - 1), "strong")]
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
