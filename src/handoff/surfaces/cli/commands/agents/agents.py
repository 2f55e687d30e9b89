"""`handoff agent list`: what is installed, what each can and cannot do, how it is fenced; `agent retry` starts a held one again."""

from __future__ import annotations

from handoff.base.markdown import number_of, shell_line
from handoff.base.record import TYPE_CHECKING
from handoff.engine import acts
from handoff.engine.clients.agents import USED_DAYS, listing
from handoff.surfaces.cli.command import Command, no_arguments, pick
from handoff.surfaces.cli.commands.tasks.holds import hold_data

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context, Parser


EXAMPLES = """examples:
  handoff agent list            what is installed, what it can do, what is held by its provider
  handoff agent retry claude    start it again now: you have logged in, or the limit is over
"""


def _retry_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the agent that is to be started again")


def _retry(ctx: Context, arguments: Namespace) -> int:
    return ctx.out.done(acts.retry_agent(ctx.app, arguments.name))


def _agents(ctx: Context, arguments: Namespace) -> int:
    del arguments
    rows = listing(ctx.app)
    ctx.out.data(
        [
            {
                **pick(row, "name title"),
                "installed": bool(row.program),
                **pick(row, "program version"),
                "arguments": list(row.arguments),
                "too_old": row.old,
                **pick(row, "can cannot fence"),
                "held": hold_data(row.held),
                "used": row.used._asdict() if row.used else None,
            }
            for row in rows
        ]
    )
    for row in rows:
        there = row.program or row.name == "person"
        state = row.version or ("ready" if there else "not installed")
        ctx.out.line(f"{row.name:<10} {state}", "good" if there else "dim")
        if row.held:
            ctx.out.line(f"           held {row.held.words}", "warn")
        if row.used:
            ctx.out.line(f"           {USED_DAYS} days: {number_of(row.used.sessions, 'session')}, {row.used.words}")
        if there:
            if row.old:
                ctx.out.line("           too old for its hooks: it is supervised only", "warn")
            for label, words in (("can", row.can), ("cannot", row.cannot)):
                if words:
                    ctx.out.line(f"           {label}: {', '.join(words)}")
            ctx.out.line(f"           fenced by: {row.fence}")
            if row.arguments:
                ctx.out.line(f"           started with: {shell_line(row.arguments)}")
    return 0


COMMANDS = {
    "agent list": Command(no_arguments, _agents, epilog=EXAMPLES),
    "agent retry": Command(_retry_arguments, _retry),
}
