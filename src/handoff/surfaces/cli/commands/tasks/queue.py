"""`task list`: what is live, in order, and what keeps it."""

from __future__ import annotations

from handoff.base.clock import age
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.place.fanout import views
from handoff.engine.work import overview
from handoff.engine.work.tasks import admin
from handoff.surfaces.cli.command import Command, flag, option, pick, project_option
from handoff.surfaces.cli.commands.tasks.board import by_task, chosen_project, hold_data, tell_agents, words_of
from handoff.surfaces.cli.overview import tell_older
from handoff.surfaces.vocabulary import LOOKS

if TYPE_CHECKING:
    import argparse

    from handoff.board.sessions.holds import Hold
    from handoff.engine.work.tasks.admin import Board
    from handoff.surfaces.cli.command import Context, Parser


def _arguments(parser: Parser) -> None:
    project_option(parser, every=True)
    option(parser, "--state STATE", "only tasks in this state")
    flag(parser, "--all", "also tasks that have ended, newest first", dest="include_ended")
    option(parser, "--limit N", "how many to show at most (default: 200)", 200)


def _queue(ctx: Context, arguments: argparse.Namespace) -> None:
    admin.check_state(arguments.state)
    project = chosen_project(ctx, arguments)
    if project:
        _take_in(ctx, project)
    found = admin.board(ctx.app, project=project, **pick(arguments, "state include_ended limit"))
    if project:
        views.mend_or_tell(ctx.app, project, found.tasks)
    held = by_task(found.holds, found.tasks)
    ctx.out.data(
        {
            "project": project,
            "tasks": [
                {
                    **task.shown(),
                    "labels": list(found.labels.get(task.key, ())),
                    "held": hold_data(held.get(task.key)),
                    "look": found.standing[task.key].look,
                    "ended": found.standing[task.key].ending,
                }
                for task in found.tasks
            ],
            "stops": [stop._asdict() for stop in found.stops],
            "holds": [hold_data(one) for one in found.holds],
            "gates": found.gates,
            "in_all": found.in_all,
        }
    )
    program = ctx.settings.program
    for stop in found.stops:
        why = stop.reason or "no reason given"
        ctx.out.line(f"Stopped: {stop.words}, {why}. Go on with: {stop.way_back}", "warn")
    tell_agents(ctx, found.holds)
    _tell_tasks(ctx, found, held, every=not project)
    if found.in_all > len(found.tasks):
        cut = f"Only the first {len(found.tasks)} of {found.in_all} are shown."
        ctx.out.line(f"{cut} All: {program} task list --limit {found.in_all}", "warn")
    if not found.in_all:
        scope = f"in project {project}" if project else "anywhere"
        ctx.out.line(
            f"No {arguments.state or ('' if arguments.include_ended else 'live')} tasks {scope}.".replace("  ", " ")
        )
        ctx.out.line(f"Write one down: {program} task add ID 'what to do'")
        _tell_left_behind(ctx)
    tell_older(ctx, every=True)
    if found.gates:
        waits = "1 gate waits" if found.gates == 1 else f"{found.gates} gates wait"
        ctx.out.line(f"{waits} for your answer: {program} gate list", "warn")


def _tell_left_behind(ctx: Context) -> None:
    from handoff.engine.app.home import find_project
    from handoff.engine.work.tasks import projects

    for one in projects.left_behind(ctx.app, find_project(ctx.app).workspace):
        words = (
            f"Project {one.name} has {one.live} live, and its checkout {one.gone[0]} is gone. If this is its new place:"
        )
        ctx.out.line(f"{words} {ctx.settings.program} project move {one.name}", "warn")


def _take_in(ctx: Context, project: str) -> None:
    """What people said by touching files counts before the list is shown; where nothing can be written, it is only shown."""
    from handoff.engine.place.fanout import stop_files
    from handoff.engine.supervisor import watchdog

    try:
        stop_files.read_files(ctx.app, project)
        for line in watchdog.take_in_markers(ctx.app, [project])[1]:
            ctx.out.warning(f"a marker was not believed: {line}")
    except UserError as error:
        if not ctx.app.is_open:
            raise
        ctx.out.warning(f"stop files and markers were not taken in: {error.message}")


def _tell_tasks(ctx: Context, found: Board, held: dict[int, Hold], *, every: bool) -> None:
    now = ctx.app.clock.now()
    width = min(48, max((len(task.label) for task in found.tasks), default=0))
    for task in found.tasks:
        where = f"{task.project}  " if every else ""
        line = " ".join((task.reason or (task.ended and task.result) or task.brief).split())[:60]
        item = found.standing[task.key]
        if task.key in held:  # here nothing is cut: it ends with what mends it
            line = held[task.key].words
        if item.look in (overview.ENDED, overview.QUIET):
            line = words_of(item)
        if task.key in found.labels:
            line += f"  (on a host with {', '.join(found.labels[task.key])})"
        shown = LOOKS[item.look]
        state = ctx.out.style(f"{shown.word:<10}", shown.style)
        ctx.out.line(f"{where}{task.label:<{width}}  {state}  {age(now - task.changed_at):>7}  {line}".rstrip())


COMMANDS = {"task list": Command(_arguments, _queue)}
