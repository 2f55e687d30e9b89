"""`workspace add|list|remove|revive|env`: folders in which sessions work apart; `land` and `batch collisions`: how their work comes together."""

from __future__ import annotations

import argparse
import os
from typing import Any

from handoff.agents.sandbox.sandbox import ADVICE, NOTHING, WORDS
from handoff.base.clock import age, stamp
from handoff.base.errors import UsageError
from handoff.base.ids import on_one_line
from handoff.base.markdown import number_of
from handoff.base.process import pass_through
from handoff.base.record import TYPE_CHECKING
from handoff.engine.place import landing
from handoff.engine.place import workspaces as engine
from handoff.engine.place.proof import sandboxes
from handoff.git.workspaces import CLONE, KINDS, WorkspaceRequest
from handoff.surfaces.cli.command import Command, flag, no_arguments, option, pick, project_option

if TYPE_CHECKING:
    from handoff.git.workspaces import Workspace
    from handoff.surfaces.cli.command import Context, Parser


def _workspace_arguments(parser: Parser) -> None:
    add = parser.verb("add", "make a workspace", "Make a folder for one session to work in.")
    add.add_argument("name", metavar="NAME", help="its name: lowercase letters, digits and '-'")
    text = "clone (default): all its own; worktree: shares refs and stash; shared: your checkout"
    option(add, "--kind", text, CLONE, choices=KINDS)
    option(add, "--base REV", "branch or commit to begin from, or 'dirty' for your tree as it is (default: HEAD)")
    option(add, "--session ID", "the session it is for")
    option(add, "--owns PATTERN", "a path the session owns (may be repeated); landing takes only those", [])
    option(add, "--sparse FOLDER", "check out only this folder (may be repeated)", [])
    option(add, "--setup CMD", "a command to run in it (env: HANDOFF_WORKSPACE_SETUP)")
    parser.verb("list", "list the workspaces", "List the workspaces of this project.")
    remove = parser.verb(
        "remove",
        "remove one; its leftovers are kept as a snapshot",
        "Remove a workspace. Everything in it is kept as a snapshot first.",
    )
    flag(remove, "--force", "also when some files, or a repository inside it, could not be kept")
    environment = parser.verb(
        "env", "print its environment for your shell", "Print what a shell in the workspace should export."
    )
    revive = parser.verb(
        "revive",
        "make one again that vanished, from its last snapshot",
        "Make a workspace that vanished from the disk again, as its last snapshot has it.",
    )
    for verb in (remove, environment, revive):
        verb.add_argument("name", metavar="NAME", help="which workspace")


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
        owns=tuple(arguments.owns),
        sparse=tuple(arguments.sparse),
        **pick(arguments, "name kind base session"),
    )
    setup = arguments.setup or ctx.settings.get("HANDOFF_WORKSPACE_SETUP")
    if order.kind == CLONE and (words := engine.words_of_first_copy(ctx.app)):
        ctx.out.note(words)
    made = engine.add_workspace(ctx.app, order=order, setup=setup)
    ctx.out.data({**_record(made.workspace), "copied": list(made.copied)})
    ctx.out.line(made.workspace.tree)
    ctx.out.note(f"From {made.workspace.base_name} ({made.workspace.base[:10]}), ports {made.workspace.port} and up.")
    if made.alone:
        ctx.out.note(
            "Not all of your history is on this machine (a partial clone), so it sees one commit, with all its files."
        )
    if made.copied:
        ctx.out.note(f"Copied {number_of(len(made.copied), 'file')} that .worktreeinclude names.")
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
        facts += [f"{number_of(row.fresh.behind, 'commit')} behind"] if row.fresh.behind else []
        facts += [f"{row.fresh.upstream} behind upstream"] if row.fresh.upstream else []
        facts += [] if one.state == "ready" else [one.state]
        facts += [] if row.there else ["its folder is gone"]
        ctx.out.line(f"{one.name}  {', '.join(facts)}  {one.tree}")
    if not rows:
        ctx.out.line("No workspaces. Make one: handoff workspace add NAME")
    return 0


def _remove(ctx: Context, arguments: argparse.Namespace) -> int:
    gone = engine.remove_workspace(ctx.app, name=arguments.name, force=arguments.force, why=engine.BY_HAND)
    ctx.out.data(_record(gone))
    ctx.out.line(f"Removed {gone.name}.")
    if gone.snapshot:
        what = (
            "The rest of what it held" if any(note.startswith("Not kept") for note in ctx.app.notes) else "All it held"
        )
        ctx.out.line(f"{what} is kept. Take it back with: handoff undo {gone.snapshot[:10]}")
    return 0


def _environment(ctx: Context, arguments: argparse.Namespace) -> int:
    values = engine.workspace_of(ctx.app, name=arguments.name).environment()
    ctx.out.data(values)
    for key, value in values.items():
        quoted = "'" + value.replace("'", "'\\''") + "'"
        ctx.out.line(f"export {key}={quoted}")
    return 0


