"""What each key does. Whatever changes something is an act, shown as the command line that does the same."""

from __future__ import annotations

import os
import shlex
import tempfile

from handoff.base.clock import stamp, time_of_day
from handoff.base.process import pass_through
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import wording
from handoff.engine.safety.snapshots import open_snapshot_store
from handoff.engine.work import review
from handoff.engine.work.act import Act
from handoff.engine.work.acts.landing import operations
from handoff.engine.work.overview import RUNNING
from handoff.surfaces.cli.commands.board.state import GATE, KEYS, LIST, LinePrompt, TextPage, clean, key_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager
    from typing import Any, Protocol

    from handoff.engine.work.overview import OverviewItem
    from handoff.engine.work.review import TaskReview
    from handoff.surfaces.acting import ActResult
    from handoff.surfaces.cli.commands.board.state import BoardState

    class Surface(Protocol):
        """What a key needs of the terminal's side."""

        state: BoardState
        list: Any
        page: Any

        def next_file(self) -> None: ...
        def perform(self, act: Act, *, then: Callable[[ActResult], None] | None = None) -> None: ...
        def run_command(self, words: list[str], *, page: str) -> None: ...
        def copy_to_clipboard(self, text: str) -> None: ...
        def suspend(self) -> AbstractContextManager[None]: ...
        def lend_terminal(self, words: list[str]) -> bool: ...
        def leave(self) -> None: ...


_PAGE = 10


def tell_result(state: BoardState, result: ActResult, page: str) -> None:
    """What an act or a command reported: its first line, or all of it on a page."""
    lines = [line for line in result.text.splitlines() if line.strip()]
    if page or len(lines) > _PAGE:
        state.page = TextPage(page or result.command, [(clean(line), "") for line in result.text.splitlines()])
        state.tell("")
    else:
        hint = next((line for line in lines if line.startswith("Hint: ")), "")
        first = lines[0] if lines else "done"
        state.tell(clean(f"{first} {hint}".strip()), "bad" if result.code else "good")


def _act(app: Surface, item: OverviewItem, verb: str, *words: str, **options: str) -> Act:
    return Act(verb, (app.state.label(item), *words), options, item.project)


def _with_task(act: Callable[[Surface, OverviewItem], None]) -> Callable[[Surface], None]:
    """For acts on a task; on another line they say so."""

    def chosen(app: Surface) -> None:
        item = app.state.item()
        if item is None or not item.key:
            app.state.tell("This line is no task." if item else "Nothing is chosen.", "warn")
        else:
            act(app, item)

    return chosen


def _move(in_list: str, on_page: str) -> Callable[[Surface], None]:
    """What the widgets do by themselves: of the list to its cursor, of a page to its place."""

    def act(app: Surface) -> None:
        if app.state.page is None:
            getattr(app.list, f"action_{in_list}")()
        else:
            getattr(app.page, f"scroll_{on_page}")(animate=False)

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
        where = ["--project", item.project] if item.project else []
        shown = ["show", app.state.label(item), *where] if item.key else _command_words(app.state, item)
        app.run_command(shown, page=item.address)


def _command_words(state: BoardState, item: OverviewItem) -> list[str]:
    """The words of the command a line names."""
    program = shlex.split(state.feed.app.settings.program)
    return shlex.split(item.command)[len(program) :]


def _answer(app: Surface) -> None:
    item = app.state.item()
    if item is not None and item.look == "gated":
        _review(app, item, answers=True)
    else:
        app.state.tell("There is no question here.", "warn")


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
        app.perform(_act(app, page.item, "answer", "yes"))


def _say(app: Surface) -> None:
    page = app.state.page
    if page is None or page.item is None:
        return
    item = page.item

    def done(text: str) -> None:
        if text:
            app.state.page = None
            app.perform(_act(app, item, "answer", text))

    app.state.prompt = LinePrompt("Your answer (empty: back)", done)


def _choice(app: Surface, number: str) -> None:
    item = app.state.page.item if app.state.page is not None else None
    gate = app.state.feed.facts.gates.get(item.key) if item is not None else None
    if item is None or gate is None or int(number) > len(gate.offered):
        app.state.tell("No offered answer has this number.", "warn")
        return
    app.state.page = None
    app.perform(_act(app, item, "answer", gate.offered[int(number) - 1]))


def _no(app: Surface) -> None:
    page = app.state.page
    if page is None or page.item is None:
        return
    item = page.item

    def done(reason: str) -> None:
        if reason:
            app.state.page = None
            app.perform(_act(app, item, "answer", "no", reason=reason))

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
    app.perform(_act(app, page.item, "answer", "edit", text=text))


def _retried(app: Surface, item: OverviewItem) -> Act | None:
    """The act of the command a blocked line names: it tries a task, a flow or an agent again."""
    verb, *rest = _command_words(app.state, item)
    if verb == "agent" and rest[:1] == ["retry"]:
        return Act("agent retry", (rest[1],))
    project = rest[-1] if "--project" in rest else ""
    return Act("retry", (rest[0],), {}, project) if verb == "retry" else None


