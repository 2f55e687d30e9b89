"""`handoff flow kinds`: workflows as data, listed, shown, checked and drawn."""

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
    parser.add_argument(
        "names", nargs="*", metavar="WORKFLOW", help="a workflow by its name or file (default: list them)"
    )
    group = parser.add_mutually_exclusive_group()
    flag(group, "--check", "check it, or all; exit 1 and name every wrong line")
    flag(group, "--graph", "draw it as text")
    flag(group, "--toml", "print its file as it is, to copy and change")
    option(group, "--prompt PHASE", "print the words one phase is given")
    flag(parser, "--svg", "with --graph: print SVG")
    option(parser, "--output FILE", "with --graph: write the SVG to a file")


def _workflow(ctx: Context, arguments: Namespace) -> int:
    root = find_project(ctx.app).workspace
    if arguments.check:
        return _check(ctx, arguments, root)
    if (arguments.svg or arguments.output) and not arguments.graph:
        raise UsageError("--svg and --output go with --graph.", "Add --graph.")
    if not arguments.names and not (arguments.graph or arguments.toml or arguments.prompt):
        return _list(ctx, root)
    if len(arguments.names) != 1:
        raise UsageError("Name one workflow.", f"See the names: {ctx.settings.program} flow kinds")
    name = arguments.names[0]
    return _graph(ctx, arguments, name, root) if arguments.graph else _show(ctx, arguments, name, root)


def _list(ctx: Context, root: str) -> int:
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


def _show(ctx: Context, arguments: Namespace, name: str, root: str) -> int:
    workflow = library.load(root, name)
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


def _graph(ctx: Context, arguments: Namespace, name: str, root: str) -> int:
    workflow = library.load(root, name)
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


COMMANDS = {"flow kinds": Command(_arguments, _workflow, epilog=_EPILOG)}
