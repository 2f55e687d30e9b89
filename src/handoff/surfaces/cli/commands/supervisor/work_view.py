"""What a person sees while the supervisor works: plain lines, or a live picture on a terminal."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager

from handoff.base.clock import stamp
from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.commands.tasks.holds import AGENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from handoff.engine.supervisor.process import SupervisorStatus
    from handoff.surfaces.cli.command import Context

_LINES = 8
_EVERY_SECONDS = 0.5


@contextmanager
def view_of(ctx: Context) -> Iterator[Callable[[str], None]]:
    """How the supervisor tells what it does: a picture for a person, lines for everything else."""
    with _live(ctx) if ctx.out.person and not ctx.out.json_wanted else line_of(ctx) as tell:
        yield tell


@contextmanager
def line_of(ctx: Context) -> Iterator[Callable[[str], None]]:
    """One plain line for each thing; one object for each under --json."""

    def line(text: str) -> None:
        if ctx.out.json_wanted:
            ctx.out.data({"at": stamp(ctx.app.clock.now()), "text": text})
        else:
            ctx.out.line(f"{stamp(ctx.app.clock.now())} {text}")

    yield line


@contextmanager
def _live(ctx: Context) -> Iterator[Callable[[str], None]]:
    from rich.live import Live

    from handoff.engine.app import App
    from handoff.engine.supervisor import process

    told: deque[str] = deque(maxlen=_LINES)
    over = threading.Event()

    def draw() -> None:
        app = App(ctx.settings)
        while not over.wait(_EVERY_SECONDS):
            live.update(picture(process.status(app), list(told)))

    with Live(refresh_per_second=2, transient=True) as live:
        thread = threading.Thread(target=draw, name="view", daemon=True)
        thread.start()
        try:
            yield told.append
        finally:
            over.set()
            thread.join(2.0)


def picture(found: SupervisorStatus, told: list[str]) -> Any:
    """Supervisors, running tasks, batches with their bars, the last words."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Column, Table
    from rich.text import Text

    head = Text(
        f"{_many(len(found.supervisors), 'supervisor')}   {found.ready} ready   {len(found.running)} running   "
        f"{_many(found.gates, 'gate')}"
    )
    hosts = len({task.held_host for task in found.running}) > 1
    running = Table(
        Column("task", overflow="fold"), "agent", *(["host"] if hosts else []), "attempt", box=None, pad_edge=False
    )
    for task in found.running:
        where = [task.held_host] if hosts else []
        running.add_row(f"{task.project}/{task.label}", task.held_agent, *where, f"{task.attempt}/{task.max_attempts}")
    bars = Table.grid(padding=(0, 1))
    for name, done, total, more in _progress(found):
        bars.add_row(name, ProgressBar(total, done, width=30), f"{done}/{total}{more}")
    stops = [Text(f"paused: {stop}", style="yellow") for stop in found.stops]
    stops += [
        Text(f"{held.kind} {held.name} is held {held.words}", style="yellow")
        for held in found.holds
        if held.kind == AGENT
    ]
    if found.spent_up:
        stops.append(Text(f"nothing is started: {found.spent_up}", style="yellow"))
    return Group(head, *stops, running, bars, *(Text(line, style="dim") for line in told))


def _progress(found: SupervisorStatus) -> Iterator[tuple[str, int, int, str]]:
    """What has a bar: the plan of this folder's feature, then each open batch. Only what is done fills it."""
    if found.plan:
        yield f"plan of {found.plan['feature']}", found.plan["done"], found.plan["total"], ""
    for batch in found.batches:
        more = f", {batch['blocked']} blocked" if batch["blocked"] else ""
        yield f"{batch['project']}/{batch['id']}", batch["done"], batch["total"], more


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
