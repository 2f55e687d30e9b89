"""`project`: which projects this machine knows, and how one is moved or renamed; `import`: what comes in from another tool or a forge."""

from __future__ import annotations

import os

from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks.tasks import ISSUE, ISSUE_LABEL
from handoff.engine.app.home import find_project
from handoff.engine.place import workspaces
from handoff.engine.place.fanout import older
from handoff.engine.place.task_clones import of_cancelled
from handoff.engine.supervisor import handoff_fanout
from handoff.engine.work.tasks import admin, create, projects
from handoff.git.plumbing import find_top
from handoff.git.snapshots.take import RetentionRules
from handoff.git.workspaces import READY
from handoff.surfaces.cli.command import (
    Command,
    flag,
    landing_option,
    option,
    optional_word,
    pick,
    project_option,
)
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


IMPORT_EPILOG = """The import takes live and blocked tasks, open batches with their parts' reports, measures, stops and config.json. What its tabs
report later counts too; a task of such a tab waits for that report. Each open batch gets two marks there, so that handoff-fanout
opens no fan-in of its own; its other files are only read. In a home that both tools share, handoff's files go to a folder 'relay'.
Run it again to take in what is new."""
_SHOWN = {handoff_fanout.NEW: "good", handoff_fanout.KNOWN: "dim", handoff_fanout.REFUSED: "bad"}
_KIND = {handoff_fanout.MEASURE: "measure of batch"}


def _import_arguments(parser: Parser) -> None:
    text = "Open here what is live in a home of handoff-fanout (a dry run unless --execute)."
    verb = parser.verb("fanout", "move over from handoff-fanout", text)
    optional_word(
        verb, "folder", "DIR", "its home (default: where one is found: this home, ~/.handoff, ~/.claude-handoff)"
    )
    option(verb, "--project NAME", "only this project of the old home")
    option(verb, "--workspace DIR", "where the checkout is now, if the one it names is gone")
    flag(verb, "--execute", "do it; without this it is only shown")
    text = "Make a task of each open issue with a label that never had one, by your own gh or glab."
    verb = parser.verb("issues", "take in the issues of your forge that have a label", text)
    option(verb, "--label NAME", f"the label (default: {ISSUE_LABEL})", ISSUE_LABEL)
    option(verb, "--agent NAME", "which agent the tasks are for")
    option(verb, "--check CMD", "command that must end with exit 0 before each counts as done")
    landing_option(verb, "")
    project_option(verb)


def _import_issues(ctx: Context, arguments: Namespace) -> int:
    from handoff.engine.work.forges import issues

    create.check_agents(ctx.app, arguments.agent)
    project = create.project_of_caller(ctx.app, name=arguments.project)
    request = create.Request(task="", brief="", **pick(arguments, "agent check landing"))
    found = issues.take_labelled(ctx.app, arguments.label, request=request, project=project)
    ctx.out.data([{"task": task.label, "issue": task.baseline_facts[ISSUE]} for task in found])
    for task in found:
        ctx.out.line(f"  {task.label}: {task.baseline_facts[ISSUE]}", "good")
    ctx.out.line(f"Taken in: {number_of(len(found), 'issue')} with the label '{arguments.label}'.")
    return 0


def _import(ctx: Context, arguments: Namespace) -> int:
    if arguments.verb == "issues":
        return _import_issues(ctx, arguments)
    folder = arguments.folder or older.home_with_work(ctx.app) or ctx.settings.home
    plan = handoff_fanout.import_home(
        ctx.app,
        path=folder,
        project=arguments.project,
        workspace=arguments.workspace,
        execute=arguments.execute,
    )
    out, program = ctx.out, ctx.settings.program
    out.data({**plan._asdict(), "items": [item._asdict() for item in plan.items], "executed": arguments.execute})
    out.line(f"The home of handoff-fanout: {plan.home}", "strong")
    words = {
        handoff_fanout.NEW: "taken in" if arguments.execute else "would be taken in",
        handoff_fanout.KNOWN: "stays as it is",
    }
    for item in plan.items:
        where = f"{item.project}/" if item.project not in ("", "*", item.name) else ""
        fate = words.get(item.fate, "NOT taken in")
        out.line(f"  {_KIND.get(item.kind, item.kind)} {where}{item.name}: {fate} ({item.words})", _SHOWN[item.fate])
    for fault in plan.faults:
        out.warning(fault)
    refused = plan.count(handoff_fanout.REFUSED)
    if not plan.items:
        out.line("Nothing of handoff-fanout that is live was found there.")
    elif not plan.count(handoff_fanout.NEW):
        out.line("Nothing is new." if not refused else "Nothing could be taken in.")
    elif not arguments.execute:
        again = f"{program} import fanout{' ' + arguments.folder if arguments.folder else ''} --execute"
        out.line(f"Nothing was changed. To take in {number_of(plan.count(handoff_fanout.NEW), 'thing')}: {again}")
    else:
        ended = f"; {number_of(plan.ended, 'finished thing')} stay there as history" if plan.ended else ""
        out.line(
            f"Taken in: {plan.count(handoff_fanout.NEW)}. Nothing of it was removed there{ended}. See: {program} task list --all-projects"
        )
    return 1 if refused else 0


COMMANDS = {
    "project": Command(_arguments, _project, epilog=_EPILOG),
    "project tidy": Command(_tidy_arguments, _tidy),
    "prune": Command(_prune_arguments, _prune),
    "import": Command(_import_arguments, _import, epilog=IMPORT_EPILOG),
}
