"""`handoff setup instructions`: what agents read about handoff in this repository, kept up to date or taken out."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.clients import instructions
from handoff.engine.clients.setup import setup
from handoff.git.plumbing import find_top
from handoff.surfaces.cli.command import Command, flag

if TYPE_CHECKING:
    from argparse import Namespace

    from handoff.engine.clients.setup.ledger import FileEdit
    from handoff.surfaces.cli.command import Context, Parser


def _arguments(parser: Parser) -> None:
    flag(parser, "--remove", "take everything out again")


def _instructions(ctx: Context, arguments: Namespace) -> int:
    top = find_top(ctx.settings.here)
    if top is None:
        raise UserError("This is not a git repository.", "Go to your project, or use: handoff -C DIR …")
    edits = setup.change_alone(ctx.app, instructions.pieces_for(top), out=arguments.remove)
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


COMMANDS = {"setup instructions": Command(_arguments, _instructions)}
