"""`step done|block|add|drop|start`, `note`, `decide`."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING
from handoff.engine.features import plan_steps
from handoff.surfaces.cli.command import Command, flag, option

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.feature.plan.plan import Plan
    from handoff.surfaces.cli.command import Context, Parser


def _step_arguments(parser: Parser) -> None:
    parser.verb_word = "action"
    done = parser.verb("done", "run the step's check; green ticks the box and moves [>] on, red changes nothing")
    _number(done)
    option(done, "--check CMD", "the command that proves it (default: the step's, else config.toml's)")
    flag(done, "--unchecked", "no check: tick it on your word, and say so in the plan")
    block = parser.verb("block", "mark the step as waiting for something outside, with the reason")
    block.add_argument("reason", help="what it waits for")
    _number(block)
    add = parser.verb("add", "write a new step into the plan")
    add.add_argument("text", help="what is to be done")
    option(add, "--after N", "put it after step N (default: at the end)", None, type=int, dest="number")
    option(add, "--check CMD", "the command that will prove it")
    drop = parser.verb("drop", "give the step up, with the reason")
    drop.add_argument("reason", help="why it is no longer wanted")
    _number(drop)
    start = parser.verb("start", "make a step the current one; a blocked step is unblocked")
    start.add_argument(
        "number", type=int, metavar="N", help="the step's number, as status --json and the prompt count them"
    )


def _number(parser: Parser) -> None:
    option(parser, "--step N", "the step's number (default: the current step)", None, type=int, dest="number")


def _step(ctx: Context, arguments: Namespace) -> None:
    if arguments.action == "done":
        _done(ctx, arguments)
        return
    text = getattr(arguments, "reason", "") or getattr(arguments, "text", "")
    plan, step = plan_steps.change(
        ctx.app, action=arguments.action, number=arguments.number, text=text, check=getattr(arguments, "check", "")
    )
    ctx.out.data({"step": step._asdict(), **_after(plan)})
    words = {"block": "is blocked", "drop": "is dropped", "add": "was added", "start": "is the current step"}
    ctx.out.line(f"Step {step.number} {words[arguments.action]}: {step.text}")
    _show_following(ctx, plan)


def _done(ctx: Context, arguments: Namespace) -> None:
    done = plan_steps.finish(
        ctx.app, number=arguments.number, command=arguments.check, unchecked=arguments.unchecked, say=ctx.out.note
    )
    verdict = done.verdict
    ctx.out.data(
        {
            "step": done.step._asdict(),
            "evidence": done.evidence,
            "verdict": verdict._asdict() if verdict else None,
            "next": done.following._asdict() if done.following else None,
            "complete": done.complete,
        }
    )
    how = f"{verdict.word} in {verdict.seconds:.1f} s" if verdict else "unchecked, on your word"
    ctx.out.line(f"Step {done.step.number} is done ({how}): {done.step.text}", "good")
    if done.complete:
        ctx.out.line("The plan is complete.", "good")
    elif done.following:
        ctx.out.line(f"Now: {done.following.number}. {done.following.text}")


def _after(plan: Plan) -> dict[str, object]:
    return {"verdict": plan.verdict, "next": plan.current._asdict() if plan.current else None}


def _show_following(ctx: Context, plan: Plan) -> None:
    if plan.current:
        ctx.out.line(f"Now: {plan.current.number}. {plan.current.text}")
    elif plan.guard:
        ctx.out.line(plan.guard)


def _note_arguments(parser: Parser) -> None:
    parser.add_argument("text", help="what the next session should know")


def _note(ctx: Context, arguments: Namespace) -> None:
    path = plan_steps.note(ctx.app, text=arguments.text)
    ctx.out.data({"file": path})
    ctx.out.line(f"Noted in {os.path.relpath(path)}")


def _decide_arguments(parser: Parser) -> None:
    parser.add_argument("text", help="what was decided")
    option(parser, "--because TEXT", "why, so that nobody has to decide it again", None, required=True)


def _decide(ctx: Context, arguments: Namespace) -> None:
    path = plan_steps.decide(ctx.app, text=arguments.text, because=arguments.because)
    ctx.out.data({"file": path})
    ctx.out.line(f"Written to {os.path.relpath(path)}")


COMMANDS = {
    "step": Command(_step_arguments, _step),
    "note": Command(_note_arguments, _note),
    "decide": Command(_decide_arguments, _decide),
}
