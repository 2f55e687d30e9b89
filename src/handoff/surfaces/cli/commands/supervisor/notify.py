"""`handoff notify status|test|deliver`: who is told what happens."""

from __future__ import annotations

from handoff.base.clock import age
from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.command import Command, optional_word, pick

if TYPE_CHECKING:
    import argparse

    from handoff.engine.supervisor.notifications import ChannelStatus
    from handoff.surfaces.cli.command import Context, Parser

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


COMMANDS = {"notify": Command(_arguments, _notify, epilog=_EPILOG)}
