"""`handoff workflow list|show|check|graph`: workflows as data."""

from __future__ import annotations

from handoff.base.clock import age
from handoff.base.errors import UsageError
from handoff.base.files import write_atomic
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.engine.home import find_project
from handoff.surfaces.cli.command import Command, flag, option
from handoff.workflows import graph, library
from handoff.workflows.model import CHECKS_MEANING

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context, Parser
    from handoff.workflows.model import Phase

_EPILOG = "Your own workflows are .handoff/workflows/NAME.toml: handoff help docs/howto/workflows.md"


def _arguments(parser: Parser) -> None:
    parser.verb("list", "list the workflows", "List the workflows of this project and the packaged ones.")
    show = parser.verb(
        "show", "show a workflow's phases", "Show a workflow: each phase with its role, fence, check and what follows."
    )
    show.add_argument("name", metavar="WORKFLOW", help="name or file")
    flag(show, "--toml", "print its file as it is, to copy and change")
    option(show, "--prompt PHASE", "print the words one phase is given")
    check = parser.verb(
        "check",
        "check a workflow; exit 1 and name the lines if it is wrong",
        "Check workflows; exit 1 and name every wrong line.",
    )
    check.add_argument("names", nargs="*", metavar="WORKFLOW", help="names or files (default: all)")
    picture = parser.verb("graph", "draw a workflow as text or SVG", "Draw a workflow as text or SVG.")
    picture.add_argument("name", metavar="WORKFLOW", help="name or file")
    flag(picture, "--svg", "print SVG")
    option(picture, "--output FILE", "write the SVG to a file")


def _workflow(ctx: Context, arguments: Namespace) -> int:
    verbs = {"list": _list, "show": _show, "check": _check, "graph": _graph}
    return verbs[arguments.verb](ctx, arguments, find_project(ctx.app).workspace)


def _list(ctx: Context, arguments: Namespace, root: str) -> int:
    del arguments
    rows = []
    for place in library.listing(root):
        workflow, problems = library.inspect(root, place.name)
        rows.append(
            {
                "name": place.name,
                "title": workflow.title,
                "path": place.path,
                "packaged": place.packaged,
                "phases": [phase.name for phase in workflow.phases],
                "problems": len(problems),
            }
        )
    ctx.out.data(rows)
    for row in rows:
        said = (
            number_of(int(str(row["problems"])), "problem")
            if row["problems"]
            else "packaged"
            if row["packaged"]
            else "yours"
        )
        ctx.out.line(f"{row['name']:<16} {said:<11} {row['title']}", "warn" if row["problems"] else "")
    return 0


def _show(ctx: Context, arguments: Namespace, root: str) -> int:
    workflow = library.load(root, arguments.name)
    if arguments.toml:
        ctx.out.data({"name": workflow.name, "path": workflow.path, "text": workflow.text})
        ctx.out.line(workflow.text.rstrip("\n"))
        return 0
    if arguments.prompt:
        known = [phase.name for phase in workflow.phases]
        if arguments.prompt not in known:
            raise UsageError(f"'{workflow.name}' has no phase '{arguments.prompt}'.", f"It has: {', '.join(known)}.")
        phase = workflow.phase(arguments.prompt)
        ctx.out.data({"phase": phase.name, "told": list(phase.told), "prompt": phase.prompt, "file": phase.prompt_file})
        ctx.out.line(phase.prompt.rstrip("\n"))
        return 0
    values = workflow._asdict()
    ctx.out.data({**values, "phases": [phase._asdict() for phase in workflow.phases]})
    ctx.out.line(f"{workflow.name}: {workflow.title}", "title")
    ctx.out.line(f"  {workflow.path}; at most {number_of(workflow.max_cycles, 'cycle')}")
    for phase in workflow.phases:
        ctx.out.line()
        ctx.out.line(f"{phase.name}" + (f": {phase.title}" if phase.title else ""), "strong")
        for line in _facts(phase):
            ctx.out.line(f"  {line}")
    return 0


def _facts(phase: Phase) -> list[str]:
    lines = [f"role      {phase.role}" if phase.role else "role      none: the orchestrator does it"]
    lines.append(f"writes    {', '.join(phase.may_write)}")
    if phase.told:
        lines.append(f"is told   {', '.join(phase.told)}")
    lines.append(f"check     {phase.check}: {phase.command or CHECKS_MEANING[phase.check]}")
    if phase.commit:
        lines.append(f"commit    {phase.commit}: …")
    said = phase.next.items()
    lines.append("next      " + ", ".join(target if len(said) == 1 else f"{word} → {target}" for word, target in said))
    if phase.role:
        pauses = ", ".join(f"{one:g} s" for one in phase.back_off_seconds)
        lines.append(f"attempts  {phase.retries}, then {phase.when_used_up}" + (f"; pauses {pauses}" if pauses else ""))
    limits = [(phase.minutes, "minutes"), (phase.turns, "turns"), (phase.money, "USD")]
    if any(number for number, _ in limits):
        lines.append("limits    " + ", ".join(f"{number:g} {unit}" for number, unit in limits if number))
    if phase.gate:
        limit = f", within {age(phase.gate_within)}" if phase.gate_within else ""
        limit += f", else {phase.gate_default}" if phase.gate_default else ""
        lines.append(f"gate      a person says yes before it goes on{limit}")
    return lines


def _check(ctx: Context, arguments: Namespace, root: str) -> int:
    names = arguments.names or [place.name for place in library.listing(root)]
    found = {name: library.inspect(root, name) for name in names}
    ctx.out.data(
        {
            name: [{"path": p.path, "line": p.line, "fault": p.fault, "fix": p.fix} for p in problems]
            for name, (_, problems) in found.items()
        }
    )
    for name, (workflow, problems) in found.items():
        for problem in problems:
            ctx.out.line(f"{problem.path}:{problem.line}: {problem.fault} {problem.fix}".rstrip(), "bad")
        if not problems:
            ctx.out.line(f"{name}: {number_of(len(workflow.phases), 'phase')}, nothing wrong", "good")
    return 1 if any(problems for _, problems in found.values()) else 0


def _graph(ctx: Context, arguments: Namespace, root: str) -> int:
    workflow = library.load(root, arguments.name)
    if arguments.output:
        write_atomic(arguments.output, graph.as_svg(workflow))
        ctx.out.data({"name": workflow.name, "file": arguments.output})
        ctx.out.line(f"Wrote {arguments.output}")
        return 0
    ctx.out.data({"name": workflow.name, "text": graph.as_text(workflow), "svg": graph.as_svg(workflow)})
    if arguments.svg:
        ctx.out.line(graph.as_svg(workflow).rstrip("\n"))
    else:
        ctx.out.lines(*graph.as_text(workflow))
    return 0


COMMANDS = {"workflow": Command(_arguments, _workflow, epilog=_EPILOG)}
