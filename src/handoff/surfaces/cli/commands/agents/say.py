"""`handoff session say`: a person's words for a session that runs. It loads little: whoever speaks does not wait."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.engine.work import saying
from handoff.surfaces.cli.command import Command, flag, project_option, read_source

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context, Parser

_EPILOG = (
    "It reads your words after its next tool call, as yours and word for word; `session list` and `show TASK` say how far they got:"
    " queued, delivered, seen."
)


def _arguments(parser: Parser) -> None:
    parser.add_argument("session", metavar="SESSION", help="which session, or the task it works on")
    parser.add_argument("text", metavar="TEXT", help="your words (- is standard input)")
    flag(parser, "--now", "end its turn and start again with your words, without a lost attempt or lost work")
    project_option(parser)


def _say(ctx: Context, arguments: Namespace) -> int:
    text = read_source("-") if arguments.text == "-" else arguments.text
    meant = {"session": arguments.session, "text": text, "project": arguments.project}
    if not arguments.now:
        return ctx.out.done(saying.as_act(saying.keep(ctx.app, **meant)))
    from handoff.engine.work import acts

    return ctx.out.done(acts.say(ctx.app, **meant, now=True))


COMMANDS = {"session say": Command(_arguments, _say, epilog=_EPILOG)}
