"""`schedule`: work that recurs. Rows, not cron lines: whichever supervisor looks first makes what is due."""

from __future__ import annotations

from handoff.base import cron
from handoff.base.clock import age, stamp
from handoff.base.errors import UsageError
from handoff.base.light_json import dumps
from handoff.base.record import TYPE_CHECKING
from handoff.board import schedules
from handoff.engine.app.home import find_project, person
from handoff.engine.supervisor import schedules as journey
from handoff.engine.work import orders
from handoff.surfaces.cli.command import Command, landing_option, option, pick, project_option

if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from handoff.board.schedules import Schedule
    from handoff.surfaces.cli.command import Context, Parser

EXAMPLES = """examples:
  handoff schedule add updates '0 3 * * 1-5' --do 'update the dependencies' --agent claude
  handoff schedule add tidy @weekly --task 'remove dead code' --check 'make test' --landing review
  handoff schedule add split '0 22 * * *' --batch split.json --overlap queue
  handoff schedule add feature @daily --flow tdd --request 'the next open issue' --timezone Europe/Berlin
"""
_SHOWN = 5


def _add_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="what you call it: small letters, digits and '-'")
    parser.add_argument(
        "cron", metavar="CRON", help="when: five fields as in cron, or @hourly, @daily, @weekly, @monthly"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    option(what, "--task TEXT", "what a session is to do", dest="words")
    option(what, "--do TEXT", "the same, with the project's own tests as its check, shown to you before it lands")
    option(what, "--batch FILE", "open the batch of this manifest; it is read now")
    option(what, "--flow WORKFLOW", "run this workflow")
    option(parser, "--request TEXT", "with --flow: what is to be done")
    option(parser, "--agent NAME", "which agent works on it")
    option(parser, "--model NAME", "with --task and --do: the model its client is to use")
    option(parser, "--check CMD", "with --task: what must be green")
    landing_option(parser, "")
    option(parser, "--timezone NAME", "the clock it goes by, with its summer time (default: this machine's)")
    text = "while the last one goes on: skip this time (default), or queue it until that has ended"
    option(parser, "--overlap MODE", text, schedules.SKIP, choices=schedules.OVERLAPS)
    option(
        parser, "--keep N", f"how many are kept of those that have ended (default: {schedules.KEEP})", schedules.KEEP
    )


def _order(ctx: Context, arguments: Namespace) -> orders.Order:
    if arguments.request and not arguments.flow:
        raise UsageError("--request is for --flow.", "Say what is to be done with --task or --do.")
    given = pick(arguments, "agent model landing check")
    if arguments.batch:
        from handoff.engine.work.tasks.batches import read_checked

        raw = read_checked(arguments.batch).raw
        return orders.Order(kind=orders.BATCH, manifest=dumps(raw))
    if arguments.flow:
        return orders.Order(kind=orders.FLOW, words=arguments.request, workflow=arguments.flow, agent=arguments.agent)
    if arguments.do:
        from handoff.engine.work.orders import agent_for

        given["agent"] = agent_for(ctx.app, find_project(ctx.app).workspace, arguments.agent)
        return orders.Order(kind=orders.DO, words=arguments.do, **given)
    return orders.Order(kind=orders.TASK, words=arguments.words, **given)


def _add(ctx: Context, arguments: Namespace) -> None:
    zone = arguments.timezone or cron.local_zone(ctx.settings.get("TZ"))
    asked = {"order": _order(ctx, arguments), "by": person(ctx.app), **pick(arguments, "name overlap keep")}
    made = journey.add(ctx.app, line=arguments.cron, zone=zone, **asked)
    ctx.out.data(_data(made))
    ctx.out.line(f"{made.name} is made first at {cron.shown(made.next_at, made.timezone)} ({made.timezone}).", "good")
    if not is_served(ctx, made):
        ctx.out.note(f"A supervisor makes it, and none works now: {ctx.settings.program} work --agent NAME --detach")


def is_served(ctx: Context, made: Schedule) -> bool:
    """Whether somebody is there who makes it."""
    from handoff.engine.work.workers import is_served as served

    return served(ctx.app, made.project)


def _data(one: Schedule, runs: list[schedules.ScheduleRun] | None = None) -> dict[str, Any]:
    shown = pick(one, "name project cron timezone overlap keep state trouble made_by") | {"order": one.order}
    made = [{"due": stamp(run.due), "at": stamp(run.at), **pick(run, "kind id state host")} for run in runs or ()]
    return {**shown, "next_at": stamp(one.next_at), "made": made}


def _list_arguments(parser: Parser) -> None:
    project_option(parser, every=True)


def _list(ctx: Context, arguments: Namespace) -> None:
    project = "" if arguments.all_projects else find_project(ctx.app, name=arguments.project).name
    store, now = ctx.app.database, ctx.app.clock.now()
    found = [(one, schedules.runs(store, one)) for one in schedules.listing(store, project=project)]
    ctx.out.data([_data(one, runs) for one, runs in found])
    for one, runs in found:
        when = f"in {age(one.next_at - now)}, {cron.shown(one.next_at, one.timezone)}"
        when = "paused" if one.state == schedules.PAUSED else "is due" if one.next_at <= now else when
        where = "" if project else f"{one.project}  "
        ctx.out.line(f"{where}{one.name:<20} {one.cron:<14} {when}")
        words = one.order.get("words") or one.order.get("workflow") or "a batch"
        ctx.out.line(f"    {one.order['kind']}: {' '.join(str(words).split())[:_WIDTH]}")
        if runs:
            ctx.out.line("    made: " + ", ".join(f"{run.id} {run.state or 'forgotten'}" for run in runs[:_SHOWN]))
        if one.trouble:
            ctx.out.line(f"    not made last time: {one.trouble}", "warn")
    if not found:
        ctx.out.line(f"Nothing recurs. For example: {ctx.settings.program} schedule add NAME '0 3 * * 1-5' --do 'what'")


_WIDTH = 100


def _named(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="its name")
    project_option(parser)


def _find(ctx: Context, arguments: Namespace) -> Schedule:
    return schedules.find(
        ctx.app.database, project=find_project(ctx.app, name=arguments.project).name, name=arguments.name
    )


def _switch(state: str) -> Any:
    def act(ctx: Context, arguments: Namespace) -> None:
        done = schedules.switch(ctx.app.database, _find(ctx, arguments), state=state, by=person(ctx.app))
        ctx.out.data(_data(done))
        when = f"is made next at {cron.shown(done.next_at, done.timezone)}" if state == schedules.ON else "is paused"
        ctx.out.line(f"{done.name} {when}.")

    return act


def _run(ctx: Context, arguments: Namespace) -> None:
    one = _find(ctx, arguments)
    made = journey.run_now(ctx.app, one)
    ctx.out.data({"schedule": one.name, **made._asdict()})
    ctx.out.line(f"Made {made.kind} {made.id}, which is {made.state}.", "good")


def _remove(ctx: Context, arguments: Namespace) -> None:
    one = _find(ctx, arguments)
    schedules.remove(ctx.app.database, one, by=person(ctx.app))
    ctx.out.data({"removed": one.name})
    ctx.out.line(f"{one.name} is made no more; what it made stays.")


COMMANDS = {
    "schedule add": Command(_add_arguments, _add, epilog=EXAMPLES),
    "schedule list": Command(_list_arguments, _list),
    "schedule pause": Command(_named, _switch(schedules.PAUSED)),
    "schedule resume": Command(_named, _switch(schedules.ON)),
    "schedule run": Command(_named, _run),
    "schedule remove": Command(_named, _remove),
}
