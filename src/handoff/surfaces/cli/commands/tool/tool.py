"""`completion`, `upgrade`, `version`."""

from __future__ import annotations

from handoff import __version__
from handoff.base.errors import UsageError
from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.command import Command, flag, no_arguments, number_of, option
from handoff.surfaces.vocabulary import LOOKS, wants_ascii

if TYPE_CHECKING:
    import argparse
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context, Parser

_SHELLS = ("bash", "zsh", "fish", "powershell", "power-shell", "elvish")
_COMPLETION_EPILOG = """For example:
  bash        source <(handoff completion bash)
  zsh         source <(handoff completion zsh)
  fish        handoff completion fish > ~/.config/fish/completions/handoff.fish
  powershell  handoff completion powershell | Out-String | Invoke-Expression
  elvish      eval (handoff completion elvish | slurp)"""


def _completion_arguments(parser: Parser) -> None:
    parser.add_argument("shell", nargs="?", choices=_SHELLS, help="your shell")
    option(
        parser,
        "--values",
        "print the values a script asks for, one a line",
        None,
        choices=("features", "answers", "sessions"),
    )


def _completion(ctx: Context, arguments: Namespace) -> None:
    if arguments.values == "answers":
        from handoff.engine.work.tasks import admin

        found = admin.waiting(ctx.app) if ctx.app.has_rows else []
        words = [word for item in found for word in (item.task, *item.gate.offered)]
        # Shells expand these words, and sessions wrote some of them.
        safe = [word for word in words if word[0] != "-" and all(c.isalnum() or c in "-_./:@+," for c in word)]
        ctx.out.raw("".join(f"{word}\n" for word in dict.fromkeys(["yes", "no", "edit", *safe])))
        return
    if arguments.values == "sessions":
        from handoff.board.sessions import sessions

        ctx.out.raw("".join(f"{one.id}\n" for one in sessions.at_work(ctx.app.database)))
        return
    if arguments.values:
        from handoff.engine.features import lifecycle

        ctx.out.raw("".join(f"{item.name}\n" for item in lifecycle.listing(ctx.app)))
        return
    if not arguments.shell:
        raise UsageError("Say which shell.", f"One of: {', '.join(_SHELLS)}")
    from handoff.surfaces.cli import completions

    ctx.out.raw(completions.script(arguments.shell, ctx.settings.program))


def _upgrade_arguments(parser: Parser) -> None:
    flag(parser, "--dry-run", "only print the command")


def _upgrade(ctx: Context, arguments: Namespace) -> int:
    from handoff.engine.setup import upgrade

    found = upgrade.installation(ctx.app)
    ctx.out.data({"installed_by": found.by, "command": list(found.command), "note": found.why, "version": __version__})
    if not found.command:
        ctx.out.line(f"Installed by: {found.by}. {found.why}")
        return 0
    ctx.out.line(f"Installed by: {found.by}. The command: {' '.join(found.command)}")
    if arguments.dry_run or ctx.out.json_wanted:
        return 0
    return upgrade.upgrade(ctx.app, found)


def _version(ctx: Context, arguments: Namespace) -> None:
    del arguments
    ctx.out.data({"version": __version__})
    ctx.out.line(__version__)


# --- `handoff doctor`: what is wrong, and the command that fixes it

_SHOWN = {"ok": "green", "warning": "held", "fault": "blocked"}


def _doctor(ctx: Context, arguments: argparse.Namespace) -> int:
    del arguments
    from handoff.engine.setup import doctor
    from handoff.engine.setup.doctor import FAULT, WARNING

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


COMMANDS = {
    "completion": Command(_completion_arguments, _completion, shows=False, epilog=_COMPLETION_EPILOG),
    "upgrade": Command(_upgrade_arguments, _upgrade),
    "version": Command(no_arguments, _version),
    "doctor": Command(no_arguments, _doctor),
}
