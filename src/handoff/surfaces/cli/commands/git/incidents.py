"""`handoff incident list`: what a guard refused or the watcher noticed, and the command that fixes it."""

from __future__ import annotations

import os

from handoff.base.clock import age, stamp
from handoff.base.errors import UsageError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.safety import incidents as engine
from handoff.engine.work import acts
from handoff.surfaces.cli.command import Command, flag, option, pick

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from handoff.board.events.incidents import Incident
    from handoff.surfaces.cli.command import Context, Parser

_EPILOG = """\
examples:
  handoff incident list        what is new in this project, newest first
  handoff show i-3f9c          one of them with its evidence
  handoff incident seen all    you have taken note; status is quiet again
"""
_SHOWN = 50


def _arguments(parser: Parser) -> None:
    flag(parser, "--all", "also those that are fixed or seen, of every project")
    option(parser, "--session ID", "only those of this session")


def _seen_arguments(parser: Parser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="incidents by their ids or enough of them, or 'all'")
    flag(parser, "--all", "with 'all': those of every project")


def _incidents(ctx: Context, arguments: argparse.Namespace) -> int:
    project = "" if arguments.all else _project(ctx)
    engine.look(ctx.app)
    found = engine.listing(ctx.app, project=project, session=arguments.session, include_ended=arguments.all)
    ctx.out.data({"incidents": [_record(one) for one in found]})
    now = ctx.app.clock.now()
    for one in found[:_SHOWN]:
        who = f"  {one.session}" if one.session else ""
        ctx.out.line(
            f"{one.id}  {age(max(0.0, now - one.at)):>6} ago  {one.kind}{who}", "dim" if one.resolved else "strong"
        )
        ctx.out.line(f"    {one.what}" + (f" ({one.resolved})" if one.resolved else ""))
        if one.fix and not one.resolved:
            ctx.out.line(f"    {'Instead' if one.kind == 'refused' else 'Fix'}: {one.fix}")
    if len(found) > _SHOWN:
        ctx.out.line(f"… and {len(found) - _SHOWN} older: handoff incident list --json has them all")
    if not found:
        ctx.out.line("No incidents." if arguments.all else "No new incidents. Older ones: handoff incident list --all")
    return 0


def _project(ctx: Context) -> str:
    from handoff.engine.app.home import find_project
    from handoff.git.plumbing import find_top

    return find_project(ctx.app).name if find_top(os.getcwd()) else ""


def show(ctx: Context, one: Incident) -> None:
    """One incident with its evidence and what fixes it."""
    ctx.out.data(_record(one))
    ctx.out.line(f"{one.id}  {one.kind}  {stamp(one.at)}", "strong")
    ctx.out.line(one.what)
    for label, text in (("project", one.project), ("session", one.session), ("resolved", one.resolved)):
        if text:
            ctx.out.line(f"  {label}: {text}")
    for key, value in one.evidence.items():
        if value and key != "subject":
            ctx.out.line(f"  {key}: {_words(value)}")
    if one.fix:
        ctx.out.line(f"{'Instead' if one.kind == 'refused' else 'Fix'}: {one.fix}")


def _words(value: Any) -> str:
    if isinstance(value, list):
        return "".join(f"\n    {item}" for item in value)
    if isinstance(value, dict):
        return "".join(f"\n    {key}: {item}" for key, item in value.items())
    return str(value)


def _seen(ctx: Context, arguments: argparse.Namespace) -> int:
    ids, project = arguments.ids, "" if arguments.all else _project(ctx)
    if not ids:
        raise UsageError("Which ones have you seen?", "For example: handoff incident seen all")
    if ids == ["all"]:
        engine.look(ctx.app)
        ids = [one.id for one in engine.listing(ctx.app, project=project)]
    return ctx.out.done(acts.seen(ctx.app, *ids))


def _record(one: Incident) -> dict[str, Any]:
    return {
        "id": one.id,
        "time": stamp(one.at),
        **pick(one, "kind project session what fix evidence resolved"),
    }


COMMANDS = {
    "incident list": Command(_arguments, _incidents, epilog=_EPILOG),
    "incident seen": Command(_seen_arguments, _seen),
}
