"""What a command file offers, and what a command is given."""

from __future__ import annotations

import os
import sys

from handoff.base.errors import UsageError
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    import argparse
    from argparse import _ActionsContainer as Options
    from collections.abc import Callable
    from typing import Any, NoReturn

    from handoff.base.settings import Settings
    from handoff.engine.app import App
    from handoff.surfaces.cli.output import Output

    Arguments = Callable[["Parser"], None]
    Run = Callable[["Context", argparse.Namespace], "int | None"]
elif "gettext" in sys.modules:
    import argparse
else:
    # Our words are English: while argparse is loaded, `gettext` is two functions that give them back. The real one costs a
    # tenth of what argparse does, and would import `locale` and search the disk for translations of each word.
    sys.modules["gettext"] = words = type(sys)("gettext")
    words.gettext, words.ngettext = str, lambda one, many, number: one if number == 1 else many
    import argparse

    del sys.modules["gettext"]


class Context(Record):
    """What every command gets: the composed App, and the only way to print."""

    app: App
    out: Output

    @property
    def settings(self) -> Settings:
        return self.app.settings


class Command(Record):
    """One command: how its words are parsed, what it does, and whether it shows something (then it has --json)."""

    arguments: Arguments
    run: Run
    shows: bool = True
    epilog: str = ""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help of a fixed width: asking for the terminal's would import shutil for every command."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=100)


class Parser(argparse.ArgumentParser):
    """argparse with our errors instead of its exits, no abbreviated options, and nested commands that are kept in mind."""

    verb_word = "verb"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"allow_abbrev": False, "formatter_class": _Formatter, **kwargs})
        self._verbs: Any = None
        self.nested: list[Parser] = []

    def verb(self, name: str, text: str, description: str | None = None) -> Parser:
        """A nested command; which one was chosen is in the arguments under `verb_word`."""
        if self._verbs is None:
            self._verbs = self.add_subparsers(dest=self.verb_word, metavar=self.verb_word.upper(), required=True)
        made: Parser = self._verbs.add_parser(name, help=text, description=description)
        self.nested.append(made)
        return made

    def error(self, message: str) -> NoReturn:
        meant = self._meant(message)
        hint = f"Do you mean {meant}? " if meant else ""
        raise UsageError(f"{message[:1].upper()}{message[1:].rstrip('.')}.", f"{hint}See: {self.prog} --help")

    def _meant(self, message: str) -> str:
        """The option that is written almost like the first one nobody knows."""
        from difflib import get_close_matches

        unknown = [word.partition("=")[0].rstrip(":") for word in message.split() if word.startswith("--")]
        known = list(self._option_string_actions)
        close = get_close_matches(unknown[0], known, n=1, cutoff=0.75) if unknown and unknown[0] not in known else []
        return close[0] if close else ""


def no_arguments(parser: Parser) -> None:
    """For commands that take none."""
    del parser


def flag(parser: Options, names: str, text: str, **more: Any) -> None:
    """A switch that is off unless it is given."""
    parser.add_argument(*names.split(), action="store_true", help=text, **more)


def option(parser: Options, names: str, text: str, default: Any = "", **more: Any) -> None:
    """An option with a value, as `--names VALUE`: a number as default is read as one, a list is for what may be repeated."""
    words = names.split()
    if not words[-1].startswith("-"):
        more["metavar"] = words.pop()
    if more.get("metavar") in ("DIR", "FILE"):
        more.setdefault("type", os.path.expanduser)  # a shell leaves the ~ of --option=~/file as it is
    if isinstance(default, list):
        more["action"] = "append"
    elif isinstance(default, int | float):
        more.setdefault("type", type(default))
    parser.add_argument(*words, default=default, help=text, **more)


def optional_word(parser: Options, name: str, metavar: str, text: str) -> None:
    """A word that may be left out; then it is empty."""
    parser.add_argument(name, nargs="?", metavar=metavar, default="", help=text)


def project_option(parser: Options, *, every: bool = False) -> None:
    """`--project`, and with `every` also `--all-projects`."""
    option(parser, "--project NAME", "project (default: the name of this checkout)")
    if every:
        flag(parser, "--all-projects", "look at every project")


def landing_option(parser: Options, default: str | None) -> None:
    """`--landing`."""
    text = "what becomes of green work: auto (it lands), review (it lands after your yes), branch (it stays on its own branch)"
    option(parser, "--landing MODE", text, default, choices=("auto", "review", "branch"))


def listening_options(parser: Options, *, port: str) -> None:
    """Where something is served: an address, a port, names, a certificate with its key."""
    option(parser, "--host ADDRESS", "where to listen (default: 127.0.0.1)", "")
    option(parser, "--port N", f"on which port (default: {port})", 0)
    option(parser, "--name HOST", "one more name under which it may be called (may be repeated)", [])
    option(parser, "--certificate FILE", "certificate for TLS, as PEM")
    option(parser, "--key FILE", "its key, as PEM")


def common_options(parser: Parser, *, shows: bool) -> None:
    """Options every command and every nested one understands, before or after its name."""
    for inner in parser.nested:
        common_options(inner, shows=True)
    group = parser.add_argument_group("everywhere")
    option(group, "-C DIR", "work as if started in DIR", argparse.SUPPRESS, dest="directory")
    text = "use this feature instead of the active one (env: HANDOFF_FEATURE)"
    option(group, "--feature NAME", text, argparse.SUPPRESS)
    if shows:
        flag(group, "--json", "print JSON alone on standard output")


def pick(record: object, names: str) -> dict[str, Any]:
    """Some fields of a record by their names, for programs."""
    return {name: getattr(record, name) for name in names.split()}


def read_source(name: str) -> str:
    """The text a command was given by --from: a file, or standard input for `-`."""
    if not name:
        return ""
    if name == "-":
        return sys.stdin.read()
    from handoff.base.files import read_text

    return read_text(name)
