"""`status`, `next`, `validate`, `accept`."""

from __future__ import annotations

import os
from contextlib import suppress

from handoff.base.errors import HandoffError, UsageError
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import terminal_width
from handoff.engine.features import status
from handoff.feature import folder
from handoff.feature import plan as plans
from handoff.surfaces.cli.command import Command, flag, no_arguments, option, optional_word

if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from handoff.engine.features.status import View
    from handoff.git.plumbing.checkout import CheckoutFacts
    from handoff.surfaces.cli.command import Context, Parser

_SENTENCES = {
    plans.VALID: "Execution plan is valid.",
    plans.EMPTY: "Execution plan has not been initialized yet.",
    plans.COMPLETE: "Execution plan is complete. No remaining steps.",
    plans.BLOCKED: "Every remaining step is blocked.",
}
_STYLES = {
    plans.VALID: "good",
    plans.COMPLETE: "good",
    plans.INVALID: "bad",
    plans.BLOCKED: "warn",
    plans.EMPTY: "warn",
}
_SHOWN_PROBLEMS = 20
_SHOWN_FEATURES = 8


def _sentence(view: View) -> str:
    plan = view.plan
    if plan.verdict != plans.INVALID:
        return _SENTENCES[plan.verdict]
    if plan.guard.startswith("Invalid execution plan: multiple"):
        return "Execution plan is invalid because multiple current steps ([>]) were found."
    return "Execution plan is invalid because some lines cannot be trusted."


def _plan_data(view: View) -> dict[str, Any]:
    plan = view.plan
    return {
        "verdict": plan.verdict,
        "sentence": _sentence(view),
        "steps": len(plan.marks),
        "done": plan.done,
        "remaining": plan.left,
        "blocked": plan.count(plans.STUCK),
        "dropped": plan.count(plans.DROPPED),
        "current": plan.current._asdict() if plan.current else None,
        "problems": [problem._asdict() for problem in plan.problems],
        "warnings": list(plan.warnings),
    }


def _status_arguments(parser: Parser) -> None:
    flag(parser, "--follow", "stay and show progress live until the plan is complete")


def _status(ctx: Context, arguments: Namespace) -> int | None:
    if arguments.follow:
        return _follow(ctx)
    if status.is_without_feature(ctx.app):
        show_folder(ctx)
    else:
        show(ctx, status.look(ctx.app))
    if os.path.isdir(ctx.settings.home):
        from handoff.surfaces.cli import overview

        overview.tell_older(ctx)
    return None


def show_folder(ctx: Context) -> None:
    """What there is where no feature is active: git, the relay, and how to begin."""
    from handoff.engine.features import lifecycle

    out, program = ctx.out, ctx.settings.program
    facts = status.git_facts(ctx.app)
    features = [item.name for item in lifecycle.listing(ctx.app) if not item.archived]
    found = status.under_way(ctx.app)
    begin = f"{program} switch {features[0]}" if features else f"{program} init NAME"
    out.data(
        {"feature": None, "features": features, "git": _git_data(facts), "relay": found, "next": {"command": begin}}
    )
    out.line("No feature is active here.", "title")
    _git_line(ctx, facts)
    _tell_relay(ctx, found)
    out.line("Next", "strong")
    if features:
        out.line(f"  Choose a feature: {begin}   (there is: {', '.join(features[:_SHOWN_FEATURES])})")
    else:
        out.line(f"  Keep a feature's goal, plan and notes between sessions: {begin}")
    out.line(f"  Write a task down for a session: {program} task add ID 'what to do'")


def _tell_relay(ctx: Context, found: dict[str, int]) -> None:
    """What the relay has under way here, as `handoff` alone tells it; nothing is loaded where it has nothing."""
    if not ctx.app.has_rows or (ctx.app.is_open and not found):
        return
    from handoff.surfaces.cli import overview

    relay = overview.relay_of(ctx)
    if relay is not None:
        overview.tell_relay(ctx, relay, "Tasks")


def _git_data(facts: CheckoutFacts | None) -> dict[str, Any] | None:
    return {"head": facts.head, "branch": facts.branch, "dirty": list(facts.dirty)} if facts else None


def _git_line(ctx: Context, facts: CheckoutFacts | None) -> None:
    if facts is not None:
        dirty = f", {len(facts.dirty)} uncommitted" if facts.dirty else ", nothing uncommitted"
        ctx.out.line(f"  Git: {facts.short or 'no commit yet'} on {facts.branch or 'a detached HEAD'}{dirty}")


