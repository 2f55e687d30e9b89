"""`handoff mcp`: serve the relay's tools over standard input and output."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.command import Command, no_arguments

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context


def _mcp(ctx: Context, arguments: Namespace) -> int:
    del arguments
    from handoff.surfaces.mcp import serve  # noqa: PLC0415 - only here

    serve(ctx.settings)
    return 0


COMMANDS = {"mcp": Command(no_arguments, _mcp, shows=False)}
