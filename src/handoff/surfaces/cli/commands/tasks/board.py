"""The commands of a person at the board: look, open, pause, take back, try again, tidy up."""

from __future__ import annotations

from handoff.base.clock import age, stamp
from handoff.base.errors import UsageError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.home import find_project
from handoff.engine.tasks import admin
from handoff.surfaces.cli.command import Command, flag, option, optional_word, pick, project_option
from handoff.surfaces.cli.commands.tasks.holds import hold_data, tell_of_task

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from handoff.board.events.journal import Event
    from handoff.board.tasks.tasks import Task
    from handoff.surfaces.cli.command import Context, Parser

_FOLLOW_SECONDS = 0.5
_SHOWN = 10


def _task_argument(parser: Parser) -> None:
    parser.add_argument("task", metavar="TASK", help="task id; BATCH/ID for a part of a batch")
    project_option(parser)


def chosen_project(ctx: Context, arguments: argparse.Namespace) -> str:
    """The name of the project a command is about; nothing for every project."""
    return "" if arguments.all_projects else find_project(ctx.app, name=arguments.project).name


def _find(ctx: Context, arguments: argparse.Namespace) -> Task:
    return admin.find_task(ctx.app, arguments.task, project=arguments.project)


def brief_of(task: Task) -> dict[str, Any]:
    """A task as a line of a list, for programs."""
    return {
        "task": task.label,
        **pick(task, "project kind state reason agent role attempt fence held_by priority"),
        "changed_at": stamp(task.changed_at),
        "result": task.result,
    }


def mend_files(ctx: Context, project: str, found: list[Task]) -> None:
    """A document of a task that was removed comes back when somebody looks; where nothing can be written, that is said."""
    from handoff.engine.fanout import views

    try:
        views.mend(ctx.app, project, found)
    except UserError as error:
        ctx.out.warning(f"the files of project {project} are not up to date: {error.message}")


# --- show and log --------------------------------------------------------------------------------------------


def _show(ctx: Context, arguments: argparse.Namespace) -> None:
    found = admin.picture(ctx.app, _find(ctx, arguments))
    task = found.task
    mend_files(ctx, task.project, [task])
    ctx.out.data(
        {
            **brief_of(task),
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
            "events": [_event_data(event) for event in found.events],
        }
    )
    say = ctx.out.line
    say(f"{task.label} of project {task.project}: {task.state}" + (f" ({task.reason})" if task.reason else ""), "title")
    if task.held_by:
        left = f", {age(found.lease_left)} of its lease left" if found.lease_left is not None else ""
        say(f"  held by {task.held_by} on {task.held_host or 'an unknown host'} with fence {task.fence}{left}")
    if task.attempt > 1:
        say(f"  attempt {task.attempt} of {task.max_attempts}")
    tell_of_task(ctx, task, found.holds)
    for need in found.needs:
        say(f"  after {need.id}: {need.state}")
    if found.gate is not None and found.gate.state == "open":
        say(
            f"  asks: {found.gate.asked}  ({ctx.settings.program} approve {task.label} | reject {task.label} REASON)",
            "warn",
        )
        ctx.out.lines(*(f"    {line}" for line in found.gate.question.splitlines()[1:]))
    if task.patterns:
        more = len(task.patterns) - _SHOWN
        say(f"  owns: {', '.join(task.patterns[:_SHOWN])}" + (f" and {more} more" if more > 0 else ""))
    if found.labels:
        say(f"  runs on a host with: {', '.join(found.labels)}")
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
    for event in found.events[-20:]:
        say(_event_line(event))


def _event_data(event: Event) -> dict[str, Any]:
    return {**event._asdict(), "at": stamp(event.at)}


def _event_line(event: Event) -> str:
    words = [
        f"{key}={value}"
        for key, value in event.body.items()
        if value not in ("", None) and not isinstance(value, dict | list)
    ]
    return f"{stamp(event.at)}  {event.kind:<16} {event.task_id or event.project}  {' '.join(words)}".rstrip()[:300]


def _log_arguments(parser: Parser) -> None:
    optional_word(parser, "task", "TASK", "only what happened to this task; with --git a range of commits")
    project_option(parser, every=True)
    flag(parser, "--git", "show what was verified for each commit, from its git notes")
    option(parser, "-n --lines N", "how many lines to begin with (default: 30)", 30)
    flag(parser, "-f --follow", "wait for more; end it with Ctrl-C")


def _log(ctx: Context, arguments: argparse.Namespace) -> None:
    if arguments.git:
        from handoff.surfaces.cli.commands.git import notes

        notes.check_words(arguments)
        notes.show_log(ctx, arguments.task, limit=max(1, arguments.lines))
        return
    project = chosen_project(ctx, arguments)
    task = _find(ctx, arguments) if arguments.task else None
    # Before the reading, here as below: what is written between the two is then found at the next look.
    mark = ctx.app.database.change_mark()
    found = admin.events(ctx.app, project=project, task=task, limit=max(1, arguments.lines))
    if not arguments.follow:
        ctx.out.data([_event_data(event) for event in found])
    seen = found[-1].seq if found else 0
    for event in found:
        _tell(ctx, event, follow=arguments.follow)
    while arguments.follow:
        ctx.app.clock.sleep(_FOLLOW_SECONDS)
        now = ctx.app.database.change_mark()
        if now == mark:
            continue
        mark = now
        for event in admin.events(ctx.app, project=project, task=task, since=seen):
            _tell(ctx, event, follow=True)
            seen = event.seq


def _tell(ctx: Context, event: Event, *, follow: bool) -> None:
    ctx.out.line(_event_line(event))
    if follow:
        ctx.out.data(_event_data(event))


