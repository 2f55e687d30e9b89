"""A person's yes or no: gates, approve, reject."""

from __future__ import annotations

from handoff.base.clock import age
from handoff.base.record import TYPE_CHECKING
from handoff.engine import steering
from handoff.engine.home import find_project
from handoff.surfaces.cli.command import Command

if TYPE_CHECKING:
    import argparse

    from handoff.surfaces.cli.command import Context, Parser


def _gates_arguments(parser: Parser) -> None:
    parser.add_argument("--project", metavar="NAME", default="", help="project (default: the name of this checkout)")
    parser.add_argument("--all-projects", action="store_true", help="look at every project")
    parser.add_argument("--all", dest="every", action="store_true", help="also gates that were answered")


def _gates(ctx: Context, arguments: argparse.Namespace) -> None:
    project = "" if arguments.all_projects else find_project(ctx.app, name=arguments.project).name
    found = steering.waiting(ctx.app, project=project, every=arguments.every)
    ctx.out.data([{"project": item.project, "task": item.task, **item.gate._asdict()} for item in found])
    now = ctx.app.clock.now()
    for item in found:
        gate = item.gate
        said = "overdue" if gate.overdue_at is not None and gate.state == "open" else gate.state
        ctx.out.line(f"{item.task:<24} {said:<9} {age(now - gate.opened_at):>7}  {gate.question}")
    if not found:
        ctx.out.line("Nothing waits for your answer.")
    elif any(item.gate.state == "open" for item in found):
        program = ctx.settings.program
        ctx.out.line(f"Answer with: {program} approve TASK, or {program} reject TASK REASON")


def _task(parser: Parser) -> None:
    parser.add_argument("task", metavar="TASK", help="task that waits at the gate")
    parser.add_argument("--project", metavar="NAME", default="", help="project (default: the name of this checkout)")


def _approve_arguments(parser: Parser) -> None:
    _task(parser)
    parser.add_argument("--reason", metavar="TEXT", default="", help="a word for the journal")


def _approve(ctx: Context, arguments: argparse.Namespace) -> None:
    task = steering.find_task(ctx.app, arguments.task, project=arguments.project)
    outcome = steering.approve(ctx.app, task, reason=arguments.reason)
    ctx.out.data({"task": outcome.task.label, "state": outcome.task.state})
    ctx.out.line(f"Approved: {outcome.task.label} is {outcome.task.state}.", "good")


def _reject_arguments(parser: Parser) -> None:
    _task(parser)
    parser.add_argument("reason", metavar="REASON", help="what must change; the next session reads it")


def _reject(ctx: Context, arguments: argparse.Namespace) -> None:
    task = steering.find_task(ctx.app, arguments.task, project=arguments.project)
    outcome = steering.reject(ctx.app, task, reason=arguments.reason)
    ctx.out.data({"task": outcome.task.label, "state": outcome.task.state, "reason": outcome.task.reason})
    ctx.out.line(f"Rejected: {outcome.task.label} is {outcome.task.state}.")
    ctx.out.line(f"To let it try again: {ctx.settings.program} retry {outcome.task.label}")


COMMANDS = {
    "gates": Command(_gates_arguments, _gates),
    "approve": Command(_approve_arguments, _approve),
    "reject": Command(_reject_arguments, _reject),
}
