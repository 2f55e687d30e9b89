"""A person at the board: a task with its history, the journal, `task open`, `database files`."""

from __future__ import annotations

from handoff.base.clock import age, stamp
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal
from handoff.board.tasks import agents
from handoff.board.tasks.tasks import AGENTS
from handoff.engine.fanout import views
from handoff.engine.features import pulse
from handoff.engine.home import find_project
from handoff.engine.tasks import admin
from handoff.surfaces.cli.command import Command, option, pick, project_option
from handoff.surfaces.vocabulary import event_words, said_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from typing import Any

    from handoff.board.events.journal import Event
    from handoff.board.sessions.holds import Hold
    from handoff.board.tasks.tasks import Task
    from handoff.surfaces.cli.command import Context, Parser

_SHOWN, _SHOWN_EVENTS = 10, 20


def _task_argument(parser: Parser) -> None:
    parser.add_argument("task", metavar="TASK", help="task id; BATCH/ID for a part of a batch")
    project_option(parser)


def chosen_project(ctx: Context, arguments: argparse.Namespace) -> str:
    """The name of the project a command is about; nothing for every project."""
    return "" if arguments.all_projects else find_project(ctx.app, name=arguments.project).name


def _find(ctx: Context, arguments: argparse.Namespace) -> Task:
    return admin.find_task(ctx.app, arguments.task, project=arguments.project)


# --- show -------------------------------------------------------------------------------------------------


def ended_words(ctx: Context, task: Task, ending: str) -> str:
    """What is to be said of a task whose session runs no more."""
    if ending == pulse.LEFT:
        stop = f"{ctx.settings.program} session stop {task.held_by}"
        return f"its session has ended and nobody looks after it: {stop}"
    return "its session has ended, its work is being judged"


def show_task(ctx: Context, task: Task) -> None:
    """One task with what it waits for, its gate and its history."""
    found = admin.picture(ctx.app, task)
    task, said = found.task, journal.messages(found.events)
    views.mend_or_tell(ctx.app, task.project, [task])
    ctx.out.data(
        {
            **task.shown(),
            **pick(task, "brief workspace"),
            "owns": list(task.patterns),
            "check": task.check_command,
            "baseline": task.baseline_facts,
            "evidence": found.evidence,
            "labels": list(found.labels),
            "batch": found.batch.id if found.batch else None,
            "document": found.document,
            "needs": [need._asdict() for need in found.needs],
            "gate": found.gate.shown() if found.gate else None,
            "lease_left_seconds": found.lease_left,
            "holds": [hold_data(held) for held in found.holds],
            "messages": [one._asdict() for one in said],
            "events": [event_data(event) for event in found.events],
        }
    )
    say = ctx.out.line
    say(f"{task.label} of project {task.project}: {task.state}" + (f" ({task.reason})" if task.reason else ""), "title")
    if task.held_by:
        left = f", {age(found.lease_left)} of its lease left" if found.lease_left is not None else ""
        how = {"running": "held", "done": "done"}.get(task.state, "last held")
        say(f"  {how} by {task.held_by} on {task.held_host or 'an unknown host'} with fence {task.fence}{left}")
    if ending := admin.ending_of(ctx.app, task):
        say(f"  {ended_words(ctx, task, ending)}", "warn")
    if task.attempt > 1:
        by = f" with {task.agent}" if task.baseline_facts.get(AGENTS) else ""
        say(f"  attempt {task.attempt} of {task.max_attempts}{by}")
    tell_of_task(ctx, task, found.holds)
    for need in found.needs:
        say(f"  after {need.id}: {need.state}")
    if found.gate is not None and found.gate.state == "open":
        say(f"  asks: {found.gate.asked}  ({ctx.settings.program} {found.gate.command(task.label)})", "warn")
        ctx.out.lines(*(f"    {line}" for line in found.gate.question.splitlines()[1:]))
    ctx.out.lines(*(f"  {said_line(one)}" for one in said))
    if task.patterns:
        more = len(task.patterns) - _SHOWN
        say(f"  owns: {', '.join(task.patterns[:_SHOWN])}" + (f" and {more} more" if more > 0 else ""))
    if found.labels:
        say(f"  runs on a host with: {', '.join(found.labels)}")
    model = task.baseline_facts.get("model", "")
    if task.agent or model:
        say(f"  agent: {agents.words(task) or 'any'}" + (f", model {model}" if model else ""))
    kept = str(found.evidence.get("branch", ""))
    if task.state == "done" and kept and not found.evidence.get("landed") and task.batch is None:
        say(f"  green on branch {kept}, not landed: {ctx.settings.program} land {task.label}", "warn")
    if task.check_command:
        say(f"  check: {task.check_command}")
    say(f"  workspace: {task.workspace}")
    if found.document:
        say(f"  document: {found.document}")
    say()
    say(task.brief)
    if task.result:
        say()
        say(f"Result: {task.result}")
    say()
    _tell_events(ctx, task, found.events)


