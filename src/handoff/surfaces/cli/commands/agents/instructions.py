"""`handoff setup instructions`: what agents read about handoff in this repository, kept up to date or taken out."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.engine.clients import instructions
from handoff.surfaces.cli.command import Command, flag

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context, Parser


def _arguments(parser: Parser) -> None:
    flag(parser, "--remove", "take everything out again")


def _instructions(ctx: Context, arguments: Namespace) -> int:
    rows = instructions.remove(ctx.app) if arguments.remove else instructions.write(ctx.app)
    ctx.out.data([row._asdict() for row in rows])
    for row in rows:
        ctx.out.line(f"{row.path}: {row.what}")
    if not rows:
        ctx.out.line("There was nothing of ours here.")
    return 0


COMMANDS = {"setup instructions": Command(_arguments, _instructions)}
