"""`migrate-database`: from the file to Postgres, or back."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.command import Command

if TYPE_CHECKING:
    import argparse

    from handoff.surfaces.cli.command import Context, Parser

EXAMPLES = """examples:
  handoff work --stop
  handoff migrate-database sqlite:///$HOME/.handoff/handoff.db postgresql://me@server/relay
  export HANDOFF_DATABASE_URL=postgresql://me@server/relay
"""


def _arguments(parser: Parser) -> None:
    parser.add_argument("source", metavar="FROM", help="address of the database with the relay's rows")
    parser.add_argument("target", metavar="TO", help="address of an empty database")


def _migrate(ctx: Context, arguments: argparse.Namespace) -> None:
    from handoff.engine.moving import migrate_database  # noqa: PLC0415 - start-up

    moved = migrate_database(ctx.app, source=arguments.source, target=arguments.target)
    ctx.out.data(moved._asdict())
    tasks, events = moved.rows["task"], moved.rows["event"]
    ctx.out.line(f"Moved {tasks} tasks and {events} lines of the journal to {moved.target}.", "good")
    ctx.out.line(
        "Claims are stopped in the old database. Use the new one: set HANDOFF_DATABASE_URL, or database_url in"
    )
    ctx.out.line(f"config.toml of the home; then: {ctx.settings.program} work --agent NAME")


COMMANDS = {"migrate-database": Command(_arguments, _migrate, epilog=EXAMPLES)}
