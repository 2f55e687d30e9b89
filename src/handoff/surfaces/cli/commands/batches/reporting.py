"""`batch report`: what came of a batch; and the request that asks a team to take it in, with the report as its text."""

from __future__ import annotations

from handoff.base.clock import stamp, time_of_day
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks import batches as rows
from handoff.engine.home import find_project
from handoff.engine.tasks import batches
from handoff.engine.tasks.splitting import pull_request
from handoff.engine.tasks.splitting import report as reports
from handoff.engine.tasks.splitting import verdict as verdicts
from handoff.surfaces.cli.commands.batches.watching import as_data
from handoff.surfaces.cli.commands.git.landing import tell_request

if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from handoff.board.tasks.batches import Batch
    from handoff.engine.tasks.splitting.report import BatchReport, PartReport
    from handoff.surfaces.cli.command import Context


def report(ctx: Context, arguments: Namespace) -> int:
    """Show the report of a batch: for a person, as a page, or for a program."""
    project = find_project(ctx.app, name=arguments.project)
    batch = (
        batches.find_batch(ctx.app, project, arguments.batch)
        if arguments.batch
        else rows.latest(ctx.app.database, project=project.name)
    )
    if batch is None:
        raise UserError(
            f"Project {project.name} has no batch yet.",
            f"Begin with: {ctx.settings.program} batch example > split.toml",
        )
    found = reports.write(ctx.app, verdicts.judge(ctx.app, batch))
    ctx.out.data(_data(found))
    text = reports.as_markdown(found, moment=time_of_day)
    if arguments.markdown and not ctx.out.json_wanted:
        ctx.out.raw(text)
    elif not ctx.out.json_wanted:
        _show(ctx, found)
    return 0


def _data(found: BatchReport) -> dict[str, Any]:
    def part(one: PartReport) -> dict[str, Any]:
        return {**one._asdict(), "sessions": [{**run._asdict(), "began": stamp(run.began)} for run in one.sessions]}

    return {
        **as_data(found.verdict, found.cost),
        "parts": [part(one) for one in found.parts],
        "fan_in": part(found.fan_in),
        "timeline": [
            {"at": stamp(at), "task": task, "what": what, "words": words} for at, task, what, words in found.timeline
        ],
        **found.joining.as_data(),
        "judged_by": found.judged_by,
        "races": [one._asdict() for one in found.races],
        "speedup": round(found.speedup, 2),
        "estimated_speedup": found.estimated_speedup,
        "amdahl_bound": round(found.bound, 2),
        "serial_share": found.serial_share,
        "at_once": found.at_once,
        "calibration": round(found.factor, 3),
    }


def _show(ctx: Context, found: BatchReport) -> None:
    """The same page as a person reads it on a terminal."""
    lines = reports.as_markdown(found, moment=time_of_day).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    wide = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    rows_left = iter(cells)
    for line in lines:
        if line.startswith("| "):
            row = next(rows_left)
            ctx.out.line("  ".join(cell.ljust(width) for cell, width in zip(row, wide, strict=True)).rstrip())
        elif line.startswith("#"):
            ctx.out.line(line.lstrip("# "), "title")
        elif not line.startswith("|---"):
            ctx.out.line(line.removeprefix("> ").replace("**", "").replace("`", ""))


def ask_for(ctx: Context, batch: Batch) -> int:
    """Push what landed as a branch of its own and open a request for it; the report is its text."""
    app = ctx.app
    found = verdicts.judge(app, batch)
    base = found.onto or pull_request.base_of(app, batch.workspace, "")
    body = reports.as_markdown(reports.write(app, found), moment=time_of_day)
    _, series = pull_request.series(
        app, batch.workspace, f"{found.landed}~{len(found.of(verdicts.LANDED))}", found.landed
    )
    opened = pull_request.open_request(
        app,
        top=batch.workspace,
        branch=f"pr/{batch.id}",
        commit=found.landed,
        base=base,
        title=batch.rationale.partition("\n")[0].strip() or f"Batch {batch.id}",
        body=f"{body}\n## Commits\n\n{series}",
    )
    return tell_request(ctx, opened)
