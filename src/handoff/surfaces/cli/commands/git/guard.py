"""`handoff git-guard`: a git for sessions that says no before harm is done."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING
from handoff.git import guard
from handoff.git.plumbing import find_top
from handoff.git.plumbing.repository import Repository
from handoff.surfaces.cli.command import Command, option

if TYPE_CHECKING:
    import argparse

    from handoff.surfaces.cli.command import Context, Parser

_EPILOG = """\
examples:
  handoff git-guard install                       hooks into this repository; yours go on working behind them
  eval "$(handoff git-guard env --role sub-task)" guard the git of this shell
  handoff git-guard status                        which layers stand, and what was refused
"""
_LATEST = 5


def _arguments(parser: Parser) -> None:
    parser.add_argument(
        "action",
        choices=("install", "uninstall", "status", "env", "check"),
        metavar="install|uninstall|status|env|check",
        help="put the hooks in; take them out again; show what stands; print what a session's shell must set; "
        "read paths (NUL between them) and exit 1 if the session does not own one (env: HANDOFF_OWNS)",
    )
    text = "with env: the session's role, sub-task, fan-in or main (default: HANDOFF_ROLE, else sub-task)"
    option(parser, "--role ROLE", text, choices=guard.ROLES)


def _git_guard(ctx: Context, arguments: argparse.Namespace) -> int:
    if arguments.action == "env":
        return _env(ctx, arguments.role)
    if arguments.action == "check":
        return _check(ctx)
    repo = _repository(ctx)
    if arguments.action == "status":
        return _status(ctx, repo)
    from handoff.engine.safety import incidents

    with incidents.ours(ctx.app, folder=repo.top):
        text, changed = _install(ctx, repo) if arguments.action == "install" else _uninstall(ctx, repo)
    ctx.out.line(text)
    ctx.out.data({"action": arguments.action, "changed": changed})
    return 0


def _install(ctx: Context, repo: Repository) -> tuple[str, list[str]]:
    from handoff.engine.place.proof import git_notes

    changed = guard.install(repo)
    text = "The guard's hooks are in." if changed else "The guard's hooks were in already."
    if git_notes.follow(ctx.app, repository=repo.top):
        text += " Records in git notes follow rebase and amend (notes.rewriteRef)."
    return text, changed


def _uninstall(ctx: Context, repo: Repository) -> tuple[str, list[str]]:
    from handoff.engine.place.proof import git_notes

    changed = guard.uninstall(repo)
    text = "The guard's hooks are out; yours are as they were." if changed else "There were no hooks of the guard."
    if git_notes.unfollow(ctx.app, repository=repo.top):
        text += " So are the settings for notes."
    return text, changed


def _check(ctx: Context) -> int:
    import sys

    from handoff.engine.safety.safe_commit import ownership

    covers = ownership(ctx.app, ())
    paths = [path for path in sys.stdin.buffer.read().split(b"\0") if path]
    foreign = [os.fsdecode(path) for path in paths if covers is not None and not covers(path)]
    ctx.out.data({"foreign": foreign})
    if foreign and not ctx.out.json_wanted:
        ctx.out.note("handoff git-guard: these files are not this session's:")
        for path in foreign:
            ctx.out.note(f"  {path}")
        ctx.out.note("Instead: commit your own files with: handoff safe-commit -m WHY -- PATHS")
    return 1 if foreign else 0


def _repository(ctx: Context) -> Repository:
    top = find_top(os.getcwd())
    if top is None:
        raise UserError("This is not a git repository.", "Go to your project, or use: handoff -C DIR …")
    return Repository(top, ctx.app.git_environment)


def _env(ctx: Context, role: str) -> int:
    role = role or ctx.settings.get("HANDOFF_ROLE") or guard.ROLES[0]
    top = find_top(os.getcwd())
    shared = ctx.settings.get("HANDOFF_SHARED") or (Repository(top, {}).common if top else "")
    program = ctx.settings.get("HANDOFF_PROGRAM") or _program(ctx)
    found = guard.session_environment(ctx.settings.home, role, ctx.settings.path, shared=shared, program=program)
    for name, value in found.items():
        ctx.out.line(f"export {name}={_quote(value)}")
    ctx.out.data(found)
    return 0


def _program(ctx: Context) -> str:
    import sys

    from handoff.base.process import find

    called = os.path.abspath(sys.argv[0])
    usable = os.path.basename(called) == ctx.settings.program and os.access(called, os.X_OK)
    return called if usable else find(ctx.settings.program, path=ctx.settings.path) or ""


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _status(ctx: Context, repo: Repository) -> int:
    state = guard.look(repo, home=ctx.settings.home, path=ctx.settings.path)
    words = {
        "installed": "in place",
        "chained": "in place, yours runs behind it",
        "foreign": "not installed, yours runs",
        "absent": "not installed",
    }
    ctx.out.line(
        f"shim   {'first on this PATH' if state.shim_first else 'not on this PATH'}; git is {state.real_git or 'absent'}"
    )
    for name, kind in state.hooks.items():
        ctx.out.line(f"hook   {name}: {words[kind]}")
    if state.redirected:
        ctx.out.line(f"hooks  of core.hooksPath ({state.redirected}) run behind the guard's")
    ctx.out.line(f"said no {len(state.refused)} times" + (", lately:" if state.refused else ""))
    for line in state.refused[-_LATEST:]:
        moment, role, verb, place = (*line.split("\t"), "", "", "", "")[:4]
        ctx.out.line(f"  {moment}  {role}: git {verb}  in {place}")
    if "absent" in state.hooks.values() or "foreign" in state.hooks.values():
        ctx.out.note("Put the hooks in: handoff git-guard install")
    ctx.out.data(
        {
            "shim_first": state.shim_first,
            "git": state.real_git,
            "hooks_folder": state.folder,
            "hooks": state.hooks,
            "refused": list(state.refused),
        }
    )
    return 0


COMMANDS = {"git-guard": Command(_arguments, _git_guard, epilog=_EPILOG)}
