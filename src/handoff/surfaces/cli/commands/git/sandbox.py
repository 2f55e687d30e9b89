"""`handoff workspace run`: run a command inside the sandbox, or say which sandbox this machine has."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from handoff.agents.sandbox.sandbox import ADVICE, NOTHING, WORDS
from handoff.base.errors import UsageError
from handoff.base.process import pass_through
from handoff.engine.proof import sandboxes as engine
from handoff.surfaces.cli.command import Command, flag, option

if TYPE_CHECKING:
    from handoff.surfaces.cli.command import Context, Parser


def _sandbox_arguments(parser: Parser) -> None:
    flag(parser, "--status", "say which layer this machine has, and what it holds back")
    flag(parser, "--no-network", "cut the command off from the network")
    option(parser, "--cache DIR", "a folder it may write too (may be repeated)", [])
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD…", help="the command and its words")


def _sandbox(ctx: Context, arguments: argparse.Namespace) -> int:
    if arguments.status:
        name = engine.present_layer(ctx.app)
        allowed = engine.allowances(ctx.app)
        ctx.out.data({"layer": name, "holds": WORDS[name], "advice": ADVICE if name == NOTHING else "", **allowed})
        ctx.out.line(f"{name}: {WORDS[name]}.")
        for what, names in allowed.items():
            ctx.out.line(f"  {what} you allow: {', '.join(names) or 'none'}")
        if name == NOTHING:
            ctx.out.line(ADVICE)
        return 0
    words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not words:
        raise UsageError("There is no command to run.", "For example: handoff workspace run -- pytest -q")
    sandbox = engine.sandbox_of_folder(
        ctx.app, network=not arguments.no_network, caches=arguments.cache, terminal=ctx.out.can_ask
    )
    if sandbox.layer == NOTHING:
        ctx.out.warning(f"{WORDS[NOTHING]}. {ADVICE}")
    wrapped = engine.inside(ctx.app, sandbox=sandbox, argv=words)
    code = pass_through(wrapped.argv, environment=wrapped.environment)
    return code if code >= 0 else 128 - code


COMMANDS = {"workspace run": Command(_sandbox_arguments, _sandbox)}
