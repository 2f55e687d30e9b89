"""`project`: which projects this machine knows, and how one is moved or renamed."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.engine.home import find_project
from handoff.engine.workspaces import projects
from handoff.surfaces.cli.command import Command, flag

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context, Parser

_EPILOG = """A project is named after its checkout's folder; git's own folder tells two of the same name apart, and the second gets
a longer name. A name of one letter, or one that handoff needs for itself, gets '-project' behind it. Worktrees share a project.
A checkout that is moved or renamed keeps its project: its git folder knows the name."""


def _arguments(parser: Parser) -> None:
    parser.verb("list", "show the projects of this machine", "Show the projects of this machine and where they are.")
    text = "Give a project whose checkout is gone to the checkout you stand in (a dry run unless --execute)."
    move = parser.verb("move", "take over a project whose checkout is gone", text)
    move.add_argument("name", metavar="PROJECT", help="the project to take over")
    text = "Let a project go by another name (a dry run unless --execute)."
    rename = parser.verb("rename", "let a project go by another name", text)
    rename.add_argument("name", metavar="PROJECT", help="its name now")
    rename.add_argument("new", metavar="NAME", help="its name from then on")
    for verb in (move, rename):
        flag(verb, "--execute", "do it; without this it is only shown")


def _project(ctx: Context, arguments: Namespace) -> None:
    if arguments.verb == "list":
        _list(ctx)
        return
    if arguments.verb == "move":
        found = projects.move(ctx.app, name=arguments.name, execute=arguments.execute)
        words = f"project {found.name} with {_tasks(found)}: from {', '.join(found.gone) or 'nowhere'} to {found.folders[0]}"
    else:
        found = projects.rename(ctx.app, name=arguments.name, new=arguments.new, execute=arguments.execute)
        words = f"project {arguments.name} with {_tasks(found)}: it is called {found.name}"
    ctx.out.data({**found._asdict(), "executed": arguments.execute})
    if arguments.execute:
        from handoff.engine.fanout import views

        views.refresh(ctx.app, found.name, whole=True)
        ctx.out.line(f"Done: {words}")
    else:
        ctx.out.line(f"Would change: {words}")
        ctx.out.line("Nothing was changed. To do it, say the same with --execute.")


def _tasks(found: projects.KnownProject) -> str:
    return f"{found.tasks} {'task' if found.tasks == 1 else 'tasks'} ({found.live} live)"


def _list(ctx: Context) -> None:
    here, program = find_project(ctx.app).name, ctx.settings.program
    known = projects.listing(ctx.app)
    ctx.out.data([{**one._asdict(), "here": one.name == here} for one in known])
    for one in known:
        mark = "*" if one.name == here else " "
        ctx.out.line(
            f"{mark} {one.name:<24} {_tasks(one)}  {', '.join(one.folders)}".rstrip(), "good" if mark == "*" else ""
        )
        for place in one.gone:
            ctx.out.line(f"    its folder is gone: {place}", "warn")
        if one.gone and not one.folders:
            ctx.out.line(f"    in its new folder: {program} project move {one.name}")
    if not known:
        ctx.out.line(f"No project has tasks yet. This checkout would be '{here}'.")


COMMANDS = {"project": Command(_arguments, _project, epilog=_EPILOG)}
