"""The board on a terminal: textual's own widgets, filled anew four times a second with what has changed."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import accumulate, pairwise

from rich.cells import cell_len
from textual.app import App, SuspendNotSupported
from textual.binding import Binding
from textual.containers import Container, Horizontal, VerticalScroll
from textual.content import Content
from textual.style import Style
from textual.visual import Visual
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from handoff.base.clock import age, time_of_day
from handoff.base.errors import HandoffError
from handoff.base.process import pass_through, run
from handoff.base.record import TYPE_CHECKING
from handoff.engine.features.calling import call
from handoff.engine.session.agents import own_words
from handoff.engine.work.overview import LANDED, NEEDS, NEXT, RUNNING, SECTIONS
from handoff.surfaces.acting import ActResult, on_thread, perform_apart
from handoff.surfaces.cli.commands.board import acts
from handoff.surfaces.cli.commands.board.state import ALSO_KEYS, KEYS, clean, cut, key_name, pad, shorten
from handoff.surfaces.vocabulary import (
    BAR,
    BAR_STYLES,
    LOOKS,
    bar_counts,
    cells,
    clock_of,
    finished_words,
    money,
    tally,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, ClassVar

    from textual.app import ComposeResult
    from textual.strip import Strip
    from textual.visual import RenderOptions

    from handoff.engine.work.act import Act
    from handoff.engine.work.overview import BatchProgress
    from handoff.surfaces.cli.commands.board.state import BoardRow, BoardState, StyledLine, TextPage

    Line = list[StyledLine]

EVERY_SECONDS = 0.25
_COMMAND_SECONDS = 600.0
_STYLES = {
    "title": "bold ansi_cyan",
    "good": "ansi_green",
    "warn": "ansi_yellow",
    "bad": "ansi_red",
    "moving": "ansi_cyan",
    "dim": "dim",
    "strong": "bold",
}
_KEEP_NAME, _OLD_NAME = "\x1b[22;2t", "\x1b[23;2t"  # the window's name as it was, put aside and brought back
NARROW, WIDE = 80, 140
"""From so many columns on the words of the chosen line stand below the list, and beside it."""
_LOW = 19
"""A screen of fewer lines has no room for them below the list."""
_BARS = 3


def as_text(*lines: Iterable[StyledLine]) -> Content:
    """Lines of pieces as one text."""
    return Content("\n").join(
        Content.assemble(*((text, _STYLES.get(style, "")) for text, style in line)) for line in lines
    )


def _block(lines: list[StyledLine]) -> Content:
    return as_text(*([(text.removeprefix(" "), style)] for text, style in lines))


class RowVisual(Visual):
    """A row of the list, put into words when it comes into view: of 5,000 few do."""

    def __init__(self, state: BoardState, at: int, height: int) -> None:
        self._state, self._at, self._height = state, at, height

    def render_strips(self, width: int, height: int | None, style: Any, options: RenderOptions) -> list[Strip]:
        """The row as it is now."""
        lines = row_lines(self._state, self._state.rows[self._at], width, card=self._height > 1)
        # A list has no style of its own that is reversed: the chosen row is bold there, and a bar here.
        shown = style + Style(reverse=True) if style.bold else style
        strips = as_text(*lines).render_strips(width, height, shown, options)
        return [strip.adjust_cell_length(width, shown.rich_style) for strip in strips]

    def get_optimal_width(self, rules: Any, container_width: int) -> int:  # noqa: ARG002 - asked by textual
        """All there is."""
        return container_width

    def get_height(self, rules: Any, width: int) -> int:  # noqa: ARG002 - the same
        """One line, or two where there is room."""
        return self._height


class BoardApp(App[None]):
    """The board, until the person leaves."""

    CSS = """
    Screen, Screen * { background: ansi_default; color: ansi_default; scrollbar-size-vertical: 1;
        scrollbar-color: ansi_bright_black; scrollbar-color-hover: ansi_default; scrollbar-color-active: ansi_default;
        scrollbar-background: ansi_default; scrollbar-background-hover: ansi_default; scrollbar-background-active: ansi_default; }
    #top, #bars, #message { height: auto; }
    #head { width: 1fr; }
    #live { width: auto; }
    #body { height: 1fr; }
    #list { height: 1fr; border: none; padding: 0; scrollbar-gutter: stable; }
    OptionList > .option-list--option, OptionList:focus > .option-list--option { padding: 0; }
    OptionList > .option-list--option-disabled { color: ansi_default; }
    OptionList > .option-list--option-highlighted { text-style: bold; color: ansi_default; background: ansi_default; }
    #words, #page { border-top: solid ansi_bright_black; border-title-color: ansi_default; padding: 0 1; }
    #words { height: 33%; min-height: 5; display: none; }
    .-middle.-high #words { display: block; }
    .-wide #body { layout: horizontal; }
    .-wide #list { width: 58%; height: 100%; }
    .-wide #words { width: 1fr; height: 100%; border-left: solid ansi_bright_black; display: block; }
    #page { height: 1fr; }
    #message { padding: 0 1; max-height: 3; }
    #line, #line:focus { height: 1; border: none; padding: 0 1; }
    Input > .input--cursor { background: ansi_white; color: ansi_black; text-style: underline; }
    Footer { width: 1fr; }
    FooterKey .footer-key--key, FooterKey .footer-key--description { background: ansi_default; color: ansi_default; }
    FooterKey .footer-key--description { text-style: dim; }
    FooterKey:last-of-type { dock: right; padding-left: 1; }
    Screen.-ascii * { scrollbar-size-vertical: 0; }
    .-ascii #words, .-ascii #page { border-top: ascii ansi_bright_black; }
    .-wide.-ascii #words { border-left: ascii ansi_bright_black; }
    """
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (NARROW, "-middle"), (WIDE, "-wide")]  # noqa: RUF012 - as textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-low"), (_LOW, "-high")]  # noqa: RUF012 - the same
    BINDINGS: ClassVar[list[Any]] = [
        Binding("ctrl+c,ctrl+q", "act('quit')", show=False, priority=True),
        *(
            Binding(key, f"act({words})", one.word, show=bool(one.word), key_display=one.key, priority=True)
            for one in KEYS
            for key, words in (
                [(number, f"'{one.act}', '{number}'") for number in "123456789"]
                if one.key == "1-9"
                else [(",".join(filter(None, (one.key, ALSO_KEYS.get(one.key)))), f"'{one.act}'")]
            )
        ),
    ]

    def __init__(self, state: BoardState) -> None:
        super().__init__(ansi_color=True)
        self.state = state
        self.list = OptionList(id="list", markup=False)
        self.page = VerticalScroll(id="page", can_focus=False)
        self.words = VerticalScroll(Static(markup=False), id="words", can_focus=False)
        self.line = Input(id="line")
        self.list.can_focus = self.page.display = self.line.display = False
        self._parts = {name: Static(id=name, markup=False) for name in ("head", "live", "bars", "empty", "message")}
        split = Container(self.list, self.words, id="body")
        self.board = Container(self._parts["bars"], self._parts["empty"], split, id="board")
        self._drawn: dict[str, Any] = {}
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
        parts = self._parts
        yield Horizontal(parts["head"], parts["live"], id="top")
        yield self.board
        yield self.page
        yield parts["message"]
        yield self.line
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self.screen.set_class(self.state.ascii_only, "-ascii")
        self.watch(self.list, "highlighted", self._choose, init=False)
        self._on_terminal = not self.is_headless and sys.stdin.isatty()
        self.set_interval(EVERY_SECONDS, self.tick)
        self.call_after_refresh(self.show)
        for number in (signal.SIGTERM, signal.SIGHUP):
            with suppress(NotImplementedError, RuntimeError, ValueError):
                asyncio.get_running_loop().add_signal_handler(number, self.leave)

    def on_resize(self) -> None:
        """The list has other room when its own size has changed."""
        self.call_after_refresh(self.show)

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
            if state.feed.look():
                state.gather()
            state.live = "live"
        except HandoffError as error:
            state.live = "not live:"
            state.tell(error.message, "bad")
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
        self.show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key does something where it belongs, and what is typed into the line is no key."""
        if action != "act":
            return True
        act, state = str(parameters[0]), self.state
        if state.prompt is not None or (act == "back" and state.page is None):
            return act == "back" and bool(state.prompt or state.filter)
        return any(one.act == act and state.where in one.where for one in KEYS)

    def get_key_display(self, binding: Binding) -> str:
        """A key as it is printed on a keyboard."""
        return key_name(binding.key_display or binding.key, ascii_only=self.state.ascii_only)

    def action_act(self, act: str, *words: str) -> None:
        """What the table of keys says."""
        self.state.tell("")
        if self.state.prompt is not None:
            self.state.prompt = None
        else:
            acts.ACTS[act](self, *words)
        self.show()
        if self.state.page is None:  # wherever the wheel has gone
            self.list.scroll_to_highlight()
            if self.state.position() <= 1:
                self.list.scroll_home(animate=False)  # the title above it too

    def on_option_list_option_selected(self) -> None:
        """A click opens a line."""
        self.action_act("open")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Where one key is asked for, it counts as it is typed."""
        if self.state.prompt is not None and self.state.prompt.one_key and event.value == self.line.value != "":
            self._typed(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in the line."""
        self._typed(event.value)

    def _typed(self, text: str) -> None:
        prompt, self.state.prompt = self.state.prompt, None
        if prompt is not None:
            prompt.done(text.strip())
        self.show()

    def _choose(self, at: int | None) -> None:
        if at is not None and at < len(self.state.rows) and self.state.rows[at].name != self.state.chosen:
            self.state.chosen = self.state.rows[at].name
            self._show_words()

    # --- what is known, into the widgets

    def show(self) -> None:
        """Bring every widget up to date; what is as it was is left alone."""
        if not self.is_running or not self.list.is_attached:
            return
        state, size, board = self.state, self.size, self.state.page is None
        self._put("head", [head(state, size.width)])
        self._put("live", [[(f" {state.live} {time_of_day(state.feed.now)} ", "dim")]])
        if board:
            batches = state.feed.batches[:_BARS] if size.height > _LOW // 2 else ()
            self._put("bars", [bar_line(state, batch, size.width) for batch in batches])
            self._put("empty", [] if state.rows else empty_lines(state))
            self._show_list()
            self._show_words()
        else:
            self._show_page()
        self._show_line()
        self.board.display, self.page.display = board, not board
        if self._changed("keys", (state.where, state.prompt, state.filter)):
            self.refresh_bindings()

    def _changed(self, name: str, now: Any) -> bool:
        before, self._drawn[name] = self._drawn.get(name, self), now
        return bool(before != now)

    def _put(self, name: str, lines: list[Line]) -> None:
        if self._changed(name, lines):
            self._parts[name].display = bool(lines)
            self._parts[name].update(as_text(*lines))

    def _show_list(self) -> None:
        rows, top = self.state.rows, self.list.scroll_offset.y
        cards, size = self._cards(), self.list.scrollable_content_region
        heights = [(2 if row.section in cards else 1) if row.items else 0 for row in rows]
        in_view = rows[top : top + size.height]
        shown = [row_lines(self.state, row, size.width, card=row.section in cards) for row in in_view]
        before = self._drawn.get("rows", [])
        if self._changed("heights", heights):
            self.list.set_options(
                Option(RowVisual(self.state, at, height or 1), disabled=not height) for at, height in enumerate(heights)
            )
            self.list.scroll_to(y=top, animate=False, immediate=True)
        elif self._changed("rows", shown):
            self.list._option_render_cache.clear()  # noqa: SLF001 - replacing a prompt measures all 5,000 rows anew
            for at, lines in enumerate(shown):
                if before[at : at + 1] != [lines]:
                    self.list.refresh_lines(top, len(lines))
                top += len(lines)
        self.list.highlighted = self.state.position() if rows else None

    def _cards(self) -> set[str]:
        """The sections whose lines have two lines, as far as there is room."""
        counts = Counter(row.section for row in self.state.rows if row.items)
        room, needed = self.list.size.height - len(self.state.rows), accumulate(counts[one] for one in SECTIONS)
        return {section for section, lines in zip(SECTIONS, needed, strict=True) if lines <= room}

    def _show_words(self) -> None:
        """The last words of the chosen session, or all that is said of the chosen line, with its command."""
        state = self.state
        state.listen()
        item = state.item()
        words = state.last_words if item is not None else []
        lines: list[Line] = [[(clean(text), "")] for text in words]
        if item is not None and not lines:
            lines = [[(clean(state.words_of(item) or LOOKS[item.look].word), "")], [(clean(item.command), "dim")]]
        if self._changed("words", (item and item.address, lines, self.words.size.width)):
            what = "" if item is None else "last words" if item.section == RUNNING else LOOKS[item.look].word
            self.words.border_title = self._title(item.address if item else "", what, self.words.size.width)
            self.words.query_one(Static).update(as_text(*lines))
            if words:
                self.words.scroll_end(animate=False)
            else:
                self.words.scroll_home(animate=False)

    def _title(self, name: str, what: str, room: int) -> Content:
        dot = " - " if self.state.ascii_only else " · "
        room = max(12, room - len(what) - len(dot) - 6)
        return Content(shorten(name, room, ascii_only=self.state.ascii_only) + dot + clean(what) if name else "")

    def _show_page(self) -> None:
        page, box = self.state.page, self.page
        assert page is not None  # noqa: S101 - asked before
        fresh, at_end = self._changed("lines", page.lines), box.is_vertical_scroll_end
        if self._changed("page", page):
            self.call_next(self._open_page, page)
        elif fresh and page.again is not None:
            box.query_one(Static).update(_block(page.lines))
            if at_end:
                box.scroll_end(animate=False)
        page.seen = len(page.lines) if at_end else page.seen
        new, more = len(page.lines) - page.seen, box.max_scroll_y - box.scroll_offset.y
        told = f"{new} new, G" if new > 0 else f"{more} more, G" if more > 0 else "following" if page.again else "end"
        if self._changed("title", (page.title, told, self.size.width)):
            box.border_title = self._title(page.title, told, self.size.width)

    async def _open_page(self, page: TextPage) -> None:
        """Each file of a diff is a widget of its own: only what is in view is drawn."""
        starts = [0, *page.files, len(page.lines)]
        blocks = [page.lines[start:end] for start, end in pairwise(starts)]
        await self.page.remove_children()
        await self.page.mount_all(Static(_block(block), markup=False) for block in blocks)
        if page.again is not None:
            self.page.scroll_end(animate=False)
        else:
            self.page.scroll_home(animate=False)

    def next_file(self) -> None:
        """Of a diff; after the last one the first."""
        files = list(self.page.children)[1:]
        file = next((one for one in files if one.virtual_region.y > self.page.scroll_offset.y), files[0])
        self.page.scroll_to_widget(file, top=True, animate=False)

    def _show_line(self) -> None:
        """The line to type in is there while something is asked, and has the keys."""
        prompt, state = self.state.prompt, self.state
        told = (prompt.label, "strong") if prompt is not None else (state.message, state.message_style)
        self._put("message", [[told]] if told[0] else [])
        self.query_one(Footer).display = not told[0]
        if not self._changed("prompt", prompt):
            return
        self.line.display = prompt is not None
        if prompt is not None:
            self.line.value, self.line.cursor_position = prompt.text, len(prompt.text)
        self.screen.set_focus(None if prompt is None else self.line)

    def leave(self) -> None:
        """End the board; what runs goes on."""
        if self.leaving is not None:
            leaving, self.leaving = self.leaving, None
            self.state.tell("Leaving; agents go on ...")
            self.show()
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


