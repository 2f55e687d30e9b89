"""The commands of a session that is not our child: task claim, done, block, release, and heartbeat."""

from __future__ import annotations

import argparse

from handoff.base.clock import age
from handoff.base.errors import UsageError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.place.fanout.paths import document
from handoff.engine.session import current
from handoff.surfaces.cli.command import Command, flag, option, optional_word, pick, project_option

if TYPE_CHECKING:
    from handoff.engine.outcome.ended import CurrentClaim
    from handoff.surfaces.cli.command import Context, Parser


def _holder_arguments(parser: Parser) -> None:
    option(parser, "--task TASK", "task (default: the one claimed in this folder)")
    project_option(parser)
    option(parser, "--session ID", "session that holds it (env: HANDOFF_SESSION)")
    option(parser, "--fence N", "fence that claim printed (env: HANDOFF_FENCE)", None, type=int)


def _hold(ctx: Context, arguments: argparse.Namespace, task: str = "") -> CurrentClaim:
    return current.find(ctx.app, task=arguments.task or task, **pick(arguments, "project session fence"))


# --- claim ---------------------------------------------------------------------------------------------------


def _claim_arguments(parser: Parser) -> None:
    optional_word(parser, "name", "TASK", "task to take (default: the next ready one)")
    option(parser, "--task TASK", "the same")
    project_option(parser)
    option(parser, "--agent NAME", "take only what is for this agent or for any")
    option(parser, "--role NAME", "take only what is for this role or for any")
    option(parser, "--labels NAME,…", "what this machine has besides, for tasks that demand it")
    option(parser, "--session ID", "id of this session (default: a fresh one)")
    option(parser, "--lease SECONDS", "how long silence is believed (default: from the settings)", 0.0)
    flag(parser, "--show", "print the task's document")
    flag(parser, "--export", "print shell lines that set HANDOFF_TASK, _SESSION and _FENCE")


def _claim(ctx: Context, arguments: argparse.Namespace) -> None:
    from handoff.engine.session import report

    asked = pick(arguments, "project agent role session lease labels")
    claim = report.take(ctx.app, task=arguments.task or arguments.name, **asked)
    task = claim.task
    path = document(ctx.app, task)
    ctx.out.data(
        {
            "task": task.label,
            "project": task.project,
            "session": claim.session.id,
            **pick(claim, "fence lease_seconds"),
            **pick(task, "attempt workspace"),
            "document": path,
            "brief": task.brief,
            "repeated": claim.repeated,
        }
    )
    if arguments.export:
        ctx.out.lines(
            f"export HANDOFF_TASK={task.label}",
            f"export HANDOFF_SESSION={claim.session.id}",
            f"export HANDOFF_FENCE={claim.fence}",
        )
        return
    again = " already" if claim.repeated else ""
    ctx.out.line(
        f"You hold {task.label} of project {task.project}{again} (session {claim.session.id}, fence {claim.fence}).",
        "good",
    )
    if arguments.show:
        from handoff.engine.place.baton import for_holder

        ctx.out.line("\n" + for_holder(ctx.app, task).rstrip())
        return
    program = ctx.settings.program
    ctx.out.lines(
        f"  {path}",
        f"After {age(claim.lease_seconds)} without a sign of life the task goes to another session. To keep it: {program} heartbeat",
        f"Report with: {program} task done, {program} task block REASON or {program} task release",
    )


# --- heartbeat -------------------------------------------------------------------------------------------------

_SUB_VERBS = ("complete", "calibration", "status")


def _heartbeat_arguments(parser: Parser) -> None:
    # Batches of handoff-fanout are kept alive, completed and measured by this word too: complete, status, calibration.
    parser.add_argument("words", nargs="*", metavar="WORD", help=argparse.SUPPRESS)
    _holder_arguments(parser)
    option(parser, "--lease SECONDS", "new length of the lease", 0.0)
    option(parser, "--actual-minutes N", argparse.SUPPRESS, None, type=float)
    option(parser, "--amdahl-actual N", argparse.SUPPRESS, None, type=float)
    option(parser, "--summary TEXT", argparse.SUPPRESS)


