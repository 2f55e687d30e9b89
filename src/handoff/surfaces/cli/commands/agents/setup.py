"""`handoff setup`: agents, hooks, tools, instructions, guard, snapshots, completion; shown first, repaired later, taken out exactly."""

from __future__ import annotations

import os

from handoff.base.errors import UsageError, UserError
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks.tasks import LANDING, LANDINGS
from handoff.engine.app.home import home_config
from handoff.engine.setup import ledger, settings_files, setup
from handoff.engine.setup.settings_files import PROJECT, USER
from handoff.engine.setup.setup import KNOWN, SetupChoices, check_agents, hooks_of, look
from handoff.git.plumbing import find_top
from handoff.surfaces.cli.command import Command, flag, option
from handoff.surfaces.cli.commands.tool.tool import SHELLS, completion_script

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.engine.setup.ledger import FileEdit
    from handoff.engine.setup.setup import SetupGround, SetupPlan
    from handoff.surfaces.cli.command import Context, Parser

_EPILOG = """examples:
  handoff setup                         look, ask a few things, show every file, then do it
  handoff setup --yes                   the same with the defaults, for a script
  handoff setup --yes --agent claude    one client only
  handoff setup --dry-run               only show what would be done
  handoff setup --undo                  take exactly that out again
"""
_TITLES = {USER: "For you, in all your projects:", PROJECT: "In this repository, for everybody who works in it:"}
_MARKS = {
    setup.MAKE: "new",
    setup.CHANGE: "change",
    setup.REMOVE: "remove",
    setup.LEAVE: "leave",
    setup.DO: "do",
    setup.FAIL: "cannot",
}
_WIDEST = 60
_LANDED = ("it lands on your branch", "you look at it first", "it stays on a branch of its own")
TRUST = {
    "codex": "Codex runs hooks only after you have trusted them: start codex once and accept them with /hooks.",
    "copilot": "Copilot runs hooks of a repository only in a folder you have trusted.",
}


def _arguments(parser: Parser) -> None:
    flag(parser, "--yes -y", "take the defaults (or what was chosen last time) and do it without asking")
    option(parser, "--agent NAMES", "which clients, for example claude,codex (default: those on this machine)")
    where = parser.add_mutually_exclusive_group()
    texts = ("hooks and tools into your own settings (the default)", "hooks and tools into this repository's files")
    for word, scope, text in zip(("--user", "--project"), (USER, PROJECT), texts, strict=True):
        where.add_argument(word, dest="scope", action="store_const", const=scope, help=text)
    flag(parser, "--auto-open", "also open a tab by itself when a task becomes ready")
    for word, text in (("guard", "the git guard's hooks"), ("snapshots", "the watcher that takes snapshots")):
        flag(parser, f"--no-{word}", f"leave out {text}")
    flag(parser, "--undo", "take out what setup put in, and nothing else")
    flag(parser, "--dry-run", "only show what would be done")


def _setup(ctx: Context, arguments: Namespace) -> int:
    if arguments.undo:
        return _undo(ctx, arguments)
    here = look(ctx.app)
    asking = not (arguments.yes or arguments.dry_run or ctx.out.json_wanted) and ctx.out.can_ask
    _show_ground(ctx, here)
    choices = _choices(ctx, arguments, here, asking=asking)
    script = completion_script(here.shell, ctx.settings.program) if here.shell in SHELLS else ""
    plan = setup.plan(ctx.app, here, choices, script=script)
    if not plan.work:
        return _nothing(ctx, here, choices, plan)
    _show_plan(ctx, plan, "handoff setup will write:")
    if arguments.dry_run:
        _tell(ctx, here, choices, plan, done=False)
        ctx.out.line(f"Nothing was changed. To do it: {ctx.settings.program} setup --yes")
        return 0
    if not arguments.yes and not (asking and ctx.out.ask("Do it?", enter=True)):
        return _not_done(ctx, asking=asking, undo=False)
    left = list(setup.apply(ctx.app, here, choices, script=script))
    for words in left:
        ctx.out.warning(words)
    _tell(ctx, here, choices, plan, done=True, left=left)
    _close(ctx, here, choices, plan)
    return 1 if left else 0