# --- the words of each part


def head(state: BoardState, width: int) -> Line:
    """How much of everything there is, and what it has cost."""
    feed, wide = state.feed, width >= NARROW
    needs, running, landed = (len(feed.order[section]) for section in (NEEDS, RUNNING, LANDED))
    mark = {look: LOOKS[look].mark(ascii_only=state.ascii_only) for look in ("running", "landed", "blocked")}
    line: Line = [(f" {feed.project or 'every project'} ", "title")]
    if wide:
        told = f"{needs} need you" if needs > 1 else "1 needs you" if needs else "nothing needs you"
        line.append((f" {told} ", "warn" if needs else "dim"))
    else:
        asks = sum(item.look == "gated" for item in feed.of(NEEDS))
        line.append((f" ?{asks}", "warn" if asks else "dim"))
        line.append((f" {mark['blocked']}{needs - asks}", "bad" if needs - asks else "dim"))
    line.append((f" {mark['running']}{running}{' running ' if wide else ''}", "moving" if running else "dim"))
    done = finished_words(feed.of(LANDED)) or "0 landed"
    line.append((f" {mark['landed']}{done if wide else landed} ", "good" if landed else "dim"))
    if feed.spent or feed.allowed:
        line.append((f" {money(feed.spent, feed.allowed)}", ""))
    return line


