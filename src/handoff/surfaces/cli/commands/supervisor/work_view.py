"""What a person sees while the supervisor works: plain lines, or a live picture on a terminal."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager

from handoff.base.clock import stamp
from handoff.base.record import TYPE_CHECKING

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
    if ctx.out.person and not ctx.out.json_wanted:
        with _live(ctx) as tell:
            yield tell
        return

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
    from rich.table import Table
    from rich.text import Text

    head = Text(
        f"{_many(len(found.supervisors), 'supervisor')}   {found.ready} ready   {len(found.running)} running   "
        f"{_many(found.gates, 'gate')}"
    )
    running = Table("task", "agent", "host", "fence", "attempt", box=None, pad_edge=False)
    for task in found.running:
        running.add_row(
            f"{task.project}/{task.label}",
            task.held_agent,
            task.held_host,
            str(task.fence),
            f"{task.attempt}/{task.max_attempts}",
        )
    bars = Table.grid(padding=(0, 1))
    for name, done, total in _progress(found):
        bars.add_row(name, ProgressBar(total, done, width=30), f"{done}/{total}")
    stops = [Text(f"paused: {stop}", style="yellow") for stop in found.stops]
    if found.spent_up:
        stops.append(Text(f"nothing is started: {found.spent_up}", style="yellow"))
    return Group(head, *stops, running, bars, *(Text(line, style="dim") for line in told))


def _progress(found: SupervisorStatus) -> Iterator[tuple[str, int, int]]:
    """What has a bar: the plan of this folder's feature, then each open batch."""
    if found.plan:
        yield f"plan of {found.plan['feature']}", found.plan["done"], found.plan["total"]
    for batch in found.batches:
        yield f"{batch['project']}/{batch['id']}", batch["total"] - max(0, batch["remaining"]), batch["total"]


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
