"""The watchdog by hand."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.command import Command, flag, number_of, option, pick
from handoff.surfaces.cli.overview import tell_older

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from handoff.engine.supervisor.watchdog import Round
    from handoff.surfaces.cli.command import Context, Parser


def _watchdog_arguments(parser: Parser) -> None:
    group = parser.add_mutually_exclusive_group()
    flag(group, "--once", "look once (this is the default)")
    flag(group, "--watch", "look again and again; end it with Ctrl-C")
    option(parser, "--every SECONDS", "pause between two looks (default: 15)", 15.0)
    flag(parser, "--deep", "also recount the open batches")


def _watchdog(ctx: Context, arguments: argparse.Namespace) -> None:
    from handoff.engine.supervisor import notifications, watchdog

    first = True
    while True:
        found = watchdog.look(ctx.app, deep=arguments.deep)
        for words in notifications.deliver_or_tell(ctx.app):
            ctx.out.warning(words)
        if first or not found.quiet or ctx.out.json_wanted:
            _tell(ctx, found)
        if first:
            tell_older(ctx, every=True)
        first = False
        _wait(ctx, max(0.1, arguments.every) if arguments.watch else 0.0)
        if not arguments.watch:
            return


def _wait(ctx: Context, seconds: float) -> None:
    """Wait until the next look; meanwhile touched markers count, and tabs open by themselves if the person asked for that."""
    from handoff.engine.supervisor import tabs

    found = tabs.watch(ctx.app, seconds)
    _tell_markers(ctx, found.taken_in, found.refused)
    for tab in found.tabs:
        name = f"{tab.project}/{tab.task}"
        if tab.opened:
            ctx.out.line(f"{name}: {tab.words}")
        else:
            ctx.out.warning(
                f"{name}: no tab was opened: {tab.words} By hand: {ctx.settings.program} task open {tab.task}"
            )


def _tell_markers(ctx: Context, taken_in: tuple[str, ...], refused: tuple[str, ...]) -> None:
    for line in taken_in:
        ctx.out.line(f"A touched marker was taken in: {line}")
    for line in refused:
        ctx.out.line(f"A touched marker was not believed: {line}")


def _tell(ctx: Context, found: Round) -> None:
    report = found.report
    ctx.out.data(
        {
            "freed": [_line(task) for task in report.freed],
            "blocked": [_line(task) for task in report.blocked],
            "opened_fan_ins": [task.label for task in report.opened_fan_ins],
            "woken": [task.label for task in report.woken],
            "idle_fan_ins": [task.label for task in report.idle_fan_ins],
            "overdue_batches": [batch.id for batch in report.overdue_batches],
            "overdue_gates": [gate.question for gate in report.overdue_gates],
            "defaulted_gates": [gate.question for gate in report.defaulted_gates],
            "ended_sessions": list(report.ended_sessions),
            "taken_in": list(found.taken_in),
            "refused": list(found.refused),
            "files": found.files,
            "incidents": found.incidents,
            "projects": found.projects,
        }
    )
    say, program = ctx.out.line, ctx.settings.program
    for task in report.freed:
        say(f"{task.project}/{task.label}: {task.reason}; ready for attempt {task.attempt} of {task.max_attempts}")
    for task in report.blocked:
        say(
            f"{task.project}/{task.label}: blocked, {task.reason}. To try again: {program} retry {task.label} --project {task.project}"
        )
    for task in report.opened_fan_ins:
        say(f"{task.project}/{task.label}: its batch is whole, the fan-in is ready")
    for task in report.woken:
        say(f"{task.project}/{task.label}: what it waited for is done, it is ready")
    for task in report.idle_fan_ins:
        say(
            f"{task.project}/{task.label}: this fan-in is ready and nobody takes it: {program} task open {task.label} --project {task.project}"
        )
    for batch in report.overdue_batches:
        say(
            f"{batch.project}/{batch.id}: this batch has passed its time: {program} heartbeat status {batch.id} --project {batch.project}"
        )
    for gate in report.overdue_gates:
        say(f"A gate is overdue: {gate.asked} ({program} gate list)")
    for gate in report.defaulted_gates:
        say(f"Nobody answered in time: '{gate.fallback}' counts for: {gate.asked}")
    _tell_markers(ctx, found.taken_in, found.refused)
    if found.incidents:
        say(f"New incidents: {found.incidents}. See: {program} incident list --all")
    count = len(report.freed) + len(report.blocked)
    say(
        f"[watchdog] looked at {number_of(found.projects, 'project')}: {number_of(count, 'silent session')},"
        f" {number_of(len(report.opened_fan_ins), 'fan-in')} opened, {number_of(found.files, 'file')} fixed"
    )


def _line(task: Any) -> dict[str, Any]:
    return {"task": task.label, **pick(task, "project attempt reason")}


COMMANDS = {"watchdog": Command(_watchdog_arguments, _watchdog)}