def _retry_these(app: Surface, items: Iterable[OverviewItem]) -> None:
    found = [act for item in items if (act := _retried(app, item))]
    for act in found:
        app.perform(act)
    if not found:
        app.state.tell("Nothing to retry here: it is not blocked.", "warn")


def _retry(app: Surface) -> None:
    item = app.state.item()
    _retry_these(app, [item] if item else [])


def _retry_all(app: Surface) -> None:
    row = app.state.row()
    _retry_these(app, row.items if row else ())


def _pause(app: Surface, item: OverviewItem) -> None:
    app.perform(_act(app, item, "resume" if item.look == "paused" else "pause"))


def _project(app: Surface) -> str:
    """The project a new thing is for: of the board, else of the chosen line."""
    item = app.state.item()
    return app.state.feed.project or (item.project if item is not None else "")


def _add(app: Surface) -> None:
    project = _project(app)

    def done(text: str) -> None:
        if text:
            app.perform(Act("task add", (text,), {}, project))

    where = f" in {project}" if project and not app.state.feed.project else ""
    app.state.prompt = LinePrompt(f"What is to be done{where}? In a sentence (empty: back)", done)


def _work(app: Surface) -> None:
    project = _project(app)

    def done(agent: str) -> None:
        if agent:
            app.perform(Act("work", (), {"agent": agent, "detach": True, "all_projects": not project}, project))

    app.state.prompt = LinePrompt("Which agent works, in the background? For example claude (empty: back)", done)


def _stop(app: Surface, item: OverviewItem) -> None:
    if item.section != RUNNING and item.look != "ended":
        app.state.tell("No session works on it.", "warn")
        return
    act = Act("session stop", (item.session,), {}, item.project)
    app.state.confirm(f"Stop the session of {item.address}?", f"stop {item.address}", lambda: app.perform(act))


def _land(app: Surface, item: OverviewItem) -> None:
    if item.look != "green":
        app.state.tell("Only green work that has not landed yet can land.", "warn")
        return
    app.perform(_act(app, item, "land"))


def _cancel(app: Surface, item: OverviewItem) -> None:
    act = _act(app, item, "cancel")
    app.state.confirm(f"Take {item.address} back?", f"cancel {item.address}", lambda: app.perform(act))


def _undo(app: Surface) -> None:
    """What can be taken back, and what taking back the newest would change; y does it."""

    own = app.state.feed.app
    found = operations(own, snapshot_store=open_snapshot_store(own))
    if not found:
        app.state.tell("There is nothing to undo here.", "warn")
        return
    newest = found[0]

    def tried(result: ActResult) -> None:
        lines = [(f" {clean(newest.what)}", "strong"), ("", "")]
        lines += [(f"   {clean(line)}", "bad" if result.code else "") for line in result.text.splitlines()]
        rest = [(f"   {stamp(one.time)}  {clean(one.what)}", "dim") for one in found[1:]]
        lines += [("", ""), (" Before it, each by: handoff undo ID", "dim"), *rest] if rest else []
        app.state.page = TextPage("what would be taken back", lines)
        if result.code == 0:
            app.state.confirm("Take it back?", "undo", lambda: _take_back(app, newest.id))

    app.perform(Act("undo", (newest.id,), {"dry_run": True}), then=tried)


def _take_back(app: Surface, operation: str) -> None:
    app.state.page = None
    app.perform(Act("undo", (operation,)))


def _log(app: Surface, item: OverviewItem) -> None:
    def again() -> list[tuple[str, str]]:
        said = app.state.said_by(item)
        if not said:
            return [
                (" Nothing was heard of it here: it is a person's own session, or works on another machine.", "dim")
            ]
        return [(f" {clean(line)}", "") for line in said]

    page = TextPage(f"{item.address}: {item.agent or 'its session'}", again(), item=item)
    page.again = again
    app.state.page = page


def _speak(app: Surface) -> None:
    item = app.state.page.item if app.state.page is not None else app.state.item()
    if item is None or item.section != RUNNING or not item.key:
        app.state.tell("No agent works here that could hear you.", "warn")
        return

    def done(text: str) -> None:
        if text:
            app.perform(_act(app, item, "session say", text))

    app.state.prompt = LinePrompt(f"To {item.agent or 'its session'} (empty: back)", done)


def _take(app: Surface, item: OverviewItem) -> None:
    """Another agent goes on with it, or the person does, on this terminal if that can be."""

    def done(agent: str) -> None:
        act = _act(app, item, "take", **({"to": agent} if agent else {}))
        app.perform(act, then=None if agent else lambda result: _drive(app, act, result))

    app.state.prompt = LinePrompt(f"Take {item.address} over: enter for yourself, or an agent's name", done)


def _drive(app: Surface, act: Act, result: ActResult) -> None:
    """It is the person's: the same command once more opens its conversation, and gives it back when they leave that."""
    if result.code or not app.lend_terminal(shlex.split(act.line("handoff"))[1:]):
        tell_result(app.state, result, "" if result.code else "taken over")


