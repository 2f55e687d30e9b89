"""`git-guard`: a git for sessions that says no before harm is done; `incident`: what it refused or the watcher noticed.

The guard's hooks call `git-guard check` at each commit, so it loads little.
"""

from __future__ import annotations

import os

from handoff.base.clock import age, stamp
from handoff.base.errors import UsageError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.git import guard
from handoff.git.plumbing import find_top
from handoff.git.plumbing.objects import Repository
from handoff.surfaces.cli.command import Command, flag, option, pick

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from handoff.board.events.incidents import Incident
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


INCIDENT_EPILOG = """\
examples:
  handoff incident list        what is new in this project, newest first
  handoff show i-3f9c          one of them with its evidence
  handoff incident seen all    you have taken note; status is quiet again
"""
_SHOWN = 50


def _incidents_arguments(parser: Parser) -> None:
    flag(parser, "--all", "also those that are fixed or seen, of every project")
    option(parser, "--session ID", "only those of this session")


def _seen_arguments(parser: Parser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="incidents by their ids or enough of them, or 'all'")
    flag(parser, "--all", "with 'all': those of every project")


def _incidents(ctx: Context, arguments: argparse.Namespace) -> int:
    from handoff.engine.safety import incidents

    project = "" if arguments.all else _project(ctx)
    incidents.look(ctx.app)
    found = incidents.listing(ctx.app, project=project, session=arguments.session, include_ended=arguments.all)
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
    from handoff.engine.safety import incidents
    from handoff.engine.work import acts

    ids, project = arguments.ids, "" if arguments.all else _project(ctx)
    if not ids:
        raise UsageError("Which ones have you seen?", "For example: handoff incident seen all")
    if ids == ["all"]:
        incidents.look(ctx.app)
        ids = [one.id for one in incidents.listing(ctx.app, project=project)]
    return ctx.out.done(acts.seen(ctx.app, *ids))


def _record(one: Incident) -> dict[str, Any]:
    return {
        "id": one.id,
        "time": stamp(one.at),
        **pick(one, "kind project session what fix evidence resolved"),
    }


COMMANDS = {
    "git-guard": Command(_arguments, _git_guard, epilog=_EPILOG),
    "incident list": Command(_incidents_arguments, _incidents, epilog=INCIDENT_EPILOG),
    "incident seen": Command(_seen_arguments, _seen),
}
