"""The help of the whole command, and what `handoff` alone answers: what to do next in this folder."""

from __future__ import annotations

import os

from handoff.base.errors import HandoffError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.catalog import CATALOG

if TYPE_CHECKING:
    from handoff.surfaces.cli.command import Context


def help_text(program: str) -> str:
    """Every command with its line, shelf by shelf."""
    lines = [
        f"usage: {program} [-C DIR] [--feature NAME] COMMAND ...",
        "",
        "The relay between AI coding sessions: nothing lost, nobody's work swept up, done means checked.",
    ]
    for section in dict.fromkeys(entry.section for entry in CATALOG.values()):
        lines += ["", f"{section}:"]
        lines += [f"  {name:<14} {entry.help}" for name, entry in CATALOG.items() if entry.section == section]
    lines += [
        "",
        "Everywhere:",
        "  -C DIR         work as if started in DIR",
        "  --feature NAME use this feature instead of the active one (env: HANDOFF_FEATURE)",
        "  --version      print the version",
        "",
        f"Help for one command: {program} COMMAND --help. The pages of the manual: {program} help docs",
        "",
    ]
    return "\n".join(lines)


def page(name: str, program: str) -> str:
    """A page of the manual that came with the package, or the list of them."""
    import handoff

    inside = os.path.join(os.path.dirname(handoff.__file__), "docs")
    root = inside if os.path.isdir(inside) else os.path.abspath(os.path.join(inside, "..", "..", "..", "docs"))
    pages = sorted(
        f"docs/{os.path.relpath(os.path.join(place, file), root)}"
        for place, _, names in os.walk(root)
        for file in names
        if file.endswith(".md")
    )
    if name.rstrip("/") == "docs":
        return "".join(f"{program} help {found}\n" for found in pages)
    if name not in pages:
        raise UserError(f"There is no page {name}.", f"See: {program} help docs")
    with open(os.path.join(root, name.removeprefix("docs/")), encoding="utf-8") as file:
        return file.read()


def what_now(ctx: Context) -> int:
    """Tell what to do next in this folder."""
    from handoff.engine.features import status, teammates

    program, out = ctx.settings.program, ctx.out
    found, relay = teammates.under_way(ctx.app)
    if status.workspace_of(ctx.app) is None:
        out.data({"feature": None, "relay": found, "next": {"command": f"{program} init my-feature"}})
        out.line("No feature is kept here yet.", "title")
        out.lines(*(f"  {line}" for line in relay))
        out.line()
        out.line(f"  {program} init my-feature     keep a feature's goal, plan and notes between sessions")
        out.line(f"  {program} demo                see it work in a scratch repository")
        out.line(f"  {program} --help              every command")
        return 0
    try:
        view = status.look(ctx.app)
    except HandoffError as error:
        out.data({"feature": None, "relay": found, "error": error.message, "hint": error.hint})
        out.line(error.message)
        if error.hint:
            out.line(error.hint)
        out.lines(*(f"  {line}" for line in relay))
        out.line(f"Every command: {program} --help")
        return 0
    advice = status.advise(view, program)
    plan = view.plan
    out.data(
        {
            "feature": view.feature.name,
            "status": advice.status,
            "blocked": advice.blocked,
            "relay": found,
            "next": {"command": advice.command, "focus": advice.focus},
        }
    )
    out.line(
        f"{view.feature.name}: {advice.status}"
        + (f", {plan.done} of {len(plan.marks)} steps done" if plan.marks else ""),
        "title",
    )
    if advice.blocked:
        out.line(f"  Why blocked: {advice.blocked}", "warn")
    out.line(f"  Next:  {advice.command}")
    out.line(f"  About: {advice.focus}")
    out.lines(*(f"  {line}" for line in relay))
    out.line(f"  More:  {program} status, {program} --help")
    return 0