def _choices(ctx: Context, arguments: Namespace, here: SetupGround, *, asking: bool) -> SetupChoices:
    chosen = setup.defaults(ctx.app, here)
    if arguments.agent:
        names = [name.strip() for name in arguments.agent.split(",") if name.strip()]
        chosen = chosen._replace(agents=check_agents(names, here.agents))
    elif asking and chosen.agents:
        said = ctx.out.ask_words("Set up which agents?", ",".join(chosen.agents))
        names = said.replace(",", " ").split()
        chosen = chosen._replace(agents=check_agents(names, here.agents))
    if arguments.scope:
        chosen = chosen._replace(scope=arguments.scope)
    elif asking and here.top and any(name in KNOWN for name in chosen.agents):
        mine = ctx.out.ask(
            "Hooks and tools for you, in all your projects? (n: in this repository's files)", enter=chosen.scope == USER
        )
        chosen = chosen._replace(scope=USER if mine else PROJECT)
    if asking and here.top and not arguments.no_guard:
        question = "A git guard, so that sessions cannot sweep in or reset each other's work?"
        chosen = chosen._replace(guard=ctx.out.ask(question, enter=chosen.guard))
    if asking and not arguments.no_snapshots:
        question = "Snapshots while people work, by a small watcher in the background?"
        chosen = chosen._replace(snapshots=ctx.out.ask(question, enter=chosen.snapshots))
    if asking and not arguments.auto_open:
        question = "Open a tab by itself when a task becomes ready (editor, tmux or terminal)?"
        chosen = chosen._replace(auto_open=ctx.out.ask(question, enter=chosen.auto_open))
    if asking and LANDING not in home_config(ctx.app).said:
        chosen = chosen._replace(landing=ask_landing(ctx))
    return chosen._replace(
        guard=chosen.guard and not arguments.no_guard,
        snapshots=chosen.snapshots and not arguments.no_snapshots,
        auto_open=chosen.auto_open or arguments.auto_open,
    )


def ask_landing(ctx: Context) -> str:
    """What becomes of finished, green work."""
    ctx.out.note("When an agent's work is finished and its checks are green:")
    for name, what in zip(LANDINGS, _LANDED, strict=True):
        ctx.out.note(f"  {name:<7} {what}")
    said = ""
    while said not in LANDINGS:
        said = ctx.out.ask_words("Which one?", LANDINGS[0])
    return said


def _show_ground(ctx: Context, here: SetupGround) -> None:
    out = ctx.out
    out.line(f"agents    {', '.join(here.agents) or 'none on the PATH; name one you will install with --agent'}")
    works = [name for name in (here.editor, here.terminal, "tmux" if here.tmux else "") if name]
    out.line(f"works in  {', '.join(works) or 'a plain terminal'}")
    out.line(f"sandbox   {here.sandbox or 'none works here: sessions run with your rights (handoff doctor says more)'}")
    if here.top:
        out.line(f"project   {here.top}; tests: {', '.join(here.suites) or 'none found'}")
    else:
        out.line("project   none: this folder is in no git repository, so only your own settings are set up")


def _show_plan(ctx: Context, plan: SetupPlan, title: str) -> None:
    ctx.out.line()
    ctx.out.line(title, "strong")
    shown = {step: _short(ctx, step.path) for step in plan.steps}
    width = min(max(map(len, shown.values()), default=0), _WIDEST)
    for scope, words in _TITLES.items():
        steps = [step for step in plan.steps if step.scope == scope]
        if steps:
            ctx.out.line(words)
        for step in steps:
            style = {setup.LEAVE: "dim", setup.FAIL: "warn"}.get(step.act, "")
            ctx.out.line(f"  {_MARKS[step.act]:<7} {shown[step]:<{width}}  {step.what}", style)
    for note in plan.notes:
        ctx.out.line(note, "warn")
    ctx.out.line()


def _short(ctx: Context, path: str) -> str:
    """The path as it is read best: from the repository's top or from the home."""
    top, home = find_top(ctx.settings.here) or "", ctx.settings.get("HOME")
    if top and path.startswith(top + os.sep):
        return os.path.relpath(path, top)
    return f"~{path[len(home) :]}" if home and path.startswith(home + os.sep) else path


def _nothing(ctx: Context, here: SetupGround, choices: SetupChoices, plan: SetupPlan) -> int:
    if plan.steps or plan.notes:
        _show_plan(ctx, plan, "Left as it is:")
    _tell(ctx, here, choices, plan, done=True)
    if plan.failed:
        ctx.out.warning("Nothing was changed. Fix the files above and run it again.")
        return 1
    ctx.out.line("Nothing to do: everything is set up.", "good")
    return 0


