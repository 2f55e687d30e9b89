"""`handoff incidents`: what a guard refused or the watcher noticed, and the command that fixes it."""

from __future__ import annotations

import os

from handoff.base.clock import age, stamp
from handoff.base.errors import UsageError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.safety import incidents as engine
from handoff.surfaces.cli.command import Command, flag, option, pick

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from handoff.board.events.incidents import Incident
    from handoff.surfaces.cli.command import Context, Parser

_EPILOG = """\
examples:
  handoff incidents               what is new in this project, newest first
  handoff incidents show i-3f9c   one of them with its evidence
  handoff incidents seen all      you have taken note; status is quiet again
"""
_SHOWN = 50


def _arguments(parser: Parser) -> None:
    actions = ("list", "show", "seen")
    text = "list them (the default); show one with its evidence; say that you have seen one, several or 'all'"
    parser.add_argument("action", nargs="?", choices=actions, default="list", metavar="|".join(actions), help=text)
    parser.add_argument("ids", nargs="*", metavar="ID", help="an incident, by its id or enough of it")
    flag(parser, "--all", "also those that are fixed or seen, of every project")
    option(parser, "--session ID", "only those of this session")


def _incidents(ctx: Context, arguments: argparse.Namespace) -> int:
    if arguments.action == "show":
        return _show(ctx, arguments.ids)
    project = "" if arguments.all else _project(ctx)
    engine.look(ctx.app)
    if arguments.action == "seen":
        return _seen(ctx, arguments.ids, project)
    if arguments.ids:
        raise UsageError("'list' takes no ids.", "See one: handoff incidents show ID")
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
    if not found:
        ctx.out.line("No incidents." if arguments.all else "No new incidents. Older ones: handoff incidents --all")
    return 0


def _project(ctx: Context) -> str:
    from handoff.engine.home import find_project
    from handoff.git.plumbing import find_top

    return find_project(ctx.app).name if find_top(os.getcwd()) else ""


def _show(ctx: Context, ids: list[str]) -> int:
    if len(ids) != 1:
        raise UsageError("Name one incident.", "For example: handoff incidents show i-3f9c01")
    one = engine.find(ctx.app, id=ids[0])
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
    return 0


def _words(value: Any) -> str:
    if isinstance(value, list):
        return "".join(f"\n    {item}" for item in value)
    if isinstance(value, dict):
        return "".join(f"\n    {key}: {item}" for key, item in value.items())
    return str(value)


def _seen(ctx: Context, ids: list[str], project: str) -> int:
    if not ids:
        raise UsageError("Which ones have you seen?", "For example: handoff incidents seen all")
    wanted = [one.id for one in engine.listing(ctx.app, project=project)] if ids == ["all"] else ids
    found = engine.see(ctx.app, ids=wanted)
    ctx.out.data({"seen": [one.id for one in found]})
    ctx.out.line(f"{len(found)} incident{'' if len(found) == 1 else 's'} seen.")
    return 0


def _record(one: Incident) -> dict[str, Any]:
    return {
        "id": one.id,
        "time": stamp(one.at),
        **pick(one, "kind project session what fix evidence resolved"),
    }


COMMANDS = {"incidents": Command(_arguments, _incidents, epilog=_EPILOG)}
