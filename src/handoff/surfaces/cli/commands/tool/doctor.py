"""`handoff doctor`: what is wrong, and the command that fixes it."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.command import Command, no_arguments, number_of
from handoff.surfaces.vocabulary import LOOKS, wants_ascii

if TYPE_CHECKING:
    import argparse

    from handoff.surfaces.cli.command import Context

_SHOWN = {"ok": "green", "warning": "held", "fault": "blocked"}


def _doctor(ctx: Context, arguments: argparse.Namespace) -> int:
    del arguments
    from handoff.engine.clients import doctor
    from handoff.engine.clients.diagnosis import FAULT, WARNING

    found = []
    plain = wants_ascii(ctx.settings)
    for one in doctor.examine(ctx.app):
        found.append(one)
        look = LOOKS[_SHOWN[one.state]]
        mark = ctx.out.style(look.mark(ascii_only=plain), look.style)
        ctx.out.line(f"{mark} {one.name:<11} {one.words}")
        if one.fix:
            ctx.out.line(f"              {'Fix' if one.state == FAULT else 'Better'}: {one.fix}", "dim")
    faults = sum(one.state == FAULT for one in found)
    warnings = sum(one.state == WARNING for one in found)
    ctx.out.data({"faults": faults, "warnings": warnings, "findings": [one._asdict() for one in found]})
    said = f"{number_of(faults, 'fault')}, {number_of(warnings, 'warning')}." if faults or warnings else "All is well."
    ctx.out.line(said, "bad" if faults else "warn" if warnings else "good")
    return 1 if faults else 0


COMMANDS = {"doctor": Command(no_arguments, _doctor)}