def _journal(app: Surface) -> None:
    def again() -> list[tuple[str, str]]:
        return [
            (
                f" {time_of_day(event.at)}  {wording.name(event):<{wording.WIDTH}}  {clean(event.task_id or event.project)}  {clean(wording.details(event))}",
                "",
            )
            for event in app.state.feed.events
        ]

    page = TextPage("journal", again())
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


def _again(app: Surface, item: OverviewItem) -> None:
    if item.look != "blocked":
        app.state.tell("Nothing to retry here: it is not blocked.", "warn")
        return
    act = _retried(app, item)
    _command(app, f"{act.line('handoff').partition(' ')[2]} --note '" if act else "")


def _change(app: Surface, item: OverviewItem) -> None:
    _command(app, f"{_act(app, item, 'task edit').line('handoff').partition(' ')[2]} '")


def _command(app: Surface, begun: str = "") -> None:
    def done(text: str) -> None:
        try:
            words = shlex.split(text)
        except ValueError as error:
            app.state.tell(f"That is no command line: {error}.", "bad")
            return
        if words:
            app.run_command(words, page=text)

    app.state.prompt = LinePrompt(f"{app.state.feed.app.settings.program}", done, begun)


def _keys(app: Surface) -> None:
    lines = [("", "")]
    for title, where in (("In the list", LIST), ("At a gate", GATE)):
        lines.append((f" {title}", "strong"))
        lines += [
            (f" {key_name(one.key, ascii_only=app.state.ascii_only):<6} {one.meaning}", "")
            for one in KEYS
            if where in one.where and (where == LIST or LIST not in one.where)
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
        app.next_file()


def _choose(act: Callable[[BoardState], None]) -> Callable[[Surface], None]:
    def chosen(app: Surface) -> None:
        act(app.state)

    return chosen


ACTS: dict[str, Callable[..., None]] = {
    "open": _open,
    "answer": _answer,
    "retry": _retry,
    "again": _with_task(_again),
    "change": _with_task(_change),
    "add": _add,
    "work": _work,
    "stop": _with_task(_stop),
    "land": _with_task(_land),
    "retry_all": _retry_all,
    "pause": _with_task(_pause),
    "log": _with_task(_log),
    "speak": _speak,
    "take": _with_task(_take),
    "diff": _with_task(_review),
    "cancel": _with_task(_cancel),
    "undo": _undo,
    "next": _choose(lambda state: state.next_need()),
    "journal": _journal,
    "copy": _copy,
    "filter": _filter,
    "command": _command,
    "down": _move("cursor_down", "down"),
    "up": _move("cursor_up", "up"),
    "top": _move("first", "home"),
    "end": _move("last", "end"),
    "page_down": _move("page_down", "page_down"),
    "page_up": _move("page_up", "page_up"),
    "column": _choose(lambda state: state.next_section()),
    "yes": _yes,
    "say": _say,
    "choice": _choice,
    "no": _no,
    "edit": _edit,
    "next_file": _next_file,
    "back": _back,
    "keys": _keys,
    "quit": lambda app: app.leave(),
}


# --- a review ----------------------------------------------------------------------------------------------------


_DIFF_STYLES = {"+": "good", "-": "bad", "@": "moving"}


def review_lines(found: TaskReview, question: str) -> tuple[list[tuple[str, str]], list[int]]:
    """A review as lines, and where each file begins: what speaks against it comes first."""
    lines: list[tuple[str, str]] = []
    if found.gate is not None:
        lines += [(f" {clean(question)}", "strong")]
        lines += [(f" {clean(line)}", "") for line in found.gate.question.splitlines()[1:]]
        lines += (
            [("", ""), *((f"   {clean(line)}", "") for line in found.gate.subject.splitlines())]
            if found.gate.subject
            else []
        )
        lines += [(f"   {number}  {clean(one)}", "strong") for number, one in enumerate(found.gate.offered, 1)]
        if found.gate.state != "open":
            lines.append((f" It was {found.gate.state} by {found.gate.answered_by or 'somebody'}.", "warn"))
    lines += [("", ""), (" CHECKS", "strong")]
    lines += [(f"   {clean(line)}", "good" if line.startswith("green") else "bad") for line in found.checks]
    lines += [] if found.checks else [("   none was run for it yet", "dim")]
    if found.weakened:
        lines += [("", ""), (f" WEAKENED, SKIPPED OR REMOVED TESTS {len(found.weakened)}", "bad")]
        lines += [(f"   {clean(line)}", "bad") for line in found.weakened]
    lines += [("", ""), (f" FILES {len(found.files)}", "strong")]
    lines += [(f"   {found.trouble}", "warn")] if found.trouble else []
    lines += [(f"   {clean(one.path)}  +{one.added} -{one.removed}", "") for one in found.files]
    starts = []
    for one in found.files:
        starts.append(len(lines) + 1)
        lines += [("", ""), (f" {clean(one.path)}  +{one.added} -{one.removed}", "title")]
        lines += [(f" {clean(line)}", _DIFF_STYLES.get(line[:1], "")) for line in one.lines]
    return lines, starts
