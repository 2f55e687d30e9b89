"""A person's words for agents: `do`, from a sentence to a checked commit, and `session say`, to a session that runs.

`session say` loads little: whoever speaks does not wait.
"""

from __future__ import annotations

import sys
from functools import partial

from handoff.base.errors import INTERRUPTED
from handoff.base.ids import on_one_line
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import texts
from handoff.board.tasks import states, tasks
from handoff.engine.work import saying
from handoff.surfaces.cli.command import Command, flag, option, project_option, read_source

if TYPE_CHECKING:
    import argparse

    from handoff.board.gates import Gate
    from handoff.board.tasks.tasks import Task
    from handoff.engine.work.review import TaskReview
    from handoff.surfaces.cli.command import Context, Parser

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
    from handoff.engine.work import orders
    from handoff.engine.work.tasks import create

    brief = sys.stdin.read() if arguments.sentence == "-" and sys.stdin is not None else arguments.sentence
    request = create.Request(
        task="",
        brief=brief,
        agent=arguments.agent,
        check=arguments.check,
        owns=tuple(arguments.owns),
        model=arguments.model,
        landing=tasks.AUTO if arguments.yes else tasks.REVIEW,
    )
    task = orders.add(ctx.app, request)
    checked = f"Check: {task.check_command}" if task.check_command else "No tests were found: nothing checks it."
    ctx.out.note(f"Task {task.label} for {task.agent}. {checked}")

    ask = partial(_asked, ctx)
    try:
        done = orders.until_decided(ctx.app, task, words=tuple(arguments.words), tell=ctx.out.note, ask=ask)
    except KeyboardInterrupt:  # at the question, or while its session was ending already
        done = orders.DoneSentence(tasks.get(ctx.app.database, key=task.key), interrupted=True)
    task = done.task
    ctx.out.data({"task": task.label, "project": task.project, "state": task.state, "reason": task.reason})
    program = ctx.settings.program
    go_on = f"{program} session start {task.label} --agent {task.agent}"
    if done.interrupted and task.state == states.GATED:
        ctx.out.line(f"It waits for you: {program} answer {task.label}")
        return INTERRUPTED
    if done.interrupted:
        if task.state == states.RUNNING:
            ctx.out.line(f"Its session is still ending. Wait for that: {program} session stop {task.held_by}")
        ctx.out.line(f"Its work is kept. Go on: {go_on}")
        return INTERRUPTED
    if done.refusal is not None:
        ctx.out.error(done.refusal.message, done.refusal.hint)
        if go_on not in done.refusal.hint:
            ctx.out.note(f"'{task.label}' is kept. Then go on with it: {go_on}")
        return done.refusal.exit_code
    if task.state == states.GATED:
        return 1  # what waits was shown
    ctx.out.ring(ctx.app, f"{task.label} is {task.state}.")
    if task.state != states.DONE:
        ctx.out.line(f"{task.label} is {task.state}: {task.reason}", "bad")
        ctx.out.line(f"Try it differently: {program} retry {task.label} --note TEXT")
        if not task.check_command:
            ctx.out.line(f"Nothing checks it. With a check: {program} retry {task.label} --check CMD")
        return 1
    landed = str(texts.read(task.evidence, {}).get("landed", ""))
    ctx.out.line(
        f"{task.label} has landed as {landed[:10]}." if landed else f"{task.label} is done: {task.result}", "good"
    )
    ctx.out.line(f"Take it back with: {program} undo")
    return 0


def _asked(ctx: Context, task: Task, found: TaskReview, gate: Gate) -> str:
    """Show what waits, and let the person in this terminal answer; nothing where nobody sits here."""
    for line in [f"{one.path}  +{one.added} -{one.removed}" for one in found.files]:
        ctx.out.line(on_one_line(line), "strong")
    lines = [line for one in found.files for line in (f"--- {on_one_line(one.path)}", *one.lines)]
    ctx.out.lines(*lines[:_SHOWN_LINES])
    if len(lines) > _SHOWN_LINES:
        ctx.out.line(f"… and {len(lines) - _SHOWN_LINES} more lines")
    for line in found.weakened:
        ctx.out.warning(line)
    waits = f"{ctx.settings.program} {gate.command(task.label)}"
    if not ctx.out.can_ask:
        ctx.out.line(gate.asked, "warn")
        ctx.out.line(f"Answer it: {waits}")
        return ""
    ctx.out.ring(ctx.app, gate.asked)
    offered = ", ".join(gate.offered) or ("your answer" if gate.open_ended else "yes, or what must change")
    said = ctx.out.answer(f"{gate.asked} [{offered}]")
    if not said:
        ctx.out.line(f"It waits for you: {waits}")
    return said


SAY_EPILOG = (
    "It reads your words after its next tool call, as yours and word for word; `session list` and `show TASK` say how far they got:"
    " queued, delivered, seen."
)


def _say_arguments(parser: Parser) -> None:
    parser.add_argument("session", metavar="SESSION", help="which session, or the task it works on")
    parser.add_argument("text", metavar="TEXT", help="your words (- is standard input)")
    flag(parser, "--now", "end its turn and start again with your words, without a lost attempt or lost work")
    project_option(parser)


def _say(ctx: Context, arguments: argparse.Namespace) -> int:
    text = read_source("-") if arguments.text == "-" else arguments.text
    meant = {"session": arguments.session, "text": text, "project": arguments.project}
    if not arguments.now:
        return ctx.out.done(saying.as_act(saying.keep(ctx.app, **meant)))
    from handoff.engine.work import acts

    return ctx.out.done(acts.say(ctx.app, **meant, now=True))


COMMANDS = {
    "do": Command(_arguments, _do, epilog=EXAMPLES),
    "session say": Command(_say_arguments, _say, epilog=SAY_EPILOG),
}
