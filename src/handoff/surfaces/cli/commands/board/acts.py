"""What each key does. Whatever changes something is one of our own commands, run as a person would run it."""

from __future__ import annotations

import json
import os
import shlex
import tempfile

from handoff.base.clock import time_of_day
from handoff.base.process import pass_through
from handoff.base.record import TYPE_CHECKING
from handoff.engine.clients import review
from handoff.engine.features.overview import RUNNING
from handoff.surfaces.cli.commands.board import keys
from handoff.surfaces.cli.commands.board.review import review_lines
from handoff.surfaces.cli.commands.board.state import LinePrompt, TextPage
from handoff.surfaces.cli.commands.board.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any, Protocol

    from handoff.engine.features.overview import OverviewItem
    from handoff.surfaces.cli.commands.board.state import BoardState

    class Surface(Protocol):
        """What a key needs of the terminal's side."""

        state: BoardState

        @property
        def size(self) -> Any: ...

        def run_words(
            self, words: list[str], *, page: str = "", then: Callable[[int, str], None] | None = None
        ) -> None: ...

        def copy_to_clipboard(self, text: str) -> None: ...

        def suspend(self) -> AbstractContextManager[None]: ...

        def leave(self) -> None: ...


_PAGE = 10


def tell_result(state: BoardState, code: int, text: str, shown: str, page: str) -> None:
    """What a command said: its first line, or all of it on a page."""
    lines = [line for line in text.splitlines() if line.strip()]
    if page or len(lines) > _PAGE:
        state.page = TextPage(page or shown, [(clean(line), "") for line in text.splitlines()])
        state.tell("")
    else:
        hint = next((line for line in lines if line.startswith("Hint: ")), "")
        first = lines[0] if lines else "done"
        state.tell(clean(f"{first} {hint}".strip()), "bad" if code else "good")


def _answering(state: BoardState, item: OverviewItem, *said: str) -> list[str]:
    """The words that answer a gate; what is said stands before options, or it is not understood."""
    label, *where = _words(state, item)
    return ["answer", label, *said, *where]


def _words(state: BoardState, item: OverviewItem, *verb: str) -> list[str]:
    where = ["--project", item.project] if item.project else []
    return [*verb, state.label(item), *where]


def _with_task(act: Callable[[Surface, OverviewItem], None]) -> Callable[[Surface], None]:
    """For acts on a task; on another line they say so."""

    def chosen(app: Surface) -> None:
        item = app.state.item()
        if item is None or not item.key:
            app.state.tell("This line is no task." if item else "Nothing is chosen.", "warn")
        else:
            act(app, item)

    return chosen


