"""The heartbeat's sub-verbs around a batch: keep its fan-in alive, complete it, show it, calibrate estimates."""

from __future__ import annotations

import os

from handoff.base.clock import age
from handoff.base.errors import Conflict, UserError
from handoff.base.ids import check_id
from handoff.base.record import TYPE_CHECKING
from handoff.engine.app.home import files_folder, find_project
from handoff.engine.outcome.ended import CurrentClaim
from handoff.engine.session import current, report
from handoff.engine.work.tasks import batches
from handoff.surfaces.cli.commands.tasks.reports import show_finished

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from typing import NoReturn

    from handoff.board.tasks.batches import Batch
    from handoff.surfaces.cli.command import Context

_EVERY_SECONDS = 60.0
_LONGEST_SECONDS = 3 * 3600.0
_GONE = 2  # the older tool's exit code for a batch that is not there


def _of_batch(act: Callable[[Context, Namespace, Batch], int]) -> Callable[[Context, Namespace, str], int]:
    """A verb about the batch of that name."""

    def run(ctx: Context, arguments: Namespace, name: str) -> int:
        try:
            batch = batches.find_batch(ctx.app, find_project(ctx.app, name=arguments.project), name)
        except UserError as error:
            ctx.out.error(error.message, error.hint)
            return _GONE
        return act(ctx, arguments, batch)

    return run


@_of_batch
def keep_alive(ctx: Context, arguments: Namespace, batch: Batch) -> int:
    """Claim the fan-in if it is free and show signs of life until the batch is over; ends by itself after three hours."""
    fan_in = batches.fan_in_of(ctx.app, batch)
    if fan_in.state == "ready":
        claim = report.take(ctx.app, task=fan_in.label, project=batch.project, session=arguments.session)
        current_claim = CurrentClaim(claim.task, claim.fence, claim.session.id)
        ctx.out.line(f"You hold {fan_in.label} (session {current_claim.session}, fence {current_claim.fence}).")
    else:
        current_claim = current.find(
            ctx.app, task=fan_in.label, project=batch.project, session=arguments.session, fence=arguments.fence
        )
    import signal

    signal.signal(signal.SIGTERM, _end_well)
    started = ctx.app.clock.monotonic()
    while ctx.app.clock.monotonic() - started < _LONGEST_SECONDS:
        if batches.fan_in_of(ctx.app, batch).ended:
            return 0
        try:
            current.beat(ctx.app, current_claim)
            folder = files_folder(ctx.settings.home, batch.project)
            current.touch(os.path.join(folder, "batches", batch.id, "_fan_in_heartbeat"))
        except Conflict:
            if batches.fan_in_of(ctx.app, batch).ended:
                return 0
            raise
        ctx.app.clock.sleep(_EVERY_SECONDS)
    return 0


def _end_well(*_: object) -> NoReturn:
    """Being told to end is how this command ends; the lease runs out by itself."""
    raise SystemExit(0)


@_of_batch
def complete(ctx: Context, arguments: Namespace, batch: Batch) -> int:
    """The fan-in is done: close the batch and write its figures, once."""
    show_finished(ctx, batches.complete(ctx.app, batch, minutes=arguments.actual_minutes, summary=arguments.summary))
    return 0


def calibration(ctx: Context, arguments: Namespace, name: str) -> int:
    """The factor for the next estimate: the number alone on standard output, its spread beside it."""
    project = check_id(name, "project") if name else find_project(ctx.app, name=arguments.project).name
    found = batches.calibration(ctx.app, project)
    ctx.out.data({"project": project, **found._asdict()})
    ctx.out.line(f"{found.factor:.3f}")
    ctx.out.note(
        f"The median of {found.samples} batches; the middle half lies between {found.low:.3f} and {found.high:.3f}."
        if found.samples
        else f"Project {project} has no finished batch with an estimate yet."
    )
    return 0


@_of_batch
def status(ctx: Context, arguments: Namespace, batch: Batch) -> int:
    """How far a batch is."""
    del arguments
    show(ctx, batch)
    return 0


def show(ctx: Context, batch: Batch) -> None:
    """A batch with its parts and its fan-in."""
    found = batches.status(ctx.app, batch)
    done, blocked = found.in_state("done"), found.in_state("blocked", "cancelled")
    missing = [part.id for part in found.parts if part.id not in done and part.id not in blocked]
    ctx.out.data(
        {
            "batch": batch.id,
            "project": batch.project,
            "state": batch.state,
            "expected": len(found.parts),
            "done": done,
            "blocked": blocked,
            "missing": missing,
            "fan_in": found.fan_in.id,
            "fan_in_state": found.fan_in.state,
            "parts": {part.id: part.state for part in found.parts},
        }
    )
    ctx.out.line(f"Batch {batch.id} of project {batch.project}: {batch.state}, opened {found.age} ago")
    now = ctx.app.clock.now()
    for part in (*found.parts, found.fan_in):
        ctx.out.line(
            f"  {part.id:<24} {part.state:<10} {age(now - part.changed_at)} ago  {part.result or part.reason}".rstrip()
        )
    ctx.out.line(
        f"done={len(done)} blocked={len(blocked)} expected={len(found.parts)} missing={', '.join(missing) or 'none'}"
    )


RUN: dict[str, Callable[[Context, Namespace, str], int]] = {
    "complete": complete,
    "calibration": calibration,
    "status": status,
}
