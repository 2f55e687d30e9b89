"""The commands of a session that is not our child: task claim, done, block, release, and heartbeat, also around a batch."""

from __future__ import annotations

import argparse
import os

from handoff.base.clock import age
from handoff.base.errors import Conflict, UsageError, UserError
from handoff.base.ids import check_id
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import texts
from handoff.board.tasks.states import GATED
from handoff.engine.app.home import files_folder, find_project
from handoff.engine.outcome.kinds import CurrentClaim
from handoff.engine.place.fanout.files import document
from handoff.engine.session import current
from handoff.surfaces.cli.command import Command, flag, option, optional_word, pick, project_option

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from handoff.board.tasks.batches import Batch
    from handoff.board.tasks.tasks import Task
    from handoff.engine.outcome.kinds import Finished
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
        if words[0] in _OF_BATCH:
            if len(words) > 2 or (len(words) == 1 and words[0] != "calibration"):  # noqa: PLR2004 - verb and name
                raise UsageError(
                    f"{words[0]} wants one batch.",
                    f"For example: {ctx.settings.program} heartbeat {words[0]} login-split",
                )
            return _OF_BATCH[words[0]](ctx, arguments, words[1] if len(words) > 1 else "")
        if len(words) > 1:
            raise UsageError(f"There is no heartbeat {words[0]}.", f"There are: {', '.join(_OF_BATCH)}")
        return _keep_alive(ctx, arguments, words[0])
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


def show_finished(ctx: Context, finished: Finished) -> None:
    """Tell what a believed report changed."""
    outcome, evidence = finished.outcome, finished.evidence
    task = outcome.task
    ctx.out.data(
        {
            "task": task.label,
            "project": task.project,
            "state": task.state,
            "repeated": outcome.repeated,
            "evidence": evidence.record(),
            "ready_now": [other.label for other in outcome.woken],
            "fan_in": outcome.fan_in.label if outcome.fan_in else None,
            "ticked": finished.ticked,
        }
    )
    if outcome.repeated:
        ctx.out.line(f"{task.label} was done already.")
        return
    if finished.waits:
        ctx.out.line(
            f"{task.label} is judged and kept. It waits for a person before it lands: {finished.waits}", "warn"
        )
        ctx.out.line("You may stop; nothing more is to be done.")
        return
    if not task.ended:
        ctx.out.line(f"Noted. {task.label} is judged when this session ends.")
        return
    proof = ""
    landed = str(texts.read(task.evidence, {}).get("landed") or "")
    if evidence.verdict is not None:
        where = "" if landed else f" at {evidence.head[:10] or 'no commit'}"
        proof = f": {evidence.verdict.command} is {evidence.verdict.word}{where}"
    ctx.out.line(f"{task.label} is done{f' and landed as {landed[:10]}' if landed else ''}{proof}.", "good")
    if finished.ticked:
        ctx.out.line(finished.ticked, "good")
    if finished.trouble:
        ctx.out.warning(finished.trouble)
    for other in outcome.woken:
        ctx.out.line(f"Now ready: {other.label}. Open it with: {ctx.settings.program} task open {other.label}")
    if outcome.fan_in is not None:
        show_fan_in(ctx, outcome.fan_in)


def show_fan_in(ctx: Context, fan_in: Task) -> None:
    """The last part has ended: the fan-in is ready, or a person is asked whether it may begin without some."""
    program = ctx.settings.program
    if fan_in.state == GATED:
        ctx.out.line(
            f"Parts of the batch are missing, so {fan_in.label} waits for your word: {program} gate list", "warn"
        )
        ctx.out.line(
            f"Go on without them: {program} answer {fan_in.label} yes. Or let them try again: {program} retry PART"
        )
        return
    ctx.out.line(f"The batch is whole: {fan_in.label} is ready.", "good")
    ctx.out.line(f"Open it with: {program} task open {fan_in.label}")


_EVERY_SECONDS = 60.0
_LONGEST_SECONDS = 3 * 3600.0
_GONE = 2  # the older tool's exit code for a batch that is not there


def _of_batch(
    act: Callable[[Context, argparse.Namespace, Batch], int],
) -> Callable[[Context, argparse.Namespace, str], int]:
    """A verb about the batch of that name."""

    def run(ctx: Context, arguments: argparse.Namespace, name: str) -> int:
        from handoff.engine.work.tasks import batches

        try:
            batch = batches.find_batch(ctx.app, find_project(ctx.app, name=arguments.project), name)
        except UserError as error:
            ctx.out.error(error.message, error.hint)
            return _GONE
        return act(ctx, arguments, batch)

    return run