def _move(by: int, *, pages: bool = False) -> Callable[[Surface], None]:
    def act(app: Surface) -> None:
        page = app.state.page
        if page is None:
            app.state.move(by * (max(1, app.size.height // 2) if pages else 1))
            app.state.listen()
        elif pages:
            page.page(by)
        else:
            page.move(by)

    return act


def _ends(*, last: bool) -> Callable[[Surface], None]:
    def act(app: Surface) -> None:
        if app.state.page is None:
            app.state.move(10**9 if last else -(10**9))
        else:
            app.state.page.ends(last=last)

    return act


def _open(app: Surface) -> None:
    item = app.state.item()
    if item is None:
        return
    if item.look == "gated":
        _review(app, item, answers=True)
    elif item.section == RUNNING:
        _log(app, item)
    else:
        app.run_words(
            _command_words(app.state, item) if not item.key else _words(app.state, item, "show"), page=item.address
        )


def _command_words(state: BoardState, item: OverviewItem) -> list[str]:
    """The words of the command a line names."""
    program = shlex.split(state.feed.app.settings.program)
    return shlex.split(item.command)[len(program) :]


def _answer(app: Surface) -> None:
    item = app.state.item()
    if item is not None and item.look == "gated":
        _review(app, item, answers=True)
    else:
        app.state.tell("Nothing is asked here.", "warn")


def _review(app: Surface, item: OverviewItem, *, answers: bool = False) -> None:
    found = review.review(app.state.feed.app, key=item.key)
    page = TextPage(
        f"{item.address}: what you decide on" if answers else f"{item.address}: what it changed", [], item=item
    )
    page.lines, page.files = review_lines(found, app.state.feed.facts.question(found.gate) if found.gate else "")
    page.answers = answers
    app.state.page = page


def _yes(app: Surface) -> None:
    page = app.state.page
    if page is not None and page.item is not None:
        app.state.page = None
        app.run_words(_answering(app.state, page.item, "yes"))


def _no(app: Surface) -> None:
    page = app.state.page
    if page is None or page.item is None:
        return
    item = page.item

    def done(reason: str) -> None:
        if reason:
            app.state.page = None
            app.run_words(_answering(app.state, item, "no", reason))

    app.state.prompt = LinePrompt("Why not? (empty: back)", done)


def _edit(app: Surface) -> None:
    page, settings = app.state.page, app.state.feed.app.settings
    editor = settings.get("VISUAL") or settings.get("EDITOR")
    if page is None or page.item is None or not editor:
        app.state.tell("No editor is set: set EDITOR, or answer with: answer TASK edit TEXT.", "warn")
        return
    gate = review.review(app.state.feed.app, key=page.item.key).gate
    with tempfile.TemporaryDirectory(prefix="handoff-") as folder:
        path = os.path.join(folder, "answer.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(gate.subject if gate else "")
        with app.suspend():
            code = pass_through([*shlex.split(editor), path], environment=settings.environment)
        with open(path, encoding="utf-8") as file:
            text = file.read()
    if code or not text.strip():
        app.state.tell("The editor left no text; the gate is as it was.", "warn")
        return
    app.state.page = None
    app.run_words(_answering(app.state, page.item, "edit", text))


def _retry_words(state: BoardState, item: OverviewItem) -> list[str]:
    return _command_words(state, item) if "retry" in item.command else []


def _retry(app: Surface) -> None:
    item = app.state.item()
    words = _retry_words(app.state, item) if item else []
    if words:
        app.run_words(words)
    else:
        app.state.tell("Nothing to retry here: it is not blocked.", "warn")


def _retry_all(app: Surface) -> None:
    row = app.state.row()
    found = [words for item in (row.items if row else ()) if (words := _retry_words(app.state, item))]
    for words in found:
        app.run_words(words)
    if not found:
        app.state.tell("Nothing to retry here: it is not blocked.", "warn")


def _pause(app: Surface, item: OverviewItem) -> None:
    where = ["--project", item.project] if item.project else []
    verb = "resume" if item.look == "paused" else "pause"
    app.run_words([verb, app.state.label(item), *where])


def _cancel(app: Surface, item: OverviewItem) -> None:
    words = _words(app.state, item, "cancel")
    app.state.confirm = (f"cancel {item.address}", lambda: app.run_words(words))
    app.state.tell(f"Take {item.address} back? y, any other key leaves it.", "warn")


def _undo(app: Surface) -> None:
    """What can be taken back, and what taking back the newest would change; y does it."""

    def listed(code: int, text: str) -> None:
        found = json.loads(text)["operations"] if code == 0 else []
        if not found:
            app.state.tell("There is nothing to undo here." if code == 0 else clean(text.strip()), "warn")
            return
        newest = str(found[0]["id"])
        rest = [(f"   {clean(one['time'])}  {clean(one['what'])}", "dim") for one in found[1:]]

        def tried(code: int, text: str) -> None:
            lines = [(f" {clean(found[0]['what'])}", "strong"), ("", "")]
            lines += [(f"   {clean(line)}", "bad" if code else "") for line in text.splitlines()]
            lines += [("", ""), (" Before it, each by: handoff undo ID", "dim"), *rest] if rest else []
            app.state.page = TextPage("what would be taken back", lines)
            if code == 0:
                app.state.confirm = ("undo", lambda: _take_back(app, newest))
                app.state.tell("Take it back? y, any other key leaves it.", "warn")

        app.run_words(["undo", newest, "--dry-run"], then=tried)

    app.run_words(["undo", "--list", "--json"], then=listed)


def _take_back(app: Surface, operation: str) -> None:
    app.state.page = None
    app.run_words(["undo", operation])


def _log(app: Surface, item: OverviewItem) -> None:
    def again() -> list[tuple[str, str]]:
        said = app.state.said_by(item)
        if not said:
            return [
                (" Nothing was heard of it here: it is a person's own session, or works on another machine.", "dim")
            ]
        return [(f" {clean(line)}", "") for line in said]

    page = TextPage(f"{item.address}: {item.agent or 'its session'}", again(), follows=True, item=item)
    page.again = again
    app.state.page = page


def _journal(app: Surface) -> None:
    def again() -> list[tuple[str, str]]:
        return [
            (f" {time_of_day(event.at)}  {event.kind:<18} {clean(event.task_id or event.project)}", "")
            for event in app.state.feed.events
        ]

    page = TextPage("journal", again(), follows=True)
    page.again = again
    app.state.page = page


def _copy(app: Surface) -> None:
    item = app.state.item()
    if item is not None:
        app.copy_to_clipboard(item.command)
        app.state.tell(f"Copied: {item.command}")


def _filter(app: Surface) -> None:
    def done(text: str) -> None:
        app.state.filter = text
        app.state.gather()

    app.state.prompt = LinePrompt("Show only lines with:", done, app.state.filter)


def _command(app: Surface) -> None:
    def done(text: str) -> None:
        try:
            words = shlex.split(text)
        except ValueError as error:
            app.state.tell(f"That is no command line: {error}.", "bad")
            return
        if words:
            app.run_words(words, page=text)

    app.state.prompt = LinePrompt(f"{app.state.feed.app.settings.program}", done)


def _keys(app: Surface) -> None:
    lines = [("", "")]
    for title, where in (("In the list", keys.LIST), ("At a gate", keys.GATE)):
        lines.append((f" {title}", "strong"))
        lines += [
            (f"   {keys.shown(one.key, ascii_only=app.state.ascii_only):<6} {one.meaning}", "")
            for one in keys.KEYS
            if where in one.where and (where == keys.LIST or keys.LIST not in one.where)
        ]
        lines.append(("", ""))
    app.state.page = TextPage("keys", lines)


def _back(app: Surface) -> None:
    if app.state.page is not None:
        app.state.page = None
    elif app.state.filter:
        app.state.filter = ""
        app.state.gather()


def _next_file(app: Surface) -> None:
    page = app.state.page
    if page is not None and page.files:
        page.top = next((start for start in page.files if start > page.top), page.files[0])


def _choose(act: Callable[[BoardState], None]) -> Callable[[Surface], None]:
    def chosen(app: Surface) -> None:
        act(app.state)
        app.state.listen()

    return chosen


ACTS: dict[str, Callable[[Surface], None]] = {
    "open": _open,
    "answer": _answer,
    "retry": _retry,
    "retry_all": _retry_all,
    "pause": _with_task(_pause),
    "log": _with_task(_log),
    "diff": _with_task(_review),
    "cancel": _with_task(_cancel),
    "undo": _undo,
    "next": _choose(lambda state: state.next_need()),
    "journal": _journal,
    "copy": _copy,
    "filter": _filter,
    "command": _command,
    "down": _move(1),
    "up": _move(-1),
    "top": _ends(last=False),
    "end": _ends(last=True),
    "page_down": _move(1, pages=True),
    "page_up": _move(-1, pages=True),
    "column": _choose(lambda state: state.next_section()),
    "yes": _yes,
    "no": _no,
    "edit": _edit,
    "next_file": _next_file,
    "back": _back,
    "keys": _keys,
    "quit": lambda app: app.leave(),
}