def _record(one: Workspace) -> dict[str, Any]:
    return {
        **one._asdict(),
        "created": stamp(one.created),
        "project": os.path.basename(one.project),
        "environment": one.environment(),
    }


# --- `handoff workspace run`: run a command inside the sandbox, or say which sandbox this machine has


def _sandbox_arguments(parser: Parser) -> None:
    flag(parser, "--status", "say which layer this machine has, and what it holds back")
    flag(parser, "--no-network", "cut the command off from the network")
    option(parser, "--cache DIR", "a folder it may write too (may be repeated)", [])
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD…", help="the command and its words")


def _sandbox(ctx: Context, arguments: argparse.Namespace) -> int:
    if arguments.status:
        name = sandboxes.present_layer(ctx.app)
        allowed = sandboxes.allowances(ctx.app)
        ctx.out.data({"layer": name, "holds": WORDS[name], "advice": ADVICE if name == NOTHING else "", **allowed})
        ctx.out.line(f"{name}: {WORDS[name]}.")
        for what, names in allowed.items():
            ctx.out.line(f"  {what} you allow: {', '.join(names) or 'none'}")
        if name == NOTHING:
            ctx.out.line(ADVICE)
        return 0
    words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not words:
        raise UsageError("There is no command to run.", "For example: handoff workspace run -- pytest -q")
    sandbox = sandboxes.sandbox_of_folder(
        ctx.app, network=not arguments.no_network, caches=arguments.cache, terminal=ctx.out.can_ask
    )
    if sandbox.layer == NOTHING:
        ctx.out.warning(f"{WORDS[NOTHING]}. {ADVICE}")
    wrapped = sandboxes.inside(ctx.app, sandbox=sandbox, argv=words)
    code = pass_through(wrapped.argv, environment=wrapped.environment)
    return code if code >= 0 else 128 - code


RED = 1


def _land_arguments(parser: Parser) -> None:
    text = "workspaces or branches, in the order they land; without any a landing that was cut short is finished"
    parser.add_argument("names", nargs="*", metavar="NAME", help=text)
    option(parser, "--into BRANCH", "where to (default: the branch checked out here)")
    option(parser, "--check CMD", "a command that must succeed on the merged files first")
    option(parser, "--timeout S", "seconds the check may take (default 900)", 900, type=float)
    option(parser, "-m --message TEXT", "the commit message (default: the session's own)")
    flag(parser, "--open-check", "run the check without the sandbox")
    flag(parser, "--rest", "if the check is red because of some, land the others that are green without them")
    flag(
        parser, "--approve", "also land what sessions changed in files that are obeyed unasked (.gitignore, CI files …)"
    )
    flag(parser, "--dry-run", "merge in memory and say what would happen")
    flag(
        parser,
        "--pr",
        "push it as a branch and open a request for it with your gh or glab, instead of moving your branch",
    )
    project_option(parser)


def _finish(ctx: Context) -> int:
    done = landing.finish_landings(ctx.app)
    if not done:
        raise UsageError(
            "No landing was cut short: there is nothing to finish.", "Name what to land: handoff land NAME"
        )
    ctx.out.data({"finished": [one._asdict() for one in done]})
    for one in done:
        ctx.out.line(f"Finished the landing of {', '.join(one.members)} on {one.target}.")
    return 0


def _land(ctx: Context, arguments: argparse.Namespace) -> int:
    if not arguments.names:
        return _finish(ctx)
    from handoff.engine.work.acts import landing as acts

    asked = pick(arguments, "into check timeout message open_check rest approve dry_run pr project")
    return ctx.out.done(acts.land(ctx.app, *arguments.names, **asked))


def _collisions(ctx: Context, arguments: argparse.Namespace) -> int:
    del arguments
    found = landing.find_collisions(ctx.app)
    ctx.out.data(
        {
            "workspaces": [one.name for one in found.members],
            "conflicts": [one._asdict() for one in found.hard],
            "both_changed": [one._asdict() for one in found.soft],
        }
    )
    for one in found.hard:
        ctx.out.line(f"conflict  {on_one_line(one.path)}: {one.first} and {one.second}")
    for one in found.soft:
        how, why = ("made anew", f" ({one.why})") if one.why else ("joins    ", "")
        ctx.out.line(f"{how} {on_one_line(one.path)}: {one.first} and {one.second}{why}")
    if not found.hard and not found.soft:
        ctx.out.line(f"{number_of(len(found.members), 'workspace')}, no file changed by two.")
    return RED if found.hard else 0


COMMANDS = {
    "workspace": Command(_workspace_arguments, _workspace, shows=False),
    "workspace run": Command(_sandbox_arguments, _sandbox),
    "land": Command(_land_arguments, _land),
    "batch collisions": Command(no_arguments, _collisions),
}
