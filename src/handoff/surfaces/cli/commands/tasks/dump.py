"""`handoff dump`: write the next task down, open a batch, report its parts."""

from __future__ import annotations

import argparse
import sys

from handoff.base.errors import UsageError, UserError
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks.tasks import ISSUE
from handoff.engine.app.home import home_config
from handoff.engine.outcome.kinds import CurrentClaim
from handoff.engine.place.fanout.files import document
from handoff.engine.work.tasks import create
from handoff.surfaces.cli.command import Command, flag, landing_option, option, optional_word, pick, project_option

if TYPE_CHECKING:
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app.home import Project
    from handoff.engine.work.tasks.batches import OpenedBatch
    from handoff.surfaces.cli.command import Context, Parser

_STAGGER_SECONDS = 0.3
EXAMPLES = """examples:
  handoff dump --task login-form --next 'Build the login form; tests in tests/login.'
  handoff dump --task login-api --next - --owns src/api/ --check 'make test' < brief.md
  handoff dump --open-batch split.json
  handoff dump --task form-done --batch-id login --batch-done --next 'form is in, 12 tests'
"""


ADD_EXAMPLES = """examples:
  handoff task add login-form 'Build the login form.' --owns src/login/ --check 'make test'
  handoff task add 'fix the login test'     its first words name it
  handoff task add login-api - --after login-form < brief.md
  handoff task add --issue 123      what an issue asks for; its forge hears when work starts, asks and lands
  handoff task add --from-step      the step the feature stands at; ticked when its check is green
"""


def _dump_arguments(parser: Parser) -> None:
    option(parser, "--task ID", "id of the task: lowercase letters, digits and '-', 2 to 60 characters", None)
    option(parser, "--next TEXT", "what the next session must do; '-' reads it from standard input", None, dest="brief")
    states, text = ("active", "done", "blocked"), "active writes a task; done and blocked report on it"
    option(parser, "--status", text, "active", choices=states)
    option(parser, "--blocked-reason TEXT", "why the task is blocked")
    _task_arguments(parser)
    _batch_arguments(parser)


def _task_arguments(parser: Parser) -> None:
    project_option(parser)
    option(parser, "--workspace DIR", "checkout to work in (default: that of the project you name, else this one)")
    option(parser, "--tests CMD", "run this now and note its verdict in the baseline")
    option(parser, "--after TASK", "start only when this task is done (may be repeated)", [])
    option(
        parser,
        "--agent NAME",
        "which agent the task is for; claude,codex: codex goes on when claude fails or is at a limit",
    )
    option(parser, "--role NAME", "which role the task is for")
    text = "run it only on a machine with this label, for example gpu (may be repeated)"
    option(parser, "--label NAME", text, [], dest="labels")
    text = "path, folder/ or glob the session may change (may be repeated)"
    option(parser, "--owns --file-ownership PATTERN", text, [])
    option(parser, "--check CMD", "command that must end with exit 0 before the task counts as done")
    option(parser, "--model NAME", "the model its client is to use")
    landing_option(parser, "")
    option(parser, "--priority N", "higher is taken first (default: 0)", 0)
    flag(parser, "--from-step", "take the task from the current step of the feature's plan")
    flag(parser, "--dry-run", "show what would be written; write nothing")
    flag(
        parser,
        "--open",
        "open the task, or every ready part of the batch, in a tab at once (see: handoff task open --help)",
        dest="open_now",
    )


def _batch_arguments(parser: Parser) -> None:
    group = parser.add_argument_group("batches")
    option(group, "--open-batch FILE", "open the batch a manifest describes (JSON or TOML, schema 2)", None)
    option(group, "--batch-id ID", "batch the report is about", None)
    flag(group, "--batch-done", "the sub-task --task is done; --next is its summary")
    flag(group, "--batch-blocked", "the sub-task --task is blocked")
    flag(group, "--batch-fan-in", "the batch's fan-in writes down the task that follows")
    group = parser.add_argument_group("tidying")
    flag(group, "--cleanup-orphan", "list files in the queues that belong to no task")
    flag(group, "--apply", "with --cleanup-orphan: move them to _recovery/")
    flag(group, "--kill-spawned", argparse.SUPPRESS)
    for gone in ("--retro-evidence", "--nonce"):
        option(group, gone, argparse.SUPPRESS)


def _add_arguments(parser: Parser) -> None:
    optional_word(parser, "task", "ID", "id of the task: lowercase letters, digits and '-', 2 to 60 characters")
    optional_word(parser, "brief", "TEXT", "what the session must do; '-' reads it from standard input")
    option(parser, "--issue N", "do what this issue of your forge asks for (by your own gh or glab)", 0)
    _task_arguments(parser)


