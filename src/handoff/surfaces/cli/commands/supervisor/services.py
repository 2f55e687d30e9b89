"""`setup service install|remove`: the supervisor or the watchdog, run by the person's own system."""

from __future__ import annotations

from handoff.base.errors import UsageError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.supervisor import process, service, tabs
from handoff.surfaces.cli.command import Command, flag
from handoff.surfaces.cli.commands.supervisor.work import worker_arguments, worker_settings_of

if TYPE_CHECKING:
    import argparse

    from handoff.engine.supervisor.service import ServiceStep
    from handoff.surfaces.cli.command import Context, Parser

_EPILOG = """examples:
  handoff setup service install                              the watchdog, every minute
  handoff setup service install work --agent claude --max 4  a supervisor, from log-in on and again after a fault
  handoff work --status                                      what it does
  handoff work --stop                                        end it until the next log-in; agents go on
  handoff setup service remove work                          remove what install wrote
"""


def _arguments(parser: Parser) -> None:
    install = parser.verb("install", "write the service's files and switch it on", "Let your system run it.")
    remove = parser.verb("remove", "switch it off and remove its files", "Let your system run it no longer.")
    text = "what it is about: the watchdog's timer (default) or the supervisor"
    for verb in (install, remove):
        verb.add_argument("what", nargs="?", choices=(service.WATCHDOG, service.WORK), default="watchdog", help=text)
    text = "the watchdog also opens a tab by itself when a task becomes ready (it asks if you leave it out)"
    flag(install, "--auto-open", text)
    worker_arguments(install)


def _service(ctx: Context, arguments: argparse.Namespace) -> int:
    steps = _install(ctx, arguments) if arguments.verb == "install" else _remove(ctx, arguments)
    ctx.out.data([step._asdict() for step in steps])
    for step in steps:
        ctx.out.line(step.words, "" if step.done else "warn")
    return 0 if all(step.done for step in steps) else 1


def _install(ctx: Context, arguments: argparse.Namespace) -> list[ServiceStep]:
    if arguments.what == service.WATCHDOG:
        if arguments.agent or arguments.max or arguments.labels or arguments.words:
            fix = f"{ctx.settings.program} setup service install work …"
            raise UsageError("The watchdog has no agents.", f"Did you mean: {fix}?")
        return service.install_watchdog(ctx.app, opening=_choose_auto_open(ctx, arguments))
    # A machine has one such service, so it serves every project unless one is named.
    words = process.words_of(worker_settings_of(ctx, arguments, project=arguments.project), limit=arguments.max)
    return service.install(ctx.app, service.supervisor(words))


def _remove(ctx: Context, arguments: argparse.Namespace) -> list[ServiceStep]:
    if arguments.what == service.WATCHDOG:
        return service.uninstall_watchdog(ctx.app)
    return service.uninstall(ctx.app, service.supervisor())


def _choose_auto_open(ctx: Context, arguments: argparse.Namespace) -> bool:
    """Whether tabs open by themselves: as it is set, else as the person says; asked once."""
    if tabs.is_wanted(ctx.app):
        return True
    question = "Open a tab by itself when a task becomes ready (editor, tmux or terminal)?"
    if not (arguments.auto_open or ctx.out.ask(question)):
        return False
    ctx.out.line(service.set_auto_open(ctx.app))
    return True


COMMANDS = {"setup service": Command(_arguments, _service, epilog=_EPILOG)}
