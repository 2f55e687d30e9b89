"""`import`: move over from another tool, or take issues in."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks.tasks import ISSUE, ISSUE_LABEL
from handoff.engine.place.fanout import older
from handoff.engine.supervisor import handoff_fanout
from handoff.engine.work.tasks import create
from handoff.surfaces.cli.command import (
    Command,
    flag,
    landing_option,
    number_of,
    option,
    optional_word,
    pick,
    project_option,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context, Parser

_EPILOG = """The import takes live and blocked tasks, open batches with their parts' reports, measures, stops and config.json. What its tabs
report later counts too; a task of such a tab waits for that report. Each open batch gets two marks there, so that handoff-fanout
opens no fan-in of its own; its other files are only read. In a home that both tools share, handoff's files go to a folder 'relay'.
Run it again to take in what is new."""
_SHOWN = {handoff_fanout.NEW: "good", handoff_fanout.KNOWN: "dim", handoff_fanout.REFUSED: "bad"}
_KIND = {handoff_fanout.MEASURE: "measure of batch"}


def _arguments(parser: Parser) -> None:
    text = "Open here what is live in a home of handoff-fanout (a dry run unless --execute)."
    verb = parser.verb("fanout", "move over from handoff-fanout", text)
    optional_word(
        verb, "folder", "DIR", "its home (default: where one is found: this home, ~/.handoff, ~/.claude-handoff)"
    )
    option(verb, "--project NAME", "only this project of the old home")
    option(verb, "--workspace DIR", "where the checkout is now, if the one it names is gone")
    flag(verb, "--execute", "do it; without this it is only shown")
    text = "Make a task of each open issue with a label that never had one, by your own gh or glab."
    verb = parser.verb("issues", "take in the issues of your forge that have a label", text)
    option(verb, "--label NAME", f"the label (default: {ISSUE_LABEL})", ISSUE_LABEL)
    option(verb, "--agent NAME", "which agent the tasks are for")
    option(verb, "--check CMD", "command that must end with exit 0 before each counts as done")
    landing_option(verb, "")
    project_option(verb)


def _import_issues(ctx: Context, arguments: Namespace) -> int:
    from handoff.engine.work.forges import issues

    create.check_agents(ctx.app, arguments.agent)
    project = create.project_of_caller(ctx.app, name=arguments.project)
    request = create.Request(task="", brief="", **pick(arguments, "agent check landing"))
    found = issues.take_labelled(ctx.app, arguments.label, request=request, project=project)
    ctx.out.data([{"task": task.label, "issue": task.baseline_facts[ISSUE]} for task in found])
    for task in found:
        ctx.out.line(f"  {task.label}: {task.baseline_facts[ISSUE]}", "good")
    ctx.out.line(f"Taken in: {number_of(len(found), 'issue')} with the label '{arguments.label}'.")
    return 0


def _import(ctx: Context, arguments: Namespace) -> int:
    if arguments.verb == "issues":
        return _import_issues(ctx, arguments)
    folder = arguments.folder or older.home_with_work(ctx.app) or ctx.settings.home
    plan = handoff_fanout.import_home(
        ctx.app,
        path=folder,
        project=arguments.project,
        workspace=arguments.workspace,
        execute=arguments.execute,
    )
    out, program = ctx.out, ctx.settings.program
    out.data({**plan._asdict(), "items": [item._asdict() for item in plan.items], "executed": arguments.execute})
    out.line(f"The home of handoff-fanout: {plan.home}", "strong")
    words = {
        handoff_fanout.NEW: "taken in" if arguments.execute else "would be taken in",
        handoff_fanout.KNOWN: "stays as it is",
    }
    for item in plan.items:
        where = f"{item.project}/" if item.project not in ("", "*", item.name) else ""
        fate = words.get(item.fate, "NOT taken in")
        out.line(f"  {_KIND.get(item.kind, item.kind)} {where}{item.name}: {fate} ({item.words})", _SHOWN[item.fate])
    for fault in plan.faults:
        out.warning(fault)
    refused = plan.count(handoff_fanout.REFUSED)
    if not plan.items:
        out.line("Nothing of handoff-fanout that is live was found there.")
    elif not plan.count(handoff_fanout.NEW):
        out.line("Nothing is new." if not refused else "Nothing could be taken in.")
    elif not arguments.execute:
        again = f"{program} import fanout{' ' + arguments.folder if arguments.folder else ''} --execute"
        out.line(f"Nothing was changed. To take in {number_of(plan.count(handoff_fanout.NEW), 'thing')}: {again}")
    else:
        ended = f"; {number_of(plan.ended, 'finished thing')} stay there as history" if plan.ended else ""
        out.line(
            f"Taken in: {plan.count(handoff_fanout.NEW)}. Nothing of it was removed there{ended}. See: {program} task list --all-projects"
        )
    return 1 if refused else 0


COMMANDS = {"import": Command(_arguments, _import, epilog=_EPILOG)}
