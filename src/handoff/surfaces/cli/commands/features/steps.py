"""`step list|done|block|add|drop|start`, `note`, `decide`."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING
from handoff.engine.features import plan_steps
from handoff.engine.features.status import is_without_feature, look, refuse_invalid
from handoff.feature import plan as plans
from handoff.surfaces.cli.command import Command, flag, option

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.checks.commands import Verdict
    from handoff.surfaces.cli.command import Context, Parser


def _step_arguments(parser: Parser) -> None:
    parser.verb_word = "action"
    parser.verb("list", "show the plan: each step with its number, its box and its check")
    done = parser.verb("done", "run the step's check; green ticks the box and moves [>] on, red changes nothing")
    _number(done)
    option(done, "--check CMD", "the command that proves it (default: the step's, else config.toml's)")
    flag(done, "--no-sandbox", "run the check without the sandbox that keeps its code inside the repository")
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
        "number", type=int, metavar="N", help="the step's number, as step list and the prompt count them"
    )


def _number(parser: Parser) -> None:
    option(parser, "--step N", "the step's number (default: the current step)", None, type=int, dest="number")


def _step(ctx: Context, arguments: Namespace) -> None:
    if arguments.action in ("done", "list"):
        (_done if arguments.action == "done" else _list)(ctx, arguments)
        return
    text = getattr(arguments, "reason", "") or getattr(arguments, "text", "")
    plan, step = plan_steps.change(
        ctx.app, action=arguments.action, number=arguments.number, text=text, check=getattr(arguments, "check", "")
    )
    ctx.out.data({"step": step._asdict(), **_after(plan)})
    words = {"block": "is blocked", "drop": "is dropped", "add": "was added", "start": "is the current step"}
    ctx.out.line(f"Step {step.number} {words[arguments.action]}: {step.text}")
    if plan.current:
        ctx.out.line(f"Now: {plan.current.number}. {plan.current.text}")
    elif plan.guard:
        ctx.out.line(plan.guard)


def _list(ctx: Context, arguments: Namespace) -> None:
    del arguments
    if is_without_feature(ctx.app):
        ctx.out.data({"feature": None, "verdict": "", "steps": []})
        ctx.out.line(f"No feature is active here, so there is no plan. Begin one: {ctx.settings.program} init NAME")
        return
    view = look(ctx.app)
    refuse_invalid(view, ctx.settings.program)
    plan, out = view.plan, ctx.out
    steps = [plan.step(index) for index in range(len(plan.marks))]
    out.data({"feature": view.feature.name, "verdict": plan.verdict, "steps": [step._asdict() for step in steps]})
    styles = {plans.DONE: "good", plans.STUCK: "warn"}
    for step in steps:
        notes = {"check": step.check, plans.MARK_WORDS[step.mark]: step.reason or step.done}
        said = "".join(f"  ({word}: {text})" for word, text in notes.items() if text)
        style = "strong" if plan.current and step.number == plan.current.number else styles.get(step.mark, "")
        out.line(f"{step.number:>3}. {' ' * step.indent}[{step.mark}] {step.text}{said}", style)
    if not steps:
        out.line("There is no plan yet.")
        out.line(
            f"Let an assistant write it: {ctx.settings.program} run --copy   Or begin: {ctx.settings.program} step add TEXT"
        )


def _done(ctx: Context, arguments: Namespace) -> None:
    def run(command: str, folder: str) -> Verdict:
        from handoff.engine.place.proof import evidence

        return evidence.run_step_check(ctx.app, command, folder, sandboxed=not arguments.no_sandbox)

    done = plan_steps.finish(
        ctx.app,
        number=arguments.number,
        command=arguments.check,
        unchecked=arguments.unchecked,
        say=ctx.out.note,
        run=run,
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


def _after(plan: plans.Plan) -> dict[str, object]:
    return {"verdict": plan.verdict, "next": plan.current._asdict() if plan.current else None}


def _note_arguments(parser: Parser) -> None:
    parser.add_argument("text", help="what the next session should know")
    flag(parser, "--rule", "a rule: every session is given it first, also after its client shortened the conversation")


def _note(ctx: Context, arguments: Namespace) -> None:
    path = (plan_steps.add_rule if arguments.rule else plan_steps.note)(ctx.app, text=arguments.text)
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
