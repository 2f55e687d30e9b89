"""`handoff land` and `handoff batch collisions`."""

from __future__ import annotations

from handoff.base.errors import UsageError
from handoff.base.ids import on_one_line
from handoff.base.record import TYPE_CHECKING
from handoff.engine.place import landing as engine
from handoff.engine.work.acts import landing as acts
from handoff.surfaces.cli.command import Command, flag, no_arguments, number_of, option, pick, project_option

if TYPE_CHECKING:
    import argparse

    from handoff.surfaces.cli.command import Context, Parser

RED = 1


def _land_arguments(parser: Parser) -> None:
    text = "workspaces or branches, in the order they land; without any a landing that was cut short is finished"
    parser.add_argument("names", nargs="*", metavar="NAME", help=text)
    option(parser, "--into BRANCH", "where to (default: the branch checked out here)")
    option(parser, "--check CMD", "a command that must succeed on the merged files first")
    option(parser, "--timeout S", "seconds the check may take (default 900)", 900, type=float)
    option(parser, "-m --message TEXT", "the commit message (default: the session's own)")
    flag(parser, "--open-check", "run the check without the sandbox")
    flag(parser, "--rest", "if the check is red because of some, land the others that are green without them")
    flag(
        parser, "--approve", "also land what sessions changed in files that are obeyed unasked (.gitignore, CI files …)"
    )
    flag(parser, "--dry-run", "merge in memory and say what would happen")
    flag(
        parser,
        "--pr",
        "push it as a branch and open a request for it with your gh or glab, instead of moving your branch",
    )
    project_option(parser)


def _finish(ctx: Context) -> int:
    done = engine.finish_landings(ctx.app)
    if not done:
        raise UsageError(
            "No landing was cut short: there is nothing to finish.", "Name what to land: handoff land NAME"
        )
    ctx.out.data({"finished": [one._asdict() for one in done]})
    for one in done:
        ctx.out.line(f"Finished the landing of {', '.join(one.members)} on {one.target}.")
    return 0


def _land(ctx: Context, arguments: argparse.Namespace) -> int:
    if not arguments.names:
        return _finish(ctx)
    asked = pick(arguments, "into check timeout message open_check rest approve dry_run pr project")
    return ctx.out.done(acts.land(ctx.app, *arguments.names, **asked))


def _collisions(ctx: Context, arguments: argparse.Namespace) -> int:
    del arguments
    found = engine.find_collisions(ctx.app)
    ctx.out.data(
        {
            "workspaces": [one.name for one in found.members],
            "conflicts": [one._asdict() for one in found.hard],
            "both_changed": [one._asdict() for one in found.soft],
        }
    )
    for one in found.hard:
        ctx.out.line(f"conflict  {on_one_line(one.path)}: {one.first} and {one.second}")
    for one in found.soft:
        how, why = ("made anew", f" ({one.why})") if one.why else ("joins    ", "")
        ctx.out.line(f"{how} {on_one_line(one.path)}: {one.first} and {one.second}{why}")
    if not found.hard and not found.soft:
        ctx.out.line(f"{number_of(len(found.members), 'workspace')}, no file changed by two.")
    return RED if found.hard else 0


COMMANDS = {
    "land": Command(_land_arguments, _land),
    "batch collisions": Command(no_arguments, _collisions),
}
