"""What can be done to anything that has an address: show, log, retry, pause, resume, cancel."""

from __future__ import annotations

from handoff.base.errors import UsageError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board.events.incidents import Incident
from handoff.board.tasks.batches import Batch
from handoff.board.tasks.flows import Flow
from handoff.board.tasks.tasks import Task
from handoff.engine.home import find_project
from handoff.engine.tasks import admin
from handoff.surfaces.cli.command import Command, flag, option, optional_word, project_option
from handoff.surfaces.cli.commands.tasks.board import (
    brief_of,
    chosen_project,
    event_data,
    event_line,
    mend_files,
    show_task,
)

if TYPE_CHECKING:
    import argparse

    from handoff.board.addresses import Addressed
    from handoff.board.events.journal import Event
    from handoff.surfaces.cli.command import Context, Parser

_FOLLOW_SECONDS = 0.5
_ADDRESS = "a task, BATCH/PART, batch, flow or incident; of several of one name task:NAME, batch:NAME or flow:NAME"


def _address_arguments(parser: Parser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help=_ADDRESS)
    project_option(parser)


def _found(ctx: Context, arguments: argparse.Namespace) -> Addressed:
    if getattr(arguments, "only_tasks", False):  # a sandboxed session reads tasks, and nothing else
        return admin.find_task(ctx.app, arguments.address, project=arguments.project)
    return admin.find_address(ctx.app, arguments.address, project=arguments.project)


def _refuse_incident(ctx: Context, one: Incident, what: str) -> UserError:
    program = ctx.settings.program
    return UserError(
        f"An incident cannot be {what}.",
        f"See it: {program} show {one.id}. Settle it: {program} incident seen {one.id}",
    )


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


# --- pause and resume ----------------------------------------------------------------------------------------


def _scope_arguments(parser: Parser) -> None:
    optional_word(parser, "address", "ADDRESS", f"{_ADDRESS} (default: the project)")
    flag(parser, "--everything", "every project")
    project_option(parser)


def _pause_arguments(parser: Parser) -> None:
    _scope_arguments(parser)
    option(parser, "--reason TEXT", "why, for whoever wonders")


def _resume_arguments(parser: Parser) -> None:
    _scope_arguments(parser)
    option(parser, "--max-cycles N", "a flow: allow so many cycles in all", 0)


def _scope(ctx: Context, arguments: argparse.Namespace, found: Addressed | None) -> dict[str, str]:
    if arguments.everything:
        return {"scope": "all", "project": "", "name": ""}
    project = find_project(ctx.app, name=arguments.project).name
    if isinstance(found, Batch):
        return {"scope": "batch", "project": project, "name": found.id}
    if isinstance(found, Task):
        return {"scope": "task", "project": project, "name": arguments.address.removeprefix("task:")}
    return {"scope": "project", "project": project, "name": ""}


def _in_words(scope: dict[str, str]) -> str:
    return {"all": "everything", "project": f"project {scope['project']}"}.get(
        scope["scope"], f"{scope['scope']} {scope['name']}"
    )


def _show_stop(ctx: Context, project: str) -> None:
    """What is stopped has no address in its files, and has it again when it goes on."""
    for name in [project] if project else admin.known_projects(ctx.app):
        mend_files(ctx, name, [])


def _what(ctx: Context, arguments: argparse.Namespace, said: str) -> Addressed | None:
    if arguments.everything and arguments.address:
        raise UsageError(f"Choose one of {arguments.address} and --everything.")
    found = _found(ctx, arguments) if arguments.address else None
    if isinstance(found, Incident):
        raise _refuse_incident(ctx, found, said)
    return found


def _pause(ctx: Context, arguments: argparse.Namespace) -> int:
    from handoff.engine.fanout import stop_files

    found = _what(ctx, arguments, "paused")
    if isinstance(found, Flow):
        from handoff.surfaces.cli.commands.workflows import flows

        return flows.pause(ctx, found)
    scope = _scope(ctx, arguments, found)
    fresh = stop_files.pause(ctx.app, **scope, reason=arguments.reason, by=admin.person(ctx.app))
    _show_stop(ctx, scope["project"])
    ctx.out.data({**scope, "fresh": fresh})
    said = "is stopped" if fresh else "was stopped already"
    words = f"{_in_words(scope)} {said}: nothing new is taken. What runs may finish; new tasks and reports are kept."
    ctx.out.line(words[:1].upper() + words[1:])
    return 0


