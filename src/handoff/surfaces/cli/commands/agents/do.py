"""`handoff do`: from a sentence to a checked commit."""

from __future__ import annotations

import sys

from handoff.base.errors import INTERRUPTED, UserError
from handoff.base.ids import on_one_line, slug
from handoff.base.record import TYPE_CHECKING
from handoff.board import gates
from handoff.board.events import texts
from handoff.board.tasks import states, tasks
from handoff.engine import acts
from handoff.engine.clients import agents, review
from handoff.engine.outcome import whole_check
from handoff.engine.sessions import start as session_start
from handoff.engine.tasks import create
from handoff.surfaces.cli.command import Command, flag, option

if TYPE_CHECKING:
    import argparse

    from handoff.board.tasks.tasks import Task
    from handoff.surfaces.cli.command import Context, Parser

_ID_CHARS = 32
_SHOWN_LINES = 200
EXAMPLES = """examples:
  handoff do 'fix the login test'                 asks you before it lands
  handoff do 'fix the login test' --agent codex --check 'make test'
  handoff do - --yes < task.md                    lands what is green without a question
"""


def _arguments(parser: Parser) -> None:
    parser.add_argument("sentence", metavar="WHAT", help="what is to be done ('-' reads it from standard input)")
    option(parser, "--agent NAME", "which agent (default: the one that is installed)")
    option(parser, "--model NAME", "the model its client is to use")
    option(
        parser, "--check CMD", "what must be green (default: the project's own tests, as `handoff check` finds them)"
    )
    option(parser, "--owns PATTERN", "path, folder/ or glob it may change (may be repeated; default: everything)", [])
    option(parser, "--with WORD", "one more word for the client (may be repeated)", [], dest="words")
    flag(parser, "--yes", "land what is green without asking")


def _do(ctx: Context, arguments: argparse.Namespace) -> int:
    brief = sys.stdin.read() if arguments.sentence == "-" and sys.stdin is not None else arguments.sentence
    agent = arguments.agent or _installed(ctx)
    project = create.project_of_caller(ctx.app)
    check = arguments.check or whole_check.found(ctx.app, project.workspace)
    request = create.Request(
        task=_new_id(ctx, project.name, brief),
        brief=brief,
        agent=agent,
        check=check,
        owns=tuple(arguments.owns),
        model=arguments.model,
        landing=tasks.AUTO if arguments.yes else tasks.REVIEW,
    )
    task = create.write_down(ctx.app, project, request)
    ctx.out.note(
        f"Task {task.label} for {agent}. " + (f"Check: {check}" if check else "No tests were found: nothing checks it.")
    )
    code = _until_decided(ctx, task, tuple(arguments.words))
    task = tasks.get(ctx.app.database, key=task.key)
    ctx.out.data({"task": task.label, "project": task.project, "state": task.state, "reason": task.reason})
    return code


def _installed(ctx: Context) -> str:
    found = [
        one.name for one in agents.listing(ctx.app) if one.program and one.version and not one.old and not one.held
    ]
    if len(found) == 1:
        return found[0]
    program = ctx.settings.program
    if not found:
        raise UserError("No coding agent was found on this machine.", f"See: {program} agent list")
    raise UserError(
        f"Several agents are installed: {', '.join(found)}.", f"Choose one: {program} do … --agent {found[0]}"
    )


def _new_id(ctx: Context, project: str, brief: str) -> str:
    """A name from the first words that no task has had."""
    words = slug(brief.strip().partition("\n")[0])[:_ID_CHARS].rpartition("-" if len(brief) > _ID_CHARS else "\0")
    name = (words[0] or words[2]).strip("-")
    name = name if len(name) > 1 else "task"
    number, found = 1, name
    while tasks.is_known(ctx.app.database, project=project, id=found):
        number += 1
        found = f"{name}-{number}"
    return found


def _until_decided(ctx: Context, task: Task, words: tuple[str, ...]) -> int:
    """Sessions for the task, one after the other, until it has landed, is stuck, or waits for a person who is not here."""
    app, program = ctx.app, ctx.settings.program
    while task.state == states.READY:
        request = session_start.StartRequest(agent=task.agent, task=task.label, project=task.project, words=words)
        started = session_start.start(app, request=request)
        ctx.out.note(f"Session {started.session.name} works. Follow it: {program} session log {started.session.name}")
        concluded = session_start.watch(app, started, tell=ctx.out.note)
        ctx.out.note(concluded.words)
        if concluded.outcome.reason == session_start.INTERRUPTED:
            ctx.out.line(f"Its work is kept. Go on: {program} session start {task.label} --agent {task.agent}")
            return INTERRUPTED
        task = tasks.get(app.database, key=task.key)
        if task.state == states.GATED and not _answered(ctx, task):
            return 1
        task = tasks.get(app.database, key=task.key)
    if task.state != states.DONE:
        ctx.out.line(f"{task.label} is {task.state}: {task.reason}", "bad")
        ctx.out.line(f"Try it differently: {program} retry {task.label} --note TEXT")
        return 1
    landed = str(texts.read(task.evidence, {}).get("landed", ""))
    ctx.out.line(
        f"{task.label} has landed as {landed[:10]}." if landed else f"{task.label} is done: {task.result}", "good"
    )
    ctx.out.line(f"Take it back with: {program} undo")
    return 0


def _answered(ctx: Context, task: Task) -> bool:
    """Show what waits, and let the person in this terminal answer; False where nobody sits here."""
    found = review.review(ctx.app, key=task.key)
    if found.gate is None or found.gate.state != gates.OPEN:
        return True
    for line in [f"{one.path}  +{one.added} -{one.removed}" for one in found.files]:
        ctx.out.line(on_one_line(line), "strong")
    lines = [line for one in found.files for line in (f"--- {on_one_line(one.path)}", *one.lines)]
    ctx.out.lines(*lines[:_SHOWN_LINES])
    if len(lines) > _SHOWN_LINES:
        ctx.out.line(f"… and {len(lines) - _SHOWN_LINES} more lines")
    for line in found.weakened:
        ctx.out.warning(line)
    if not ctx.out.can_ask:
        ctx.out.line(found.gate.asked, "warn")
        ctx.out.line(f"Answer it: {ctx.settings.program} {found.gate.command(task.label)}")
        return False
    offered = ", ".join(found.gate.offered) or ("your answer" if found.gate.open_ended else "yes, or what must change")
    said = ctx.out.answer(f"{found.gate.asked} [{offered}]")
    if not said:
        ctx.out.line(f"It waits for you: {ctx.settings.program} {found.gate.command(task.label)}")
        return False
    word, reason = (said, "") if found.gate.open_ended or said.lower() in ("y", "yes") else ("no", said)
    word = "yes" if word == "y" else word
    ctx.out.done(acts.answer(ctx.app, task.label, word, reason=reason, project=task.project))
    return True


COMMANDS = {"do": Command(_arguments, _do, epilog=EXAMPLES)}
