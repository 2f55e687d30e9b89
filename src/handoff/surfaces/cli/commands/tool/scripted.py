"""`scripted`: run the scripted agent in this folder, with a prompt as a real agent would get it."""

from __future__ import annotations

import os

from handoff.agents.adapters import scripted
from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.command import Command, option

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context, Parser


def _arguments(parser: Parser) -> None:
    parser.add_argument("script", help="the script: a TOML file with [[act]] tables")
    option(parser, "--prompt FILE", "the prompt the agent is given, for 'expect'", None)


def _scripted(ctx: Context, arguments: Namespace) -> int:
    if not os.path.isfile(arguments.script):
        raise UserError(
            f"There is no script {arguments.script}.", "The format: handoff help docs/howto/add-an-agent.md"
        )
    acts = scripted.read_script(arguments.script)
    prompt = files.read_text(arguments.prompt) if arguments.prompt else ""
    stage = scripted.Stage(os.getcwd(), prompt, ctx.settings.environment, ctx.app.clock)
    ended = scripted.perform(acts, stage, ctx.out.line)
    if ended.words:
        ctx.out.error(ended.words)
    return ended.code


COMMANDS = {"scripted": Command(_arguments, _scripted, shows=False)}
