"""From words to a command: global options, help, lazily imported command files, errors."""

from __future__ import annotations

import os
import sys

from handoff.base.errors import HandoffError, UsageError
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.surfaces.cli.catalog import CATALOG, FIRST_WORDS, NOUNS
from handoff.surfaces.cli.command import Command, Context, Parser, common_options
from handoff.surfaces.cli.output import Output

if TYPE_CHECKING:
    import argparse

    from handoff.surfaces.cli.allow_list import AllowList

_GLOBAL = {"--json": 1, "-C": 2, "--feature": 2}  # options that may stand before a verb, with how many words they take


def dispatch(words: list[str], rules: AllowList | None = None) -> int:
    """Run the command the words name and return the exit code; `rules` say what a sandboxed session may ask for."""
    settings = from_environment(sys.argv[0])
    app = App(settings)
    out = Output(settings, json_wanted="--json" in words)
    if out.shows_progress:
        app.tell = lambda what, done, total: out.progress(app.clock, what, done, total)
    try:
        code = _dispatch(words, app, out, rules)
    except HandoffError as error:
        return _told(out, error)
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001 - the one place that may: a bug becomes a log, not a traceback
        from handoff.surfaces.acting import as_error

        return _told(out, as_error(app, error, words))
    finally:
        out.end_progress()
        for note in app.notes:
            out.note(note, "warn")
    if out.trouble:
        out.error(f"The answer could not be written: {out.trouble}.", "Your command is done; see the result elsewhere.")
    return code or (1 if out.trouble else 0)


def _told(out: Output, error: HandoffError) -> int:
    if out.json_wanted:
        out.data({"error": error.message, "hint": error.hint, "exit_code": error.exit_code})
    out.error(error.message, error.hint)
    return error.exit_code


def _dispatch(words: list[str], app: App, out: Output, rules: AllowList | None = None) -> int:
    chosen, rest, given = _global_options(words)
    if rules is not None:
        return _ruled(chosen, rest, given, app, out, rules)
    if given.get("directory"):
        _move(str(given["directory"]))
    if given.get("feature") is not None:
        app = app.with_feature(str(given["feature"]), said=True)
    if chosen in ("-h", "--help", "help"):
        from handoff.surfaces.cli import manual

        text = manual.answer(rest if chosen == "help" else [], app.settings.program)
        if not text:
            return _dispatch([*rest, "--help"], app, out)
        out.raw(text)
        return 0
    if not chosen:
        from handoff.surfaces.cli import overview

        return overview.what_now(Context(app, out))
    chosen, rest = resolve(chosen, rest)
    if chosen in NOUNS and chosen not in CATALOG:
        from handoff.surfaces.cli import manual

        out.raw(manual.noun(chosen, rest, app.settings.program))
        return 0
    if chosen not in CATALOG:
        from handoff.surfaces.cli import manual

        manual.refuse_old(chosen, rest, app.settings.program)
    command, parser = load(chosen, app.settings.program)
    arguments = _parsed(parser, chosen, rest)
    if getattr(arguments, "directory", None):
        _move(arguments.directory)
    if getattr(arguments, "feature", None) is not None:
        app = app.with_feature(arguments.feature, said=True)
    out.json_wanted = getattr(arguments, "json", False)
    try:
        return command.run(Context(app, out), arguments) or 0
    finally:
        if "threading" not in sys.modules:  # with threads it may belong to another one, and goes when the process ends
            app.close()


def _ruled(chosen: str, rest: list[str], given: dict[str, str], app: App, out: Output, rules: AllowList) -> int:
    """A command of a sandboxed session: it works where the rules say, and asks for nothing they do not name."""
    chosen, rest = resolve(chosen, rest)
    rules.command(chosen, given.get("directory", ""))
    command, parser = load(chosen, app.settings.program)
    arguments = parser.parse_args(rest)
    rules.arguments(chosen, arguments, parser)
    out.json_wanted = getattr(arguments, "json", False)
    os.chdir(rules.place(chosen))
    return command.run(Context(app, out), arguments) or 0


