"""What can be seen of anything that has an address: show, log."""

from __future__ import annotations

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board.events.incidents import Incident
from handoff.board.tasks.batches import Batch
from handoff.board.tasks.flows import Flow
from handoff.board.tasks.tasks import Task
from handoff.engine.tasks import admin
from handoff.surfaces.cli.command import Command, flag, option, optional_word, project_option
from handoff.surfaces.cli.commands.tasks.board import chosen_project, event_data, event_line, show_task

if TYPE_CHECKING:
    import argparse

    from handoff.board.addresses import Addressed
    from handoff.board.events.journal import Event
    from handoff.surfaces.cli.command import Context, Parser

_FOLLOW_SECONDS = 0.5
ADDRESS = "a task, BATCH/PART, batch, flow or incident; of several of one name task:NAME, batch:NAME or flow:NAME"


def address_arguments(parser: Parser) -> None:
    """What an act or a view is about."""
    parser.add_argument("address", metavar="ADDRESS", help=ADDRESS)
    project_option(parser)


def _found(ctx: Context, arguments: argparse.Namespace) -> Addressed:
    if getattr(arguments, "only_tasks", False):  # a sandboxed session reads tasks, and nothing else
        return admin.find_task(ctx.app, arguments.address, project=arguments.project)
    return admin.find_address(ctx.app, arguments.address, project=arguments.project)


# --- show and log --------------------------------------------------------------------------------------------


def _show(ctx: Context, arguments: argparse.Namespace) -> None:
    found = _found(ctx, arguments)
    if isinstance(found, Task):
        show_task(ctx, found)
    elif isinstance(found, Batch):
        from handoff.surfaces.cli.commands.tasks import fan_in

        fan_in.show(ctx, found)
    elif isinstance(found, Flow):
        from handoff.surfaces.cli.commands.workflows import flows

        flows.show(ctx, found)
    else:
        from handoff.surfaces.cli.commands.git import incidents

        incidents.show(ctx, found)


def _log_arguments(parser: Parser) -> None:
    optional_word(parser, "address", "ADDRESS", "only what happened to this; with --git a range of commits")
    project_option(parser, every=True)
    flag(parser, "--git", "show what was verified for each commit, from its git notes")
    flag(parser, "--archive", "show lines that `prune --journal` has put into files on this machine")
    option(parser, "-n --lines N", "how many lines to begin with (default: 30)", 30)
    flag(parser, "-f --follow", "wait for more; end it with Ctrl-C")


def _log(ctx: Context, arguments: argparse.Namespace) -> None:
    if arguments.git:
        from handoff.surfaces.cli.commands.git import notes

        notes.check_words(arguments)
        notes.show_log(ctx, arguments.address, limit=max(1, arguments.lines))
        return
    project = chosen_project(ctx, arguments)
    if arguments.archive:
        old = admin.read_archive(
            ctx.app, project=project, address=arguments.address or "", limit=max(1, arguments.lines)
        )
        ctx.out.data([event_data(event) for event in old])
        for event in old:
            _tell(ctx, event, follow=False)
        return
    found = _found(ctx, arguments) if arguments.address else None
    if isinstance(found, Incident):
        raise UserError("An incident has no log of its own.", f"See it: {ctx.settings.program} show {found.id}")
    if isinstance(found, Flow) and not arguments.follow:
        from handoff.surfaces.cli.commands.workflows import flows

        flows.log(ctx, found)
        return
    # Before the reading, here as below: what is written between the two is then found at the next look.
    mark, seen = ctx.app.database.change_mark(), ctx.app.database.settled()
    lines = _lines(ctx, project, found, limit=max(1, arguments.lines))
    if not arguments.follow:
        ctx.out.data([event_data(event) for event in lines])
    told = {event.seq for event in lines}
    seen = min(seen, max(told, default=0))
    for event in lines:
        _tell(ctx, event, follow=arguments.follow)
    while arguments.follow:
        ctx.app.clock.sleep(_FOLLOW_SECONDS)
        now = ctx.app.database.change_mark()
        if now == mark:
            continue
        mark, settled = now, ctx.app.database.settled()
        for event in _lines(ctx, project, found, since=seen):
            if event.seq not in told:  # on Postgres a line may come behind one that has a higher number
                _tell(ctx, event, follow=True)
                told.add(event.seq)
        seen = max(seen, min(settled, max(told, default=0)))


def _lines(
    ctx: Context, project: str, found: Task | Batch | Flow | None, *, limit: int = 50, since: int | None = None
) -> list[Event]:
    if found is None or isinstance(found, Task):
        return admin.events(ctx.app, project=project, task=found, limit=limit, since=since)
    return admin.events_of(ctx.app, found, limit=limit, since=since)


def _tell(ctx: Context, event: Event, *, follow: bool) -> None:
    ctx.out.line(event_line(event))
    if follow:
        ctx.out.data(event_data(event))


COMMANDS = {
    "show": Command(address_arguments, _show),
    "log": Command(_log_arguments, _log),
}
