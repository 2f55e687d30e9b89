"""`handoff agent list`: what is installed, what each can and cannot do, how it is fenced; `agent retry` starts a held one again."""

from __future__ import annotations

from handoff.base.markdown import number_of, shell_line
from handoff.base.record import TYPE_CHECKING
from handoff.engine.app.home import find_project
from handoff.engine.session.agents import USED_DAYS, listing
from handoff.engine.work import acts
from handoff.engine.work.tasks.splitting.score import score
from handoff.surfaces.cli.command import Command, no_arguments, pick
from handoff.surfaces.cli.commands.tasks.board import hold_data

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
            for label, words in (("with", row.can), ("without", row.cannot)):
                if words:
                    ctx.out.line(f"           {label}: {', '.join(words)}")
            ctx.out.line(f"           fenced by: {row.fence}")
            if row.arguments:
                ctx.out.line(f"           started with: {shell_line(row.arguments)}")
    return 0


# --- `handoff agent score`: the table of which agent does which kind of work well here

_WORDS = 2  # columns that hold words; the others hold numbers
_HEADS = ("agent", "work", "green", "first try", "red", "outside", "not done", "minutes")


def _score(ctx: Context, arguments: Namespace) -> int:
    """Print the table of this project, the most work first."""
    del arguments
    found = score(ctx.app, project=find_project(ctx.app).name)
    ctx.out.data([row._asdict() for row in found])
    if not found:
        ctx.out.line("No agent has finished a task here yet.")
        return 0
    rows = [
        (row.agent, row.kind, str(row.green), _share(row.first_try, row.tries), str(row.red), str(row.trespasses),
         str(row.not_done), f"{row.minutes:.1f}")
        for row in found
    ]  # fmt: skip
    wide = [max(len(line[column]) for line in (_HEADS, *rows)) for column in range(len(_HEADS))]
    for number, line in enumerate((_HEADS, *rows)):
        words = "  ".join(
            word.ljust(width) if at < _WORDS else word.rjust(width)
            for at, (word, width) in enumerate(zip(line, wide, strict=True))
        )
        ctx.out.line(words.rstrip(), "dim" if number == 0 else "")
    return 0


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


COMMANDS = {
    "agent list": Command(no_arguments, _agents, epilog=EXAMPLES),
    "agent retry": Command(_retry_arguments, _retry),
    "agent score": Command(no_arguments, _score),
}