def _add(ctx: Context, arguments: argparse.Namespace) -> None:
    if not arguments.task and not arguments.from_step and not arguments.issue:
        raise UsageError("Say which task: ID.", f"See: {ctx.settings.program} task add --help")
    arguments.batch_fan_in = False
    create.check_agents(ctx.app, arguments.agent)
    project = create.project_of_caller(ctx.app, name=arguments.project, workspace=arguments.workspace)
    if arguments.issue:
        _from_issue(ctx, arguments, project)
        return
    if not arguments.brief and len(arguments.task.split()) > 1:
        arguments.brief, arguments.task = arguments.task, create.new_id(ctx.app, project.name, arguments.task)
    if not arguments.brief and not arguments.from_step:
        raise UsageError("Say what the session must do: TEXT.", "'-' reads it from standard input.")
    _write(ctx, arguments, project)


def _from_issue(ctx: Context, arguments: argparse.Namespace, project: Project) -> None:
    if arguments.from_step or arguments.dry_run:
        raise UsageError("--issue goes with neither --from-step nor --dry-run.", "Leave out one of the two.")
    from handoff.engine.work.forges import issues

    if not arguments.brief and len((arguments.task or "").split()) > 1:
        arguments.brief, arguments.task = arguments.task, ""
    task = issues.take(
        ctx.app, arguments.issue, request=_request(arguments, _brief(arguments, needed=False)), project=project
    )
    ctx.out.data({**_as_data(ctx, task), "issue": task.baseline_facts[ISSUE]})
    ctx.out.line(f"Task {task.label} of project {task.project} is {task.state}.", "good")
    ctx.out.line(f"  {task.baseline_facts[ISSUE]}: its words stand in the brief, set apart from yours.")
    _tell_stops(ctx, project)


def _dump(ctx: Context, arguments: argparse.Namespace) -> None:
    for name in ("kill_spawned", "retro_evidence", "nonce"):
        if getattr(arguments, name):
            ctx.out.note(f"--{name.replace('_', '-')} is accepted for older scripts and does nothing.")
    if arguments.cleanup_orphan:
        _cleanup(ctx, arguments)
    elif arguments.open_batch:
        open_batch(ctx, arguments)
    else:
        _check_words(ctx, arguments)
        project = create.project_of_caller(ctx.app, name=arguments.project, workspace=arguments.workspace)
        if arguments.batch_done or arguments.batch_blocked:
            _report_part(ctx, arguments, project)
        elif arguments.status != "active":
            _report(ctx, arguments, project)
        else:
            _write(ctx, arguments, project)


def _check_words(ctx: Context, arguments: argparse.Namespace) -> None:
    about_batch = arguments.batch_done or arguments.batch_blocked or arguments.batch_fan_in
    if about_batch and not arguments.batch_id:
        raise UsageError("Say which batch: --batch-id ID.", f"See: {ctx.settings.program} task list")
    if arguments.batch_id and not about_batch:
        raise UserError(
            "--batch-id goes with --batch-done, --batch-blocked or --batch-fan-in.",
            "To open a batch: --open-batch FILE",
        )
    if not arguments.task and not arguments.from_step:
        raise UsageError("Say which task: --task ID.", f"See: {ctx.settings.program} dump --help")


def _brief(arguments: argparse.Namespace, *, needed: bool = True) -> str:
    if arguments.brief == "-":
        return sys.stdin.read()
    if arguments.brief is None and needed:
        raise UsageError("Say what the next session must do: --next TEXT.", "'--next -' reads it from standard input.")
    return arguments.brief or ""


def _request(arguments: argparse.Namespace, brief: str) -> create.Request:
    return create.Request(
        task=arguments.task or "",
        brief=brief,
        after=tuple(arguments.after),
        owns=tuple(arguments.owns),
        labels=tuple(arguments.labels),
        **pick(arguments, "agent role check tests priority model landing"),
    )


