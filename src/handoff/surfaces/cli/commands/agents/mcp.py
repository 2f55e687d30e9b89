"""`handoff mcp`: serve the relay's tools over standard input and output, or over HTTP; show the token for it."""

from __future__ import annotations

from handoff.base.errors import UsageError
from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.command import Command, flag, listening_options

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context, Parser

EXAMPLES = """examples:
  handoff mcp                      for a client that starts its servers itself
  handoff mcp --http --port 8765   for clients that call http://127.0.0.1:8765/mcp
  handoff mcp token                the token such a client sends as `Authorization: Bearer TOKEN`
  handoff mcp token --rotate       a new one; the old one is worthless at once
"""


def _arguments(parser: Parser) -> None:
    verbs, text = ("serve", "token"), "serve (the default), or show your token for HTTP"
    parser.add_argument("verb", nargs="?", choices=verbs, default="serve", metavar="serve|token", help=text)
    flag(parser, "--rotate", "with token: make a new one")
    flag(parser, "--http", "over HTTP instead of standard input and output")
    listening_options(parser, port="any free one")


def _mcp(ctx: Context, arguments: Namespace) -> int:
    if arguments.verb == "token":
        return _token(ctx, arguments)
    if arguments.rotate:
        raise UsageError("--rotate belongs to `mcp token`.", f"Try: {ctx.settings.program} mcp token --rotate")
    if arguments.http:
        return _http(ctx, arguments)
    from handoff.surfaces.mcp.server import serve

    serve(ctx.settings)
    return 0


def _http(ctx: Context, arguments: Namespace) -> int:
    from handoff.engine.session import endpoints
    from handoff.surfaces.http.places import ListenAddress
    from handoff.surfaces.mcp import http, server

    place = ListenAddress(
        arguments.host or "127.0.0.1", arguments.port, tuple(arguments.name), arguments.certificate, arguments.key
    )
    endpoint = http.Endpoint(ctx.settings, place)
    server.need()
    endpoints.person_token(ctx.app)
    if not place.is_loopback and not place.certificate:
        ctx.out.warning("tokens and words travel in the clear: give --certificate and --key, or listen on 127.0.0.1")
    endpoint.publish()
    ctx.out.data({"url": endpoint.url})
    ctx.out.line(f"Serving the relay's tools at {endpoint.url}")
    ctx.out.note(f"Clients send a token: {ctx.settings.program} mcp token. Ctrl-C ends it.")
    endpoint.run()
    return 0


def _token(ctx: Context, arguments: Namespace) -> int:
    from handoff.engine.session import endpoints

    token = endpoints.person_token(ctx.app, rotate=arguments.rotate)
    url = endpoints.address(ctx.app)
    ctx.out.data({"token": token, "url": url})
    ctx.out.line(token)
    where = f"It opens {url}" if url else f"Nothing serves at present: {ctx.settings.program} mcp --http"
    ctx.out.note(f"{where}. Keep it secret; `mcp token --rotate` makes a new one.")
    return 0


COMMANDS = {"mcp": Command(_arguments, _mcp, epilog=EXAMPLES)}