def _tell_events(ctx: Context, task: Task, events: list[Event]) -> None:
    if len(events) > _SHOWN_EVENTS:
        earlier = f"… {len(events) - _SHOWN_EVENTS} earlier"
        ctx.out.line(f"{earlier}: {ctx.settings.program} log {task.label} -n {len(events)}")
    for event in events[-_SHOWN_EVENTS:]:
        ctx.out.line(event_line(event))


def event_data(event: Event) -> dict[str, Any]:
    """A line of the journal for programs."""
    return {**event._asdict(), "at": stamp(event.at)}


def event_line(event: Event) -> str:
    """A line of the journal for people."""
    return f"{stamp(event.at)}  {event.kind:<16} {event.task_id or event.project}  {event_words(event)}".rstrip()[:300]


# --- open and files --------------------------------------------------------------------------------------------


def _open_arguments(parser: Parser) -> None:
    _task_argument(parser)
    text = "auto, uri, tmux, terminal, clipboard or print (default: opener in config.toml)"
    option(parser, "--with WAY", text, dest="way")


def _open(ctx: Context, arguments: argparse.Namespace) -> None:
    open_and_tell(ctx, _find(ctx, arguments), way=arguments.way, data=True)


def open_and_tell(ctx: Context, task: Task, *, way: str = "", data: bool = False) -> None:
    """Open the task and say what really happened."""
    opened = admin.open_(ctx.app, task, way=way)
    if data:
        ctx.out.data({"task": task.label, "way": opened.way, "said": opened.words, "prompt": opened.prompt})
    ctx.out.line(opened.words)
    if opened.way in ("print", "clipboard"):
        ctx.out.line()
        ctx.out.line(opened.prompt)


def _sync_arguments(parser: Parser) -> None:
    project_option(parser, every=True)


def _sync(ctx: Context, arguments: argparse.Namespace) -> None:
    from handoff.engine.fanout import stop_files, views
    from handoff.engine.supervisor import watchdog

    known = admin.known_projects(ctx.app)
    names = known if arguments.all_projects else [find_project(ctx.app, name=arguments.project).name]
    taken, refused = watchdog.take_in_markers(ctx.app, names)
    count = 0
    for name in names:
        stop_files.read_files(ctx.app, name)
        count += views.refresh(ctx.app, name, whole=True) if name in known else 0
    ctx.out.data({"projects": names, "files": count, "taken_in": taken, "refused": refused})
    for line in taken:
        ctx.out.line(f"Taken in: {line}")
    for line in refused:
        ctx.out.warning(f"a marker was not believed: {line}")
    ctx.out.line(f"{count} files were brought up to date.")


COMMANDS = {
    "task open": Command(_open_arguments, _open),
    "database files": Command(_sync_arguments, _sync),
}


# --- What waits for its provider or its ground, as lists and pictures show it

AGENT = "agent"


def hold_data(held: Hold | None) -> dict[str, Any] | None:
    """A hold for programs; nothing for nothing."""
    return held and {**held._asdict(), "at": stamp(held.at), "until": stamp(held.until)}


def by_task(holds: Iterable[Hold], tasks: Iterable[Task]) -> dict[int, Hold]:
    """The holds of these tasks, as far as nobody works on them."""
    found = {held.name: held for held in holds if held.kind != AGENT}
    return {task.key: found[str(task.key)] for task in tasks if task.state == "ready" and str(task.key) in found}


def tell_agents(ctx: Context, holds: Iterable[Hold]) -> None:
    """One line for each agent that is not started for now."""
    for held in holds:
        if held.kind == AGENT:
            ctx.out.line(f"Agent {held.name} on {held.host} is held {held.words}", "warn")


def tell_of_task(ctx: Context, task: Task, holds: Iterable[Hold]) -> None:
    """Why a ready task is not started, and what mends it."""
    for held in holds:
        who = f"agent {held.name} on {held.host}" if held.kind == AGENT else f"'{task.label}'"
        ctx.out.line(f"  held: {who} {held.words}", "warn")
