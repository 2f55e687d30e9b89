"""`task comment`: a word on a line of a task's work, for the session that gets it next."""

from __future__ import annotations

from handoff.base.errors import UsageError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.tasks import admin
from handoff.surfaces.cli.command import Command, option, project_option

if TYPE_CHECKING:
    import argparse

    from handoff.surfaces.cli.command import Context, Parser

EXAMPLES = """examples:
  handoff task comment cart cart.py:12 'an empty cart must not be charged'
"""


def _arguments(parser: Parser) -> None:
    parser.add_argument("task", metavar="TASK", help="the task, as its id or BATCH/PART")
    parser.add_argument("place", metavar="FILE:LINE", help="the line as it is in the task's work")
    parser.add_argument("text", metavar="TEXT", help="what the next session is to mind")
    option(parser, "--quote TEXT", "the line itself, so that it is found when others have moved it")
    project_option(parser)


def _comment(ctx: Context, arguments: argparse.Namespace) -> None:
    path, _, number = arguments.place.rpartition(":")
    if not path or not number.isdecimal() or not int(number):
        raise UsageError(f"'{arguments.place}' names no line.", "For example: cart.py:12")
    if not arguments.text.strip():
        raise UsageError("The comment is empty.", "Say what the next session is to mind.")
    task = admin.find_task(ctx.app, arguments.task, project=arguments.project)
    admin.comment(ctx.app, task, path=path, line=int(number), text=arguments.text, code=arguments.quote)
    ctx.out.data({"task": task.label, "project": task.project, "path": path, "line": int(number)})
    ctx.out.line(f"The next session of {task.label} reads it.", "good")


COMMANDS = {"task comment": Command(_arguments, _comment, epilog=EXAMPLES)}