def resolve(name: str, rest: list[str]) -> tuple[str, list[str]]:
    """A noun with its verb as one name, and the words after it; a noun alone does what it does by default."""
    if name not in NOUNS and name not in FIRST_WORDS:
        return name, rest
    at = 0
    while at < len(rest) and (rest[at] in _GLOBAL or rest[at].startswith("--feature=")):
        at += _GLOBAL.get(rest[at], 1)
    word = rest[at] if at < len(rest) else ""
    if f"{name} {word}" in CATALOG:
        return f"{name} {word}", [*rest[:at], *rest[at + 1 :]]
    if name not in NOUNS or word in ("-h", "--help") or (word and not word.startswith("-")):
        return name, rest
    full = f"{name} {NOUNS[name]}"
    return (full, rest) if full in CATALOG else (name, [NOUNS[name], *rest])


def _parsed(parser: Parser, name: str, rest: list[str]) -> argparse.Namespace:
    try:
        return parser.parse_args(rest)
    except UsageError:
        from handoff.surfaces.cli import manual

        manual.refuse_old(name, rest, parser.prog.partition(" ")[0])
        raise


def load(name: str, program: str) -> tuple[Command, Parser]:
    """The command of that name and its parser; only its own file is imported."""
    entry = CATALOG.get(name)
    if entry is None:
        raise UsageError(f"There is no command '{name}'.", _did_you_mean(name, program))
    # `importlib`, whose import_module says the same, is two modules more.
    module = __import__(f"handoff.surfaces.cli.commands.{entry.module}", fromlist=("COMMANDS",))
    command: Command = module.COMMANDS[name]
    parser = Parser(
        prog=f"{program} {name}",
        description=entry.help[:1].upper() + entry.help[1:] + ".",
        epilog=_epilog(name, command),
    )
    command.arguments(parser)
    common_options(parser, shows=command.shows)
    return command, parser


def _epilog(name: str, command: Command) -> str | None:
    """The examples of a command; a noun whose verbs stand in several files names the others."""
    if name not in FIRST_WORDS:
        return command.epilog or None
    more = [
        f"  {known.partition(' ')[2]:<12} {CATALOG[known].help}" for known in CATALOG if known.startswith(f"{name} ")
    ]
    said = ["\n".join([f"more verbs of {name}:", *more])] if more else []
    return "\n\n".join([*said, *([command.epilog] if command.epilog else [])]) or None


def _global_options(words: list[str]) -> tuple[str, list[str], dict[str, str]]:
    given: dict[str, str] = {}
    index = 0
    while index < len(words):
        word = words[index]
        if word in ("-C", "--feature"):
            if index + 1 >= len(words):
                raise UsageError(f"{word} needs a value.", "See: handoff --help")
            given["directory" if word == "-C" else "feature"] = words[index + 1]
            index += 2
        elif word.startswith("--feature="):
            given["feature"] = word.partition("=")[2]
            index += 1
        elif word == "--json":  # `handoff --json` alone, or before the command
            given["json"] = "yes"
            index += 1
        elif word in ("--version", "-V"):
            return "version", [], given
        elif word.startswith("-") and word not in ("-h", "--help"):
            raise UsageError(f"Unknown option {word}.", "See: handoff --help")
        else:
            rest = words[index + 1 :]
            if "json" in given and "--json" not in rest:
                rest = ["--json", *rest]
            return word, rest, given
    return "", [], given


def _move(directory: str) -> None:
    try:
        os.chdir(os.path.expanduser(directory))
    except OSError as error:
        raise UsageError(f"Cannot work in {directory}: {error.strerror}.", "Name a folder that is there.") from error


def _did_you_mean(name: str, program: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, {*CATALOG, *NOUNS}, n=2)
    return (f"Did you mean: {', '.join(close)}? " if close else "") + f"All commands: {program} help --all"
