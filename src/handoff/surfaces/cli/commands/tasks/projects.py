"""`project`: which projects this machine knows, and how one is moved or renamed."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING
from handoff.engine.app.home import find_project
from handoff.engine.place import workspaces
from handoff.engine.place.task_clones import of_cancelled
from handoff.engine.work.tasks import admin, projects
from handoff.git.plumbing import find_top
from handoff.git.snapshots.retention import RetentionRules
from handoff.git.workspaces.workspaces import READY
from handoff.surfaces.cli.command import Command, flag, number_of, option, project_option
from handoff.surfaces.cli.commands.tasks.board import chosen_project

if TYPE_CHECKING:
    import argparse
    from argparse import Namespace
    from typing import Any

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
        from handoff.engine.place.fanout import views

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


# --- `project tidy`: forget what ended long ago and remove what nobody uses; `prune` is the part of it that handoff-fanout had

_MB = 1024**2


def _prune_arguments(parser: Parser) -> None:
    project_option(parser, every=True)
    option(parser, "--days N", "what ended, or was taken, more than N days ago (default: 30)", RetentionRules().days)
    flag(parser, "--journal", "also put lines of the journal that nothing needs any more into files, one a month")
    flag(parser, "--execute", "do it; without this it is only said")


def _tidy_arguments(parser: Parser) -> None:
    _prune_arguments(parser)
    option(
        parser,
        "--newest N",
        "always keep the newest N snapshots of each workspace (default: 10)",
        RetentionRules().newest,
    )
    option(parser, "--size MB", "how large the snapshot store may be (default: 2048)", RetentionRules().size // _MB)


def _prune(ctx: Context, arguments: argparse.Namespace) -> None:
    ctx.out.data({"executed": arguments.execute, **_forget(ctx, arguments)})
    if not arguments.execute:
        ctx.out.line("To do it, say the same with --execute.")


def _forget(ctx: Context, arguments: argparse.Namespace) -> dict[str, Any]:
    found = admin.prune(
        ctx.app,
        project=chosen_project(ctx, arguments),
        days=arguments.days,
        execute=arguments.execute,
        put_away=arguments.journal,
    )
    for path in found.files:
        ctx.out.line(path)
    verb = "Forgot" if arguments.execute else "Would forget"
    ctx.out.line(f"{verb} {number_of(len(found.tasks), 'task')} and {number_of(len(found.files), 'file')}.")
    if found.sessions:
        ctx.out.line(f"{verb} what {number_of(len(found.sessions), 'session')} of this machine said.")
    if arguments.journal:
        done = "Put" if arguments.execute else "Would put"
        ctx.out.line(f"{done} {number_of(found.lines, 'line')} of the journal into {found.archive}.")
        if found.lines and arguments.execute:
            ctx.out.line(f"Read them there: {ctx.settings.program} log --archive")
    return {
        "tasks": [task.label for task in found.tasks],
        "files": found.files,
        "sessions": found.sessions,
        "lines": found.lines,
        "archive": found.archive if arguments.journal else "",
    }


def _tidy(ctx: Context, arguments: argparse.Namespace) -> None:
    forgotten = _forget(ctx, arguments)
    # Snapshots and workspaces belong to a checkout: of the one we stand in.
    here = bool(find_top(os.getcwd())) and not arguments.all_projects and not arguments.project
    removed = _remove(ctx, arguments) if here else {}
    ctx.out.data({"executed": arguments.execute, **forgotten, **removed})
    names = ("tasks", "files", "sessions", "lines", "snapshots", "workspaces", "scratch")
    if not arguments.execute and any({**forgotten, **removed}.get(name) for name in names):
        ctx.out.note(f"Do it: {ctx.settings.program} project tidy --execute")


def _remove(ctx: Context, arguments: argparse.Namespace) -> dict[str, Any]:
    rules = RetentionRules(arguments.days, max(1, arguments.newest), arguments.size * _MB)
    over = of_cancelled(ctx.app, find_project(ctx.app).name)
    found = workspaces.tidy(ctx.app, rules=rules, over=over, apply=arguments.execute)
    verb = "Removed" if arguments.execute else "Would remove"
    snapshots, folders = number_of(len(found.snapshots), "snapshot"), number_of(len(found.workspaces), "workspace")
    ctx.out.line(f"{verb} {snapshots} and {folders}.")
    for one in found.workspaces:
        why = (
            "its task was cancelled; all it holds is kept"
            if one.state == READY
            else f"it was never finished: {one.state}"
        )
        ctx.out.line(f"  {one.name} ({why})")
    for why in found.stay:
        ctx.out.line(f"  stays: {why}")
    ctx.out.line(f"The snapshot store takes {found.size / _MB:.1f} MB (limit {arguments.size} MB).")
    if found.scratch:
        count = number_of(len(found.scratch), "folder")
        ctx.out.line(f"{verb} {count} in which checks ran and that nobody has used for a day.")
    return {
        "snapshots": [one.sha for one in found.snapshots],
        "workspaces": [one.name for one in found.workspaces],
        "bytes": found.size,
        "scratch": list(found.scratch),
        "stay": list(found.stay),
    }


COMMANDS = {
    "project": Command(_arguments, _project, epilog=_EPILOG),
    "project tidy": Command(_tidy_arguments, _tidy),
    "prune": Command(_prune_arguments, _prune),
}
