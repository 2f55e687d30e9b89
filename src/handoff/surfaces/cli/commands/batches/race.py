"""`handoff race`: several agents do the same work, each in a clone of its own; the best by evidence lands."""

from __future__ import annotations

import json

from handoff.base.errors import UserError
from handoff.base.ids import slug
from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks import batches as rows
from handoff.engine.app.home import find_project
from handoff.engine.work.tasks.splitting.verify import verify
from handoff.git.ownership.patterns import EXACT, GLOB, PREFIX
from handoff.surfaces.cli.command import Command, flag, option
from handoff.surfaces.cli.commands.batches.batch import go, serving_arguments, tell_verified

if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from handoff.engine.app.home import Project
    from handoff.surfaces.cli.command import Context, Parser

EXAMPLES = """examples:
  handoff race 'Make the search twice as fast' --agents claude,codex --check 'pytest tests/search'
  handoff race 'Write the parser' --agents claude=3 --owns src/parser/ --owns tests/parser/
"""
_LONGEST = 40


def _arguments(parser: Parser) -> None:
    parser.add_argument("brief", metavar="BRIEF", help="what each of them is to do")
    option(parser, "--check COMMAND", "exit 0 means done; it judges each of them (default: the project's own suite)")
    text = "what they may change: a file, a folder with its '/', or a pattern (may be repeated; default: everything)"
    option(parser, "--owns PATH", text, [])
    option(parser, "--id NAME", "what it is called (default: from the brief)")
    flag(parser, "--pr", "when it has landed, push it and open a request with your gh or glab")
    serving_arguments(parser)


def _race(ctx: Context, arguments: Namespace) -> int:
    project = find_project(ctx.app, name=arguments.project)
    text = json.dumps(_manifest(ctx, arguments, project), indent=1, ensure_ascii=False)
    verified = verify(ctx.app, project, "race.json", text, tell=ctx.out.note)
    if not arguments.check and verified.manifest.check:  # each is held against what the whole is held against
        parts = tuple(part._replace(check_command=verified.manifest.check) for part in verified.manifest.sub_tasks)
        verified = verified._replace(manifest=verified.manifest._replace(sub_tasks=parts))
    tell_verified(ctx, verified)
    return go(ctx, arguments, project, verified)


def _manifest(ctx: Context, arguments: Namespace, project: Project) -> dict[str, Any]:
    """The batch of one part that a race is."""
    agents = _runners(ctx, arguments.agents)
    name = arguments.id or _free_name(ctx, project, slug(arguments.brief)[:_LONGEST].strip("-") or "race")
    part: dict[str, Any] = {"id": "work", "brief": arguments.brief, "race": agents}
    part["file_ownership"] = [_owned(path) for path in arguments.owns] or [{"type": GLOB, "path": "**"}]
    whole = {"check": arguments.check} if arguments.check else {}
    part.update(whole)
    return {
        "schema_version": 2,
        "batch_id": name,
        "fan_in_task": f"{name}-join",
        "split_rationale": arguments.brief,
        "sub_tasks": [part],
        **whole,
    }


def _free_name(ctx: Context, project: Project, name: str) -> str:
    known = (name, *(f"{name}-{number}" for number in range(2, 1000)))
    return next(one for one in known if not rows.is_known(ctx.app.database, project=project.name, id=one))


def _runners(ctx: Context, said: str) -> list[str]:
    """`claude=2,codex` is three that run."""
    found: list[str] = []
    for word in said.split(","):
        name, _, count = word.strip().partition("=")
        if name:
            found += [name] * (int(count) if count.isdecimal() else 1)
    if len(found) < 2:  # noqa: PLR2004 - one alone runs no race
        raise UserError(
            "A race needs at least two that run.",
            f"For example: --agents claude,codex or --agents claude=3. Which there are: {ctx.settings.program} agent list",
        )
    return found


def _owned(path: str) -> dict[str, str]:
    kind = PREFIX if path.endswith("/") else GLOB if "*" in path else EXACT
    return {"type": kind, "path": path}


COMMANDS = {"race": Command(_arguments, _race, epilog=EXAMPLES)}
