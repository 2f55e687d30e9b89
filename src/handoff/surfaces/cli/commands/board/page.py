"""`handoff page`: the overview in a browser, served until Ctrl-C, or a link to one that is served already."""

from __future__ import annotations

import sys

from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.command import Command, flag, listening_options, project_option
from handoff.surfaces.cli.overview import project_here

if TYPE_CHECKING:
    import argparse

    from handoff.surfaces.cli.command import Context, Parser

EXAMPLES = """examples:
  handoff page --open               open it in your browser
  handoff page --read-only          a link for somebody who may look and not steer
  handoff page --project shop       a link that opens this project alone
  handoff page --host 0.0.0.0 --name box.local --certificate cert.pem --key key.pem    for your phone

A link lets one browser in, once, within an hour. While `handoff work` runs here the page is there already: then this prints a
link to it and ends.
"""


def _arguments(parser: Parser) -> None:
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


COMMANDS = {"page": Command(_arguments, _page, epilog=EXAMPLES)}
