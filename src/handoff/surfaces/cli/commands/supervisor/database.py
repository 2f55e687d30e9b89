"""`database` and `database move`: what the relay's rows are kept in, who may do what there, and how they move."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.cli.command import Command, flag, option

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from handoff.engine.supervisor.database import DatabaseStatus
    from handoff.surfaces.cli.command import Context, Parser

_LARGEST = 6
_SMALL = 100_000
MOVE_EXAMPLES = """examples:
  handoff work --stop
  handoff database move sqlite:///$HOME/.handoff/handoff.db postgresql://me@server/relay
  export HANDOFF_DATABASE_URL=postgresql://me@server/relay
"""
EXAMPLES = """examples:
  handoff database show                          where the rows are, their state, and whether the connection is safe
  handoff database roles > roles.sql             SQL for an owner of the tables and a role that only works with rows
  handoff database roles --apply                 the same, run at once by an administrator
  handoff database restore                       put the newest backup in the place of a damaged SQLite file
  handoff database migrate                       as the owner: make the tables, or bring them up to date
"""


def _move_arguments(parser: Parser) -> None:
    parser.add_argument("source", metavar="FROM", help="address of the database with the relay's rows")
    parser.add_argument("target", metavar="TO", help="address of an empty database")


def _move(ctx: Context, arguments: argparse.Namespace) -> None:
    from handoff.engine.supervisor.database import migrate_database, refuse_password

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
        "where the rows are, their state, and whether the connection is safe",
        "Show where the relay's rows are, their sizes and dead rows, who is connected, the oldest open transaction and what is slow.",
    )
    parser.verb(
        "migrate",
        "make the tables, or bring them up to date",
        "Make every table of the relay and its engine, or bring them up to date, with the rights of their owner.",
    )
    parser.verb(
        "restore",
        "put the newest backup in the place of a damaged SQLite file",
        "Put the newest backup in the place of the SQLite file. The old file stays beside it.",
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

    if arguments.verb == "restore":
        backup, aside = database.restore(ctx.app)
        ctx.out.data({"backup": backup, "aside": aside})
        ctx.out.line(f"Put {backup} in its place. The file that was there is now {aside}.", "good")
        ctx.out.line(f"What happened since that backup is not in it. See what is there: {ctx.settings.program} status")
        return
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
    found = database.migrate(ctx.app) if arguments.verb == "migrate" else database.look(ctx.app, closely=True)
    health = found.health
    told = {**health._asdict(), "tables": [one._asdict() for one in health.tables]} if health else None
    ctx.out.data({**found._asdict(), "health": told})
    done = "Every table is up to date in" if arguments.verb == "migrate" else "The relay's rows are in"
    ctx.out.line(f"{done} {found.place} (schema {found.schema}).", "good")
    for line in _health_lines(found):
        ctx.out.line(line)
    if found.weakness:
        tell_weakness(ctx, found.weakness)


def _health_lines(found: DatabaseStatus) -> Iterator[str]:
    health = found.health
    if health is None:
        return
    beside = f", write-ahead log {_size(health.log_bytes)}" if health.log_bytes else ""
    free = f", {_size(health.free_bytes)} of it free" if health.free_bytes > _SMALL else ""
    yield f"Size: {_size(health.bytes)}{free}{beside}."
    for one in health.tables[:_LARGEST]:
        dead = f", {one.dead} dead" if one.dead is not None else ""
        yield f"  {one.name:<22} {one.rows:>10} rows{dead}{f', {_size(one.bytes)}' if one.bytes is not None else ''}"
    if health.most_connections:
        named = ", ".join(f"{name} {number}" for name, number in health.connections)
        yield f"Connections: {sum(number for _, number in health.connections)} of {health.most_connections} ({named})."
        oldest = health.oldest
        yield (
            f"Oldest open transaction: {oldest['seconds']:.0f} s, {oldest['name'] or 'without a name'} ({oldest['state']}, process {oldest['pid']})."
            if oldest
            else "Oldest open transaction: none but this one."
        )
        slowest = health.slowest
        yield (
            f"Most time in all: {slowest['calls']} times {slowest['seconds']:.4f} s: {slowest['query']}"
            if slowest
            else f"Slowest statement: not known, {health.unknown}."
        )


def _size(number: int) -> str:
    return f"{number / 1024**2:.1f} MB"


def tell_weakness(ctx: Context, weakness: str) -> None:
    """Warn of a way to the database on which somebody can listen."""
    ctx.out.warning(
        f"{weakness} Demand more: sslmode=verify-full and sslrootcert=FILE, in the address or the settings."
    )


COMMANDS = {
    "database": Command(_arguments, _database, epilog=EXAMPLES),
    "database move": Command(_move_arguments, _move, epilog=MOVE_EXAMPLES),
}