def bar_line(state: BoardState, batch: BatchProgress, width: int) -> Line:
    """How far a batch is."""
    counts = bar_counts(batch.counts)
    name = batch.id if state.feed.project else f"{batch.project}/{batch.id}"
    size = max(8, min(30, width // 8))
    line: Line = [(f" {shorten(name, 24, ascii_only=state.ascii_only)}  ", "")]
    line += [(BAR[kind][state.ascii_only] * number, BAR_STYLES[kind]) for kind, number in cells(counts, size).items()]
    used = sum(cell_len(text) for text, _ in line)
    return [*line, (f"  {cut(tally(counts), width - used - 3)}", "dim")]


def empty_lines(state: BoardState) -> list[Line]:
    """What there is to do where there is nothing."""
    if state.filter:
        return [[], [(f" Nothing has the words '{state.filter}'. esc shows all.", "dim")]]
    program = state.feed.app.settings.program
    lines: list[Line] = [[], [(" Nothing waits, nothing runs.", "strong")], []]
    lines.append([(" Give it work:   ", ""), (f"{program} task add ID 'what to do' --check 'pytest'", "dim")])
    if not state.feed.facts.supervisors:
        lines.append([(" Let it work:    ", ""), (f"{program} work --agent NAME", "dim")])
    return lines


def row_lines(state: BoardState, row: BoardRow, width: int, *, card: bool) -> list[Line]:
    """A section's title; or of a task its name, since when and what is said of it, on a second line where there is room."""
    if not row.items:
        folder = cut(row.folder, max(0, width - len(row.title) - 3))
        return [[(f" {row.title}", "warn" if row.section == NEEDS else "strong"), (f"  {folder}", "dim")]]
    item, look, running = row.items[0], LOOKS[row.items[0].look], row.section == RUNNING
    since = state.feed.now - item.at
    when = clock_of(since) if running else age(since)
    words = state.words_of(item) or ("" if item.section in (RUNNING, LANDED) and not card else look.word)
    words = f"{look.word}, not landed yet: {words}" if item.look == "green" else words
    words = f"{look.word}: {words}" if item.look == "undone" else words
    facts = [f"try {item.attempt}" if item.attempt > 1 else "", f"${item.money:.2f}" if item.money else ""]
    mark = (f" {look.mark(ascii_only=state.ascii_only)} ", look.style)
    style = "dim" if item.look in ("waiting", "cancelled") else ""
    if card:
        beside = " ".join(filter(None, (item.agent if running else "", *facts, when)))
        wide = max(6, width - len(beside) - 5)
        name = pad(shorten(row.shown, wide, ascii_only=state.ascii_only), wide)
        return [[mark, (f"{name} {beside}", style)], [(f"   {cut(words, width - 4)}", "dim")]]
    wide = min(max(14, width // 3), 48)
    text = f"{pad(shorten(row.shown, wide, ascii_only=state.ascii_only), wide)} {when:>7}"
    if running and width >= NARROW:
        text = "  ".join(filter(None, (text, pad(cut(item.agent or "a session", 9), 9), *facts)))
    return [[mark, (cut(f"{text}  {words}", width - 4), style)]]
