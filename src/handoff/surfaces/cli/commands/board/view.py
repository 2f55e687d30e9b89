"""The board on a terminal: one widget that draws lines, gathers what happens and draws four times a second."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from contextlib import suppress
from functools import partial

from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from handoff.base.errors import HandoffError
from handoff.base.process import run
from handoff.base.record import TYPE_CHECKING
from handoff.engine.features.overview import NEEDS
from handoff.engine.sessions.agent_programs import own_words
from handoff.surfaces.acting import ActResult, on_thread, perform_apart
from handoff.surfaces.cli.commands.board import acts, keys
from handoff.surfaces.cli.commands.board.lines import draw

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

    from textual import events
    from textual.app import ComposeResult

    from handoff.engine.acts import Act
    from handoff.surfaces.cli.commands.board.lines import Line
    from handoff.surfaces.cli.commands.board.state import BoardState

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

    CSS = "Screen { background: ansi_default; } BoardView { width: 1fr; height: 1fr; background: ansi_default; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[Any]] = []

    def __init__(self, state: BoardState, *, colour: bool = True) -> None:
        super().__init__(ansi_color=True)
        self.state = state
        self.view = BoardView(state, colour=colour)
        self.title = "handoff"
        self.leaving: Callable[[], None] | None = None
        """What must be done before the board may end: a supervisor that works behind it is asked to leave."""
        self.over = False
        """Set from outside when there is nothing more to stay for."""
        self._rung = len(state.feed.order[NEEDS])
        self._named = ""
        self._on_terminal = False

    def compose(self) -> ComposeResult:
        yield self.view

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
        needs = len(state.feed.order[NEEDS])
        if needs != self._rung:
            if needs > self._rung:
                self.bell()
            self._rung = needs
        self._name_window(needs)
        self.view.redraw()

    def on_key(self, event: events.Key) -> None:
        event.prevent_default()
        event.stop()
        state = self.state
        if state.prompt is not None:
            self._type(event)
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
        self.view.redraw()

    def on_paste(self, event: events.Paste) -> None:
        if self.state.prompt is not None:
            self.state.prompt.text += event.text.replace("\n", " ")
            self.view.redraw()

    def _type(self, event: events.Key) -> None:
        prompt = self.state.prompt
        assert prompt is not None  # noqa: S101 - asked before
        if event.key in ("escape", "ctrl+c"):
            self.state.prompt = None
        elif event.key == "enter":
            self.state.prompt = None
            prompt.done(prompt.text.strip())
        elif event.key == "backspace":
            prompt.text = prompt.text[:-1]
        elif event.character and event.character.isprintable():
            prompt.text += event.character

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

    def _name_window(self, needs: int) -> None:
        """The window says how many things need the person, also while another one is looked at."""
        text = f"({needs}) handoff" if needs else "handoff"
        if text != self._named and self._driver is not None:
            self._driver.write(("" if self._named else _KEEP_NAME) + f"\x1b]2;{text}\x07")
            self._named = text

    def on_unmount(self) -> None:
        if self._named and self._driver is not None:
            self._driver.write(_OLD_NAME)
