"""`handoff workspace add|list|remove|revive|env` and `handoff gc`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from handoff.base.clock import age, stamp
from handoff.engine.workspaces import workspaces as engine
from handoff.git.snapshots.retention import RetentionRules
from handoff.git.workspaces.workspaces import CLONE, KINDS, WorkspaceRequest
from handoff.surfaces.cli.command import Command, common_options

if TYPE_CHECKING:
    import argparse

    from handoff.git.workspaces.workspaces import Workspace
    from handoff.surfaces.cli.command import Context, Parser

_MB = 1024**2


def _workspace_arguments(parser: Parser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    add = verbs.add_parser("add", help="make a workspace", description="Make a folder for one session to work in.")
    add.add_argument("name", metavar="NAME", help="its name: lowercase letters, digits and '-'")
    add.add_argument(
        "--kind",
        choices=KINDS,
        default=CLONE,
        help="clone (default): all its own; worktree: shares refs and stash; shared: your checkout",
    )
    add.add_argument(
        "--base",
        default="",
        metavar="REV",
        help="branch or commit to begin from, or 'dirty' for your tree as it is (default: HEAD)",
    )
    add.add_argument("--session", default="", metavar="ID", help="the session it is for")
    add.add_argument(
        "--owns",
        action="append",
        default=[],
        metavar="PATTERN",
        help="a path the session owns (may be repeated); landing takes only those",
    )
    add.add_argument(
        "--sparse", action="append", default=[], metavar="FOLDER", help="check out only this folder (may be repeated)"
    )
    add.add_argument("--setup", default="", metavar="CMD", help="a command to run in it (env: HANDOFF_WORKSPACE_SETUP)")
    listing = verbs.add_parser("list", help="list the workspaces", description="List the workspaces of this project.")
    remove = verbs.add_parser(
        "remove",
        help="remove one; its leftovers are kept as a snapshot",
        description="Remove a workspace. Everything in it is kept as a snapshot first.",
    )
    remove.add_argument("name", metavar="NAME", help="which workspace")
    remove.add_argument("--force", action="store_true", help="also when some files could not be read and kept")
    environment = verbs.add_parser(
        "env",
        help="print its environment for your shell",
        description="Print what a shell in the workspace should export.",
    )
    environment.add_argument("name", metavar="NAME", help="which workspace")
    revive = verbs.add_parser(
        "revive",
        help="make one again that vanished, from its last snapshot",
        description="Make a workspace that vanished from the disk again, as its last snapshot has it.",
    )
    revive.add_argument("name", metavar="NAME", help="which workspace")
    for verb in (add, listing, remove, revive, environment):
        common_options(verb, shows=True)


def _workspace(ctx: Context, arguments: argparse.Namespace) -> int:
    verbs = {"add": _add, "list": _list, "remove": _remove, "revive": _revive, "env": _environment}
    return verbs[arguments.verb](ctx, arguments)


def _revive(ctx: Context, arguments: argparse.Namespace) -> int:
    back = engine.revive_workspace(ctx.app, name=arguments.name)
    ctx.out.data(_record(back))
    ctx.out.line(f"{back.name} is back: {back.tree}")
    return 0


def _add(ctx: Context, arguments: argparse.Namespace) -> int:
    order = WorkspaceRequest(
        name=arguments.name,
        kind=arguments.kind,
        base=arguments.base,
        session=arguments.session,
        owns=tuple(arguments.owns),
        sparse=tuple(arguments.sparse),
    )
    setup = arguments.setup or ctx.settings.get("HANDOFF_WORKSPACE_SETUP")
    made = engine.add_workspace(ctx.app, order=order, setup=setup)
    ctx.out.data({**_record(made.workspace), "copied": list(made.copied)})
    ctx.out.line(made.workspace.tree)
    ctx.out.note(f"From {made.workspace.base_name} ({made.workspace.base[:10]}), ports {made.workspace.port} and up.")
    if made.copied:
        ctx.out.note(f"Copied {len(made.copied)} files that .worktreeinclude names.")
    return 0


def _list(ctx: Context, arguments: argparse.Namespace) -> int:
    del arguments
    rows = engine.list_workspaces(ctx.app)
    ctx.out.data(
        [
            {**_record(row.workspace), "behind": row.fresh.behind, "upstream": row.fresh.upstream, "there": row.there}
            for row in rows
        ]
    )
    now = ctx.app.clock.now()
    for row in rows:
        one = row.workspace
        facts = [
            one.kind,
            f"from {one.base_name} {one.base[:10]}",
            f"{age(now - one.created)} old",
            f"ports {one.port}+",
        ]
        facts += [f"{row.fresh.behind} commits behind"] if row.fresh.behind else []
        facts += [f"{row.fresh.upstream} behind upstream"] if row.fresh.upstream else []
        facts += [] if one.state == "ready" else [one.state]
        facts += [] if row.there else ["its folder is gone"]
        ctx.out.line(f"{one.name}  {', '.join(facts)}  {one.tree}")
    if not rows:
        ctx.out.line("No workspaces. Make one: handoff workspace add NAME")
    return 0


def _remove(ctx: Context, arguments: argparse.Namespace) -> int:
    gone = engine.remove_workspace(ctx.app, name=arguments.name, force=arguments.force)
    ctx.out.data(_record(gone))
    ctx.out.line(f"Removed {gone.name}.")
    if gone.snapshot:
        ctx.out.note(f"All it held is kept: handoff restore {gone.snapshot[:10]} --into DIR")
    return 0


def _environment(ctx: Context, arguments: argparse.Namespace) -> int:
    values = engine.workspace_of(ctx.app, name=arguments.name).environment()
    ctx.out.data(values)
    for key, value in values.items():
        quoted = "'" + value.replace("'", "'\\''") + "'"
        ctx.out.line(f"export {key}={quoted}")
    return 0


def _gc_arguments(parser: Parser) -> None:
    parser.add_argument("--apply", action="store_true", help="really remove; without it only said")
    parser.add_argument(
        "--days",
        type=float,
        default=RetentionRules().days,
        metavar="N",
        help="how long snapshots are kept (default 30)",
    )
    parser.add_argument(
        "--newest",
        type=int,
        default=RetentionRules().newest,
        metavar="N",
        help="always keep the newest N of each workspace (default 10)",
    )
    parser.add_argument(
        "--size",
        type=int,
        default=RetentionRules().size // _MB,
        metavar="MB",
        help="how large the snapshot store may be (default 2048)",
    )


def _gc(ctx: Context, arguments: argparse.Namespace) -> int:
    rules = RetentionRules(arguments.days, max(1, arguments.newest), arguments.size * _MB)
    found = engine.tidy(ctx.app, rules=rules, apply=arguments.apply)
    ctx.out.data(
        {
            "applied": arguments.apply,
            "snapshots": [one.sha for one in found.snapshots],
            "workspaces": [one.name for one in found.workspaces],
            "bytes": found.size,
            "scratch": list(found.scratch),
        }
    )
    verb = "Removed" if arguments.apply else "Would remove"
    ctx.out.line(f"{verb} {len(found.snapshots)} snapshots and {len(found.workspaces)} unfinished workspaces.")
    ctx.out.line(f"The snapshot store takes {found.size / _MB:.1f} MB (limit {arguments.size} MB).")
    if found.scratch:
        ctx.out.line(f"{verb} {len(found.scratch)} folders in which checks ran and that nobody has used for a day.")
    if not arguments.apply and (found.snapshots or found.workspaces or found.scratch):
        ctx.out.note("Do it: handoff gc --apply")
    return 0


def _record(one: Workspace) -> dict[str, Any]:
    return {
        **one._asdict(),
        "created": stamp(one.created),
        "project": os.path.basename(one.project),
        "environment": one.environment(),
    }


COMMANDS = {
    "workspace": Command(_workspace_arguments, _workspace, shows=False),
    "gc": Command(_gc_arguments, _gc),
}
