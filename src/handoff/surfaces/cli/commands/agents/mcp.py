"""How programs reach the relay: `mcp` serves its tools over standard input and output or over HTTP; `token` says who else may read, answer or steer over HTTP."""

from __future__ import annotations

from handoff.base.clock import age, parse_stamp, span, stamp
from handoff.base.errors import UsageError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board import tokens
from handoff.engine.app.home import find_project, person
from handoff.engine.session import endpoints
from handoff.surfaces.cli.command import Command, flag, listening_options, option, pick, project_option

if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from handoff.board.tokens import Token
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
    from handoff.surfaces.mcp import need

    need()
    from handoff.surfaces.mcp.server import serve

    serve(ctx.settings)
    return 0


def _http(ctx: Context, arguments: Namespace) -> int:
    from handoff.surfaces.http.places import ListenAddress
    from handoff.surfaces.mcp import http, need

    place = ListenAddress(
        arguments.host or "127.0.0.1", arguments.port, tuple(arguments.name), arguments.certificate, arguments.key
    )
    endpoint = http.Endpoint(ctx.settings, place)
    need()
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
    token = endpoints.person_token(ctx.app, rotate=arguments.rotate)
    url = endpoints.address(ctx.app)
    ctx.out.data({"token": token, "url": url})
    ctx.out.line(token)
    where = f"It opens {url}" if url else f"Nothing serves at present: {ctx.settings.program} mcp --http"
    ctx.out.note(f"{where}. Keep it secret; `mcp token --rotate` makes a new one.")
    return 0


_TOKENS_EPILOG = """examples:
  handoff token new grafana                              may read this project
  handoff token new phone --scope answer --until 30d     may also answer gates, for 30 days
  handoff token new ci --scope steer --all-projects      may retry, cancel, pause and release too, everywhere
"""


def _new_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="what you call it: small letters, digits and '-'")
    text = "what it may do: read, answer (and read) or steer (and both); default: read"
    parser.add_argument("--scope", choices=tokens.SCOPES, default=tokens.READ, metavar="read|answer|steer", help=text)
    option(parser, "--until TIME", "when it ends: 12h, 30d or 2027-01-31T00:00:00Z (default: when it is withdrawn)")
    project_option(parser, every=True)


def _seconds(ctx: Context, text: str) -> float | None:
    if not text:
        return None
    moment = parse_stamp(text)
    if moment is None:
        return span(text)
    left = moment - ctx.app.clock.now()
    if left <= 0:
        raise UserError(f"{text} is over.", "Give a moment to come, or a span such as 30d.")
    return left


def _new(ctx: Context, arguments: Namespace) -> None:
    project = "" if arguments.all_projects else find_project(ctx.app, name=arguments.project).name
    made = tokens.make(
        ctx.app.database,
        name=arguments.name,
        scope=arguments.scope,
        project=project,
        by=person(ctx.app),
        seconds=_seconds(ctx, arguments.until),
    )
    ctx.out.data({**token_data(made.token, ctx.app.clock.now()), "secret": made.secret})
    ctx.out.line(made.secret)
    where = f"project {project}" if project else "every project"
    until = f", until {stamp(made.token.until)}" if made.token.until else ""
    ctx.out.note(f"It may {_may(made.token)} {where}{until}. It is shown this once: keep it secret.")
    ctx.out.note(
        f"Send it as `Authorization: Bearer TOKEN`. Make it worthless: {ctx.settings.program} token withdraw {arguments.name}"
    )


def _may(token: Token) -> str:
    return {"read": "read", "answer": "read and answer gates of", "steer": "read, answer and steer"}[token.scope]


def token_data(token: Token, now: float) -> dict[str, Any]:
    """A token for programs, without what it hashes to."""
    times = {name: stamp(at) if (at := getattr(token, name)) else None for name in ("made_at", "until", "used_at")}
    return {**pick(token, "id name scope project made_by"), **times, "state": token.state(now)}


def _list_arguments(parser: Parser) -> None:
    flag(parser, "--all", "also those that were withdrawn or have expired", dest="include_ended")


def _list(ctx: Context, arguments: Namespace) -> None:
    now = ctx.app.clock.now()
    found = tokens.listing(ctx.app.database, include_ended=arguments.include_ended)
    ctx.out.data([token_data(token, now) for token in found])
    for token in found:
        used = f"used {age(now - token.used_at)} ago" if token.used_at else "never used"
        until = f"until {stamp(token.until)}" if token.until else "until withdrawn"
        state = "" if token.state(now) == "good" else f"  {token.state(now)}"
        where = token.project or "every project"
        ctx.out.line(f"{token.name:<20} {token.scope:<7} {where:<16} {until}, {used}{state}")
    if not found:
        ctx.out.line(f"There is no token. Make one: {ctx.settings.program} token new NAME")


def _withdraw_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="its name or its id")


def _withdraw(ctx: Context, arguments: Namespace) -> None:
    token = tokens.withdraw(ctx.app.database, name=arguments.name, by=person(ctx.app))
    ctx.out.data(token_data(token, ctx.app.clock.now()))
    ctx.out.line(f"The token {token.name} opens nothing any more.")


COMMANDS = {
    "mcp": Command(_arguments, _mcp, epilog=EXAMPLES),
    "token new": Command(_new_arguments, _new, epilog=_TOKENS_EPILOG),
    "token list": Command(_list_arguments, _list),
    "token withdraw": Command(_withdraw_arguments, _withdraw),
}
