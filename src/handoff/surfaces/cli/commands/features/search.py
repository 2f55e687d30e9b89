"""`search`."""

from __future__ import annotations

import shlex

from handoff.base.clock import stamp
from handoff.base.record import TYPE_CHECKING
from handoff.engine.work.tasks import search
from handoff.surfaces.cli.command import Command, number_of, option, project_option
from handoff.surfaces.cli.commands.tasks.board import chosen_project

if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from handoff.engine.work.tasks.search import Hit
    from handoff.surfaces.cli.command import Context, Parser

EXAMPLES = """examples:
  handoff search login link             what has both words, the newest first
  handoff search '"sign-in link"'       these words in a row
  handoff search 'auth*' --kind report  a word that begins so, in reports alone
"""


def _arguments(parser: Parser) -> None:
    parser.add_argument("words", nargs="*", metavar="WORD", help='words that must all be there; "in a row"; begin*')
    option(parser, "--kind KIND", f"only this kind, may be repeated: {', '.join(search.KINDS)}", [])
    option(parser, "--limit N", f"at most so many (default: {search.LIMIT})", search.LIMIT)
    option(parser, "--before N", "what is older than this: the number a search ends with", 0)
    project_option(parser, every=True)


def _search(ctx: Context, arguments: Namespace) -> None:
    project = chosen_project(ctx, arguments)
    words = " ".join(arguments.words)
    found = search.find(
        ctx.app, words=words, project=project, kinds=arguments.kind, limit=arguments.limit, before=arguments.before
    )
    ctx.out.data({"hits": [hit_data(hit) for hit in found.hits], "next": found.next or None, "unread": found.unread})
    for hit in found.hits:
        where = f"{hit.project}: {hit.about}" if not project and hit.project else hit.about
        ctx.out.line(f"{stamp(hit.at)}  {hit.kind:<10}  {where}  {hit.who}".rstrip(), "strong")
        ctx.out.line(f"  {hit.text}")
        ctx.out.line(f"  {hit.look}", "dim")
    if not found.hits:
        place = f"project {project}" if project else "any project"
        ctx.out.line(f"Nothing in {place} has {words}.")
    elif found.next:
        ctx.out.note(f"Older ones: {ctx.settings.program} search {shlex.join(arguments.words)} --before {found.next}")
    if found.unread:
        ctx.out.warning(
            f"{number_of(found.unread, 'line')} of the journal were not read yet. Every search reads on, and so does"
            f" {ctx.settings.program} work"
        )


def hit_data(hit: Hit) -> dict[str, Any]:
    """A hit for programs."""
    return {**hit._asdict(), "at": stamp(hit.at)}


COMMANDS = {"search": Command(_arguments, _search, epilog=EXAMPLES)}
