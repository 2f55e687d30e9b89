"""`init`, `switch`, `list`."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING
from handoff.engine.features import lifecycle
from handoff.surfaces.cli.command import Command, flag, no_arguments

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context, Parser


def _init_arguments(parser: Parser) -> None:
    parser.add_argument(
        "name",
        nargs="?",
        metavar="feature",
        help="the feature's name, for example login-form (default: the branch's or the folder's)",
    )
    flag(parser, "--force", "make it the active feature without asking; no file is replaced")


def _init(ctx: Context, arguments: Namespace) -> None:
    done = lifecycle.begin(ctx.app, name=arguments.name, force=arguments.force, ask=ctx.out.ask, warn=ctx.out.warning)
    program, out = ctx.settings.program, ctx.out
    where = os.path.relpath(done.path, done.root)
    out.data({**done._asdict(), "folder": where})
    switched = done.active and done.before != done.name
    if done.already and not done.written:
        kept = "; nothing was changed" if done.active and not switched else "; its files stay as they are"
        out.line(f"Feature '{done.name}' is there already{kept}.")
    elif done.already:
        out.line(f"Feature '{done.name}': wrote what was missing: {', '.join(done.written)}.")
    else:
        out.line(f"Initialized feature: {done.name}", "title")
    if switched and done.before:
        out.line(f"Active feature: {done.name} (before: {done.before}; back: {program} switch {done.before})")
    elif switched and done.already:
        out.line(f"Active feature: {done.name}")
    if done.archived and not done.already:
        out.line(f"An archived feature of that name is here too: .handoff/features/{done.name}.archived")
        out.line(f"Bring it back beside this one: {program} unarchive {done.name} --as {done.archived}")
    if not done.active:
        out.line(f"Another feature stays active. To work on this one: {program} switch {done.name}")
        out.line(f"Say what you want built: {os.path.join(done.path, 'FEATURE.md')}")
        return
    if done.already:
        out.line(f"Next: {program} status")
        return
    out.line()
    out.line("What a new session will find in this repository", "strong")
    out.line("- found: " + (", ".join(done.present) or "nothing yet"))
    if done.wanted:
        out.line(f"- worth adding: {', '.join(done.wanted)}   (a prompt for that: {program} prompt context)")
    if done.optional:
        out.line(f"- optional: {', '.join(done.optional)}")
    out.line()
    out.line("Next", "strong")
    out.line(f"1. Say what you want built: {where}/FEATURE.md")
    out.line(f"2. {program} run --copy       the prompt that writes the plan; paste it into your assistant")
    out.line(f"   {program} start --copy     the same and the work, in one session")
    out.line(f"3. {program} run --copy       in each new session: goes on where the last one stopped")
    out.line(f"4. {program} status           where things stand, at any time")


def _switch_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="feature", help="the feature to make active")


def _switch(ctx: Context, arguments: Namespace) -> None:
    name = lifecycle.switch(ctx.app, name=arguments.name)
    ctx.out.data({"active": name})
    ctx.out.line(f"Active feature: {name}")


def _list(ctx: Context, arguments: Namespace) -> None:
    del arguments
    found = lifecycle.listing(ctx.app)
    ctx.out.data([item._asdict() for item in found])
    for item in found:
        ctx.out.line(f"* {item.name}" if item.active else f"  {item.name}", "good" if item.active else "")
    if not found:
        ctx.out.line(f"No features found. Run: {ctx.settings.program} init")


COMMANDS = {
    "init": Command(_init_arguments, _init),
    "switch": Command(_switch_arguments, _switch),
    "list": Command(no_arguments, _list),
}
