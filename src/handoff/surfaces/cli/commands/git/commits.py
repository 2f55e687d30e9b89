"""`handoff safe-commit`: commit exactly the named paths, beside whoever else works here."""

from __future__ import annotations

import os

from handoff.base.errors import Conflict, Refused, UsageError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.safety import safe_commit
from handoff.git.commits.commit import CommitOptions
from handoff.surfaces.cli.command import Command, flag, option, pick

if TYPE_CHECKING:
    import argparse

    from handoff.surfaces.cli.command import Context, Parser

_EPILOG = """\
examples:
  handoff safe-commit -m "Parse dates" -- src/dates.py tests/test_dates.py
  handoff safe-commit -m "Drop the old parser" -- src/old.py      (a deleted file is named like any other)
  handoff safe-commit --staged -m "First half" -- src/dates.py    (only what git add -p has staged)

exit codes: 0 committed, 1 refused or failed (nothing was changed), 2 wrong usage, 99 not in this role
"""


def _arguments(parser: Parser) -> None:
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files, folders, deleted files; taken literally")
    option(parser, "-m --message TEXT", "a paragraph of the message (may be repeated)", [])
    option(parser, "-F --file FILE", "read the message from FILE; - is standard input", None)
    flag(parser, "--staged", "commit what is staged for the paths, not what is on the disk")
    flag(parser, "--amend", "put the paths into HEAD, if that commit is yours and unpublished")
    flag(parser, "-s --signoff", "add a Signed-off-by trailer")
    option(parser, "--trailer KEY:VALUE", "add a trailer (may be repeated)", [])
    flag(parser, "--allow-empty", "commit even if nothing changed")
    flag(parser, "-n --no-verify", "leave out the pre-commit and commit-msg hooks")
    parser.add_argument("-S", dest="sign", action="store_const", const="", help="sign the commit with your usual key")
    option(parser, "--gpg-sign KEY", "sign the commit with this key", None, dest="sign")
    flag(parser, "--no-gpg-sign", "do not sign, whatever commit.gpgSign says")
    flag(parser, "-f --force", "also commit new files that git ignores")
    text = "refuse paths outside these patterns (may be repeated; env: HANDOFF_OWNS, one on a line)"
    option(parser, "--owns PATTERN", text, [])


def _safe_commit(ctx: Context, arguments: argparse.Namespace) -> int:
    if arguments.message and arguments.file:
        raise UsageError("Give the message by -m or by -F, not both.", "See: handoff safe-commit --help")
    message = arguments.message
    if arguments.file:
        message = [_from_file(arguments.file)]
    elif not message and not arguments.amend and not _unfinished():
        raise UsageError("A message is missing.", "Give one: -m 'what and why'")
    options = CommitOptions(
        trailers=tuple(arguments.trailer),
        verify=not arguments.no_verify,
        unsigned=arguments.no_gpg_sign,
        look_around=True,
        **pick(arguments, "staged amend signoff allow_empty sign force"),
    )
    try:
        landed = safe_commit.safe_commit(
            ctx.app, paths=arguments.paths, message=message, options=options, owns=arguments.owns
        )
    except (Conflict, Refused) as error:  # scripts written for safe-commit know 0, 1 and 2
        raise UserError(error.message, error.hint) from error
    for note in landed.notes:
        ctx.out.note(note)
    count = len(landed.paths)
    ctx.out.line(
        f"Committed {landed.short} on {landed.branch or 'a detached HEAD'}: {count} path{'s' if count != 1 else ''}.",
        "good",
    )
    ctx.out.data(
        {
            "commit": landed.commit,
            "branch": landed.branch or None,
            "paths": list(landed.paths),
            "notes": list(landed.notes),
        }
    )
    return 0


def _from_file(path: str) -> str:
    import sys

    from handoff.git.commits.message import read_message_file

    return read_message_file(path, os.getcwd(), sys.stdin.buffer.read() if path == "-" else b"")


def _unfinished() -> bool:
    """Whether a merge or pick is open: it brings its own message."""
    from handoff.git.commits.commit import Repository
    from handoff.git.commits.merge import MERGE, PICK, REVERT
    from handoff.git.plumbing import find_top

    top = find_top(os.getcwd())
    folder = Repository(top, {}).folder if top else ""
    return any(os.path.exists(os.path.join(folder, name)) for name in (MERGE, PICK, REVERT))


COMMANDS = {"safe-commit": Command(_arguments, _safe_commit, epilog=_EPILOG)}
