"""A person at the board: `task list`, a task with its history, the journal, `task open`, `database files`."""

from __future__ import annotations

from handoff.base.clock import age, stamp
from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal, wording
from handoff.board.tasks import cards, outcomes
from handoff.board.tasks.tasks import AGENTS, TASK
from handoff.engine.app.home import find_project
from handoff.engine.place.fanout import views
from handoff.engine.work import overview
from handoff.engine.work.tasks import admin
from handoff.surfaces.cli.command import Command, flag, option, pick, project_option
from handoff.surfaces.vocabulary import LOOKS, said_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from typing import Any

    from handoff.board.events.journal import Event
    from handoff.board.sessions.holds import Hold
    from handoff.board.tasks.tasks import Task
    from handoff.engine.work.overview import OverviewItem
    from handoff.engine.work.tasks.admin import Board, TaskDetails
    from handoff.surfaces.cli.command import Context, Parser

_SHOWN, _SHOWN_EVENTS = 10, 20


def chosen_project(ctx: Context, arguments: argparse.Namespace) -> str:
    """The name of the project a command is about; nothing for every project."""
    return "" if arguments.all_projects else find_project(ctx.app, name=arguments.project).name


# --- show -------------------------------------------------------------------------------------------------


def words_of(item: OverviewItem) -> str:
    """What is to be said of a running task whose session is quiet or has ended, with the command that it needs."""
    return item.words + (f": {item.command}" if item.section == overview.NEEDS else "")


def show_task(ctx: Context, task: Task) -> None:
    """One task with what it waits for, its gate and its history."""
    found = admin.picture(ctx.app, task)
    task, said = found.task, journal.messages(found.events)
    item = overview.standing(ctx.app, [task.key], project=task.project)[task.key]
    views.mend_or_tell(ctx.app, task.project, [task])
    ctx.out.data(
        {
            **task.shown(),
            "look": item.look,
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
            "issue": found.issue.url if found.issue else None,
            "request": pick(found.request, "url number branch base head state checks review")
            if found.request
            else None,
            "messages": [one._asdict() for one in said],
            "events": [event_data(event) for event in found.events],
        }
    )
    say = ctx.out.line
    undone = item.look == cards.UNDONE
    state = "done, and its landing was taken back" if undone else LOOKS[item.look].word
    say(f"{task.label} of project {task.project}: {state}" + (f" ({task.reason})" if task.reason else ""), "title")
    if undone and task.kind == TASK:
        say(f"  To let it be done again: {ctx.settings.program} retry {task.label}", "warn")
    if task.held_by:
        left = f", {age(found.lease_left)} of its lease left" if found.lease_left is not None else ""
        how = {"running": "held", "done": "done"}.get(task.state, "last held")
        say(f"  {how} by {task.held_by} on {task.held_host or 'an unknown host'} with fence {task.fence}{left}")
    if item.look in (overview.ENDED, overview.QUIET):
        say(f"  {words_of(item)}", "warn")
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
        say(f"  agent: {outcomes.agent_words(task) or 'any'}" + (f", model {model}" if model else ""))
    _tell_work(ctx, found)
    say()
    say(task.brief)
    if task.result:
        say()
        say(f"Result: {task.result}")
    say()
    _tell_events(ctx, task, found.events)


def _tell_work(ctx: Context, found: TaskDetails) -> None:
    """Where its work is, what it came from and by what it is judged."""
    task, say = found.task, ctx.out.line
    kept = str(found.evidence.get("branch", ""))
    if task.state == "done" and kept and not found.evidence.get("landed") and task.batch is None and not found.request:
        say(f"  green on branch {kept}, not landed: {ctx.settings.program} land {task.label}", "warn")
    if found.issue:
        say(f"  issue: {found.issue.url}")
    if found.request:
        say(f"  request: {found.request.words}")
    if task.check_command:
        say(f"  check: {task.check_command}")
    say(f"  workspace: {task.workspace}")
    if found.document:
        say(f"  document: {found.document}")


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
    who, said = event.task_id or event.project, " ".join(wording.details(event).split())
    return f"{stamp(event.at)}  {wording.name(event):<{wording.WIDTH}}  {who}  {said}".rstrip()[:300]


# --- open and files --------------------------------------------------------------------------------------------


def _open_arguments(parser: Parser) -> None:
    parser.add_argument("task", metavar="TASK", help="task id; BATCH/ID for a part of a batch")
    project_option(parser)
    text = "auto, uri, tmux, terminal, clipboard or print (default: opener in config.toml)"
    option(parser, "--with WAY", text, dest="way")


def _open(ctx: Context, arguments: argparse.Namespace) -> None:
    open_and_tell(
        ctx, admin.find_task(ctx.app, arguments.task, project=arguments.project), way=arguments.way, data=True
    )


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
    from handoff.engine.place.fanout import files, views
    from handoff.engine.supervisor import watchdog

    known = admin.known_projects(ctx.app)
    names = known if arguments.all_projects else [find_project(ctx.app, name=arguments.project).name]
    taken, refused = watchdog.take_in_markers(ctx.app, names)
    count = 0
    for name in names:
        files.read_stop_files(ctx.app, name)
        count += views.refresh(ctx.app, name, whole=True) if name in known else 0
    ctx.out.data({"projects": names, "files": count, "taken_in": taken, "refused": refused})
    for line in taken:
        ctx.out.line(f"Taken in: {line}")
    for line in refused:
        ctx.out.warning(f"a marker was not believed: {line}")
    ctx.out.line(f"{count} files were brought up to date.")


def _list_arguments(parser: Parser) -> None:
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
    from handoff.surfaces.cli.overview import tell_older

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
    from handoff.engine.place.fanout import files
    from handoff.engine.supervisor import watchdog

    try:
        files.read_stop_files(ctx.app, project)
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


COMMANDS = {
    "task open": Command(_open_arguments, _open),
    "database files": Command(_sync_arguments, _sync),
    "task list": Command(_list_arguments, _queue),
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