# --- steering ------------------------------------------------------------------------------------------------


def _scope_arguments(parser: Parser) -> None:
    option(parser, "--batch ID", "only this batch")
    option(parser, "--task ID", "only this task")
    flag(parser, "--everything", "every project")
    project_option(parser)


def _pause_arguments(parser: Parser) -> None:
    optional_word(parser, "reason", "REASON", "why, for whoever wonders")
    _scope_arguments(parser)


def _scope(ctx: Context, arguments: argparse.Namespace) -> dict[str, str]:
    if sum(map(bool, (arguments.batch, arguments.task, arguments.everything))) > 1:
        raise UsageError("Choose one of --batch, --task and --everything.")
    if arguments.everything:
        return {"scope": "all", "project": "", "name": ""}
    project = find_project(ctx.app, name=arguments.project).name
    name = arguments.batch or arguments.task
    return {"scope": "batch" if arguments.batch else "task" if name else "project", "project": project, "name": name}


def _in_words(scope: dict[str, str]) -> str:
    return {"all": "everything", "project": f"project {scope['project']}"}.get(
        scope["scope"], f"{scope['scope']} {scope['name']}"
    )


def _show_stop(ctx: Context, project: str) -> None:
    """What is stopped has no address in its files, and has it again when it goes on."""
    for name in [project] if project else admin.known_projects(ctx.app):
        mend_files(ctx, name, [])


def _pause(ctx: Context, arguments: argparse.Namespace) -> None:
    from handoff.engine.fanout import stop_files

    scope = _scope(ctx, arguments)
    if arguments.task:
        admin.find_task(ctx.app, arguments.task, project=arguments.project)
    elif arguments.batch:
        from handoff.engine.tasks import batches

        batches.find_batch(ctx.app, find_project(ctx.app, name=arguments.project), arguments.batch)
    fresh = stop_files.pause(ctx.app, **scope, reason=arguments.reason, by=admin.person(ctx.app))
    _show_stop(ctx, scope["project"])
    ctx.out.data({**scope, "fresh": fresh})
    said = "is stopped" if fresh else "was stopped already"
    words = f"{_in_words(scope)} {said}: nothing new is taken. What runs may finish; new tasks and reports are kept."
    ctx.out.line(words[:1].upper() + words[1:])


def _resume(ctx: Context, arguments: argparse.Namespace) -> None:
    from handoff.engine.fanout import stop_files

    scope = _scope(ctx, arguments)
    gone = stop_files.resume(ctx.app, **scope)
    _show_stop(ctx, scope["project"])
    ctx.out.data({**scope, "resumed": gone})
    ctx.out.line(f"{_in_words(scope)} {'goes on' if gone else 'was not stopped'}.".capitalize())


def _cancel_arguments(parser: Parser) -> None:
    optional_word(parser, "task", "TASK", "task to take back")
    option(parser, "--batch ID", "take a whole batch back")
    option(parser, "--reason TEXT", "why, for the journal")
    project_option(parser)


def _cancel(ctx: Context, arguments: argparse.Namespace) -> None:
    if bool(arguments.task) == bool(arguments.batch):
        raise UsageError("Name one task, or one batch with --batch.", f"See: {ctx.settings.program} queue")
    if arguments.batch:
        from handoff.engine.tasks import batches

        project = find_project(ctx.app, name=arguments.project)
        batch = batches.cancel(ctx.app, batches.find_batch(ctx.app, project, arguments.batch), reason=arguments.reason)
        ctx.out.data({"batch": batch.id, "state": batch.state})
        ctx.out.line(f"Batch {batch.id} is {batch.state}; what was finished stays finished.")
        return
    outcome = admin.cancel(ctx.app, _find(ctx, arguments), reason=arguments.reason)
    ctx.out.data({**brief_of(outcome.task), "stranded": [task.label for task in outcome.stranded]})
    ctx.out.line(f"{outcome.task.label} is cancelled.")
    for other in outcome.stranded:
        ctx.out.line(f"Blocked with it: {other.label}")


def _retry(ctx: Context, arguments: argparse.Namespace) -> None:
    outcome = admin.retry(ctx.app, _find(ctx, arguments))
    ctx.out.data({**brief_of(outcome.task), "ready_now": [task.label for task in outcome.woken]})
    ctx.out.line(f"{outcome.task.label} is {outcome.task.state} again.", "good")


def _prune_arguments(parser: Parser) -> None:
    project_option(parser, every=True)
    option(parser, "--days N", "forget tasks that ended more than N days ago (default: 30)", 30.0)
    flag(parser, "--execute", "do it; without this nothing is changed")


def _prune(ctx: Context, arguments: argparse.Namespace) -> None:
    found = admin.prune(ctx.app, project=chosen_project(ctx, arguments), days=arguments.days, execute=arguments.execute)
    ctx.out.data({"executed": arguments.execute, "tasks": [task.label for task in found.tasks], "files": found.files})
    for path in found.files:
        ctx.out.line(path)
    verb = "Forgot" if arguments.execute else "Would forget"
    ctx.out.line(
        f"{verb} {len(found.tasks)} tasks and {len(found.files)} files."
        + ("" if arguments.execute else " To do it: --execute")
    )


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
    "show": Command(_task_argument, _show),
    "log": Command(_log_arguments, _log),
    "pause": Command(_pause_arguments, _pause),
    "resume": Command(_scope_arguments, _resume),
    "cancel": Command(_cancel_arguments, _cancel),
    "retry": Command(_task_argument, _retry),
    "prune": Command(_prune_arguments, _prune),
    "open": Command(_open_arguments, _open),
    "sync-files": Command(_sync_arguments, _sync),
}