def _resume(ctx: Context, arguments: argparse.Namespace) -> int:
    from handoff.engine.fanout import stop_files

    found = _what(ctx, arguments, "resumed")
    if isinstance(found, Flow):
        from handoff.surfaces.cli.commands.workflows import flows

        return flows.resume(ctx, found, max_cycles=arguments.max_cycles)
    _flows_only(arguments, "max_cycles")
    scope = _scope(ctx, arguments, found)
    gone = stop_files.resume(ctx.app, **scope)
    _show_stop(ctx, scope["project"])
    ctx.out.data({**scope, "resumed": gone})
    words = f"{_in_words(scope)} {'goes on' if gone else 'was not stopped'}."
    ctx.out.line(words[:1].upper() + words[1:])  # names keep their case
    return 0


def _flows_only(arguments: argparse.Namespace, *names: str) -> None:
    for name in names:
        if getattr(arguments, name):
            raise UsageError(f"--{name.replace('_', '-')} is for flows.", "Leave it out, or name a flow.")


# --- cancel and retry ----------------------------------------------------------------------------------------


def _cancel_arguments(parser: Parser) -> None:
    _address_arguments(parser)
    option(parser, "--reason TEXT", "why, for the journal")


def _cancel(ctx: Context, arguments: argparse.Namespace) -> int:
    found = _found(ctx, arguments)
    if isinstance(found, Flow):
        from handoff.surfaces.cli.commands.workflows import flows

        return flows.cancel(ctx, found, reason=arguments.reason)
    if isinstance(found, Batch):
        from handoff.engine.tasks import batches

        batch = batches.cancel(ctx.app, found, reason=arguments.reason)
        ctx.out.data({"batch": batch.id, "state": batch.state})
        ctx.out.line(f"Batch {batch.id} is {batch.state}; what was finished stays finished.")
        return 0
    if isinstance(found, Incident):
        raise _refuse_incident(ctx, found, "cancelled")
    outcome = admin.cancel(ctx.app, found, reason=arguments.reason)
    ctx.out.data({**brief_of(outcome.task), "stranded": [task.label for task in outcome.stranded]})
    ctx.out.line(f"{outcome.task.label} is cancelled.")
    for other in outcome.stranded:
        ctx.out.line(f"Blocked with it: {other.label}")
    return 0


def _retry_arguments(parser: Parser) -> None:
    _address_arguments(parser)
    option(parser, "--note TEXT", "a flow: what the next session is told")
    option(parser, "--phase PHASE", "a flow: go back to this phase")
    option(parser, "--max-cycles N", "a flow: allow so many cycles in all", 0)


def _retry(ctx: Context, arguments: argparse.Namespace) -> int:
    found = _found(ctx, arguments)
    if isinstance(found, Flow):
        from handoff.surfaces.cli.commands.workflows import flows

        return flows.retry(ctx, found, note=arguments.note, phase=arguments.phase, max_cycles=arguments.max_cycles)
    _flows_only(arguments, "note", "phase", "max_cycles")
    if isinstance(found, Incident):
        raise _refuse_incident(ctx, found, "tried again")
    if isinstance(found, Batch):
        return _retry_parts(ctx, found)
    outcome = admin.retry(ctx.app, found)
    ctx.out.data({**brief_of(outcome.task), "ready_now": [task.label for task in outcome.woken]})
    ctx.out.line(f"{outcome.task.label} is {outcome.task.state} again.", "good")
    return 0


def _retry_parts(ctx: Context, batch: Batch) -> int:
    from handoff.engine.tasks import batches

    blocked = [part for part in batches.parts_of(ctx.app, batch) if part.state == "blocked"]
    if not blocked:
        raise UserError(f"No part of batch '{batch.id}' is blocked.", f"See: {ctx.settings.program} show {batch.id}")
    outcomes = [admin.retry(ctx.app, part) for part in blocked]
    ctx.out.data({"batch": batch.id, "parts": [brief_of(outcome.task) for outcome in outcomes]})
    for outcome in outcomes:
        ctx.out.line(f"{outcome.task.label} is {outcome.task.state} again.", "good")
    return 0


COMMANDS = {
    "show": Command(_address_arguments, _show),
    "log": Command(_log_arguments, _log),
    "pause": Command(_pause_arguments, _pause),
    "resume": Command(_resume_arguments, _resume),
    "cancel": Command(_cancel_arguments, _cancel),
    "retry": Command(_retry_arguments, _retry),
}
