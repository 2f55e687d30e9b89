"""The overview live: `board` in the terminal, with keys, and `page` in a browser, served until Ctrl-C or linked where it is served."""

from __future__ import annotations

import sys

from handoff.base.errors import UserError, need
from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.command import Command, flag, listening_options, project_option
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


EXAMPLES = """examples:
  handoff page --open               open it in your browser
  handoff page --read-only          a link for somebody who may look and not steer
  handoff page --project shop       a link that opens this project alone
  handoff page --host 0.0.0.0 --name box.local --certificate cert.pem --key key.pem    for your phone

A link lets one browser in, once, within an hour. While `handoff work` runs here the page is there already: then this prints a
link to it and ends.
"""


def _page_arguments(parser: Parser) -> None:
    flag(parser, "--open", "open it in your browser")
    flag(parser, "--read-only", "a link that lets its user look and not steer")
    listening_options(parser, port="8642, or any free one")
    project_option(parser, every=True)


def _page(ctx: Context, arguments: argparse.Namespace) -> int:
    from handoff.engine.app.home import find_project
    from handoff.surfaces.http.places import ListenAddress
    from handoff.surfaces.page import serving

    project = "" if arguments.all_projects else project_here(ctx, arguments.project)
    said = arguments.host or arguments.port or arguments.name or arguments.certificate or arguments.key
    # A folder without git is a project too for whoever works there.
    here = [project] if project or arguments.all_projects else ["", find_project(ctx.app).name]
    for name in here if not said else ():
        there = serving.address(ctx.app, project=name)
        if there:
            _tell(ctx, there, arguments, name)
            return 0
    serving.need()
    place = ListenAddress(
        arguments.host or "127.0.0.1", arguments.port, tuple(arguments.name), arguments.certificate, arguments.key
    )
    served = serving.PageServer(ctx.settings, place, project=project)
    if not place.is_loopback and not place.certificate:
        ctx.out.warning("the page and its cookies travel in the clear: give --certificate and --key, or use 127.0.0.1")
    served.publish()
    _tell(ctx, served.url, arguments, project)
    ctx.out.note("Ctrl-C ends it; nothing else is stopped.")
    served.run()
    return 0


def _tell(ctx: Context, url: str, arguments: argparse.Namespace, project: str) -> None:
    from handoff.surfaces.page import access

    # A project that was named is all that its link opens: it may be for somebody else.
    rights = access.READ if arguments.read_only else access.STEER if arguments.project else access.OWN
    link = access.link(url, access.make_link(ctx.app, project=project, rights=rights))
    plain = access.by_address(link)
    told = access.READ if arguments.read_only else access.STEER
    ctx.out.data({"url": url, "link": link, "by_address": plain, "rights": told})
    ctx.out.line(f"{'To look on' if arguments.read_only else 'The page'}: {link}", "strong")
    ctx.out.note("The link opens once, within an hour, in one browser.")
    if plain != link:
        ctx.out.note(f"For a browser that does not find that name, as Safari: {plain}")
    if arguments.open:
        from handoff.engine.work.tasks.open_tab import open_uri

        known = link if sys.platform != "darwin" else plain  # there a browser that knows no such name is the usual one
        open_uri(ctx.app, access.redirect_file(ctx.app, known))


COMMANDS = {
    "board": Command(_arguments, _board, shows=False, epilog=EPILOG),
    "page": Command(_page_arguments, _page, epilog=EXAMPLES),
}
