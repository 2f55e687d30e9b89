"""`batch list` and `batch open`: work split over sessions that own different files."""

from __future__ import annotations

from handoff.base.clock import age
from handoff.base.record import TYPE_CHECKING
from handoff.engine.tasks import batches as engine
from handoff.surfaces.cli.command import Command, flag, option, project_option
from handoff.surfaces.cli.commands.tasks.board import chosen_project
from handoff.surfaces.cli.commands.tasks.dump import open_batch

if TYPE_CHECKING:
    import argparse

    from handoff.surfaces.cli.command import Context, Parser

_EPILOG = """examples:
  handoff batch open split.json
  handoff show login            the batch with its parts
  handoff retry login           let its blocked parts try again
"""


def _open_arguments(parser: Parser) -> None:
    parser.add_argument("open_batch", metavar="FILE", help="the manifest: JSON or TOML, schema 2")
    project_option(parser)
    option(parser, "--workspace DIR", "checkout to work in (default: this one)")
    flag(parser, "--dry-run", "check the manifest; write nothing")
    flag(parser, "--open", "open every ready part in a tab at once (see: handoff task open --help)", dest="open_now")


def _list_arguments(parser: Parser) -> None:
    project_option(parser, every=True)
    flag(parser, "--all", "also batches that have ended", dest="include_ended")


def _list(ctx: Context, arguments: argparse.Namespace) -> None:
    project = chosen_project(ctx, arguments)
    found = engine.listing(ctx.app, project=project, include_ended=arguments.include_ended)
    ctx.out.data(
        [
            {"batch": one.batch.id, "project": one.batch.project, "state": one.batch.state, "parts": one.counts}
            for one in found
        ]
    )
    now = ctx.app.clock.now()
    for one in found:
        where = f"{one.batch.project}  " if not project else ""
        said = ", ".join(f"{count} {state}" for state, count in one.counts.items())
        ctx.out.line(f"{where}{one.batch.id:<24} {age(now - one.batch.created_at):>7}  {said} of {one.batch.total}")
    if not found:
        program = ctx.settings.program
        ctx.out.line(f"No batch is open. Open one: {program} batch open FILE. How: {program} help split-a-task")


COMMANDS = {
    "batch list": Command(_list_arguments, _list),
    "batch open": Command(_open_arguments, open_batch, epilog=_EPILOG),
}
