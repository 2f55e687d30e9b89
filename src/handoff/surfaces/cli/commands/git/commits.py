"""`handoff safe-commit`: commit exactly the named paths, beside whoever else works here."""

from __future__ import annotations

import os

from handoff.base.errors import Conflict, Refused, UsageError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.safety import safe_commit
from handoff.git.commits.commit import CommitOptions
from handoff.surfaces.cli.command import Command

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
    parser.add_argument(
        "-m", "--message", action="append", metavar="TEXT", help="a paragraph of the message (may be repeated)"
    )
    parser.add_argument("-F", "--file", metavar="FILE", help="read the message from FILE; - is standard input")
    parser.add_argument(
        "--staged", action="store_true", help="commit what is staged for the paths, not what is on the disk"
    )
    parser.add_argument(
        "--amend", action="store_true", help="put the paths into HEAD, if that commit is yours and unpublished"
    )
    parser.add_argument("-s", "--signoff", action="store_true", help="add a Signed-off-by trailer")
    parser.add_argument(
        "--trailer", action="append", default=[], metavar="KEY:VALUE", help="add a trailer (may be repeated)"
    )
    parser.add_argument("--allow-empty", action="store_true", help="commit even if nothing changed")
    parser.add_argument("-n", "--no-verify", action="store_true", help="leave out the pre-commit and commit-msg hooks")
    parser.add_argument("-S", dest="sign", action="store_const", const="", help="sign the commit with your usual key")
    parser.add_argument("--gpg-sign", dest="sign", metavar="KEY", help="sign the commit with this key")
    parser.add_argument("--no-gpg-sign", action="store_true", help="do not sign, whatever commit.gpgSign says")
    parser.add_argument("-f", "--force", action="store_true", help="also commit new files that git is told to ignore")
    parser.add_argument(
        "--owns",
        action="append",
        default=[],
        metavar="PATTERN",
        help="refuse paths outside these patterns (may be repeated; env: HANDOFF_OWNS, one on a line)",
    )


def _safe_commit(ctx: Context, arguments: argparse.Namespace) -> int:
    if arguments.message and arguments.file:
        raise UsageError("Give the message by -m or by -F, not both.", "See: handoff safe-commit --help")
    message = arguments.message or []
    if arguments.file:
        message = [_from_file(arguments.file)]
    elif not message and not arguments.amend and not _unfinished():
        raise UsageError("A message is missing.", "Give one: -m 'what and why'")
    options = CommitOptions(
        staged=arguments.staged,
        amend=arguments.amend,
        signoff=arguments.signoff,
        trailers=tuple(arguments.trailer),
        allow_empty=arguments.allow_empty,
        verify=not arguments.no_verify,
        sign=arguments.sign,
        unsigned=arguments.no_gpg_sign,
        force=arguments.force,
        look_around=True,
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
    ctx.out.note(
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
    from handoff.git.plumbing.checkout import find_top

    top = find_top(os.getcwd())
    folder = Repository(top, {}).folder if top else ""
    return any(os.path.exists(os.path.join(folder, name)) for name in (MERGE, PICK, REVERT))


COMMANDS = {"safe-commit": Command(_arguments, _safe_commit, epilog=_EPILOG)}