@_of_batch
def _keep_alive(ctx: Context, arguments: argparse.Namespace, batch: Batch) -> int:
    """Claim the fan-in if it is free and show signs of life until the batch is over; ends by itself after three hours."""
    import signal

    from handoff.engine.session import report
    from handoff.engine.work.tasks import batches

    fan_in = batches.fan_in_of(ctx.app, batch)
    if fan_in.state == "ready":
        claim = report.take(ctx.app, task=fan_in.label, project=batch.project, session=arguments.session)
        current_claim = CurrentClaim(claim.task, claim.fence, claim.session.id)
        ctx.out.line(f"You hold {fan_in.label} (session {current_claim.session}, fence {current_claim.fence}).")
    else:
        current_claim = current.find(
            ctx.app, task=fan_in.label, project=batch.project, session=arguments.session, fence=arguments.fence
        )
    signal.signal(signal.SIGTERM, _end_well)
    started = ctx.app.clock.monotonic()
    while ctx.app.clock.monotonic() - started < _LONGEST_SECONDS:
        if batches.fan_in_of(ctx.app, batch).ended:
            return 0
        try:
            current.beat(ctx.app, current_claim)
            folder = files_folder(ctx.settings.home, batch.project)
            current.touch(os.path.join(folder, "batches", batch.id, "_fan_in_heartbeat"))
        except Conflict:
            if batches.fan_in_of(ctx.app, batch).ended:
                return 0
            raise
        ctx.app.clock.sleep(_EVERY_SECONDS)
    return 0


def _end_well(*_: object) -> NoReturn:
    """Being told to end is how this command ends; the lease runs out by itself."""
    raise SystemExit(0)


@_of_batch
def _complete(ctx: Context, arguments: argparse.Namespace, batch: Batch) -> int:
    """The fan-in is done: close the batch and write its figures, once."""
    from handoff.engine.work.tasks import batches

    show_finished(ctx, batches.complete(ctx.app, batch, minutes=arguments.actual_minutes, summary=arguments.summary))
    return 0


def _calibration(ctx: Context, arguments: argparse.Namespace, name: str) -> int:
    """The factor for the next estimate: the number alone on standard output, its spread beside it."""
    from handoff.engine.work.tasks import batches

    project = check_id(name, "project") if name else find_project(ctx.app, name=arguments.project).name
    found = batches.calibration(ctx.app, project)
    ctx.out.data({"project": project, **found._asdict()})
    ctx.out.line(f"{found.factor:.3f}")
    ctx.out.note(
        f"The median of {found.samples} batches; the middle half lies between {found.low:.3f} and {found.high:.3f}."
        if found.samples
        else f"Project {project} has no finished batch with an estimate yet."
    )
    return 0


@_of_batch
def _status(ctx: Context, arguments: argparse.Namespace, batch: Batch) -> int:
    """How far a batch is."""
    del arguments
    show_batch(ctx, batch)
    return 0


def show_batch(ctx: Context, batch: Batch) -> None:
    """A batch with its parts and its fan-in."""
    from handoff.engine.work.tasks import batches

    found = batches.status(ctx.app, batch)
    done, blocked = found.in_state("done"), found.in_state("blocked", "cancelled")
    missing = [part.id for part in found.parts if part.id not in done and part.id not in blocked]
    ctx.out.data(
        {
            "batch": batch.id,
            "project": batch.project,
            "state": batch.state,
            "expected": len(found.parts),
            "done": done,
            "blocked": blocked,
            "missing": missing,
            "fan_in": found.fan_in.id,
            "fan_in_state": found.fan_in.state,
            "parts": {part.id: part.state for part in found.parts},
        }
    )
    ctx.out.line(f"Batch {batch.id} of project {batch.project}: {batch.state}, opened {found.age} ago")
    now = ctx.app.clock.now()
    for part in (*found.parts, found.fan_in):
        ctx.out.line(
            f"  {part.id:<24} {part.state:<10} {age(now - part.changed_at)} ago  {part.result or part.reason}".rstrip()
        )
    ctx.out.line(
        f"done={len(done)} blocked={len(blocked)} expected={len(found.parts)} missing={', '.join(missing) or 'none'}"
    )


_OF_BATCH: dict[str, Callable[[Context, argparse.Namespace, str], int]] = {
    "complete": _complete,
    "calibration": _calibration,
    "status": _status,
}


COMMANDS = {
    "task claim": Command(_claim_arguments, _claim),
    "heartbeat": Command(_heartbeat_arguments, _heartbeat),
    "task done": Command(_done_arguments, _done),
    "task block": Command(_block_arguments, _block),
    "task note": Command(_note_arguments, _note),
    "task release": Command(_release_arguments, _release),
}
