"""`handoff board`: the overview live, with keys."""

from __future__ import annotations

from handoff.base.errors import UserError, need
from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.command import Command, project_option
from handoff.surfaces.cli.overview import project_here

if TYPE_CHECKING:
    import argparse

    from handoff.surfaces.cli.command import Context, Parser
    from handoff.surfaces.cli.commands.board.view import BoardApp

EPILOG = """The keys: press ? on the board, or see `handoff help docs/howto/board.md`. It works beside any supervisor and
needs a terminal; in a pipe `handoff` alone says the same in lines.
"""


def _arguments(parser: Parser) -> None:
    project_option(parser, every=True)


def can_show(ctx: Context) -> bool:
    """Whether a person's terminal is there that can be drawn upon."""
    return (
        ctx.out.person and ctx.out.can_ask and not ctx.out.json_wanted and ctx.settings.get("TERM") not in ("", "dumb")
    )


def made(ctx: Context, project: str) -> BoardApp:
    """The board of a project, or of all."""
    need("textual", "The board")
    from handoff.engine.work.overview import OverviewFeed
    from handoff.surfaces.cli.commands.board.state import BoardState
    from handoff.surfaces.cli.commands.board.view import BoardApp

    ctx.out.leave_screen()
    return BoardApp(BoardState(OverviewFeed(ctx.app, project=project)))


def _board(ctx: Context, arguments: argparse.Namespace) -> int:
    if not can_show(ctx):
        raise UserError(
            "The board needs a terminal.", f"In lines: {ctx.settings.program}, or {ctx.settings.program} log -f"
        )
    from handoff.engine.work import overview

    project = "" if arguments.all_projects else project_here(ctx, arguments.project)
    app = made(ctx, project)
    app.run()
    found = overview.look(ctx.app, project=project)
    overview.note_look(ctx.app, found)
    running, needs = len(found.of("running")), len(found.of("needs you"))
    on = f"{running} go on" if running != 1 else "1 goes on"
    ctx.out.line(f"You left the board; nothing was stopped. Running: {on}. Waiting for you: {needs}.")
    return 0


COMMANDS = {"board": Command(_arguments, _board, shows=False, epilog=EPILOG)}
