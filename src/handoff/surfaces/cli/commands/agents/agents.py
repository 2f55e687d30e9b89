"""`handoff agents`: what is installed, what each can and cannot do, how it is fenced."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.engine.clients.agents import listing
from handoff.surfaces.cli.command import Command, no_arguments, pick

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context


def _agents(ctx: Context, arguments: Namespace) -> int:
    del arguments
    rows = listing(ctx.app)
    ctx.out.data(
        [
            {
                **pick(row, "name title"),
                "installed": bool(row.program),
                **pick(row, "program version"),
                "too_old": row.old,
                **pick(row, "can cannot fence"),
            }
            for row in rows
        ]
    )
    for row in rows:
        there = row.program or row.name == "person"
        state = row.version or ("ready" if there else "not installed")
        ctx.out.line(f"{row.name:<10} {state}", "good" if there else "dim")
        if there:
            if row.old:
                ctx.out.line("           too old for its hooks: it is supervised only", "warn")
            for label, words in (("can", row.can), ("cannot", row.cannot)):
                if words:
                    ctx.out.line(f"           {label}: {', '.join(words)}")
            ctx.out.line(f"           fenced by: {row.fence}")
    return 0


COMMANDS = {"agents": Command(no_arguments, _agents)}