def show(ctx: Context, view: View) -> None:
    """The whole picture of a feature, for a person or as JSON."""
    out, plan = ctx.out, view.plan
    git_facts = status.begin_git_facts(ctx.app)
    advice = status.advise(view, ctx.settings.program)
    found = status.under_way(ctx.app)
    at_work = status.at_work(ctx.app) if "running" in found else []
    facts = git_facts()
    moved = status.drift(ctx.app, view, facts)
    readiness = view.readiness()
    untold = status.untold(ctx.app, view, facts)
    out.data(
        {
            "feature": view.feature.name,
            "folder": view.folder,
            "language": view.config.text("language"),
            "status": advice.status,
            "plan": _plan_data(view),
            "documents": readiness,
            "git": _git_data(facts),
            "since": moved.since,
            "drift": moved.words,
            "others": at_work,
            "relay": found,
            "incidents": found.get("incidents", 0),
            "risks": list(plan.risks),
            "blocked": advice.blocked,
            "next": {"command": advice.command, "focus": advice.focus},
            "untold": [{"what": what, "remedy": remedy} for what, remedy in untold],
        }
    )
    out.line(f"Feature: {view.feature.name}", "title")
    out.line(f"  Status: {advice.status}")
    out.line(f"  Execution plan: {out.style(plan.verdict, _STYLES[plan.verdict])} ({_sentence(view)})")
    _progress(ctx, view)
    for problem in plan.problems[:_SHOWN_PROBLEMS]:
        out.line(f"  STATE.md:{problem.line}: {problem.fault} {problem.fix}", "bad")
    if len(plan.problems) > _SHOWN_PROBLEMS:
        out.line(f"  … and {len(plan.problems) - _SHOWN_PROBLEMS} more: {ctx.settings.program} validate", "bad")
    for warning in (*plan.warnings, *moved.words):
        out.line(f"  Note: {warning}", "warn")
    _git_line(ctx, facts)
    unready = [f"{name} {word}" for name, word in readiness.items() if word not in ("ready", "planned", plans.COMPLETE)]
    if unready:
        out.line(f"  Documents: {', '.join(unready)}")
    if untold:
        words = "; ".join(what for what, _ in untold)
        out.line(f"  Before you hand over: {words}. What to do: {ctx.settings.program} validate --baton", "warn")
    for risk in plan.risks:
        out.line(f"  Risk: {risk}")
    if advice.blocked:
        out.line(f"  Why blocked: {advice.blocked}", "warn")
    for line in at_work:
        if "sandbox" in line or "inside" in line:  # what keeps it where it works stands nowhere else on this page
            out.line(f"  At work: {line}")
    _tell_relay(ctx, found)
    out.line("Next", "strong")
    out.line(f"  Command: {advice.command}")
    out.line(f"  Focus: {advice.focus}")


def _progress(ctx: Context, view: View) -> None:
    plan, out = view.plan, ctx.out
    if plan.marks:
        extra = [
            f"{plan.count(mark)} {word}"
            for mark, word in ((plans.STUCK, "blocked"), (plans.DROPPED, "dropped"))
            if plan.count(mark)
        ]
        out.line(f"  Completed steps: {plan.done} of {len(plan.marks)}" + (f" ({', '.join(extra)})" if extra else ""))
        out.line(f"  Remaining steps: {plan.left}")
    stuck = [plan.step(index) for index, (_, mark, _) in enumerate(plan.marks) if mark == plans.STUCK]
    for step in stuck[:_SHOWN_FEATURES]:
        out.line(f"  Blocked: {step.number}. {step.text} ({step.reason})", "warn")
    current = plan.current
    if current is not None and plan.verdict == plans.VALID:
        check = f"  (check: {current.check})" if current.check else ""
        out.line(f"  Current step: {current.number}. {current.text}{check}", "strong")


def _next(ctx: Context, arguments: Namespace) -> None:
    del arguments
    view = status.look(ctx.app)
    advice = status.advise(view, ctx.settings.program)
    modes = {plans.EMPTY: "generate", plans.VALID: "continue" if view.plan.done else "start"}
    mode = modes.get(view.plan.verdict, "none") if advice.status != "feature needs review" else "none"
    ctx.out.data(
        {
            "feature": view.feature.name,
            "status": advice.status,
            "task": advice.focus,
            "blocked": advice.blocked,
            "command": advice.command,
            "run_mode": mode,
        }
    )
    ctx.out.line(f"Next task: {advice.focus}", "strong")
    if advice.blocked:
        ctx.out.line(f"Why blocked: {advice.blocked}", "warn")
    ctx.out.line(f"Next command: {advice.command}")
    ctx.out.line(f"Run mode: {mode}")


def _validate_arguments(parser: Parser) -> None:
    flag(parser, "--baton", "score what the next session of the feature, or of TASK, would get to know")
    option(parser, "--budget TOKENS", "with --baton: estimated tokens it may have (default: as it is given)", 0)
    optional_word(parser, "task", "TASK", "with --baton: the task whose baton is scored")


