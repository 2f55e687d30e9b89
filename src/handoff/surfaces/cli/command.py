"""What a command file offers, and what a command is given."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from handoff.base.errors import UsageError
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from typing import NoReturn

    from handoff.base.settings import Settings
    from handoff.engine.app import App
    from handoff.surfaces.cli.output import Output


class Context(Record):
    """What every command gets: the composed App, and the only way to print."""

    app: App
    out: Output

    @property
    def settings(self) -> Settings:
        return self.app.settings


Arguments = Callable[["Parser"], None]
Run = Callable[[Context, argparse.Namespace], "int | None"]


class Command(Record):
    """One command: how its words are parsed, what it does, and whether it shows something (then it has --json)."""

    arguments: Arguments
    run: Run
    shows: bool = True
    epilog: str = ""


# Our words are English; looking for translations of argparse's own would import `locale` and search the disk each time.
argparse._ = str  # type: ignore[attr-defined]


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help of a fixed width: asking for the terminal's would import shutil for every command."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=100)


class Parser(argparse.ArgumentParser):
    """argparse with our errors instead of its exits, and no abbreviated options."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", _Formatter)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}.", f"See: {self.prog} --help")


def no_arguments(parser: Parser) -> None:
    """For commands that take none."""
    del parser


def common_options(parser: Parser, *, shows: bool) -> None:
    """Options every command understands, before or after its name."""
    group = parser.add_argument_group("everywhere")
    group.add_argument(
        "-C", dest="directory", metavar="DIR", default=argparse.SUPPRESS, help="work as if started in DIR"
    )
    group.add_argument(
        "--feature",
        metavar="NAME",
        default=argparse.SUPPRESS,
        help="use this feature instead of the active one (env: HANDOFF_FEATURE)",
    )
    if shows:
        group.add_argument("--json", action="store_true", help="print JSON alone on standard output")


def read_source(name: str) -> str:
    """The text a command was given by --from: a file, or standard input for `-`."""
    if not name:
        return ""
    if name == "-":
        import sys

        return sys.stdin.read()
    from handoff.base.files import read_text

    return read_text(name)
