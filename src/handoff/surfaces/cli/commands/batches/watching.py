"""Staying with a batch: the board on a terminal, plain lines elsewhere, and at the end the verdict and its exit code."""

from __future__ import annotations

import signal
import threading

from handoff.base.clock import stamp, time_of_day
from handoff.base.errors import INTERRUPTED, HandoffError
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.board.sessions.expenses import cost_words
from handoff.engine.app import App
from handoff.engine.supervisor import process
from handoff.engine.supervisor.news import News
from handoff.engine.tasks.splitting import verdict as verdicts
from handoff.surfaces.cli.commands.board.board import can_show, made

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from handoff.board.sessions.expenses import Expense
    from handoff.board.tasks.batches import Batch
    from handoff.engine.tasks.splitting.verdict import BatchVerdict, PartVerdict
    from handoff.surfaces.cli.command import Context
    from handoff.surfaces.cli.commands.board.view import BoardApp

NOT_WHOLE = 1
_EVERY_SECONDS, _SHARE = 1.0, 20
_UNSERVED_SECONDS = 15.0
_ENDING_SECONDS, _LOOK_SECONDS = 10.0, 0.2
_SHORT = 120.0  # two minutes are easier read in seconds
_MARKS = {"landed": "good", "green": "good", "blocked": "bad", "asks you": "warn", "cancelled": "dim"}


def watch(ctx: Context, batch: Batch, *, plain: bool) -> int:
    """Stay until the batch is over, or cannot go on without a person and none is there; leaving it stops nothing."""
    left = True
    try:
        if can_show(ctx) and not plain:
            _on_board(ctx, batch)
        else:
            _in_lines(ctx, batch)
            left = False
            _let_sessions_end(ctx, batch)
    except KeyboardInterrupt:
        ctx.out.line()
    found = verdicts.judge(ctx.app, batch)
    tell(ctx, found)
    if found.word == verdicts.RUNS and left:
        _tell_going_on(ctx, found)
        return INTERRUPTED
    return 0 if found.word == verdicts.LANDED else NOT_WHOLE


def _let_sessions_end(ctx: Context, batch: Batch) -> None:
    """What a session has cost is known when it has ended, a moment after its report."""
    deadline = ctx.app.clock.monotonic() + _ENDING_SECONDS
    while verdicts.has_live_sessions(ctx.app, batch) and ctx.app.clock.monotonic() < deadline:
        ctx.app.database.wait_for_change(_LOOK_SECONDS)


def _in_lines(ctx: Context, batch: Batch) -> None:
    # Raised in the middle of anything, an interrupt may be swallowed; noted, it is heard at the next look.
    leaving = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: leaving.set())
    try:
        _follow(ctx, batch, leaving)
    finally:
        signal.signal(signal.SIGINT, before)
    if leaving.is_set():
        raise KeyboardInterrupt


def _follow(ctx: Context, batch: Batch, leaving: threading.Event) -> None:
    news = News(
        ctx.app,
        project=batch.project,
        batch=batch.key,
        concerns=lambda held: process.is_served(ctx.app, batch.project, by=held.name, on=held.host),
    )
    clock, unserved, asked = ctx.app.clock, 0.0, False
    while not leaving.is_set():
        began = clock.monotonic()
        for line in news.lines():
            if not ctx.out.json_wanted:
                ctx.out.line(f"{time_of_day(clock.now())} {line}")
        word = verdicts.glance(ctx.app, batch)
        if word not in (verdicts.RUNS, verdicts.WAITS):
            return
        if word == verdicts.WAITS and not asked:
            if not ctx.out.can_ask:
                return  # nobody is there who could answer
            _tell_waiting(ctx, verdicts.judge(ctx.app, batch))
        asked = word == verdicts.WAITS
        if word == verdicts.RUNS and not process.is_served(ctx.app, batch.project):
            unserved = unserved or clock.monotonic()
            if clock.monotonic() - unserved > _UNSERVED_SECONDS:
                ctx.out.warning(_unserved(ctx, batch))
                return
        else:
            unserved = 0.0
        # A look at a large batch is dear, and its rows change all the time: a twentieth of it is for looking.
        leaving.wait(min(_EVERY_SECONDS, _SHARE * (clock.monotonic() - began)))
        ctx.app.database.wait_for_change(_EVERY_SECONDS)


def _unserved(ctx: Context, batch: Batch) -> str:
    found = verdicts.judge(ctx.app, batch)
    known = ",".join(sorted({part.agent for part in (*found.parts, found.fan_in)} - {""}))
    return (
        f"no supervisor works for project {batch.project}. Let one work: "
        f"{ctx.settings.program} batch run {batch.id} --agents {known or 'NAME'}"
    )


def _on_board(ctx: Context, batch: Batch) -> None:
    """The board until the person leaves it or the batch is over."""
    board = made(ctx, batch.project)
    left = threading.Event()
    looker = threading.Thread(target=_look, args=(ctx, batch, board, left), daemon=True)
    looker.start()
    board.run()
    left.set()
    looker.join()


