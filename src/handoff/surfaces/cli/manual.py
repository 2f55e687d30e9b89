"""The help of the whole command, and the pages of the manual that came with the package."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.surfaces.cli.catalog import CATALOG


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