def _score(ctx: Context, arguments: Namespace) -> int:
    from handoff.engine.work import baton_quality

    budget = arguments.budget
    name = arguments.task
    found = (
        baton_quality.of_task(ctx.app, name=name, budget=budget)
        if name
        else baton_quality.of_feature(ctx.app, budget=budget)
    )
    ctx.out.data(
        {
            **found._asdict(),
            "kinds": [one._asdict() for one in found.kinds],
            "doubts": [one._asdict() for one in found.doubts],
        }
    )
    whose = name or "the feature"
    ctx.out.line(f"Baton of {whose}: {found.tokens:,} of {found.budget:,} tokens, {found.points} of 100", "title")
    for one in found.kinds:
        told = f"{one.told} of {one.known}" if one.known else "none known"
        ctx.out.line(f"  {one.name:<10} {told}", "warn" if one.told < one.known else "")
    for doubt in found.doubts:
        ctx.out.line(f"  Doubt: {doubt.what}. {doubt.remedy}", "warn")
    if any(one.told < one.known for one in found.kinds):
        ctx.out.line("  What is missing does not fit: raise --budget, or the setting budget.")
    return 0


def _validate(ctx: Context, arguments: Namespace) -> int:
    if arguments.baton:
        return _score(ctx, arguments)
    if arguments.task or arguments.budget:
        raise UsageError(
            "TASK and --budget go with --baton.", f"{ctx.settings.program} validate --baton {arguments.task}".rstrip()
        )
    view = status.look(ctx.app)
    plan, out, program = view.plan, ctx.out, ctx.settings.program
    advice = status.advise(view, program)
    trusted = plan.verdict in (plans.VALID, plans.COMPLETE, plans.BLOCKED)
    out.data(
        {**_plan_data(view), "feature": view.feature.name, "documents": view.readiness(), "blocked": advice.blocked}
    )
    out.line(f"Execution plan: {plan.verdict}", _STYLES[plan.verdict])
    out.line(f"Details: {_sentence(view)}")
    for problem in plan.problems:
        out.line(f"  STATE.md:{problem.line}: {problem.fault} {problem.fix}", "bad")
    for warning in plan.warnings:
        out.line(f"  Note: {warning}", "warn")
    if advice.blocked:
        out.line(f"Why blocked: {advice.blocked}")
    out.line("Progress:")
    out.line(f"  Current step: {plan.current.text if plan.current else 'none'}")
    counted = plan.verdict != plans.INVALID
    out.line(f"  Completed steps: {plan.done if counted else 'not counted'}")
    out.line(f"  Remaining steps: {plan.left if counted else 'not counted'}")
    out.line("Artifacts:")
    for name in folder.DOCUMENTS:
        out.line(f"  {name}: {view.readiness()[name]}")
    if not trusted:
        hint = (
            f"Fix the lines named in {view.folder}/STATE.md." if plan.problems else f"Make the plan: {program} generate"
        )
        message = plan.guard if plan.verdict == plans.INVALID else f"{plan.guard} Run `{program} generate` first."
        out.error(message, hint)
    return 0 if trusted else 1


def _accept(ctx: Context, arguments: Namespace) -> None:
    del arguments
    from handoff.engine.features import plan_steps

    entry = plan_steps.accept(ctx.app)
    ctx.out.data(entry)
    ctx.out.line(f"Reviewed at {entry['head'][:10]}. Changes are counted from here.")


# --- status --follow: one live line, redrawn when it changes

_BAR = 20
_PAUSE = 0.5


def _follow(ctx: Context) -> int:
    """Stay until the plan is complete. A half-written file is shown as such and read again, never the end."""
    view = status.look(ctx.app)  # what is wrong from the start is an error, as without --follow
    name = view.feature.name
    app = ctx.app.with_feature(name)  # another terminal may switch; this one stays with its feature
    line = ""
    while True:
        with suppress(HandoffError):  # between two writes of an editor the file may be away or cut
            view = status.look(app)
        if view.plan.verdict == plans.COMPLETE:
            if line and ctx.out.person and not ctx.out.json_wanted:
                ctx.out.redraw("", over=True)
            show(ctx._replace(app=app), view)
            return 0
        fresh = _line(view, terminal_width(ctx.settings))
        if fresh != line:
            _draw(ctx, line, fresh)
            line = fresh
        app.clock.sleep(_PAUSE)


def _line(view: View, width: int) -> str:
    from handoff.surfaces.cli.overview import fit

    plan = view.plan
    total = len(plan.marks)
    filled = round(_BAR * plan.done / total) if total else 0
    bar = "#" * filled + "." * (_BAR - filled)
    if plan.verdict == plans.INVALID:
        text = f"STATE.md line {plan.problems[0].line}: {plan.problems[0].fault}"
    elif plan.current is not None:
        text = plan.current.text
    else:
        text = plan.guard
    return fit(f"[{bar}] {plan.done}/{total}  {text}", width - 1)


def _draw(ctx: Context, before: str, line: str) -> None:
    if ctx.out.json_wanted:
        return
    if ctx.out.person:
        ctx.out.redraw(line, over=bool(before))
    else:
        ctx.out.raw(line + "\n")


COMMANDS = {
    "status": Command(_status_arguments, _status),
    "next": Command(no_arguments, _next),
    "validate": Command(_validate_arguments, _validate),
    "accept": Command(no_arguments, _accept),
}