def _heartbeat(ctx: Context, arguments: argparse.Namespace) -> int | None:
    words = arguments.words
    if words[:1] == ["heartbeat"]:  # so scripts of handoff-fanout call it
        words = words[1:]
    if words:
        from handoff.surfaces.cli.commands.tasks import fan_in

        if words[0] in _SUB_VERBS:
            if len(words) > 2 or (len(words) == 1 and words[0] != "calibration"):  # noqa: PLR2004 - verb and name
                raise UsageError(
                    f"{words[0]} wants one batch.",
                    f"For example: {ctx.settings.program} heartbeat {words[0]} login-split",
                )
            return fan_in.RUN[words[0]](ctx, arguments, words[1] if len(words) > 1 else "")
        if len(words) > 1:
            raise UsageError(f"There is no heartbeat {words[0]}.", f"There are: {', '.join(_SUB_VERBS)}")
        return fan_in.keep_alive(ctx, arguments, words[0])
    task = current.beat(ctx.app, _hold(ctx, arguments), lease=arguments.lease)
    ctx.out.data({"task": task.label, **pick(task, "fence lease_seconds")})
    ctx.out.line(f"{task.label} is yours for another {age(task.lease_seconds)}.")
    return None


# --- done, block, release ----------------------------------------------------------------------------------------


def _done_arguments(parser: Parser) -> None:
    optional_word(parser, "name", "TASK", "task (default: the one claimed in this folder)")
    _holder_arguments(parser)
    option(parser, "--summary TEXT", "what was done, for the journal and the next session")
    text = "your word that changes outside the ownership are right, for the journal; refused inside a client"
    option(parser, "--accept-outside REASON", text)


def _done(ctx: Context, arguments: argparse.Namespace) -> None:
    from handoff.engine.session import report
    from handoff.surfaces.cli.commands.tasks.reports import show_finished

    current_claim = _hold(ctx, arguments, arguments.name)
    if current_claim.task.check_command and not current_claim.task.ended:
        ctx.out.note(f"Running: {current_claim.task.check_command}")
    show_finished(
        ctx, report.finish(ctx.app, current_claim, summary=arguments.summary, accept_outside=arguments.accept_outside)
    )


def _block_arguments(parser: Parser) -> None:
    parser.add_argument("reason", metavar="REASON", help="what is missing, for whoever helps")
    _holder_arguments(parser)


def _block(ctx: Context, arguments: argparse.Namespace) -> None:
    from handoff.engine.session import report

    outcome = report.block(ctx.app, _hold(ctx, arguments), reason=arguments.reason)
    task = outcome.task
    stranded = [other.label for other in outcome.stranded]
    ctx.out.data({"task": task.label, **pick(task, "project state reason"), "stranded": stranded})
    ctx.out.line(f"{task.label} is blocked: {task.reason}")
    if stranded:
        ctx.out.line(f"With it: {', '.join(stranded)}")
    ctx.out.line(f"When the cause is fixed: {ctx.settings.program} retry {task.label}")


def _note_arguments(parser: Parser) -> None:
    parser.add_argument(
        "text", metavar="TEXT", help="what whoever comes after you should know: a decision, a dead end, what is next"
    )
    _holder_arguments(parser)


def _note(ctx: Context, arguments: argparse.Namespace) -> None:
    from handoff.engine.work.tasks.requests import add_note

    held = _hold(ctx, arguments)
    add_note(ctx.app, held, text=arguments.text)
    ctx.out.data({"task": held.task.label})
    ctx.out.line(f"Noted for whoever goes on with {held.task.label}.")


def _release_arguments(parser: Parser) -> None:
    optional_word(parser, "name", "TASK", "task (default: the one claimed in this folder)")
    _holder_arguments(parser)
    option(parser, "--reason TEXT", "what the next session should know")


def _release(ctx: Context, arguments: argparse.Namespace) -> int:
    from handoff.engine.work import acts

    asked = pick(arguments, "project session fence reason")
    return ctx.out.done(acts.release(ctx.app, arguments.task or arguments.name, **asked))


COMMANDS = {
    "task claim": Command(_claim_arguments, _claim),
    "heartbeat": Command(_heartbeat_arguments, _heartbeat),
    "task done": Command(_done_arguments, _done),
    "task block": Command(_block_arguments, _block),
    "task note": Command(_note_arguments, _note),
    "task release": Command(_release_arguments, _release),
}