def _not_done(ctx: Context, *, asking: bool, undo: bool) -> int:
    if asking:
        ctx.out.line("Nothing was changed.")
        return 0
    words = f"{ctx.settings.program} setup {'--undo ' if undo else ''}"
    raise UsageError("Not a terminal, so nothing was changed.", f"Do it: {words}--yes   Only look: {words}--dry-run")


def _tell(
    ctx: Context,
    here: SetupGround,
    choices: SetupChoices,
    plan: SetupPlan,
    *,
    done: bool,
    left: list[str] | None = None,
) -> None:
    ctx.out.data(
        {
            "found": here._asdict(),
            "chosen": choices._asdict(),
            "steps": [step._asdict() for step in plan.steps],
            "notes": list(plan.notes),
            "done": done,
            "left": left or [],
        }
    )


def _close(ctx: Context, here: SetupGround, choices: SetupChoices, plan: SetupPlan) -> None:
    out, program = ctx.out, ctx.settings.program
    out.line(
        f"Done: {number_of(len(plan.work), 'thing')} put in. Take all of it out again: {program} setup --undo", "good"
    )
    for agent in choices.agents:
        if agent in TRUST:
            out.note(TRUST[agent])
    made = [step for step in plan.work if step.scope == PROJECT and step.act in (setup.MAKE, setup.CHANGE)]
    if made and here.top:
        paths = " ".join(os.path.relpath(step.path, here.top) for step in made)
        out.line(f"Share it with the others: {program} safe-commit -m 'Set up handoff' -- {paths}", "dim")
    out.line(f"Next: start your agent here, or {program} doctor")


def _undo(ctx: Context, arguments: Namespace) -> int:
    top = find_top(ctx.settings.here) or ""
    plan = setup.plan_undo(ctx.app, top=top)
    if plan.steps:
        _show_plan(ctx, plan, "handoff setup --undo will take out:" if plan.work else "Left as it is:")
    if plan.work and not (arguments.yes or arguments.dry_run):
        asking = ctx.out.can_ask and not ctx.out.json_wanted
        if not (asking and ctx.out.ask("Do it?", enter=True)):
            return _not_done(ctx, asking=asking, undo=True)
    left = [] if arguments.dry_run else list(setup.undo(ctx.app, top=top))
    done = not (arguments.dry_run and plan.work)
    steps = [step._asdict() for step in plan.steps]
    ctx.out.data({"steps": steps, "notes": list(plan.notes), "done": done, "left": left})
    for words in left:
        ctx.out.warning(words)
    if not plan.work:
        for note in () if plan.steps else plan.notes:
            ctx.out.line(note)
        ctx.out.line("Nothing to take out.")
    elif arguments.dry_run:
        ctx.out.line(f"Nothing was changed. To do it: {ctx.settings.program} setup --undo --yes")
    else:
        ctx.out.line(f"Done: {number_of(len(plan.work), 'thing')} taken out.", "good")
    return 1 if left or plan.failed else 0


# --- `handoff setup hooks install|uninstall|status`: our entries in a client's own settings, and nothing else


def _hooks_arguments(parser: Parser) -> None:
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


# --- `handoff setup instructions`: what agents read about handoff in this repository, kept up to date or taken out


def _instructions_arguments(parser: Parser) -> None:
    flag(parser, "--remove", "take everything out again")


def _instructions(ctx: Context, arguments: Namespace) -> int:
    top = find_top(ctx.settings.here)
    if top is None:
        raise UserError("This is not a git repository.", "Go to your project, or use: handoff -C DIR …")
    edits = setup.change_alone(ctx.app, ledger.instruction_pieces(top), out=arguments.remove)
    edits = [edit for edit in edits if edit.changes or edit.before is not None]
    ctx.out.data([{"path": os.path.relpath(edit.path, top), "what": _what(edit)} for edit in edits])
    for edit in edits:
        ctx.out.line(f"{os.path.relpath(edit.path, top)}: {_what(edit)}")
        for why in edit.left:
            ctx.out.warning(f"{edit.path}: {why}")
    if not edits:
        ctx.out.line("There was nothing of ours here.")
    return 1 if any(edit.left for edit in edits) else 0


def _what(edit: FileEdit) -> str:
    if not edit.changes:
        return "as it was"
    return "removed" if edit.after is None else "written"


COMMANDS = {
    "setup": Command(_arguments, _setup, epilog=_EPILOG),
    "setup hooks": Command(_hooks_arguments, _hooks),
    "setup instructions": Command(_instructions_arguments, _instructions),
}
