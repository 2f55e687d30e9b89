"""`init`, `switch`, `list`, and what is done with features one no longer works on: `archive`, `clean`, `export`, `ignore`."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING
from handoff.engine.features import lifecycle
from handoff.surfaces.cli.command import Command, flag, no_arguments, option

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.surfaces.cli.command import Context, Parser


def _archive_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="feature", help="the feature to put aside")


def _archive(ctx: Context, arguments: Namespace) -> None:
    name = lifecycle.archive(ctx.app, name=arguments.name)
    ctx.out.data({"archived": name})
    ctx.out.line(f"Archived: .handoff/features/{name}")
    ctx.out.line(f"Bring it back with: {ctx.settings.program} unarchive {arguments.name}")


def _unarchive_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="feature", help="the archived feature")
    option(parser, "--as NAME", "bring it back under this name", dest="new_name")


def _unarchive(ctx: Context, arguments: Namespace) -> None:
    name, active = lifecycle.unarchive(ctx.app, name=arguments.name, new_name=arguments.new_name)
    ctx.out.data({"feature": name, "active": active})
    ctx.out.line(f"Back: .handoff/features/{name}")
    if active:
        ctx.out.line(f"Active feature: {name}")
    else:
        ctx.out.line(f"Another feature stays active. To work on this one: {ctx.settings.program} switch {name}")


def _clean_arguments(parser: Parser) -> None:
    flag(parser, "--force", "do not ask, and take the active feature too")
    flag(parser, "--yes", "do not ask")
    flag(parser, "--archived", "take archived features too")
    flag(parser, "--dry-run", "only show what would go")


def _clean(ctx: Context, arguments: Namespace) -> None:
    out = ctx.out
    sweep = lifecycle.survey(ctx.app, everything=arguments.force, archived=arguments.archived)
    if not sweep.moving:
        out.data({"moved": [], "spared": sweep.spared})
        out.line("Nothing to clean.")
        return
    for name in sweep.moving:
        out.note(f"  to the trash: {name}")
    for name in sweep.spared:
        out.note(f"  stays:        {name}")
    agreed = arguments.force or arguments.yes
    if arguments.dry_run or not (agreed or out.ask(f"Move {len(sweep.moving)} feature(s) to .handoff/trash/?")):
        out.data({"moved": [], "would_move": sweep.moving, "spared": sweep.spared})
        out.line("Nothing was moved.")
        return
    move = lifecycle.clean(ctx.app, sweep=sweep)
    moved = [f".handoff/{end}" for _, end in move.pairs]
    out.data({"moved": moved, "spared": sweep.spared})
    out.line(f"Removed {len(moved)} feature(s). They are in the trash:")
    for path in moved:
        out.line(f"  {path}")
    out.line(f"Take it back with: {ctx.settings.program} undo {move.id}")


def _export_arguments(parser: Parser) -> None:
    flag(parser, "--force", "overwrite without asking; changed versions go to the trash first")
    flag(parser, "--diff", "show what your versions miss of the newer packaged ones")


def _export(ctx: Context, arguments: Namespace) -> None:
    out = ctx.out
    if arguments.diff:
        found = lifecycle.template_diffs(ctx.app)
        out.data([item._asdict() for item in found])
        for item in found:
            state = "same as this version" if not item.lines else f"differs (copied from version {item.version})"
            out.line(f"{item.name}: {state}", "strong")
            out.lines(*item.lines)
        if not found:
            out.line("No template of your own. Copy them out with: handoff export")
        return
    done = lifecycle.export_templates(ctx.app, force=arguments.force, ask=out.ask)
    if done is None:
        out.data({"written": []})
        out.line("Export cancelled.")
        return
    out.data({"folder": done.folder, "written": done.written, "kept": done.kept})
    out.line(f"Exported {len(done.written)} templates to {done.folder}")
    if done.kept:
        out.line(f"Your earlier versions are in {done.kept}")


def _ignore(ctx: Context, arguments: Namespace) -> None:
    del arguments
    path, inside = lifecycle.toggle_ignore(ctx.app)
    ctx.out.data({"file": path, "ignored": inside})
    ctx.out.line(f"{'Added' if inside else 'Removed'} '.handoff/' {'to' if inside else 'from'} {path}")


# --- put aside, brought back, moved to the trash, copied out ------------------------------------------------


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
    "archive": Command(_archive_arguments, _archive),
    "unarchive": Command(_unarchive_arguments, _unarchive),
    "clean": Command(_clean_arguments, _clean),
    "export": Command(_export_arguments, _export),
    "ignore": Command(no_arguments, _ignore),
}
