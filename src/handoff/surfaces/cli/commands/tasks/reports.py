"""What several commands tell in the same words: a believed report."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.board.events import texts
from handoff.board.tasks.states import GATED

if TYPE_CHECKING:
    from handoff.board.tasks.tasks import Task
    from handoff.engine.outcome.ended import Finished
    from handoff.surfaces.cli.command import Context


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
