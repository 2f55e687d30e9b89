"""`database` and `database move`: what the relay's rows are kept in, who may do what there, and how they move."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.command import Command, flag, option

if TYPE_CHECKING:
    import argparse

    from handoff.surfaces.cli.command import Context, Parser

MOVE_EXAMPLES = """examples:
  handoff work --stop
  handoff database move sqlite:///$HOME/.handoff/handoff.db postgresql://me@server/relay
  export HANDOFF_DATABASE_URL=postgresql://me@server/relay
"""
EXAMPLES = """examples:
  handoff database show                          where the rows are, and whether the way there is safe
  handoff database roles > roles.sql             SQL for an owner of the tables and a role that only works with rows
  handoff database roles --apply                 the same, run at once by an administrator
  handoff database migrate                       as the owner: make the tables, or bring them up to date
"""


def _move_arguments(parser: Parser) -> None:
    parser.add_argument("source", metavar="FROM", help="address of the database with the relay's rows")
    parser.add_argument("target", metavar="TO", help="address of an empty database")


def _move(ctx: Context, arguments: argparse.Namespace) -> None:
    from handoff.engine.supervisor.database_move import migrate_database, refuse_password

    refuse_password(arguments.source)
    refuse_password(arguments.target)
    moved = migrate_database(ctx.app, source=arguments.source, target=arguments.target)
    ctx.out.data(moved._asdict())
    tasks, events = moved.rows["task"], moved.rows["event"]
    ctx.out.line(f"Moved {tasks} tasks and {events} lines of the journal to {moved.target}.", "good")
    ctx.out.line(
        "Claims are stopped in the old database. Use the new one: set HANDOFF_DATABASE_URL, or database_url in"
    )
    ctx.out.line(f"config.toml of the home; then: {ctx.settings.program} work --agent NAME")


def _arguments(parser: Parser) -> None:
    parser.verb(
        "show",
        "where the rows are, and whether the way there is safe",
        "Show where the relay's rows are, and warn of a way on which somebody can listen.",
    )
    parser.verb(
        "migrate",
        "make the tables, or bring them up to date",
        "Make every table of the relay and its engine, or bring them up to date, with the rights of their owner.",
    )
    roles = parser.verb(
        "roles",
        "print the SQL for two roles with few rights",
        "Print the SQL for a role that owns the tables and a role that only works with rows.",
    )
    option(roles, "--owner NAME", "role that makes and changes the tables", "handoff-owner")
    option(roles, "--app NAME", "role that reads and writes rows, no more", "handoff-app")
    flag(roles, "--apply", "run it too; the address must name an administrator")


def _database(ctx: Context, arguments: argparse.Namespace) -> None:
    from handoff.engine.supervisor import database

    if arguments.verb == "roles":
        text = database.grant(ctx.app, owner=arguments.owner, user=arguments.app, execute=arguments.apply)
        ctx.out.data({"owner": arguments.owner, "app": arguments.app, "applied": arguments.apply, "sql": text})
        if not arguments.apply:
            ctx.out.line(text.rstrip())
            return
        ctx.out.line(
            f"Roles {arguments.owner} and {arguments.app} are there, with no more rights than they need.", "good"
        )
        ctx.out.line(f"As {arguments.owner}: {ctx.settings.program} database migrate")
        return
    found = database.migrate(ctx.app) if arguments.verb == "migrate" else database.look(ctx.app)
    ctx.out.data(found._asdict())
    done = "Every table is up to date in" if arguments.verb == "migrate" else "The relay's rows are in"
    ctx.out.line(f"{done} {found.place} (schema {found.schema}).", "good")
    if found.weakness:
        tell_weakness(ctx, found.weakness)


def tell_weakness(ctx: Context, weakness: str) -> None:
    """Warn of a way to the database on which somebody can listen."""
    ctx.out.warning(
        f"{weakness} Demand more: sslmode=verify-full and sslrootcert=FILE, in the address or the settings."
    )


COMMANDS = {
    "database": Command(_arguments, _database, epilog=EXAMPLES),
    "database move": Command(_move_arguments, _move, epilog=MOVE_EXAMPLES),
}
