"""A person's yes, no or edited text: gates, approve, reject, gate show|answer."""

from __future__ import annotations

import os

from handoff.base.clock import age
from handoff.base.errors import UsageError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.tasks import admin
from handoff.surfaces.cli.command import Command, flag, option, optional_word, pick, project_option, read_source
from handoff.surfaces.cli.commands.tasks.board import chosen_project

if TYPE_CHECKING:
    import argparse

    from handoff.board.gates import Gate
    from handoff.board.tasks.outcomes import Outcome
    from handoff.surfaces.cli.command import Context, Parser


def _gates_arguments(parser: Parser) -> None:
    project_option(parser, every=True)
    flag(parser, "--all", "also gates that were answered", dest="include_ended")


def _gates(ctx: Context, arguments: argparse.Namespace) -> None:
    found = admin.waiting(ctx.app, project=chosen_project(ctx, arguments), include_ended=arguments.include_ended)
    ctx.out.data([{"project": item.project, "task": item.task, **item.gate.shown()} for item in found])
    now = ctx.app.clock.now()
    for item in found:
        gate = item.gate
        said = "overdue" if gate.overdue_at is not None and gate.state == "open" else gate.state
        limit = f"  ({_limit(gate, now)})" if gate.state == "open" and gate.due_at is not None else ""
        ctx.out.line(f"{item.task:<24} {said:<9} {age(now - gate.opened_at):>7}  {gate.asked}{limit}")
    if not found:
        ctx.out.line("Nothing waits for your answer.")
    elif any(item.gate.state == "open" for item in found):
        program = ctx.settings.program
        ctx.out.line(f"Answer with: {program} approve TASK [--edit], or {program} reject TASK REASON")


def _limit(gate: Gate, now: float) -> str:
    left = (gate.due_at or now) - now
    when = f"within {age(left)}" if left > 0 else "its time is up"
    return f"{when}, else {gate.fallback}" if gate.fallback else when


def _task(parser: Parser) -> None:
    parser.add_argument("task", metavar="TASK", help="task that waits at the gate")
    project_option(parser)


def _text_arguments(parser: Parser) -> None:
    group = parser.add_mutually_exclusive_group()
    option(group, "--text TEXT", "the text as the next session is to have it")
    option(group, "--from FILE", "the same from a file (- is standard input)", dest="source")


def _approve_arguments(parser: Parser) -> None:
    _task(parser)
    option(parser, "--reason TEXT", "a word for the journal and the next session")
    _text_arguments(parser)
    flag(parser, "--edit", "change the text in your editor first (env: VISUAL, EDITOR)")


def _approve(ctx: Context, arguments: argparse.Namespace) -> None:
    task = admin.find_task(ctx.app, arguments.task, project=arguments.project)
    text = arguments.text or read_source(arguments.source)
    if arguments.edit:
        gate = admin.gate_of(ctx.app, task)
        text = _edited(ctx, text or gate.subject)
        if text == gate.subject:
            text = ""
    outcome = admin.approve(ctx.app, task, reason=arguments.reason, answer=text)
    _tell(ctx, outcome, "Approved with your text" if text else "Approved")


def _edited(ctx: Context, text: str) -> str:
    """The text after the person's editor; nothing is answered when the editor fails or the text is emptied."""
    import shlex
    import tempfile

    from handoff.base.process import pass_through

    editor = ctx.settings.get("VISUAL") or ctx.settings.get("EDITOR")
    if not editor:
        raise UserError("No editor is set.", "Set EDITOR, or give the text with --text or --from.")
    with tempfile.TemporaryDirectory(prefix="handoff-") as folder:
        path = os.path.join(folder, "answer.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        code = pass_through([*shlex.split(editor), path], environment=ctx.settings.environment)
        changed = read_source(path)
    if code or not changed.strip():
        raise UserError("The editor left no text; the gate is as it was.", "Run the command again.")
    return changed


def _reject_arguments(parser: Parser) -> None:
    _task(parser)
    parser.add_argument("reason", metavar="REASON", help="what must change; the next session reads it")


def _reject(ctx: Context, arguments: argparse.Namespace) -> None:
    task = admin.find_task(ctx.app, arguments.task, project=arguments.project)
    outcome = admin.reject(ctx.app, task, reason=arguments.reason)
    _tell(ctx, outcome, "Rejected")


def _tell(ctx: Context, outcome: Outcome, said: str) -> None:
    task = outcome.task
    ctx.out.data({"task": task.label, **pick(task, "project state reason")})
    ctx.out.line(f"{said}: {task.label} is {task.state}.", "" if task.state == "blocked" else "good")
    if task.state == "blocked":
        verb = f"flow retry {task.scope}" if task.kind == "phase" else f"retry {task.label}"
        ctx.out.line(f"To let it try again: {ctx.settings.program} {verb}")


# --- gate show, gate answer -------------------------------------------------------------------------------------


def _gate_arguments(parser: Parser) -> None:
    show = parser.verb(
        "show",
        "show a task's gate with the text you may change",
        "Show the gate of a task: the question, the time limit, the text you may change and the code that answers it once.",
    )
    _task(show)
    answer = parser.verb(
        "answer",
        "answer by the one-time code of a notification",
        "Answer a gate by its one-time code, from any folder: for chat bots and scripts.",
    )
    answer.add_argument("code", metavar="CODE", help="the code from the notification")
    answer.add_argument("answer", choices=("yes", "no", "edit"), metavar="yes|no|edit", help="what the person said")
    optional_word(answer, "words", "TEXT", "no: the reason; edit: the text as it is to be")
    option(answer, "--from FILE", "that text from a file (- is standard input)", dest="source")
    option(answer, "--by NAME", "who answered, for the journal")


def _gate(ctx: Context, arguments: argparse.Namespace) -> None:
    if arguments.verb == "answer":
        if arguments.words and arguments.source:
            raise UsageError("The text is given twice.", "Use TEXT or --from, not both.")
        text = arguments.words or read_source(arguments.source)
        outcome = admin.answer(ctx.app, code=arguments.code, word=arguments.answer, text=text, by=arguments.by)
        _tell(ctx, outcome, {"yes": "Approved", "no": "Rejected", "edit": "Approved with the text"}[arguments.answer])
        return
    task = admin.find_task(ctx.app, arguments.task, project=arguments.project)
    gate = admin.gate_of(ctx.app, task)
    code = gate.code if gate.state == "open" else ""
    ctx.out.data({"task": task.label, "project": task.project, **gate.shown(), "code": code})
    ctx.out.line(gate.asked, "strong")
    ctx.out.lines(*gate.question.splitlines()[1:])
    who = f" by {gate.answered_by}" if gate.answered_by else ""
    ctx.out.line(f"{gate.state}{who}" + (f": {gate.reason}" if gate.reason else ""))
    if gate.state == "open" and gate.due_at is not None:
        ctx.out.line(_limit(gate, ctx.app.clock.now()))
    for title, text in (("The text:", gate.subject), ("As it is to be:", gate.answer)):
        if text:
            ctx.out.lines("", title, text.rstrip("\n"))
    if code:
        ctx.out.line(f"\nFrom anywhere, once: {ctx.settings.program} gate answer {code} yes")


COMMANDS = {
    "gates": Command(_gates_arguments, _gates),
    "approve": Command(_approve_arguments, _approve),
    "reject": Command(_reject_arguments, _reject),
    "gate": Command(_gate_arguments, _gate),
}