def _look(ctx: Context, batch: Batch, board: BoardApp, left: threading.Event) -> None:
    """On a thread of its own with rows of its own: a database belongs to the thread that opened it."""
    app = App(ctx.settings)
    try:
        while not left.wait(_EVERY_SECONDS):
            try:
                if verdicts.glance(app, batch) not in (verdicts.RUNS, verdicts.WAITS):
                    board.over = True
                    return
            except HandoffError:
                continue  # the board says that the database is away
    finally:
        app.close()


# --- the verdict ------------------------------------------------------------------------------------------------


def tell(ctx: Context, found: BatchVerdict) -> None:
    """What came of it: what landed, what is missing, what is red, cost and time; and what goes on."""
    money = verdicts.costs(ctx.app, found.batch)
    ctx.out.data(as_data(found, money))
    total, landed, green = len(found.parts), len(found.of(verdicts.LANDED)), len(found.of("green"))
    took = f"{duration(found.seconds)}, {cost_words(money) or 'no cost told'}"
    where = f" on {found.onto}" if found.onto else ""
    if landed:
        said = f"{landed} of {number_of(total, 'part')} landed{where}" + (
            f" as {found.landed[:10]}" if found.landed else ""
        )
    else:
        said = "nothing landed" if found.word != verdicts.UNDONE else f"nothing of it is{where} any more"
    style = {verdicts.LANDED: "good", verdicts.RUNS: "strong"}.get(found.word, "bad")
    more = f", {green} green" if green else ""
    ctx.out.line(f"Batch {found.batch.id} {_IS.get(found.word, found.word)}: {said}{more}; {took}.", style)
    for part in (*found.parts, *([] if found.fan_in.word == verdicts.LANDED else [found.fan_in])):
        ctx.out.line(_line(part), _MARKS.get(part.word, ""))
    if found.word == verdicts.WAITS:
        _tell_waiting(ctx, found)
    elif found.word == verdicts.PARTLY:
        _tell_blocked(ctx, found)


_IS = {
    verdicts.LANDED: "has landed",
    verdicts.PARTLY: "has landed in part",
    verdicts.UNDONE: "was taken back",
    verdicts.CANCELLED: "was cancelled",
    verdicts.WAITS: "waits for you",
    verdicts.RUNS: "goes on",
}


def _line(part: PartVerdict) -> str:
    tries = f", {part.attempts} sessions" if part.attempts > 1 else ""
    who = f" ({part.agent}{tries})" if part.agent else ""
    red = "red check, " if part.red and "red" not in part.why else ""
    why = f": {red}{part.why}" if part.why else f"; {part.race}" if part.race else ""
    return f"  {part.id:<20} {part.word}{who}{why}"


def _tell_waiting(ctx: Context, found: BatchVerdict) -> None:
    program = ctx.settings.program
    for label, question in found.questions:
        ctx.out.line(f"{label} asks: {question}", "warn")
        ctx.out.line(f"  {program} answer {label} yes, or {program} answer {label} no REASON")
    _tell_blocked(ctx, found)
    if found.fan_in.word == "blocked":
        ctx.out.line(f"  Let it try again: {program} retry {found.fan_in.id}")
    ctx.out.line(f"Nothing is lost. Stay with it again: {program} batch run {found.batch.id}")


def _tell_blocked(ctx: Context, found: BatchVerdict) -> None:
    for part in found.missing:
        if part.word == "blocked" and not part.behind:
            ctx.out.line(f"  Let it try again: {ctx.settings.program} retry {found.batch.id}/{part.id}")


def _tell_going_on(ctx: Context, found: BatchVerdict) -> None:
    program, running = ctx.settings.program, found.of("running")
    names = f" ({', '.join(running)})" if running else ""
    ctx.out.line(f"You left; nothing was stopped: {number_of(len(running), 'part')} at work{names}.")
    ctx.out.line(
        f"Come back: {program} batch run {found.batch.id}. Hold it: {program} pause {found.batch.id}."
        f" End it: {program} cancel {found.batch.id}"
    )


def as_data(found: BatchVerdict, money: Sequence[Expense]) -> dict[str, Any]:
    """The verdict for programs."""
    return {
        "batch": found.batch.id,
        "project": found.batch.project,
        "verdict": found.word,
        "over": found.over,
        "landed": found.of(verdicts.LANDED),
        "green": found.of("green"),
        "missing": {part.id: {"state": part.word, "why": part.why} for part in found.missing},
        "red": [part.id for part in (*found.parts, found.fan_in) if part.red],
        "parts": [part._asdict() for part in found.parts],
        "fan_in": found.fan_in._asdict(),
        "questions": [{"task": label, "question": question} for label, question in found.questions],
        "commit": found.landed,
        "onto": found.onto,
        "cost": {one.agent: one.money for one in money if one.money or not one.unknown},
        "unknown_cost": [one.agent for one in money if one.unknown],
        "tokens": {one.agent: one.tokens for one in money},
        "seconds": round(found.seconds, 1),
        "began": stamp(found.batch.created_at),
    }


def duration(seconds: float) -> str:
    """`41 s`, `12 min`, `3 h 5 min`."""
    if seconds < _SHORT:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
