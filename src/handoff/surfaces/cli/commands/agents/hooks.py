"""`handoff setup hooks install|uninstall|status`: our entries in a client's own settings, and nothing else."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.engine.clients import settings_files
from handoff.engine.clients.setup import setup
from handoff.engine.clients.setup.choices import hooks_of
from handoff.surfaces.cli.command import Command, option
from handoff.surfaces.cli.commands.agents.setup import TRUST

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context, Parser


def _arguments(parser: Parser) -> None:
    parser.verb("install", "add our hooks", "Add handoff's hooks to a client's settings.")
    parser.verb("uninstall", "take our hooks out", "Take handoff's hooks out of a client's settings.")
    status = parser.verb("status", "say where our hooks are", "Say in which settings files handoff's hooks are.")
    for verb in parser.nested:
        text, clients = (
            "which client; all without it" if verb is status else "which client",
            list(settings_files.PLACES),
        )
        option(verb, "--agent", text, None, required=verb is not status, choices=clients)
        scope = verb.add_mutually_exclusive_group()
        for word, const, text in (
            ("--project", settings_files.PROJECT, "in this repository, for everybody who works in it"),
            ("--user", settings_files.USER, "in your home, for all your projects (the default)"),
        ):
            scope.add_argument(word, dest="scope", action="store_const", const=const, help=text)


def _hooks(ctx: Context, arguments: Namespace) -> int:
    if arguments.verb == "status":
        return _status(ctx, arguments)
    scope = arguments.scope or settings_files.USER
    out = arguments.verb != "install"
    (edit,) = setup.change_alone(ctx.app, [hooks_of(ctx.app, arguments.agent, scope)], out=out)
    path, changed = edit.path, edit.changes
    ctx.out.data({"agent": arguments.agent, "scope": scope, "path": path, "changed": changed})
    if arguments.verb == "install":
        ctx.out.line(f"handoff's hooks {'are now' if changed else 'were already'} in {path}.")
        if arguments.agent in TRUST:
            ctx.out.note(TRUST[arguments.agent])
    else:
        ctx.out.line(f"handoff's hooks {'were taken out of' if changed else 'are not in'} {path}.")
    return 0


def _status(ctx: Context, arguments: Namespace) -> int:
    agents = [arguments.agent] if arguments.agent else list(settings_files.PLACES)
    scopes = [arguments.scope] if arguments.scope else [settings_files.USER]
    if not arguments.scope and settings_files.in_repository():
        scopes.append(settings_files.PROJECT)
    rows = [settings_files.status(ctx.app, agent=agent, scope=scope) for agent in agents for scope in scopes]
    ctx.out.data([row._asdict() for row in rows])
    for row in rows:
        word = "installed" if row.complete else "out of date: install again" if row.installed else "not installed"
        ctx.out.line(f"{row.agent:<8} {row.scope:<8} {'unreadable' if row.problem else word:<14} {row.path}")
        if row.problem:
            ctx.out.warning(row.problem)
    return 1 if any(row.problem for row in rows) else 0


COMMANDS = {"setup hooks": Command(_arguments, _hooks)}