def _write(ctx: Context, arguments: argparse.Namespace, project: Project) -> None:
    request = _request(arguments, _brief(arguments, needed=not arguments.from_step))
    if arguments.from_step:
        request = create.from_step(ctx.app, request)
    if arguments.batch_fan_in:
        from handoff.engine.work.tasks import batches

        batches.find_batch(ctx.app, project, arguments.batch_id)
    if arguments.dry_run:
        from handoff.engine.place.baton import baton

        task = create.preview(ctx.app, project, request)
        ctx.out.data({"dry_run": True, **_as_data(ctx, task)})
        ctx.out.note(f"Dry run: nothing is written. The document would be {document(ctx.app, task)}")
        ctx.out.line(baton(ctx.app, home_config(ctx.app), task))
        return
    older = create.is_older(ctx.app, project)
    task = create.write_down(ctx.app, project, request)
    create.doubt_commas(ctx.app, request.owns, task.label)
    program = ctx.settings.program
    ctx.out.data(_as_data(ctx, task))
    if task.state == "waiting":
        ctx.out.line(
            f"Task {task.label} of project {task.project} is written down; it waits for {', '.join(arguments.after)}."
        )
    else:
        ctx.out.line(f"Task {task.label} of project {task.project} is ready.", "good")
    ctx.out.line(f"  {document(ctx.app, task)}")
    if task.patterns and "head" not in task.baseline_facts:
        ctx.out.warning(f"{_why_unjudged(project.workspace)}: what the session changes cannot be judged.")
    _tell_unpushed(ctx, project)
    _tell_stops(ctx, project)
    if older:
        tell_older(ctx)
    if arguments.open_now:
        from handoff.surfaces.cli.commands.tasks.board import open_and_tell

        open_and_tell(ctx, task)
    elif task.state == "ready":
        ctx.out.line(f"Open it with: {program} task open {task.label}")


def _why_unjudged(folder: str) -> str:
    from handoff.git.plumbing import find_top, is_bare

    if is_bare(folder):
        return f"{folder} is a bare repository"
    return f"git does not answer in {folder}" if find_top(folder) else f"{folder} is not in a git repository"


def _tell_unpushed(ctx: Context, project: Project) -> None:
    if not home_config(ctx.app).text("git_remote"):
        return
    from handoff.engine.place import publish

    trouble = publish.offer_base(ctx.app, project=project.name, folder=project.workspace)
    if trouble:
        ctx.out.warning(f"{trouble} Other machines cannot take it until that worked; `handoff work` here tries again.")


def tell_older(ctx: Context) -> None:
    """There is work of the older tool in this home, which is not on the board."""
    ctx.out.note(
        f"{ctx.settings.home} also holds work or settings of handoff-fanout. To see and take them over: "
        f"{ctx.settings.program} import fanout"
    )


def _tell_stops(ctx: Context, project: Project) -> None:
    if not create.may_be_stopped(ctx.app, project):
        return
    from handoff.engine.place.fanout.files import read_stop_files

    for stop in read_stop_files(ctx.app, project.name):
        ctx.out.note(
            f"It is kept, but {stop.words} is stopped ({stop.reason or 'no reason given'}): nothing is taken until `handoff resume`."
        )


def _report(ctx: Context, arguments: argparse.Namespace, project: Project) -> None:
    """--status done|blocked: the brief that was written stays; a task nobody wrote down before is recorded with it."""
    from handoff.engine.session import current, report
    from handoff.surfaces.cli.commands.tasks.relay import show_finished

    try:
        current_claim = current.find(ctx.app, task=arguments.task, project=project.name)
    except UserError:
        if arguments.dry_run or not arguments.brief:
            raise
        current_claim = CurrentClaim(
            create.write_down(ctx.app, project, _request(arguments, _brief(arguments))), None, ""
        )
    if arguments.dry_run:
        ctx.out.line(f"Dry run: task {current_claim.task.label} would be reported {arguments.status}.")
        ctx.out.data({"dry_run": True, "task": current_claim.task.label, "status": arguments.status})
        return
    if arguments.status == "done":
        show_finished(ctx, report.finish(ctx.app, current_claim, summary=_brief(arguments, needed=False)))
        return
    reason = arguments.blocked_reason or _brief(arguments, needed=False)
    outcome = report.block(ctx.app, current_claim, reason=reason)
    ctx.out.data(_as_data(ctx, outcome.task))
    ctx.out.line(f"Task {outcome.task.label} is blocked: {outcome.task.reason}")


