"""`handoff agent score`: the table of which agent does which kind of work well here."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.engine.home import find_project
from handoff.engine.tasks.splitting.score import score
from handoff.surfaces.cli.command import Command, no_arguments

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context

_WORDS = 2  # columns that hold words; the others hold numbers
_HEADS = ("agent", "work", "green", "first try", "red", "trespasses", "not done", "minutes")


def _score(ctx: Context, arguments: Namespace) -> int:
    """Print the table of this project, the most work first."""
    del arguments
    found = score(ctx.app, project=find_project(ctx.app).name)
    ctx.out.data([row._asdict() for row in found])
    if not found:
        ctx.out.line("No agent has finished a task here yet.")
        return 0
    rows = [
        (row.agent, row.kind, str(row.green), _share(row.first_try, row.green), str(row.red), str(row.trespasses),
         str(row.not_done), f"{row.minutes:.1f}")
        for row in found
    ]  # fmt: skip
    wide = [max(len(line[column]) for line in (_HEADS, *rows)) for column in range(len(_HEADS))]
    for number, line in enumerate((_HEADS, *rows)):
        words = "  ".join(
            word.ljust(width) if at < _WORDS else word.rjust(width)
            for at, (word, width) in enumerate(zip(line, wide, strict=True))
        )
        ctx.out.line(words.rstrip(), "dim" if number == 0 else "")
    return 0


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


COMMANDS = {"agent score": Command(no_arguments, _score)}
