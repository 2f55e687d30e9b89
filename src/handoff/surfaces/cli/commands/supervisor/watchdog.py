"""By hand what the supervisor does by itself: the `watchdog` looks for what is silent, `notify` tells people and programs."""

from __future__ import annotations

from handoff.base.clock import age
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.command import Command, flag, option, optional_word, pick
from handoff.surfaces.cli.overview import tell_older

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from handoff.engine.supervisor.notifications import ChannelStatus
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
    from handoff.engine.supervisor import watchdog

    found = watchdog.wait_and_watch(ctx.app, seconds)
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


_EPILOG = """\
examples:
  handoff notify test phone          send a test to one channel
  handoff notify deliver             tell every channel what is new; the supervisor and the watchdog do it too
"""


def _arguments(parser: Parser) -> None:
    parser.verb(
        "status",
        "show the channels, their events, and whether they work",
        "Show the channels, what each gets, how far it has come and what went wrong.",
    )
    test = parser.verb(
        "test",
        "send a test now",
        "Send a test now. A channel that was given up because nobody listened is taken up again if it goes.",
    )
    optional_word(test, "channel", "CHANNEL", "which channel (default: all)")
    parser.verb(
        "deliver",
        "tell every channel what is new",
        "One round: tell every channel what the journal has for it. For cron, where neither supervisor nor watchdog runs.",
    )


def _notify(ctx: Context, arguments: argparse.Namespace) -> int:
    return {"status": _status, "test": _test, "deliver": _deliver}[arguments.verb](ctx, arguments)


def _status(ctx: Context, arguments: argparse.Namespace) -> int:
    from handoff.engine.supervisor import notifications

    del arguments
    found = notifications.status(ctx.app)
    ctx.out.data([_data(one) for one in found])
    now = ctx.app.clock.now()
    for one in found:
        channel, progress = one.channel, one.progress
        where = f" in {', '.join(channel.projects)}" if channel.projects else ""
        ctx.out.line(f"{channel.name:<16} {channel.shown:<32} {', '.join(channel.events)}{where}", "strong")
        if progress is None:
            ctx.out.line("    nothing was sent yet")
            continue
        last = f", last {age(now - progress.sent_at)} ago" if progress.sent_at else ""
        ctx.out.line(
            f"    {progress.sent} sent{last}, {progress.dropped} dropped, {one.behind} of the journal's lines to read"
        )
        if progress.state == "gone":
            ctx.out.line(
                f"    given up: {progress.trouble}. Take it up again: {ctx.settings.program} notify test {channel.name}",
                "bad",
            )
        elif progress.trouble:
            wait = f"; again in {age(progress.next_at - now)}" if progress.next_at > now else ""
            ctx.out.line(f"    {progress.trouble} (tries: {progress.tries}{wait})", "warn")
    return 0


def _data(one: ChannelStatus) -> dict[str, object]:
    channel, progress = one.channel, one.progress
    shown = {
        "channel": channel.name,
        "kind": channel.kind,
        "place": channel.shown,
        "events": list(channel.events),
        "projects": list(channel.projects),
        "answers": channel.answers,
        "behind": one.behind,
    }
    if progress is not None:
        shown.update(pick(progress, "state tries sent dropped sent_at next_at trouble"))
    return shown


def _test(ctx: Context, arguments: argparse.Namespace) -> int:
    from handoff.engine.supervisor import notifications

    results = [
        (channel, notifications.try_out(ctx.app, channel))
        for channel in notifications.choose(ctx.app, arguments.channel)
    ]
    ctx.out.data(
        [{"channel": channel.name, "sent": sent.how == "sent", "trouble": sent.trouble} for channel, sent in results]
    )
    for channel, sent in results:
        good = sent.how == "sent"
        ctx.out.line(
            f"{channel.name}: " + (f"sent to {channel.shown}" if good else sent.trouble), "good" if good else "bad"
        )
    return 0 if all(sent.how == "sent" for _, sent in results) else 1


def _deliver(ctx: Context, arguments: argparse.Namespace) -> int:
    from handoff.engine.supervisor import notifications

    del arguments
    told = notifications.deliver(ctx.app) or [notifications.Delivery(one.name) for one in notifications.choose(ctx.app)]
    ctx.out.data([one._asdict() for one in told])
    for one in told:
        words = "not due, or somebody else is at it" if one.waiting else f"{one.sent} sent, {one.dropped} dropped"
        ctx.out.line(
            f"{one.channel}: {words}" + (f"; {one.trouble}" if one.trouble else ""), "warn" if one.trouble else ""
        )
    return 0 if all(one.sent or not one.trouble for one in told) else 1


COMMANDS = {
    "watchdog": Command(_watchdog_arguments, _watchdog),
    "notify": Command(_arguments, _notify, epilog=_EPILOG),
}