def open_batch(ctx: Context, arguments: argparse.Namespace) -> None:
    """Open the batch a manifest describes, or only look at it."""
    from handoff.engine.work.tasks import batches

    project = create.project_of_caller(ctx.app, name=arguments.project, workspace=arguments.workspace)
    if arguments.dry_run:
        manifest = batches.read_checked(arguments.open_batch)
        ctx.out.data({"dry_run": True, "batch": manifest.batch_id, "sub_tasks": [sub.id for sub in manifest.sub_tasks]})
        ctx.out.line(
            f"Dry run: batch {manifest.batch_id} with {number_of(len(manifest.sub_tasks), 'sub-task')} is sound; nothing is written."
        )
        return
    opened = batches.open_batch(ctx.app, project, arguments.open_batch)
    batch = opened.batch
    for key in opened.unknown_keys:
        ctx.out.warning(f"{arguments.open_batch}: {key} means nothing to handoff; it is kept as it is.")
    ctx.out.data(
        {
            "batch": batch.id,
            **pick(batch, "project total"),
            "ready": list(opened.ready),
            "folder": project.batch_folder(batch.id),
        }
    )
    ctx.out.line(
        f"Batch {batch.id} of project {batch.project} is open: {number_of(batch.total, 'sub-task')}, {len(opened.ready)} ready now.",
        "good",
    )
    ctx.out.line(f"  {project.batch_folder(batch.id)}")
    _tell_unpushed(ctx, project)
    _tell_stops(ctx, project)
    if arguments.open_now:
        _open_parts(ctx, opened)
        return
    ctx.out.line(f"Take one with: {ctx.settings.program} task claim --task {batch.id}/{opened.ready[0]}")


def _open_parts(ctx: Context, opened: OpenedBatch) -> None:
    """A tab for every part that can begin, a moment apart: an editor that gets two addresses at once may lose one."""
    from handoff.engine.work.tasks import batches
    from handoff.surfaces.cli.commands.tasks.board import open_and_tell

    for number, part in enumerate(opened.ready):
        if number:
            ctx.app.clock.sleep(_STAGGER_SECONDS)
        open_and_tell(ctx, batches.part_of(ctx.app, opened.batch, part))


def _report_part(ctx: Context, arguments: argparse.Namespace, project: Project) -> None:
    from handoff.engine.session import report
    from handoff.engine.supervisor import watchdog
    from handoff.engine.work.tasks import batches

    batch = batches.find_batch(ctx.app, project, arguments.batch_id)
    current_claim = batches.hold_part(ctx.app, batch, arguments.task)
    if arguments.dry_run:
        ctx.out.line(
            f"Dry run: sub-task {current_claim.task.label} would be reported {'done' if arguments.batch_done else 'blocked'}."
        )
        return
    watchdog.take_in_markers(ctx.app, [batch.project])
    if arguments.batch_done:
        finished = report.finish(ctx.app, current_claim, summary=_brief(arguments, needed=False))
        outcome = finished.outcome
    else:
        reason = arguments.blocked_reason or _brief(arguments, needed=False)
        outcome = report.block(ctx.app, current_claim, reason=reason)
    batch = batches.find_batch(ctx.app, project, batch.id)
    fan_in = batches.fan_in_of(ctx.app, batch)
    ctx.out.data(
        {
            **_as_data(ctx, outcome.task),
            "batch": batch.id,
            "remaining": batch.remaining,
            "fan_in": fan_in.id,
            "fan_in_state": fan_in.state,
        }
    )
    again = " (it was already)" if outcome.repeated else ""
    ctx.out.line(
        f"Sub-task {outcome.task.label} is {outcome.task.state}{again}; {max(0, batch.remaining)} of {batch.total} left."
    )
    if outcome.fan_in is not None:
        from handoff.surfaces.cli.commands.tasks.relay import show_fan_in

        show_fan_in(ctx, fan_in)


def _cleanup(ctx: Context, arguments: argparse.Namespace) -> None:
    from handoff.engine.supervisor import watchdog

    found = watchdog.orphans(ctx.app, project=arguments.project)
    listing = watchdog.put_aside(ctx.app, found) if found and arguments.apply and not arguments.dry_run else ""
    ctx.out.data({"orphans": [orphan._asdict() for orphan in found], "recovery": listing})
    for orphan in found:
        ctx.out.line(
            f"{orphan.project}/{orphan.task}: {number_of(len(orphan.files), 'file')}, {orphan.age_seconds:.0f} s old"
        )
    if not found:
        ctx.out.line("No orphans.")
    elif listing:
        ctx.out.line(f"Moved to _recovery; the list is {listing}")
    else:
        ctx.out.line(f"Nothing was moved. To do it: {ctx.settings.program} dump --cleanup-orphan --apply")


def _as_data(ctx: Context, task: Task) -> dict[str, object]:
    return {
        "task": task.label,
        **pick(task, "project state fence workspace"),
        "document": document(ctx.app, task),
        "reason": task.reason,
    }


COMMANDS = {
    "dump": Command(_dump_arguments, _dump, epilog=EXAMPLES),
    "task add": Command(_add_arguments, _add, epilog=ADD_EXAMPLES),
}
